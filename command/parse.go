package command

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"time"
)

// maxNumberLen bounds the length of what is looked at as a number, so that half a
// gigabyte of zeros costs no more to refuse than a word.
const maxNumberLen = 64

// maxDigits is how many digits 2^63 has. More are refused, so no number that is read overflows 64 bits.
const maxDigits = 19

// parseInt reads an integer of 64 bits as the server's own commands do: no '+', no leading
// zero, no blank, no "-0".
func parseInt(text []byte) (n int64, ok bool) {
	if len(text) == 1 { // as most quantities
		digit := text[0] - '0'
		return int64(digit), digit <= 9
	}
	digits := text
	if len(text) > 0 && text[0] == '-' {
		digits = text[1:]
	}
	magnitude, ok := parseDigits(digits)
	switch {
	case !ok:
		return 0, false
	case len(digits) == len(text):
		return int64(magnitude), magnitude <= math.MaxInt64
	case magnitude == 0 || magnitude > math.MaxInt64+1:
		return 0, false
	}
	return -int64(magnitude), true
}

// ParseCount reads an integer from 1 to most.
func ParseCount(text []byte, most int) (n int, ok bool) {
	n64, ok := parseInt(text)
	if !ok || n64 < 1 || n64 > int64(most) {
		return 0, false
	}
	return int(n64), true
}

// parseDigits reads up to maxDigits decimal digits without leading zeros; ok is false for
// anything else.
func parseDigits(text []byte) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > maxDigits || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, c := range text {
		digit := uint64(c - '0')
		if digit > 9 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

var (
	errMalformed = errors.New("not a length of time")
	errTooFine   = errors.New("not a whole number of nanoseconds")
)

// parsePeriod reads a positive length of time: a number of seconds, or a number
// with one of the units ms, s, m, h and d. The period is n x unit.
func parsePeriod(text []byte) (n int64, unit time.Duration, err error) {
	n, unit, err = parseUnits(text, -1)
	if err == nil && n <= 0 {
		err = errMalformed
	}
	return n, unit, err
}

// parseUnits reads a number, which may be a decimal one, and its unit, seconds when it has
// none. A unit without a number stands for bare of them, or is refused when bare is negative.
func parseUnits(text []byte, bare int64) (n int64, unit time.Duration, err error) {
	if len(text) > maxNumberLen {
		return 0, 0, errMalformed
	}
	digits := len(text)
	for digits > 0 && text[digits-1] >= 'a' && text[digits-1] <= 'z' {
		digits--
	}
	switch string(text[digits:]) {
	case "", "s":
		unit = time.Second
	case "ms":
		unit = time.Millisecond
	case "m":
		unit = time.Minute
	case "h":
		unit = time.Hour
	case "d":
		unit = 24 * time.Hour
	default:
		return 0, 0, errMalformed
	}
	if digits == 0 && len(text) > 0 && bare >= 0 {
		return bare, unit, nil
	}
	if point := bytes.IndexByte(text[:digits], '.'); point >= 0 {
		return parseDecimal(text[:point], text[point+1:digits], unit)
	}
	n, ok := parseInt(text[:digits])
	if !ok {
		return 0, 0, errMalformed
	}
	return n, unit, nil
}

// maxFraction is the most digits after the point, the last of them not 0, that can be a whole
// number of nanoseconds: a day is 2^16 x 3^3 x 5^11 of them.
const maxFraction = 16

// parseDecimal reads whole.fraction units, exactly. Where unit cannot be divided, the unit
// it returns is a part of it.
func parseDecimal(whole, fraction []byte, unit time.Duration) (n int64, part time.Duration, err error) {
	units, ok := parseDigits(whole)
	if !ok || len(fraction) == 0 {
		return 0, 0, errMalformed
	}
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, 0, errMalformed
		}
	}
	fraction = bytes.TrimRight(fraction, "0")
	if len(fraction) > maxFraction {
		return 0, 0, errTooFine
	}
	scale, parts := uint64(1), uint64(0)
	for _, c := range fraction {
		scale *= 10
		parts = parts*10 + uint64(c-'0')
	}
	// (units + parts/scale) x unit = (units x scale + parts) / (scale/common) x (unit/common)
	common := greatestDivisor(scale, uint64(unit))
	hi, lo := bits.Mul64(units, scale)
	lo, carry := bits.Add64(lo, parts, 0)
	hi += carry
	if hi >= scale/common {
		return 0, 0, errMalformed // 2^64 or more
	}
	count, rest := bits.Div64(hi, lo, scale/common)
	switch {
	case rest > 0:
		return 0, 0, errTooFine
	case count > math.MaxInt64:
		return 0, 0, errMalformed
	}
	return int64(count), unit / time.Duration(common), nil
}

func greatestDivisor(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
