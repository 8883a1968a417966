package ratelimit

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"redis-throttle/ratelimit/internal/about"
)

// period is a length of time, or n calendar units.
type period struct {
	length time.Duration
	n      int64
	unit   calendarUnit
}

type calendarUnit string

const (
	week  calendarUnit = "w"
	month calendarUnit = "mo"
	year  calendarUnit = "y"
)

// meanSeconds are means over the Gregorian calendar, which repeats itself after 400 years
// of 146,097 days.
var meanSeconds = map[calendarUnit]int64{
	week:  7 * 24 * 60 * 60,
	month: 146_097 * 24 * 60 * 60 / 4800,
	year:  146_097 * 24 * 60 * 60 / 400,
}

func (p period) positive() bool { return p.length > 0 || p.n > 0 }

func (p period) about() about.Period {
	return about.Period{Length: p.length, Units: p.n, MeanSeconds: meanSeconds[p.unit]}
}

// word is p as the commands take it.
func (p period) word() string {
	if p.unit != "" {
		return strconv.FormatInt(p.n, 10) + string(p.unit)
	}
	return durationWord(p.length)
}

// durationUnits are those that the commands take, the longest first.
var durationUnits = [...]struct {
	is   time.Duration
	name string
}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}}

// parseDecimal reads digits with at most one point between them.
func parseDecimal(text string) (*big.Rat, bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	if whole == "" || len(whole) > 1 && whole[0] == '0' || strings.HasSuffix(text, ".") || len(text) > 40 || strings.Trim(whole+decimals, "0123456789") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

func ratOf(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// durationWord writes d as the commands take it.
func durationWord(d time.Duration) string {
	for _, unit := range durationUnits {
		if d%unit.is == 0 && (d != 0 || unit.is == time.Millisecond) {
			return strconv.FormatInt(int64(d/unit.is), 10) + unit.name
		}
	}
	// Milliseconds with up to six decimals, exactly.
	sign, whole, rest := "", d/time.Millisecond, d%time.Millisecond
	if d < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	decimals := strconv.FormatInt(int64(time.Millisecond+rest), 10)[1:]
	return sign + strconv.FormatInt(int64(whole), 10) + "." + strings.TrimRight(decimals, "0") + "ms"
}
