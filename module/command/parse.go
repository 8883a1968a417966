package command

import (
	"math"
	"time"
)

// maxNumberLen bounds the length of what is looked at as a number, so that half a
// gigabyte of zeros costs no more to refuse than a word.
const maxNumberLen = 64

// maxSafeDigits is how many digits any number of 64 bits has room for.
const maxSafeDigits = 19

// parseInt reads a decimal integer of 64 bits with an optional sign. Leading
// zeros and '+' are fine, as they are for redis-cell; blanks are not.
func parseInt(text []byte) (n int64, ok bool) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	magnitude, ok := parseDigits(text)
	switch {
	case !ok:
		return 0, false
	case !negative:
		return int64(magnitude), magnitude <= math.MaxInt64
	case magnitude <= math.MaxInt64+1:
		return -int64(magnitude), true
	}
	return 0, false
}

// ParseCount reads an integer from 1 to most.
func ParseCount(text []byte, most int) (n int, ok bool) {
	n64, ok := parseInt(text)
	if !ok || n64 < 1 || n64 > int64(most) {
		return 0, false
	}
	return int(n64), true
}

// parseDigits reads one or more decimal digits; ok is false for anything else and
// for a number of 2^64 or more.
func parseDigits(text []byte) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > maxNumberLen {
		return 0, false
	}
	for i, c := range text {
		digit := uint64(c - '0')
		if digit > 9 || (i >= maxSafeDigits && n > (math.MaxUint64-digit)/10) {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// parsePeriod reads a positive length of time: a number of seconds, or a number
// with one of the units ms, s, m, h and d. The period is n x unit.
func parsePeriod(text []byte) (n int64, unit time.Duration, ok bool) {
	n, unit, ok = parseUnits(text, -1)
	return n, unit, ok && n > 0
}

// parseUnits reads a number and its unit, seconds when it has none. A unit without a
// number stands for bare of them, or is refused when bare is negative.
func parseUnits(text []byte, bare int64) (n int64, unit time.Duration, ok bool) {
	if len(text) > maxNumberLen {
		return 0, 0, false
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
		return 0, 0, false
	}
	if digits == 0 && len(text) > 0 && bare >= 0 {
		return bare, unit, true
	}
	n, ok = parseInt(text[:digits])
	return n, unit, ok
}
