package guard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/ratelimit"
)

// What spec/clients/shares.json does not say.
func TestShareOfEachKindOfLimit(t *testing.T) {
	for _, tt := range []struct {
		words     string
		processes int64
		want      string // "": none
	}{
		{"RATE 100/1500ms BURST 2 COST 5", 2, "RATE 50/1500ms BURST 1 COST 5"},
		{"RATE 7/0.000001ms BURST 10", 2, "RATE 7/0.000002ms BURST 5"},
		{"RATE 5/1d BURST 10", 3, "RATE 5/259200000ms BURST 3"},
		{"RATE 1/300000d BURST 100", 4, ""},
		{"FIXED 1000/mo TZ Europe/Berlin OFFSET 6h", 3, "FIXED 333/mo TZ Europe/Berlin OFFSET 6h"},
		{"FIXED 1000/1d TZ RATE", 3, "FIXED 333/1d TZ RATE"},
		{"RATE 60/1m TAKE 1 SHADOW WINDOW 10/1h SPARE 5 COST 2 UPTO", 4,
			"RATE 15/1m BURST 15 TAKE 1 SHADOW WINDOW 2/1h SPARE 2 COST 2 UPTO"},
		{"RATE 60/1m MAXWAIT 5s BAN 1m", 4, "RATE 15/1m BURST 15 MAXWAIT 5s BAN 1m"},
		{"RATE 60/1m STRICT", 4, "RATE 15/1m BURST 15 STRICT"},
	} {
		parts, ok := share(strings.Fields(tt.words), tt.processes, false)
		assert.Equal(t, tt.want != "", ok, tt.words)
		assert.Equal(t, tt.want, strings.Join(parts, " "), tt.words)
	}
}

// on is a call for so many units.
func on(key string, limits ratelimit.Limits, units int64) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: limits}}, Cost: units}
}

// grant is units that one of the processes let through.
type grant struct {
	at    time.Time
	units int64
}

// All processes together let through no more than the limits, in any interval, whenever and
// wherever calls come.
func TestProcessesTogetherKeepTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.Int64Range(1, 20).Draw(rt, "count")
		capacity := rapid.Int64Range(1, 40).Draw(rt, "capacity")
		period := time.Duration(rapid.IntRange(1, 20).Draw(rt, "period in 100 ms")) * 100 * time.Millisecond
		processes := rapid.IntRange(1, 6).Draw(rt, "processes")
		kind := rapid.SampledFrom([]string{"RATE", "WINDOW", "FIXED"}).Draw(rt, "kind")
		limit := map[string]ratelimit.Limit{
			"RATE":   ratelimit.Rate(count, period).Burst(capacity),
			"WINDOW": ratelimit.Window(count, period),
			"FIXED":  ratelimit.Fixed(count, period),
		}[kind]
		calls := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [3]int {
			return [3]int{rapid.IntRange(0, processes-1).Draw(rt, "process"), rapid.IntRange(1, 2).Draw(rt, "cost"), rapid.IntRange(0, 100).Draw(rt, "pause in ms")}
		}), 50, 200).Draw(rt, "calls")

		var all []grant
		synctest.Test(t, func(t *testing.T) {
			locals := make([]*local, processes)
			for i := range locals {
				locals[i] = newLocal(processes, false, 10)
			}
			for _, call := range calls {
				result, err := locals[call[0]].decideByPart(t.Context(), on("k", ratelimit.Limits{limit}, int64(call[1])), time.Second)
				require.NoError(t, err)
				if !result.Limited {
					all = append(all, grant{time.Now(), result.Granted})
				}
				time.Sleep(time.Duration(call[2]) * time.Millisecond)
			}
		})
		for i := range all {
			var units, window int64
			for _, g := range all[i:] {
				units += g.units
				passed := g.at.Sub(all[i].at)
				switch {
				case kind == "RATE" && (units-capacity)*int64(period) > count*int64(passed):
					rt.Fatalf("%d units in %v", units, passed)
				case kind == "WINDOW" && passed < period && units > count:
					rt.Fatalf("%d units in %v", units, passed)
				}
				if g.at.UnixNano()/int64(period) == all[i].at.UnixNano()/int64(period) {
					window += g.units
				}
			}
			if kind == "FIXED" && window > count {
				rt.Fatalf("%d units in a window", window)
			}
		}
	})
}

// What does not fit into a part may fit into the whole: it is no call that never succeeds.
func TestWhatAPartIsTooSmallForIsToBeTriedAgain(t *testing.T) {
	l := newLocal(4, false, 10)
	limits := ratelimit.Limits{ratelimit.Rate(20, time.Hour)}
	for _, tt := range []struct {
		limits  ratelimit.Limits
		cost    int64
		limited bool
		retry   time.Duration
	}{
		{limits, 6, true, time.Minute},
		{limits, 20, true, time.Minute},
		{limits, 21, true, ratelimit.Never},
		{limits, 5, false, 0},
		{ratelimit.Limits{ratelimit.Window(3, time.Hour)}, 1, true, time.Minute},
		{ratelimit.Limits{ratelimit.Window(3, time.Hour)}, 4, true, ratelimit.Never},
	} {
		result, err := l.decideByPart(t.Context(), on("k", tt.limits, tt.cost), time.Minute)
		require.NoError(t, err)
		assert.Equal(t, tt.limited, result.Limited, tt)
		assert.Equal(t, tt.retry, result.RetryAfter, tt)
		assert.Equal(t, "local", result.By)
	}
}

func TestLocalRemembersSoManyKeys(t *testing.T) {
	l := newLocal(1, false, 2)
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Hour)}
	for _, step := range []struct {
		key     string
		limited bool
	}{{"a", false}, {"b", false}, {"a", true}, {"c", false}, {"a", true}, {"b", false}, {"", false}, {"", true}} {
		result, err := l.decideByPart(t.Context(), on(step.key, limits, 1), time.Second)
		require.NoError(t, err)
		assert.Equal(t, step.limited, result.Limited, step)
	}
	assert.Equal(t, 2, l.keys.Len())
}
