// The grammar: what can be said, and what is answered to anything else.
package words

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/stack"
)

// What errors say to be right.
const (
	badQuotaRate    = "RATE " + rightQuota
	badQuotaWindow  = "WINDOW " + rightQuota
	badQuotaFixed   = "FIXED " + rightCalendarQuota
	badCapacity     = "BURST " + rightCapacity
	badCost         = "COST " + rightUnits
	badMaxWait      = "MAXWAIT " + rightDuration
	badBan          = "BAN " + rightDuration
	badOffset       = "OFFSET " + rightOffset
	badZone         = "TZ " + rightZone
	expectedALimit  = "expected RATE, WINDOW or FIXED"
	limitOptions    = "COST, UPTO, STRICT, FORCE, MAXWAIT, BAN, AFTER, COMPACT or EACH"
	expectedOfLimit = "expected RATE, WINDOW, FIXED, " + limitOptions
	expectedOfMany  = "expected RATE, WINDOW, FIXED, NEXT, ANY, COST, UPTO, STRICT, FORCE, MAXWAIT, BAN, AFTER, ID, COMPACT or EACH"
	notWithFirst    = "cannot go with FIRST"
	misplacedFixed  = "must follow the count/period of a FIXED"
)

func rate(t testing.TB, count, capacity int64, period time.Duration) stack.Limit {
	limit, err := stack.NewRate(count, int64(period), 1, capacity)
	require.NoError(t, err)
	return limit
}

func window(t testing.TB, count int64, period time.Duration) stack.Limit {
	limit, err := stack.NewWindow(count, int64(period), 1)
	require.NoError(t, err)
	return limit
}

func fixed(t testing.TB, count int64, period time.Duration) stack.Limit {
	windows, err := calendar.Every(int64(period), 1, 0)
	require.NoError(t, err)
	limit, err := stack.NewFixedIn(windows, count)
	require.NoError(t, err)
	return limit
}

func TestGrammar(t *testing.T) {
	const (
		ms  = time.Millisecond
		s   = time.Second
		m   = time.Minute
		h   = time.Hour
		day = 24 * h
	)
	one := stack.Request{Cost: 1}
	for _, tt := range []struct {
		line    string
		limits  []stack.Limit
		request stack.Request
	}{
		{"RATE 5/s", []stack.Limit{rate(t, 5, 5, s)}, one},
		{"RATE 5/1s", []stack.Limit{rate(t, 5, 5, s)}, one},
		{"RATE 5/1000ms", []stack.Limit{rate(t, 5, 5, s)}, one},
		{"RATE 5/1.5s", []stack.Limit{rate(t, 5, 5, 1500*ms)}, one},
		{"RATE 5/0.5s", []stack.Limit{rate(t, 5, 5, 500*ms)}, one},
		{"RATE 5/1.0m", []stack.Limit{rate(t, 5, 5, m)}, one},
		{"WINDOW 5/0.25ms", []stack.Limit{window(t, 5, 250*time.Microsecond)}, one},
		{"FIXED 5/1.5d", []stack.Limit{fixed(t, 5, 36*h)}, one},
		{"RATE 1/106751.5d", []stack.Limit{rate(t, 1, 1, 106751*day+12*h)}, one},
		{"rate 5/s", []stack.Limit{rate(t, 5, 5, s)}, one},
		{"Rate 5/s bUrSt 10", []stack.Limit{rate(t, 5, 10, s)}, one},
		{"RATE 5/s BURST 1", []stack.Limit{rate(t, 5, 1, s)}, one},
		{"RATE 1/ms", []stack.Limit{rate(t, 1, 1, ms)}, one},
		{"RATE 100/30m", []stack.Limit{rate(t, 100, 100, 30*m)}, one},
		{"RATE 1000/1d", []stack.Limit{rate(t, 1000, 1000, day)}, one},
		{"RATE 1000/d", []stack.Limit{rate(t, 1000, 1000, day)}, one},
		{"RATE 10/500ms", []stack.Limit{rate(t, 10, 10, 500*ms)}, one},
		{"RATE 30/60s", []stack.Limit{rate(t, 30, 30, m)}, one},
		{"RATE 30/m", []stack.Limit{rate(t, 30, 30, m)}, one},
		{"RATE 1000000000/s", []stack.Limit{rate(t, 1e9, 1e9, s)}, one},
		{"RATE 1/9223372036s", []stack.Limit{rate(t, 1, 1, 9223372036*s)}, one},
		{"RATE 1/106751d", []stack.Limit{rate(t, 1, 1, 106751*day)}, one},
		{"WINDOW 100/h", []stack.Limit{window(t, 100, h)}, one},
		{"window 100/24h", []stack.Limit{window(t, 100, day)}, one},
		{"WINDOW 9223372036854775807/ms", []stack.Limit{window(t, math.MaxInt64, ms)}, one},
		{"FIXED 1000/1d", []stack.Limit{fixed(t, 1000, day)}, one},
		{"fixed 1/90s", []stack.Limit{fixed(t, 1, 90*s)}, one},
		{"FIXED 9223372036854775807/106751d", []stack.Limit{fixed(t, math.MaxInt64, 106751*day)}, one},
		{"RATE 5/s BURST 10 RATE 100000/h COST 3", []stack.Limit{rate(t, 5, 10, s), rate(t, 100_000, 100_000, h)}, stack.Request{Cost: 3}},
		{"RATE 5/s WINDOW 6/m FIXED 7/h", []stack.Limit{rate(t, 5, 5, s), window(t, 6, m), fixed(t, 7, h)}, one},
		{"RATE 5/s COST 2 WINDOW 6/m", []stack.Limit{rate(t, 5, 5, s), window(t, 6, m)}, stack.Request{Cost: 2}},
		{"FIXED 1/1s FIXED 2/2s FIXED 3/3s FIXED 4/4s FIXED 5/5s FIXED 6/6s FIXED 7/7s FIXED 8/8s",
			[]stack.Limit{fixed(t, 1, s), fixed(t, 2, 2*s), fixed(t, 3, 3*s), fixed(t, 4, 4*s), fixed(t, 5, 5*s), fixed(t, 6, 6*s),
				fixed(t, 7, 7*s), fixed(t, 8, 8*s)}, one},
		{"RATE 5/s COST 0", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{}},
		{"RATE 5/s COST 9223372036854775807", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: math.MaxInt64}},
		{"RATE 5/s UPTO COST 3", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 3, UpTo: true}},
		{"RATE 5/s cost 3 strict", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 3, Strict: true}},
		{"RATE 5/s COST 3 force", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 3, Force: true}},
		{"RATE 5/s TAKE 3", []stack.Limit{rate(t, 5, 5, s).With(stack.Terms{Take: 3, HasTake: true})}, one},
		{"RATE 5/s TAKE 0 WINDOW 6/m COST 2", []stack.Limit{rate(t, 5, 5, s).With(stack.Terms{HasTake: true}), window(t, 6, m)}, stack.Request{Cost: 2}},
		{"RATE 5/s BURST 10 shadow Spare 7 take 9223372036854775807 FIXED 7/h SPARE 0",
			[]stack.Limit{rate(t, 5, 10, s).With(stack.Terms{Take: math.MaxInt64, HasTake: true, Spare: 7, Shadow: true}), fixed(t, 7, h)}, one},
		{"RATE 5/s SPARE 2 MAXWAIT 5s", []stack.Limit{rate(t, 5, 5, s).With(stack.Terms{Spare: 2})}, stack.Request{Cost: 1, MaxWaitNs: int64(5 * s)}},
		{"RATE 5/s MAXWAIT 500ms COST 2", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 2, MaxWaitNs: int64(500 * ms)}},
		{"RATE 5/s COST 2 maxwait 5s", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 2, MaxWaitNs: int64(5 * s)}},
		{"RATE 5/s MAXWAIT 0.5s", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 1, MaxWaitNs: int64(500 * ms)}},
		{"RATE 5/s MAXWAIT 1.5ms", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 1, MaxWaitNs: 1_500_000}},
		{"RATE 5/s MAXWAIT 0.0", []stack.Limit{rate(t, 5, 5, s)}, one},
		{"RATE 5/s MAXWAIT 1m", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 1, MaxWaitNs: int64(m)}},
		{"RATE 5/s MAXWAIT h", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 1, MaxWaitNs: int64(h)}},
		{"RATE 5/s MAXWAIT 0", []stack.Limit{rate(t, 5, 5, s)}, one},
		{"RATE 5/s MAXWAIT 0ms", []stack.Limit{rate(t, 5, 5, s)}, one},
		{"RATE 5/s MAXWAIT 36500d", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 1, MaxWaitNs: int64(36500 * day)}},
		{"RATE 5/s MAXWAIT 3153600000s", []stack.Limit{rate(t, 5, 5, s)}, stack.Request{Cost: 1, MaxWaitNs: int64(36500 * day)}},
	} {
		c := read("CL.LIMIT k " + tt.line)
		if assert.Empty(t, c.error, tt.line) {
			assert.Equal(t, tt.limits, c.groups[0].Limits(nil), tt.line)
			assert.Equal(t, tt.request, c.Request.Request, tt.line)
		}
	}
}

func TestEverySyntaxErrorPointsAtTheWord(t *testing.T) {
	const (
		tooBig = "9223372036854775808"
		limits = "expected RATE, WINDOW or FIXED"
		limit  = expectedOfLimit
		cost   = "COST takes an integer from 0 to 9223372036854775807"
		take   = "TAKE takes an integer from 0 to 9223372036854775807"
		spare  = "SPARE takes an integer from 0 to 9223372036854775807"
		burst  = "BURST takes the capacity, an integer from 1 to 9223372036854775807"
		units  = "; units are ms, s, m, h and d"
		wait   = "MAXWAIT takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m" + units
		orRate = "expected BURST, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, " + limitOptions
		term   = "expected TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, " + limitOptions
		about  = "must follow the limit that it belongs to"
		place  = "must follow the count/period of a RATE"
		fine   = "not a whole number of nanoseconds"
		fast   = "at most 10^9 units per second"
		long   = "the period is longer than 292 years"
		slow   = "a full bucket would take more than 292 years to refill"
	)
	quota := func(kind string) string {
		if kind == "FIXED" {
			return "FIXED takes count/period, such as 5/s, 10/1.5h or 1000/mo" + units + ", and w, mo and y for whole weeks, months and years"
		}
		return kind + " takes count/period, such as 5/s, 100/30m or 10/1.5h" + units
	}
	type row struct{ line, word, right string }
	table := []row{
		// Words that begin nothing.
		{"RATTE 5/s", "RATTE", limits},
		{"5/s RATE", "5/s", limits},
		{"BURST 5", "BURST", limits},
		{"COST 1 RATE 5/s", "COST", limits},
		{"STRICT UPTO RATE 5/s", "STRICT", limits},
		{"RATE 5/s RATTE 5/s", "RATTE", orRate},
		{"RATE 5/s 10", "10", orRate},
		{"RATE 5/s COST 1 2", "2", limit},
		{"RATE 5/s TIMEOUT 5s", "TIMEOUT", orRate},
		{"WINDOW 5/s BURST 5", "BURST", place},
		{"FIXED 5/s BURST 5", "BURST", place},
		{"RATE 5/s BURST 5 BURST 5", "BURST", "given twice"},
		{"RATE 5/s BURST 5 WINDOW 5/s BURST 5", "BURST", place},
		{"RATE 5/s UPTO BURST 5", "BURST", place},
		{"RATE 5/s BRUST 10", "BRUST", orRate},
		{"rate 5/s brust 10", "brust", orRate},
		{"RATE 5/s BURST 10 BRUST 10", "BRUST", term},
		{"RATE 5/s COST 1 BRUST 10", "BRUST", limit},
		{"WINDOW 5/s BRUST 10", "BRUST", term},
		{"RATE 5/s TAKE 1 BRUST 10", "BRUST", term},
		{"FIXED 5/s SHADOW SPARES 10", "SPARES", term},
		{"RATE 5/s TAKE 1 BURST 5", "BURST", place},
		{"RATE 5/s COST 1 TAKE 5", "TAKE", about},
		{"RATE 5/s COST 1 spare 5", "spare", about},
		{"RATE 5/s UPTO SHADOW", "SHADOW", about},
		{"TAKE 5 RATE 5/s", "TAKE", limits},
		{"SHADOW RATE 5/s", "SHADOW", limits},
		{"RATE 5/s TAKE", "TAKE", take},
		{"RATE 5/s spare", "spare", spare},
		{"RATE 5/s TAKE SPARE 5", "SPARE", take},
		{"RATE 5/s TAKE 1 take 1", "take", "given twice"},
		{"RATE 5/s SPARE 1 SHADOW SPARE 1", "SPARE", "given twice"},
		{"RATE 5/s SHADOW SHADOW", "SHADOW", "given twice"},
		{"RATE 5/s FORCE FORCE", "FORCE", "given twice"},
		{"RATE 5/s COST 1 BURST 5", "BURST", place},
		{"RATE 5/s COSTS 1", "COSTS", orRate},
		{"RATE 5/s COS 1", "COS", orRate},
		{"RATE 5/s UP TO", "UP", orRate},

		// Values that are missing at the end of the line.
		{"RATE 5/s RATE", "RATE", quota("RATE")},
		{"RATE 5/s window", "window", quota("WINDOW")},
		{"RATE 5/s FIXED", "FIXED", quota("FIXED")},
		{"RATE 5/s BURST", "BURST", burst},
		{"RATE 5/s COST", "COST", cost},
		{"RATE 5/s MAXWAIT", "MAXWAIT", wait},
		{"RATE 5/s maxwait", "maxwait", wait},

		// A keyword is no value.
		{"RATE WINDOW 5/s", "WINDOW", quota("RATE")},
		{"RATE 5/s BURST COST 1", "COST", burst},
		{"RATE 5/s COST UPTO", "UPTO", cost},
		{"RATE 5/s MAXWAIT COST 1", "COST", wait},

		// Limits of the wrong size.
		{"RATE 1000000001/s", "1000000001/s", fast},
		{"RATE 1000001/ms", "1000001/ms", fast},
		{"RATE 9223372036854775807/s", "9223372036854775807/s", fast},
		{"RATE 1/9223372037s", "1/9223372037s", long},
		{"RATE 1/106752d", "1/106752d", long},
		{"WINDOW 1/106752d", "1/106752d", long},
		{"FIXED 1/106752d", "1/106752d", long},
		{"FIXED 1/9223372036854775807d", "1/9223372036854775807d", long},
		{"RATE 1/1d BURST 106752", "1/1d", slow},
		{"RATE 1/100000d BURST 2", "1/100000d", slow},
		{"RATE 1/s BURST 9223372036854775807", "1/s", slow},
		{"FIXED 1/s FIXED 2/s FIXED 3/s FIXED 4/s FIXED 5/s FIXED 6/s FIXED 7/s FIXED 8/s WINDOW 9/s", "WINDOW", "at most 8 limits"},

		// Options twice, or that exclude each other.
		{"RATE 5/s COST 1 COST 1", "COST", "given twice"},
		{"RATE 5/s cost 1 COST 2", "COST", "given twice"},
		{"RATE 5/s UPTO UPTO", "UPTO", "given twice"},
		{"RATE 5/s STRICT UPTO STRICT", "STRICT", "given twice"},
		{"RATE 5/s MAXWAIT 5s COST 1 MAXWAIT 5s", "MAXWAIT", "given twice"},
		{"RATE 5/s UPTO MAXWAIT 5s", "UPTO", "cannot go with MAXWAIT"},
		{"RATE 5/s MAXWAIT 5s upto", "UPTO", "cannot go with MAXWAIT"},
		{"RATE 5/s STRICT MAXWAIT 5s", "STRICT", "cannot go with MAXWAIT"},
		{"RATE 5/s MAXWAIT 0 STRICT", "STRICT", "cannot go with MAXWAIT"},
		{"RATE 5/s FORCE MAXWAIT 5s", "FORCE", "cannot go with MAXWAIT"},
		{"RATE 5/s UPTO STRICT", "UPTO", "cannot go with STRICT"},
		{"RATE 5/s cost 3 strict upto", "UPTO", "cannot go with STRICT"},
		{"RATE 5/s FORCE UPTO", "UPTO", "cannot go with FORCE"},
		{"RATE 5/s STRICT FORCE", "STRICT", "cannot go with FORCE"},
		{"RATE 5/s TAKE 5 UPTO", "UPTO", "cannot go with TAKE"},
		{"RATE 5/s RATE 6/m TAKE 5 UPTO", "UPTO", "cannot go with TAKE"},
		{"WINDOW 5/s MAXWAIT 5s", "MAXWAIT", "works with RATE limits only"},
		{"RATE 5/s MAXWAIT 5s FIXED 5/s", "MAXWAIT", "works with RATE limits only"},
	}
	for _, kind := range []string{"RATE", "WINDOW", "FIXED"} {
		for _, bad := range []string{
			"5", "5s", "5/", "/s", "/", "//s", "5//s", "5/s/s", "x/s", "5/x", "5/X", "5/us", "5/US", "5/ns", "5/year", "5/s1",
			"-5/s", "5/-1", "5/-1s", "5/-1S", "1.5/s", "5/.5", "5/1.", "5/-0.5", "5/1.5.5", "5/01.5", "1e3/s", "5/sec",
			"05/s", "+5/s", "5/05", "5/00", "5/+5", "-0/s", "5/-0", "0x5/s", "5%/s", "5,5/s", "5/1h30m",
			"-" + tooBig + "/s", "0" + tooBig + "/s", tooBig + "x/s", "5/-" + tooBig, "5/0" + tooBig, "5/" + tooBig + "x", "--5/s", "+/s", "5/+", "5/-",
			strings.Repeat("0", 63) + "5/s",
		} {
			word := bad
			if len(word) > 40 {
				word = word[:40] + "..."
			}
			table = append(table, row{kind + " " + bad, word, quota(kind)})
		}
		for _, bad := range []struct {
			right string
			words []string
		}{
			{"the count is larger than 9223372036854775807", []string{tooBig + "/s", tooBig + "/x", "99999999999999999999/s", strings.Repeat("9", 30) + "/0"}},
			{"the period is zero", []string{"5/0", "0/0", "0/0ms", "5/0s", "5/0.0s", "5/0ms", "5/0.0"}},
			{"units are written in lower case", []string{"5/S", "0/S", "5/1M", "5/1.5H", "5/MS", "5/Ms", "5/D"}},
			{long, []string{"5/" + tooBig, "5/99999999999999999999", "5/" + tooBig + "ms", "5/" + tooBig + ".5d", "5/9999999999999999999.5"}},
		} {
			for _, word := range bad.words {
				table = append(table, row{kind + " " + word, word, bad.right})
			}
		}
		if kind != "FIXED" {
			for _, bad := range []string{"5/w", "5/mo", "5/2y"} {
				table = append(table, row{kind + " " + bad, bad, quota(kind)})
			}
		}
		for _, bad := range []string{"5/0.0000000001", "5/0.0000001ms", "5/1.00000762939453125d", "5/0.12345678901234567890s"} {
			table = append(table, row{kind + " " + bad, bad, fine})
		}
	}
	for _, bad := range []string{"x", "1.5", "1e3", "0x1", "-1", "-0.5", tooBig, "99999999999999999999", "--1", "+", "1s", "5/s", "01", "+1", "-0"} {
		table = append(table, row{"RATE 5/s COST " + bad, bad, cost}, row{"RATE 5/s BURST " + bad, bad, burst},
			row{"RATE 5/s TAKE " + bad, bad, take}, row{"FIXED 5/s SPARE " + bad, bad, spare})
	}
	table = append(table, row{"RATE 0/s BURST 5", "0/s", "a count of 0 lets nobody through, so there is no BURST"}, row{"RATE 5/s BURST 0", "0", burst}, row{"RATE 5/s BURST -0", "-0", burst})
	table = append(table, row{"RATE 5/s MAXWAIT 0.0000000001", "0.0000000001", fine}, row{"RATE 5/s MAXWAIT 1.0000001ms", "1.0000001ms", fine})
	table = append(table, row{"RATE 5/s MAXWAIT 5S", "5S", "units are written in lower case"}, row{"RATE 5/s BAN 1.5MS", "1.5MS", "units are written in lower case"})
	for _, bad := range []string{"x", "1.", ".5", "-1.5", "05", "+5", "-0", "36500.5d", "1e3", "-1", "-1s", tooBig, "5w", "5W", "1h30m", "36501d", "3153600001", "3153600000001ms",
		"9223372036854775807d", "5/s", "ss", "1us"} {
		table = append(table, row{"RATE 5/s MAXWAIT " + bad, bad, wait})
	}
	for _, tt := range table {
		requireError(t, read("CL.LIMIT k "+tt.line), "ERR syntax error near '"+tt.word+"': "+tt.right, tt.line)
	}
}

// Whatever command and word it follows, a length of time has a unit.
func TestABareNumberIsRefusedAfterEveryWordThatTakesATime(t *testing.T) {
	forty := "1." + strings.Repeat("0", 38)
	tried := map[string]int{}
	for _, form := range forms {
		s := Compile(form)
		base := "CL." + form.Command + " k "
		if form.Groups {
			base = "CL." + form.Command + " 1 k "
		}
		words := append(slices.Clone(s.options), s.kinds...)
		for _, kind := range s.kinds {
			words = append(words, kind.owned...)
		}
		for _, w := range words {
			if w.value == nil || !w.value.hasUnit {
				continue
			}
			line, count := base+w.name+" ", ""
			switch {
			case w.limit != nil:
				count = "7/"
			case find(rowOf(vocabulary, "FIXED").owned, []byte(w.name)) != nil:
				line = base + "FIXED 7/d " + w.name + " "
			case s.HasLimits():
				line = base + "RATE 5/s " + w.name + " "
			}
			if w.value == &denials {
				count = "7/"
			}
			for _, number := range []string{"500", "1.5", "100", "9", forty} {
				near := count + number
				if len(near) > 40 {
					near = near[:40] + "..."
				}
				requireError(t, read(line+count+number), "ERR syntax error near '"+near+"': "+number+" needs a unit, such as "+number+"ms or "+number+"s", line+count+number)
			}
			assert.Contains(t, read(line+count+forty+"0").error, ": a length of time needs a unit, such as 500ms or 30s")
			tried[w.name]++
		}
	}
	assert.Equal(t, map[string]int{"RATE": 6, "WINDOW": 6, "FIXED": 6, "OFFSET": 6, "MAXWAIT": 2, "BAN": 2, "AFTER": 2, "TIMEOUT": 2, "TTL": 2}, tried)
}

func TestTheOtherCommandsTakeTheirOwnOptions(t *testing.T) {
	const (
		ofPeek  = "': expected BURST, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, COST, COMPACT or EACH"
		ofBack  = "': expected BURST, TAKE, SHADOW, RATE, WINDOW, FIXED, COST, COMPACT or EACH"
		ofWait  = "': expected BURST, TAKE, SPARE, RATE, WINDOW, FIXED, COST, TIMEOUT, GROUP, WEIGHT, PRIORITY, COMPACT or EACH"
		timeout = "': TIMEOUT takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d"
	)
	for _, tt := range []struct {
		command, line, want string
	}{
		{"CL.PEEK", "RATE 5/s UPTO", "UPTO" + ofPeek},
		{"CL.PEEK", "RATE 5/s STRICT", "STRICT" + ofPeek},
		{"CL.PEEK", "RATE 5/s MAXWAIT 1s", "MAXWAIT" + ofPeek},
		{"CL.PEEK", "RATE 5/s TIMEOUT 1s", "TIMEOUT" + ofPeek},
		{"CL.PEEK", "RATE 5/s FORCE", "FORCE" + ofPeek},
		{"CL.PEEK", "WINDOW 5/s UPTO", "UPTO': expected TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, COST, COMPACT or EACH"},
		{"CL.PEEK", "RATTE 5/s", "RATTE': expected RATE, WINDOW or FIXED"},
		{"CL.PEEK", "RATE 5/s COST 1 COST 1", "COST': given twice"},
		{"CL.REFUND", "RATE 5/s UPTO", "UPTO" + ofBack},
		{"CL.REFUND", "RATE 5/s SPARE 1", "SPARE" + ofBack},
		{"CL.REFUND", "RATE 5/s FORCE", "FORCE" + ofBack},
		{"CL.REFUND", "RATE 5/s MAXWAIT 1s", "MAXWAIT" + ofBack},
		{"CL.REFUND", "RATE 5/s COST -1", "-1': COST takes an integer from 0 to 9223372036854775807"},
		{"CL.WAIT", "RATE 5/s UPTO TIMEOUT 1s", "UPTO" + ofWait},
		{"CL.WAIT", "RATE 5/s TIMEOUT 1s MAXWAIT 1s", "MAXWAIT': expected RATE, WINDOW, FIXED, COST, TIMEOUT, GROUP, WEIGHT, PRIORITY, COMPACT or EACH"},
		{"CL.WAIT", "RATE 5/s SHADOW TIMEOUT 1s", "SHADOW" + ofWait},
		{"CL.WAIT", "RATE 5/s FORCE TIMEOUT 1s", "FORCE" + ofWait},
		{"CL.WAIT", "RATE 5/s BURST 9 MAXWAIT 1s", "MAXWAIT': expected TAKE, SPARE, RATE, WINDOW, FIXED, COST, TIMEOUT, GROUP, WEIGHT, PRIORITY, COMPACT or EACH"},
		{"CL.WAIT", "RATTE 5/s TIMEOUT 1s", "RATTE': expected RATE, WINDOW or FIXED"},
		{"CL.WAIT", "RATE 5/s TIMEOUT 0.0000000001", "0.0000000001': not a whole number of nanoseconds"},
		{"CL.WAIT", "RATE 5/s TIMEOUT 1s TIMEOUT 1s", "TIMEOUT': given twice"},
		{"CL.WAIT", "RATE 5/s TIMEOUT", "TIMEOUT" + timeout},
		{"CL.WAIT", "RATE 5/s TIMEOUT -1", "-1" + timeout},
		{"CL.WAIT", "RATE 5/s TIMEOUT 1.", "1." + timeout},
		{"CL.WAIT", "RATE 5/s TIMEOUT 36501d", "36501d" + timeout},
		{"CL.WAIT", "RATE 5/s TIMEOUT x", "x" + timeout},
		{"CL.WAIT", "WINDOW 5/s SHADOW TIMEOUT 1s", "SHADOW': expected TAKE, SPARE, RATE, WINDOW, FIXED, COST, TIMEOUT, GROUP, WEIGHT, PRIORITY, COMPACT or EACH"},
		{"CL.WAIT", "RATE 5/s TIMEOUT 1s GROUP a", "GROUP': needs a WINDOW or FIXED limit; with RATE alone callers are served in order of arrival"},
		{"CL.WAIT", "RATE 5/s TAKE 2 RATE 9/m TIMEOUT 1s PRIORITY 0", "PRIORITY': needs a WINDOW or FIXED limit; with RATE alone callers are served in order of arrival"},
		{"CL.WAIT", "WINDOW 5/s TIMEOUT 1s PRIORITY 101", "101': PRIORITY takes an integer from -100 to 100"},
		{"CL.WAIT", "WINDOW 5/s TIMEOUT 1s GROUP a GROUP b", "GROUP': given twice"},
		{"CL.LIMIT", "WINDOW 5/s GROUP a", "GROUP': expected TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, " + limitOptions},
	} {
		requireError(t, read(tt.command+" k "+tt.line), "ERR syntax error near '"+tt.want, tt.line)
	}
}

// What is missing is said, wherever the call ends. The server itself refuses calls without a key.
func TestWhatIsMissingIsNamed(t *testing.T) {
	for _, tt := range []struct {
		command, line, want string
	}{
		{"CL.LIMIT", "k", ": there must be a limit after the key"},
		{"CL.PEEK", "k", ": there must be a limit after the key"},
		{"CL.REFUND", "k", ": there must be a limit after the key"},
		{"CL.WAIT", "k", ": there must be a limit after the key"},
		{"CL.LIMIT", "k RATE", " near 'RATE': " + badQuotaRate},
		{"CL.LIMIT", "k 5/s", " near '5/s': expected RATE, WINDOW or FIXED"},
		{"CL.LIMIT", "k COST 1", " near 'COST': expected RATE, WINDOW or FIXED"},
		{"CL.WAIT", "k RATE 5/s", ": TIMEOUT is missing"},
		{"CL.WAIT", "k WINDOW 5/s COST 1", ": TIMEOUT is missing"},
		{"CL.WAIT", "k WINDOW 5/s GROUP a", ": TIMEOUT is missing"},
		{"CL.WAIT", "k RATE 5/s TIMEOUT", " near 'TIMEOUT': TIMEOUT " + rightDuration},
		{"CL.LEASE", "k", ": SLOTS is missing"},
		{"CL.LEASE", "k SLOTS 2", ": TTL is missing"},
		{"CL.LEASE", "k SLOTS 2 TTL 30s", ": ID is missing"},
		{"CL.LEASE", "k TTL 1s ID a", ": SLOTS is missing"},
		{"CL.LEASE", "k SLOTS 1 ID a", ": TTL is missing"},
		{"CL.LEASE", "k SLOTS 1 TTL 1s TIMEOUT 1s COMPACT", ": ID is missing"},
		{"CL.RENEW", "k", ": ID is missing"},
		{"CL.RENEW", "k ID a", ": TTL is missing"},
		{"CL.RENEW", "k TTL 1s", ": ID is missing"},
		{"CL.RELEASE", "k", ": ID is missing"},
		{"CL.RELEASE", "k ID", " near 'ID': ID takes 1 to 512 bytes"},
		{"CL.RELEASE", "k other", " near 'other': expected ID"},
		{"CL.LEASES", "k COUNT", " near 'COUNT': COUNT " + rightRows},
	} {
		requireError(t, read(tt.command+" "+tt.line), "ERR syntax error"+tt.want, tt.command+" "+tt.line)
	}
}

// Several words in one argument are what a client sends that does not split its command.
func TestWordsInOneArgumentHaveToBeSplit(t *testing.T) {
	for _, tt := range []struct {
		words, word string
	}{
		{"CL.LIMIT|k|RATE 5/s", "RATE 5/s"},
		{"CL.LIMIT|k|rate 5/s|COST|2", "rate 5/s"},
		{"CL.LIMIT|k|RATE|5/s BURST 10", "5/s BURST 10"},
		{"CL.LIMIT|k|RATE|5/s|COST 2", "COST 2"},
		{"CL.LIMIT|k|RATE|5/s|TAKE 2", "TAKE 2"},
		{"CL.LIMIT|k|RATE|5/s|COST|2 UPTO", "2 UPTO"},
		{"CL.LIMIT|k|FIXED|5/d|OFFSET|1h TZ UTC", "1h TZ UTC"},
		{"CL.WAIT|k|RATE|5/s|TIMEOUT 1s", "TIMEOUT 1s"},
		{"CL.LEASE|k|SLOTS 2|TTL|30s|ID|a", "SLOTS 2"},
		{"CL.LIMIT|k|RATE| 5/s", " 5/s"},
	} {
		c := readWords(bytes.Split([]byte(tt.words), []byte("|"))...)
		requireError(t, c, "ERR syntax error near '"+tt.word+"': "+severalInOne, tt.words)
	}
	c := readWords([]byte("CL.LIMIT"), []byte("k"), []byte("my RATE"))
	requireError(t, c, "ERR syntax error near 'my RATE': "+expectedALimit, "begins with no word of the command")
}

func TestWordsOfAnyBytes(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, tt := range []struct{ what, word, shown string }{
		{"empty", "", ""},
		{"a zero byte", "\x00", "\x00"},
		{"a line break", "RATE\r\n", "RATE\r\n"},
		{"bytes that are no UTF-8", "\xff\xfe", "\xff\xfe"},
		{"letters that fold to ASCII ones", "\u017fTRICT", "\u017fTRICT"},
		{"a format", "%s%n", "%s%n"},
		{"40 bytes", long, long},
		{"41 bytes", long + "y", long + "..."},
		{"1 MB", strings.Repeat("x", 1<<20), long + "..."},
		{"1 MB of digits", strings.Repeat("0", 1<<20), strings.Repeat("0", 40) + "..."},
		{"1 MB of units", strings.Repeat("s", 1<<20), strings.Repeat("s", 40) + "..."},
		{"1 MB with a limit at its end", strings.Repeat("0", 1<<20) + "5/s", strings.Repeat("0", 40) + "..."},
	} {
		for _, at := range []struct{ before, right string }{
			{"k", "expected RATE, WINDOW or FIXED"},
			{"k RATE", badQuotaRate},
			{"k WINDOW", badQuotaWindow},
			{"k FIXED", badQuotaFixed},
			{"k RATE 5/s", "expected BURST, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, " + limitOptions},
			{"k WINDOW 5/s", "expected TAKE, SPARE, SHADOW, " + expectedOfLimit[len("expected "):]},
			{"k RATE 5/s BURST", badCapacity},
			{"k RATE 5/s COST", badCost},
			{"k RATE 5/s MAXWAIT", badMaxWait},
		} {
			if at.right == badMaxWait && tt.what == "1 MB of units" {
				continue // found below
			}
			args := append(split("CL.LIMIT "+at.before), []byte(tt.word))
			before := slices.Clone(args)
			requireError(t, readWords(args...), "ERR syntax error near '"+tt.shown+"': "+at.right, tt.what+" after "+at.before)
			assert.True(t, slices.EqualFunc(before, args, bytes.Equal), "words are only looked at")
		}
	}
	c := read("CL.LIMIT k RATE 5/s MAXWAIT " + strings.Repeat("s", 1<<20))
	requireError(t, c, fmt.Sprintf("ERR syntax error near '%s...': %s", strings.Repeat("s", 40), badMaxWait), "1 MB of units")
}

func TestEveryErrorFitsItsBuffer(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 1000)
	var rights []string
	for _, form := range forms {
		s := Compile(form)
		for _, kind := range s.kinds {
			rights = append(rights, expected+list(kind.owned)+s.expectedTerm)
		}
		rights = append(rights, expected+s.expected, expected+s.expectedLimit+numKeysIs+"8, so WINDOW"+isAKey)
	}
	for i := range vocabulary {
		if w := &vocabulary[i]; w.value != nil {
			rights = append(rights, w.name+" "+w.value.right)
		}
	}
	rights = append(rights, tooFast, tooLong, tooSlow, tooFine, tooMany, noPeriod, longOffset, zoneNeedsDays, firstHasLength, misplacedTerm, severalInOne, unitsAreLower, oneGroupOrAll)
	var p Parser
	var room [MaxErrorLen]byte
	for _, right := range rights {
		text := p.Near(long, right).AppendTo(room[:0])
		assert.LessOrEqual(t, len(text), MaxErrorLen, right)
		assert.Same(t, &room[0], &text[0], "in place: %s", right)
	}
}

func TestAChoiceIsAListWithOr(t *testing.T) {
	for want, names := range map[string][]string{"": {}, "A": {"A"}, "A or B": {"A", "B"}, "A, B or C": {"A", "B", "C"}} {
		assert.Equal(t, want, oneOf(names))
	}
}

func TestUnitsAreInLowerCase(t *testing.T) {
	for word, want := range map[string]bool{
		"5/S": true, "5/MS": true, "5/s": false, "5/Z": false, "\x15/S": false,
	} {
		c := readWords([]byte("CL.LIMIT"), []byte("k"), []byte("RATE"), []byte(word))
		assert.Equal(t, want, strings.Contains(c.error, unitsAreLower), "%q: %s", word, c.error)
	}
}

// The error is the same, however a period is written that is too long.
func TestATooLongPeriodIsNamedHoweverItIsWritten(t *testing.T) {
	for _, period := range []string{"9223372037s", "9223372036.854775808s", "9223372036854.775808ms", "9999999999999999999999s", "99999999999999999999.5d", "106752d", "300000d"} {
		for _, limit := range []string{"WINDOW 1/", "FIXED 1/", "RATE 1/"} {
			got := read("CL.LIMIT k " + limit + period).error
			assert.Contains(t, got, "1/"+period+"': the period is longer than 292 years", limit)
		}
		assert.Contains(t, read("CL.LIMIT k FIXED 1/"+period+" FIRST").error, "the period is longer than 292 years")
	}
}
