// Limits that a call does not name: what is kept of them, for how long, and how it is stored.
package stack_test

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/stack"
)

const day = 24 * hour

// drawCame makes up limits that share no state, for calls that name some of them. A key that holds a lone rate does not
// know its period, so there is one rate; or there are several, and another limit that is never full.
func drawCame(d *drawer) (specs, always []spec) {
	mostRates := 1
	if d.OneIn("several rates", 3) {
		mostRates, always = 3, []spec{first(10, 1<<61)}
	}
	d.kinds = []stack.Kind{stack.Rate, stack.Window, stack.Fixed, stack.First}
	d.periods = []int64{50, 64, second, minute, minute + second, hour, day}
	rates, n := 0, int(d.Draw("limits", 2, int64(stack.MaxLimits-len(always))))
	for len(specs) < n {
		d.periods[1] = d.Draw("a period", 10, 100)
		s := d.spec()
		if slices.ContainsFunc(specs, s.isOf) || s.kind == stack.Rate && rates == mostRates {
			continue
		}
		if s.kind == stack.Rate {
			rates++
		}
		specs = append(specs, s)
	}
	return specs, always
}

// A key with several limits, of which each call names some, answers as one key for each limit does: no limit admits more
// than if it was asked by itself, nor less.
func comeAndGo(t require.TestingT, pick chance.Draw, atMost int, seen *seen) {
	d := newDrawer(pick)
	specs, always := drawCame(d)
	one, apart := key{t: t}, keys{t: t, values: make([][]byte, len(specs))}
	if len(always) > 0 {
		one.take(limits(t, always...), cost(1), d.nowNs)
	}
	mayWait := d.OneIn("may wait", 2) // a lone rate has no lifts, which a refund undoes
	for range atMost {
		order := permutation(d, len(specs))[:d.Draw("named", 1, int64(len(specs)))]
		if d.OneIn("rates only", 4) { // which may be reserved
			order = slices.DeleteFunc(permutation(d, len(specs)), func(i int) bool { return specs[i].kind != stack.Rate })
		}
		if len(order) == 0 {
			continue
		}
		var named []spec
		several := keys{t: t}
		for _, i := range order {
			named, several.values = append(named, specs[i]), append(several.values, apart.values[i])
		}
		before := d.nowNs
		d.moveClock(named)
		d.nowNs = max(d.nowNs, before)
		if d.nowNs > 1<<61 {
			return // always is full
		}
		r := d.request(named)
		if !mayWait {
			r.MaxWaitNs = 0
		}
		var each [][]spec
		for _, s := range named {
			each = append(each, []spec{s})
		}
		var got, want stack.Result
		if !mayWait && d.OneIn("refund", 6) {
			got = one.refund(limits(t, named...), r.Cost, d.nowNs)
			for i, s := range each {
				alone := key{t: t, value: several.values[i]}
				result := alone.refund(limits(t, s...), r.Cost, d.nowNs)
				several.values[i] = alone.value
				want.Changed = want.Changed || result.Changed
				if i == got.Rule {
					changed := want.Changed
					want = result
					want.Rule, want.Changed = i, changed
				}
			}
			seen.refunds++
		} else {
			got = one.take(limits(t, named...), r, d.nowNs)
			want, _ = several.call(each, d.nowNs, func(j *stack.Joint) stack.Result { return j.Take(r, d.nowNs) })
		}
		if got != want {
			require.Equal(t, want, got, "%+v of %+v, %+v at %d of %x", named, specs, r, d.nowNs, one.value)
		}
		for i, at := range order {
			apart.values[at] = several.values[i]
		}
		d.last = got
		seen.count(r, got, one.value)
	}
}

func permutation(d *drawer, n int) []int {
	order := make([]int, n)
	for i := range order {
		j := int(d.Draw("place", 0, int64(i)))
		order[i], order[j] = order[j], i
	}
	return order
}

func TestLimitsThatComeAndGoAreEachAsIfAskedAlone(t *testing.T) {
	pick := chance.FromSeed(t)
	var s seen
	n := steps(100_000)
	seldom := func() int { return min(s.allowed, s.limited, s.waits, s.refunds, s.rules[6]) }
	for s.steps < n || seldom() <= n/1000 && s.steps < 50*n {
		comeAndGo(t, pick, 100, &s)
	}
	require.Greater(t, seldom(), n/1000, "%+v", s)
}

func TestLimitsThatComeAndGoAreEachAsIfAskedAloneShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { comeAndGo(t, chance.FromRapid(t), 20, &seen{}) })
}

// kinds shows the limits of a value in their order, in words: RATE 60s is a rate of a minute, empty a state of no bytes.
func kindsIn(t *testing.T, value []byte) string {
	if value == nil {
		return "no key"
	}
	if value[0] != 1 {
		return "a number"
	}
	var words []string
	for rest := value[2:]; len(rest) > 0; {
		kind := []string{"RATE", "WINDOW", "FIXED", "FIRST"}[rest[0]-1]
		length := int(rest[9]) + int(rest[10])<<8
		period := "calendar"
		if rest[8] < 0x80 {
			ns, err := strconv.ParseInt(hex.EncodeToString(reversed(rest[1:9])), 16, 64)
			require.NoError(t, err)
			period = strconv.FormatInt(ns/second, 10) + "s"
			if ns == 1<<63-1 {
				period = "unknown"
			}
		}
		words = append(words, kind+" "+period)
		if length == 0 {
			words[len(words)-1] += " empty"
		}
		rest = rest[11+length:]
	}
	return strings.Join(words, ", ")
}

func reversed(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

func TestWhatAKeyHolds(t *testing.T) {
	type call struct {
		specs []spec
		after int64 // s since the call before
	}
	of := func(specs ...spec) call { return call{specs: specs} }
	then := func(after int64, specs ...spec) call { return call{specs, after} }
	nine := func(last call) (calls []call) {
		for i := range int64(8) {
			calls = append(calls, of(window(5, (10-i)*minute)))
		}
		return append(calls, last)
	}
	month, week, berlin := in(calendars[5], 3), in(calendars[3], 3), in(calendars[0], 3)
	for _, tt := range []struct {
		what  string
		calls []call
		want  string
	}{
		{"the named first, in their order, then the others in theirs",
			[]call{of(window(5, hour), first(5, hour)), of(fixed(5, hour), rate(5, hour, 5))}, "FIXED 3600s, RATE 3600s, WINDOW 3600s, FIRST 3600s"},
		{"a limit that is named again moves to the front",
			[]call{of(window(5, hour)), of(first(5, hour)), of(window(5, hour))}, "WINDOW 3600s, FIRST 3600s"},
		{"full limits go", []call{of(window(5, minute)), of(first(5, hour)), then(60, first(5, hour))}, "FIRST 3600s"},
		{"but not a nanosecond earlier", []call{of(window(5, minute)), of(first(5, hour)), then(59, first(5, hour))}, "FIRST 3600s, WINDOW 60s"},
		{"a FIXED that is over goes", []call{of(fixed(5, minute)), then(70, first(5, hour))}, "FIRST 3600s"},
		{"a FIRST that is over goes", []call{of(first(5, minute)), then(60, window(5, hour))}, "WINDOW 3600s"},
		{"a lone rate stays a number", []call{of(rate(5, minute, 5)), of(rate(7, hour, 7))}, "a number"},
		{"its period is unknown beside others", []call{of(rate(5, hour, 5)), of(window(5, hour))}, "WINDOW 3600s, RATE unknown"},
		{"the next rate takes it over", []call{of(rate(5, hour, 5)), of(window(5, hour)), of(rate(9, day, 9))}, "RATE 86400s, WINDOW 3600s"},
		{"it is full before the next rate comes", []call{of(rate(60, hour, 60)), of(window(5, hour)), then(60, window(5, hour))}, "WINDOW 3600s"},
		{"when it is alone again it is a number", []call{of(rate(60, hour, 60)), of(window(5, minute)), then(70, rate(60, hour, 60))}, "a number"},
		{"two rates keep their periods", []call{of(rate(60, hour, 60), rate(5, minute, 5)), of(rate(60, hour, 60))}, "RATE 3600s, RATE 60s"},
		{"also when one of them is full", []call{of(rate(60, hour, 60), rate(60, minute, 60)), then(50, rate(60, hour, 60))}, "RATE 3600s, RATE 60s empty"},
		{"of nine limits the one goes that is full soonest", nine(of(window(5, second))),
			"WINDOW 1s, WINDOW 240s, WINDOW 300s, WINDOW 360s, WINDOW 420s, WINDOW 480s, WINDOW 540s, WINDOW 600s"},
		{"and more, if the call names more", nine(of(window(5, second), first(5, second), fixed(5, second))),
			"WINDOW 1s, FIRST 1s, FIXED 1s, WINDOW 360s, WINDOW 420s, WINDOW 480s, WINDOW 540s, WINDOW 600s"},
		{"of a tie the one that was not named for longest", []call{
			of(first(5, minute)), of(window(5, minute)),
			of(window(5, hour), window(5, 2*hour), window(5, 3*hour), window(5, 4*hour), window(5, 5*hour), window(5, 6*hour), window(5, 7*hour)),
		}, "WINDOW 3600s, WINDOW 7200s, WINDOW 10800s, WINDOW 14400s, WINDOW 18000s, WINDOW 21600s, WINDOW 25200s, WINDOW 60s"},
		{"windows of the calendar go last, those with shorter windows before longer ones", []call{
			of(month), of(week), of(berlin), of(window(5, 1000*day)),
			of(first(5, 2*hour), first(5, 3*hour), first(5, 4*hour), first(5, 5*hour), first(5, 6*hour), first(5, 7*hour)),
		}, "FIRST 7200s, FIRST 10800s, FIRST 14400s, FIRST 18000s, FIRST 21600s, FIRST 25200s, FIXED calendar, FIXED calendar"},
		{"they stay until a call names them, or the key expires", []call{of(berlin), then(60*24*3600, window(5, hour))}, "WINDOW 3600s, FIXED calendar"},
		{"the second of a kind and period keeps its place", []call{
			of(first(5, hour), window(9, minute), window(5, minute)), then(30, first(5, hour), window(9, minute), window(5, minute)),
			then(1, first(5, hour)),
		}, "FIRST 3600s, WINDOW 60s, WINDOW 60s"},
	} {
		k, now := key{t: t}, start
		for _, call := range tt.calls {
			now += call.after * second
			require.False(t, k.take(limits(t, call.specs...), cost(1), now).Limited, tt.what)
		}
		assert.Equal(t, tt.want, kindsIn(t, k.value), tt.what)
	}
}

// Of two limits of the same kind and period only their order tells which is which: the place of the first stays, empty.
func TestTheOrderOfLimitsThatAreAlikeIsKept(t *testing.T) {
	k := key{t: t}
	small, large := rate(60, minute, 60), rate(1, minute, 10)
	alike := []spec{small, large, first(9, hour)}
	for range 5 {
		require.False(t, k.take(limits(t, alike...), cost(1), start).Limited)
	}
	now := start + 20*second // small is full
	require.False(t, k.take(limits(t, first(9, hour)), cost(1), now).Limited)
	assert.Equal(t, "FIRST 3600s, RATE 60s empty, RATE 60s", kindsIn(t, k.value))
	assert.EqualValues(t, 60, k.peek(limits(t, small), 0, now).Remaining)
	assert.EqualValues(t, 5, k.peek(limits(t, large.minding(small)...), 0, now).Remaining)

	// Nor is the first forgotten before the second.
	k = key{t: t}
	require.False(t, k.take(limits(t, window(9, minute), window(2, minute)), cost(1), start).Limited)
	require.False(t, k.take(limits(t, window(9, minute), window(2, minute).taking(0)), cost(1), start+second).Limited)
	var others []spec
	for i := range int64(7) {
		others = append(others, window(9, hour+i))
	}
	require.False(t, k.take(limits(t, others...), cost(1), start).Limited)
	assert.True(t, strings.HasSuffix(kindsIn(t, k.value), ", WINDOW 3600s, WINDOW 60s"), kindsIn(t, k.value))
	assert.EqualValues(t, 7, k.peek(limits(t, window(9, minute)), 0, start+second).Remaining)
}

// minding is a limit behind another one of the same kind and period, which asks for nothing.
func (s spec) minding(first spec) []spec { return []spec{first.shadowed(), s} }

func (s spec) shadowed() spec { s.terms.Shadow = true; return s }

func (s spec) taking(units int64) spec {
	s.terms.Take, s.terms.HasTake = units, true
	return s
}

// What is kept is copied as it is: reservations, a debt, lifts, a crowded window, and what a clock that was set back has yet to
// correct.
func TestWhatIsKeptIsKeptByteForByte(t *testing.T) {
	for what, prepare := range map[string]func(k *key){
		"reservations": func(k *key) {
			for range 3 {
				k.take(limits(t, rate(1, hour, 1), rate(1, minute, 1)), stack.Request{Cost: 1, MaxWaitNs: day}, start)
			}
		},
		"a lone rate with reservations": func(k *key) {
			for range 3 {
				k.take(limits(t, rate(1, hour, 1)), stack.Request{Cost: 1, MaxWaitNs: day}, start)
			}
		},
		"a debt": func(k *key) {
			k.take(limits(t, rate(1, hour, 1), fixed(1, day), first(1, day)), stack.Request{Cost: 9, Force: true}, start)
		},
		"a crowded window": func(k *key) {
			for i := range int64(100) {
				k.take(limits(t, window(1000, 2*hour)), cost(1+i), start-hour+i*minute/2)
			}
		},
		"of a later clock": func(k *key) {
			k.take(limits(t, rate(1, hour, 1), window(5, hour), fixed(5, hour), first(5, hour)), cost(1), start+day)
		},
		"of the calendar": func(k *key) { k.take(limits(t, in(calendars[5], 9), in(calendars[0], 9)), cost(1), start) },
	} {
		k := key{t: t}
		prepare(&k)
		before := k.value
		for range 3 {
			require.True(t, k.take(limits(t, window(5, 3*hour), first(5, 3*hour)), cost(1), start).Changed)
			if k.value[0] == 1 {
				states := before[2:]
				assert.Equal(t, hex.EncodeToString(states), hex.EncodeToString(k.value[len(k.value)-len(states):]), what)
			}
		}
	}
}

// A call that changes nothing writes nothing, though a limit that it does not name is full by now.
func TestThatAnotherLimitIsFullIsNoReasonToWrite(t *testing.T) {
	k := key{t: t}
	k.take(limits(t, window(1, minute)), cost(1), start)
	k.take(limits(t, window(1, hour)), cost(1), start)
	assert.False(t, k.take(limits(t, window(1, hour)), cost(1), start+2*minute).Changed)
	assert.False(t, k.take(limits(t, window(1, hour)), cost(0), start+2*minute).Changed)
}

// The key lives until the last limit is full, also one that the call does not name.
func TestTheExpiryIsThatOfAllLimits(t *testing.T) {
	k := key{t: t}
	k.take(limits(t, window(1, hour)), cost(1), start)
	k.take(limits(t, window(1, minute)), cost(1), start)
	assert.Equal(t, uint64(start+hour), k.s.ExpireAt(start))
	k.take(limits(t, in(calendars[5], 1)), cost(1), start)
	assert.False(t, k.s.KeepsCalendar(), "its end is known to the call that names it")
	k.take(limits(t, rate(60, minute, 60)), cost(1), start)
	assert.True(t, k.s.KeepsCalendar())
	assert.Equal(t, uint64(start+hour), k.s.ExpireAt(start))
}

// A refund of limits that the key does not hold makes its value no longer: they are full. What a lone rate is, and what the
// lifts of one that is not alone are, stays.
func TestARefundMakesNoValueLonger(t *testing.T) {
	k := key{t: t}
	k.take(limits(t, rate(5, hour, 5)), cost(3), start)
	require.True(t, k.refund(limits(t, rate(5, hour, 5), window(5, hour), first(5, day)), 1, start).Changed)
	assert.Equal(t, "a number", kindsIn(t, k.value))
	k.take(limits(t, window(5, hour)), cost(3), start)
	assert.Equal(t, "WINDOW 3600s, RATE unknown", kindsIn(t, k.value))
	require.True(t, k.refund(limits(t, first(5, day), window(5, hour)), 1, start).Changed)
	assert.Equal(t, "WINDOW 3600s, RATE unknown", kindsIn(t, k.value))
	assert.False(t, k.refund(limits(t, first(5, day)), 1, start).Changed)

	k = key{t: t}
	slow, quick := rate(60, hour, 10), rate(60, minute, 20)
	k.take(limits(t, slow, quick), cost(10), start)
	require.Positive(t, k.take(limits(t, slow, quick), stack.Request{Cost: 5, MaxWaitNs: hour}, start).WaitNs)
	k.refund(limits(t, slow, fixed(5, day)), 15, start) // slow is full, and was not alone
	require.Equal(t, "RATE 3600s empty, RATE 60s", kindsIn(t, k.value))
	k.refund(limits(t, quick), 5, start)
	assert.EqualValues(t, 10, k.peek(limits(t, quick), 0, start).Remaining, "its lift is undone")
}

// Of windows of the calendar that number their windows alike, the one goes that was not named for longest.
func TestWhichWindowOfTheCalendarGoesFirst(t *testing.T) {
	day, otherDay, week, month := in(calendars[0], 3), in(calendars[1], 3), in(calendars[3], 3), in(calendars[5], 3)
	six := []spec{first(5, 2*hour), first(5, 3*hour), first(5, 4*hour), first(5, 5*hour), first(5, 6*hour), first(5, 7*hour)}
	for _, tt := range []struct {
		named []spec
		stay  []bool
	}{
		{[]spec{day, week, month}, []bool{false, true, true}},
		{[]spec{month, week, day}, []bool{true, true, false}},
		{[]spec{week, day, month}, []bool{true, false, true}},
		{[]spec{day, otherDay, month}, []bool{false, true, true}},
		{[]spec{otherDay, month, day}, []bool{false, true, true}},
	} {
		k := key{t: t}
		for _, s := range tt.named {
			require.False(t, k.take(limits(t, s), cost(1), start).Limited)
		}
		require.False(t, k.take(limits(t, six...), cost(1), start).Limited)
		for i, s := range tt.named {
			remaining := map[bool]int64{true: 2, false: 3}[tt.stay[i]]
			assert.Equal(t, remaining, k.peek(limits(t, s), 0, start).Remaining, "%d of %+v", i, tt.named)
		}
	}
}
