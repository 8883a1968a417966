package command

import (
	"bytes"
	"errors"
	"math"
	"time"

	"redis-throttle/calendar"
	"redis-throttle/stack"
)

// FIXED count/period [FIRST | [OFFSET duration] [TZ zone]]: what only a FIXED is asked with.

const (
	badOffset      = "OFFSET takes a length of time of at most 100 years, such as 6h, 1.5d or 90m; units are ms, s, m, h and d"
	longOffset     = "OFFSET must be shorter than the period; a month counts as 28 days, a year as 365"
	badZone        = "TZ takes the name of a time zone in the IANA database, such as Europe/Berlin"
	zoneNeedsDays  = "goes with periods of whole days, weeks, months or years, such as 1d, 2w, 1mo or 1y"
	firstHasLength = "FIRST goes with periods of one length; units are ms, s, m, h, d and w"
	notWithFirst   = "cannot go with FIRST"
	misplacedFixed = "must follow the count/period of a FIXED"
	expectedFixed  = "expected FIRST, OFFSET, TZ, "
)

// fixedPeriod is the period of a FIXED: n x unit, or n calendar units where there is one.
type fixedPeriod struct {
	n        int64
	unit     time.Duration
	calendar calendar.Unit
}

// parseCalendarQuota reads count/period where the period is in weeks, months or years: a whole
// number of w, mo or y, or the bare unit.
func parseCalendarQuota(text []byte) (count, n int64, unit calendar.Unit, err error) {
	count, period, ok := divideQuota(text)
	if !ok || len(period) > maxNumberLen {
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
	if n = 1; digits > 0 {
		n, ok = parseInt(period[:digits])
	}
	if !ok || n < 1 {
		return 0, 0, 0, errMalformed
	}
	return count, n, unit, nil
}

// fixedWords are the words that follow the count/period of a FIXED.
type fixedWords struct {
	first        bool
	offset, zone []byte // the words FIRST and so on were given with; nil for none
	offsetNs     int64
	in           calendar.Zone
}

// parseFixed reads the words that belong to a FIXED, whose quota has been read, and makes the limit.
func (c *Call) parseFixed(count int64, p fixedPeriod, quota []byte, w *words) (limit stack.Limit, ok bool) {
	f, ok := c.parseFixedWords(w)
	if !ok {
		return limit, false
	}
	if f.first {
		return c.makeFirst(count, p, quota, &f)
	}
	windows, err := f.windows(p)
	switch {
	case errors.Is(err, errNoDays):
		c.failNear(f.zone, "TZ ", zoneNeedsDays)
	case errors.Is(err, calendar.ErrOffset):
		c.failNear(f.offset, longOffset)
	case err != nil:
		c.failNear(quota, tooLong)
	default:
		limit, err = stack.NewFixedIn(windows, count)
		return limit, err == nil
	}
	return limit, false
}

var errNoDays = errors.New("not whole days")

// windows are those that the words and the period say.
func (f *fixedWords) windows(p fixedPeriod) (calendar.Spec, error) {
	switch {
	case p.calendar != 0:
		return calendar.Calendar(p.n, p.calendar, f.in, f.offsetNs)
	case f.zone == nil:
		return calendar.Every(p.n, p.unit, f.offsetNs)
	case p.unit != 24*time.Hour:
		return calendar.Spec{}, errNoDays
	default:
		return calendar.Calendar(p.n, calendar.Day, f.in, f.offsetNs)
	}
}

func (c *Call) makeFirst(count int64, p fixedPeriod, quota []byte, f *fixedWords) (limit stack.Limit, ok bool) {
	switch {
	case f.offset != nil:
		c.failNear([]byte("OFFSET"), notWithFirst)
		return limit, false
	case f.zone != nil:
		c.failNear([]byte("TZ"), notWithFirst)
		return limit, false
	case p.calendar == calendar.Week && p.n > math.MaxInt64/7:
		c.failNear(quota, tooLong)
		return limit, false
	case p.calendar == calendar.Week:
		p.n, p.unit = 7*p.n, 24*time.Hour
	case p.calendar != 0:
		c.failNear(quota, firstHasLength)
		return limit, false
	}
	limit, err := stack.NewFirst(count, p.n, p.unit)
	if err != nil {
		c.failNear(quota, tooLong)
	}
	return limit, err == nil
}

// parseFixedWords reads FIRST, OFFSET and TZ as far as they come next.
func (c *Call) parseFixedWords(w *words) (f fixedWords, ok bool) {
	for w.next < len(w.args) {
		word := w.args[w.next]
		var given bool
		switch {
		case isKeyword(word, "FIRST"):
			given, f.first = f.first, true
			w.next++
		case isKeyword(word, "OFFSET"):
			given = f.offset != nil
			w.next++
			if !given && !c.parseOffset(word, w, &f) {
				return f, false
			}
		case isKeyword(word, "TZ"):
			given = f.zone != nil
			w.next++
			if !given && !c.parseZone(word, w, &f) {
				return f, false
			}
		default:
			return f, true
		}
		if given {
			c.failNear(word, givenTwice)
			return f, false
		}
	}
	return f, true
}

func (c *Call) parseOffset(word []byte, w *words, f *fixedWords) (ok bool) {
	f.offsetNs, ok = c.parseTime(word, w, badOffset)
	f.offset = w.args[w.next-1]
	return ok
}

func (c *Call) parseZone(word []byte, w *words, f *fixedWords) (ok bool) {
	name, more := w.take()
	if !more {
		c.failNear(word, badZone)
		return false
	}
	if len(name) > maxNumberLen { // longer than any, and nothing is to be done with all of it
		c.failNear(name, badZone)
		return false
	}
	in, err := calendar.LookupZone(name)
	if err != nil {
		c.failNear(name, badZone)
		return false
	}
	f.in, f.zone = in, name
	return true
}

// isFixedWord reports whether word may follow the count/period of a FIXED.
func isFixedWord(word []byte) bool {
	return isKeyword(word, "FIRST") || isKeyword(word, "OFFSET") || isKeyword(word, "TZ")
}
