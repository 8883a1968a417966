package main

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// clock is the server's time: that of the machine, moved by some difference, or standing still. It shows microseconds,
// as servers do.
type clock struct {
	aheadNs   int64
	stopped   bool
	stoppedNs int64
}

func (c *clock) now() int64 {
	if c.stopped {
		return c.stoppedNs
	}
	return truncate(time.Now().UnixNano() + c.aheadNs)
}

func (c *clock) set(ns int64) {
	c.stoppedNs = truncate(ns)
	c.aheadNs = c.stoppedNs - time.Now().UnixNano()
}

// stop has the clock stand still, or go on from where it stands.
func (c *clock) stop(stopped bool) {
	ns := c.now()
	c.stopped = stopped
	c.set(ns)
}

func truncate(ns int64) int64 { return ns - ns%int64(time.Microsecond) }

var (
	errTime     = errors.New("time must be an instant such as 2026-01-31T12:00:00Z, 2026-01-31 or 1769860800.5, from 1970 to 2262, with up to six decimals of a second")
	errDuration = errors.New("duration must be a length of time such as 500ms, 1.5h or 1mo; units are ms, s, m, h, d, w, mo and y, and the shortest is a microsecond")
)

// parseTime reads an instant: RFC 3339, a day in UTC, or seconds since the Unix epoch.
func parseTime(text string) (ns int64, err error) {
	if _, fraction, _ := strings.Cut(text, "."); len(fraction) > len("000000000+00:00") { // package time drops what is below 1 ns
		return 0, errTime
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return within(t)
		}
	}
	us, ok := microseconds(text, time.Second)
	if !ok {
		return 0, errTime
	}
	return within(time.UnixMicro(us))
}

// within returns an instant in ns since the Unix epoch.
func within(t time.Time) (ns int64, err error) {
	if t.Before(time.Unix(0, 0)) || !t.Before(time.Unix(0, math.MaxInt64).Add(-time.Second)) || t.Nanosecond()%int(time.Microsecond) != 0 {
		return 0, errTime
	}
	return t.UnixNano(), nil
}

// microseconds converts a decimal number of units. ok is false where that is no whole number of microseconds, which is
// all the clock shows.
func microseconds(number string, unit time.Duration) (us int64, ok bool) {
	whole, fraction, _ := strings.Cut(number, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" || len(number) > mostDigits {
		return 0, false
	}
	exact, ok := new(big.Rat).SetString(whole + "." + fraction + "0") // nothing may follow the point
	if !ok {
		return 0, false
	}
	exact.Mul(exact, big.NewRat(unit.Microseconds(), 1))
	return exact.Num().Int64(), exact.IsInt() && exact.Num().IsInt64()
}

// mostDigits bounds the work of reading a number: no instant of the clock needs more.
const mostDigits = 64

var units = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// after returns the instant a length of time after nowNs. Months and years are those of the calendar in UTC: a month
// after the 31st of January is the last of February.
func after(nowNs int64, text string) (ns int64, err error) {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	unit := text[len(number):]
	now := time.Unix(0, nowNs).UTC()
	switch unit {
	case "mo", "y":
		months, err := strconv.ParseUint(number, 10, 12)
		if err != nil {
			return 0, errDuration
		}
		if unit == "y" {
			months *= 12
		}
		to := now.AddDate(0, int(months), 0)
		if to.Day() != now.Day() {
			to = to.AddDate(0, 0, -to.Day())
		}
		return within(to)
	}
	size, known := units[unit]
	us, ok := microseconds(number, size)
	switch {
	case !known || !ok:
		return 0, errDuration
	case us > math.MaxInt64/int64(time.Microsecond):
		return 0, errTime
	}
	return within(now.Add(time.Duration(us) * time.Microsecond))
}

// shown is an instant as replies have it.
func shown(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
