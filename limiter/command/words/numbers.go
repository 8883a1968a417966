package words

import "math"

// Integers as text.

// maxNumberLen bounds the length of what is looked at as a number, so that half a
// gigabyte of zeros costs no more to refuse than a word.
const maxNumberLen = 64

// maxDigits is how many digits 2^63 has. More are refused, so no number that is read overflows 64 bits.
const maxDigits = 19

// ParseInt reads an integer of 64 bits as the server's own commands do: no '+', no leading
// zero, no blank, no "-0".
func ParseInt(text []byte) (n int64, ok bool) {
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
	n64, ok := ParseInt(text)
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

// isTooLarge reports whether text is a number that only its size keeps ParseInt from reading.
func isTooLarge(text []byte) bool {
	if len(text) < maxDigits || text[0] == '0' {
		return false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
