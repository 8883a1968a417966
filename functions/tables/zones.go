package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redis-throttle/limiter/calendar"
)

// The clocks are written for some years before and after that of the data, so what is generated depends on nothing but
// the data.
const (
	yearsBefore = 5
	yearsAfter  = 25
)

const minute = 60 // seconds: clocks are changed at multiples of it, and by such

// zones is a table of the clocks of all zones, of which many are the same, and the number of the clocks of each zone.
func zones() (string, error) {
	data := calendar.BuiltIn()
	year, err := strconv.Atoi(strings.TrimRight(data.Version(), "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		return "", fmt.Errorf("the version of the time zones is %q", data.Version())
	}
	years := [2]int{year - yearsBefore, year + yearsAfter}
	from, to := time.Date(years[0], 1, 1, 0, 0, 0, 0, time.UTC), time.Date(years[1], 1, 1, 0, 0, 0, 0, time.UTC)
	var clocks []string
	var names strings.Builder
	for name, location := range data.All() {
		all, err := clocksOf(location, from.Unix(), to.Unix())
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		number := slices.Index(clocks, all)
		if number < 0 {
			number = len(clocks)
			clocks = append(clocks, all)
		}
		fmt.Fprintf(&names, "%s=%d ", name, number+1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "function read_clocks() -- of the IANA database %s\n  return {\n  years = { %d, %d }, from = %d, to = %d,\n", data.Version(), years[0], years[1], from.Unix(), to.Unix())
	for _, all := range clocks {
		fmt.Fprintf(&b, "  [[%s]],\n", wrapped(all))
	}
	fmt.Fprintf(&b, "  names = [[\n\n%s]],\n  }\nend\n", wrapped(names.String())) // Lua skips the first of two newlines
	return b.String(), nil
}

// clocksOf is how far clocks are ahead of UTC at an instant, and each change up to another.
func clocksOf(location *time.Location, from, to int64) (string, error) {
	var b strings.Builder
	previous := from
	for at := from; at < to; {
		t := time.Unix(at, 0).In(location)
		_, ahead := t.Zone()
		if ahead%minute != 0 || (at-previous)%minute != 0 {
			return "", fmt.Errorf("clocks are %d s ahead from %s on, which are no whole minutes", ahead, t)
		}
		if at == from {
			fmt.Fprintf(&b, "%d", ahead/minute)
		} else {
			fmt.Fprintf(&b, " %d:%d", (at-previous)/minute, ahead/minute)
		}
		previous = at
		at = nextChange(location, at, ahead, to)
	}
	return b.String(), nil
}

// nextChange is when clocks are changed next, to at the latest.
func nextChange(location *time.Location, at int64, ahead int, to int64) int64 {
	for at < to {
		t := time.Unix(at, 0).In(location)
		_, end := t.ZoneBounds()
		switch {
		case end.IsZero():
			return to
		case end.After(t):
			at = end.Unix()
		default: // the 366th day of a year, which ZoneBounds does not know: no clocks are changed on it
			at += 24 * 60 * 60
		}
		if _, now := time.Unix(at, 0).In(location).Zone(); now != ahead {
			return min(at, to)
		}
	}
	return to
}

// wrapped puts line breaks in place of spaces where a line would become too long.
func wrapped(text string) string {
	const width = 150
	var b strings.Builder
	length := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && length+len(word) > width:
			b.WriteByte('\n')
			length = 0
		case i > 0:
			b.WriteByte(' ')
		}
		b.WriteString(word)
		length += len(word) + 1
	}
	return b.String()
}
