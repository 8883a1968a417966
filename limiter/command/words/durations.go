package words

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"time"
)

// Lengths of time as text.

// What is wrong with a number or a length of time. The texts are shown, except for errMalformed.
const (
	tooFine  = "not a whole number of nanoseconds"
	tooMany  = "the count is larger than 9223372036854775807"
	noPeriod = "the period is zero"
	noUnit   = " needs a unit, such as " // between the number and what it may mean
)

var (
	ErrTooFine   = errors.New(tooFine)
	ErrNoUnit    = errors.New("a number without a unit")
	errMalformed = errors.New("not of the right form")
	errTooMany   = errors.New(tooMany)
	errTooLong   = errors.New(tooLong)
	errZero      = errors.New(noPeriod)
)

// ParseDuration reads a length of time in the forms of a period, 0 included, as ns. A positive number without a unit is
// read as seconds, together with ErrNoUnit.
func ParseDuration(text []byte) (ns int64, err error) {
	n, unit, err := parseLength(text, 1)
	switch {
	case err == errTooLong:
		return 0, errMalformed // what is right says how long it may be
	case err != nil && err != ErrNoUnit:
		return 0, err
	case n < 0 || n > int64(MaxDuration/unit):
		return 0, errMalformed
	}
	return n * int64(unit), err
}

// MaxDuration is the longest time a caller may wait, 100 years: with it no sum of
// two times comes near 2^63 ns.
const MaxDuration = 100 * 365 * 24 * time.Hour

// ParsePeriod reads a positive length of time as redis-cell does: a number of seconds, or a number
// with one of the units ms, s, m, h and d. The period is n x unit.
func ParsePeriod(text []byte) (n int64, unit time.Duration, err error) {
	n, unit, err = parseLength(text, -1)
	if err == ErrNoUnit {
		err = nil
	}
	if err == nil && n <= 0 {
		err = errMalformed
	}
	return n, unit, err
}

// parseLength reads a number, which may be a decimal one, and its unit. A positive number without a unit is read as
// seconds, together with ErrNoUnit. A unit without a number stands for bare of them, or is refused when bare is
// negative.
func parseLength(text []byte, bare int64) (n int64, unit time.Duration, err error) {
	if n, unit, err = parseNumber(text, bare); err == nil && n > 0 && text[len(text)-1] <= '9' {
		err = ErrNoUnit
	}
	return n, unit, err
}

// parseNumber is parseLength where a number without a unit is one of seconds.
func parseNumber(text []byte, bare int64) (n int64, unit time.Duration, err error) {
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
	n, ok := ParseInt(text[:digits])
	switch {
	case ok:
		return n, unit, nil
	case isTooLarge(text[:digits]):
		return 0, 0, errTooLong
	}
	return 0, 0, errMalformed
}

// maxFraction is the most digits after the point, the last of them not 0, that can be a whole
// number of nanoseconds: a day is 2^16 x 3^3 x 5^11 of them.
const maxFraction = 16

// parseDecimal reads whole.fraction units, exactly. Where unit cannot be divided, the unit
// it returns is a part of it.
func parseDecimal(whole, fraction []byte, unit time.Duration) (n int64, part time.Duration, err error) {
	units, ok := parseDigits(whole)
	tooLarge := !ok && isTooLarge(whole)
	if !ok && !tooLarge || len(fraction) == 0 {
		return 0, 0, errMalformed
	}
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, 0, errMalformed
		}
	}
	if tooLarge {
		return 0, 0, errTooLong
	}
	fraction = bytes.TrimRight(fraction, "0")
	if len(fraction) > maxFraction {
		return 0, 0, ErrTooFine
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
		return 0, 0, errTooLong // 2^64 or more
	}
	count, rest := bits.Div64(hi, lo, scale/common)
	switch {
	case rest > 0:
		return 0, 0, ErrTooFine
	case count > math.MaxInt64:
		return 0, 0, errTooLong
	}
	return int64(count), unit / time.Duration(common), nil
}

func greatestDivisor(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// AppendNoUnit appends that a number needs a unit.
func AppendNoUnit(dst, number []byte) []byte {
	dst = append(append(dst, number...), noUnit...)
	dst = append(append(dst, number...), "ms or "...)
	return append(append(dst, number...), 's')
}
