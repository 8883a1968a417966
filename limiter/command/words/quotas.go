package words

import (
	"bytes"
	"time"

	"redis-throttle/limiter/calendar"
)

// Counts of units for a time, as text.

// parseQuota reads count/period, such as 5/s or 100/30m. The period may be a bare
// unit, not a bare number.
func parseQuota(text []byte) (count, n int64, unit time.Duration, err error) {
	count, period, err := divideQuota(text)
	if err != nil {
		return 0, 0, 0, err
	}
	n, unit, err = parseLength(period, 1)
	switch {
	case err != nil:
		return 0, 0, 0, err
	case n == 0:
		return 0, 0, 0, errZero
	case n < 0:
		return 0, 0, 0, errMalformed
	}
	return count, n, unit, nil
}

// divideQuota divides count/period into a count, which is not negative, and the rest.
func divideQuota(text []byte) (count int64, period []byte, err error) {
	slash := bytes.IndexByte(text[:min(len(text), maxNumberLen)], '/')
	if slash < 0 {
		return 0, nil, errMalformed
	}
	count, ok := ParseInt(text[:slash])
	switch {
	case ok && count >= 0:
		return count, text[slash+1:], nil
	case isTooLarge(text[:slash]):
		return 0, nil, errTooMany
	}
	return 0, nil, errMalformed
}

// parseCalendarQuota reads count/period where the period is in weeks, months or years: a whole
// number of w, mo or y, or the bare unit.
func parseCalendarQuota(text []byte) (count, n int64, unit calendar.Unit, err error) {
	count, period, err := divideQuota(text)
	if err != nil || len(period) > maxNumberLen {
		return 0, 0, 0, errMalformed
	}
	digits := len(bytes.TrimRight(period, "abcdefghijklmnopqrstuvwxyz"))
	switch string(period[digits:]) {
	case "w":
		unit = calendar.Week
	case "mo":
		unit = calendar.Month
	case "y":
		unit = calendar.Year
	default:
		return 0, 0, 0, errMalformed
	}
	if digits == 0 {
		return count, 1, unit, nil
	}
	n, ok := ParseInt(period[:digits])
	switch {
	case ok && n > 0:
		return count, n, unit, nil
	case ok && n == 0:
		return 0, 0, 0, errZero
	case isTooLarge(period[:digits]):
		return 0, 0, 0, errTooLong
	}
	return 0, 0, 0, errMalformed
}
