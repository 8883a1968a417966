// CL.THROTTLE and CL.LIMIT with one RATE are the same limit: whatever a key holds, whatever the
// clock says, they decide alike and leave the same.
package command

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/size"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set(size.Of("300", "3000"))
	}
	m.Run()
}

// oneLimit is a limit in the words of both commands.
type oneLimit struct {
	capacity, count int64
	period          string
}

func (l oneLimit) ofThrottle(cost int64) string {
	return fmt.Sprintf("k %d %d %s %d", l.capacity-1, l.count, l.period, cost)
}

func (l oneLimit) ofLimit(cost int64) string {
	period := l.period
	if last := period[len(period)-1]; '0' <= last && last <= '9' {
		period += "s" // CL.THROTTLE alone takes bare seconds
	}
	return fmt.Sprintf("k RATE %d/%s BURST %d COST %d", l.count, period, l.capacity, cost)
}

// kept is a key of which the clock is now, and what the commands leave there.
type kept struct {
	now   int64
	value string
}

func (k kept) decide(command *Command, line string) *Call {
	c := call(line)
	c.NowNs, c.Kind, c.Value = k.now, String, []byte(k.value)
	if k.value == "" {
		c.Kind = Absent
	}
	c.Run(command)
	return c
}

func (k *kept) apply(c *Call) {
	switch c.Effect {
	case Set:
		k.value = string(c.NewValue)
	case Delete:
		k.value = ""
	}
}

// requireOneLimit fails unless both commands answer and leave the same. It returns the call.
func requireOneLimit(t require.TestingT, k kept, limit oneLimit, cost int64) *Call {
	byThrottle, byLimit := k.decide(Throttle, limit.ofThrottle(cost)), k.decide(Limit, limit.ofLimit(cost))
	about := fmt.Sprintf("%s at %d of %x", limit.ofLimit(cost), k.now, k.value)
	require.Equal(t, ReplyIntegers, byThrottle.Reply, "%s: %s", about, byThrottle.Error)
	require.Equal(t, ReplyFields, byLimit.Reply, "%s: %s", about, byLimit.Error)
	inSeconds := func(ms int64) int64 {
		if ms <= 0 {
			return ms
		}
		return (ms + 999) / 1000
	}
	n := byLimit.Integers
	require.Equal(t, []int64{n[0], n[2], n[3], inSeconds(n[4]), inSeconds(n[5])}, byThrottle.Integers, about)
	require.Equal(t, byLimit.Effect, byThrottle.Effect, about)
	require.Equal(t, string(byLimit.NewValue), string(byThrottle.NewValue), about)
	if byLimit.Effect == Set {
		require.Equal(t, byLimit.ExpireAtMs, byThrottle.ExpireAtMs, about)
	}
	return byThrottle
}

func TestThrottleAndLimitAreOneLimit(t *testing.T) {
	var queued, corrected, allowed, limited int
	rapid.Check(t, func(t *rapid.T) {
		pick := func(what string, lo, hi int64) int64 { return rapid.Int64Range(lo, hi).Draw(t, what) }
		periods := rapid.SampledFrom([]string{"1ms", "1", "1.5s", "0.25ms", "10s", "60", "1m", "1h", "0.5d", "0.000001ms"})
		limits := rapid.Custom(func(t *rapid.T) oneLimit {
			return oneLimit{rapid.Int64Range(1, 9).Draw(t, "capacity"), 1, periods.Draw(t, "period")}
		})
		k := kept{now: pick("begin", 0, math.MaxInt64/2)}
		if rapid.Bool().Draw(t, "today") {
			k.now = nowNs
		}
		if rapid.Bool().Draw(t, "any number") {
			k.value = strconv.FormatUint(rapid.Uint64().Draw(t, "TAT"), 10)
		}
		limit := limits.Draw(t, "limit")
		for range pick("steps", 1, 30) {
			switch pick("what changes", 1, 8) {
			case 1:
				limit = limits.Draw(t, "limit")
			case 2:
				k.now = max(k.now-pick("set back by", 1, 5), 0)
			case 3:
				k.now = max(k.now-pick("set back by", 1, 100*nsPerSecond), 0)
			case 4:
				k.now += pick("elapsed", 0, 20*nsPerSecond)
			}
			cost := pick("cost", 0, limit.capacity+1)
			switch pick("who asks", 1, 5) {
			case 1, 2:
				k.apply(k.decide(Limit, limit.ofLimit(cost)+" MAXWAIT 9m"))
			case 3:
				k.apply(k.decide(Refund, limit.ofLimit(cost)))
			default:
				before := len(k.value)
				c := requireOneLimit(t, k, limit, cost)
				k.apply(c)
				if before > 0 && before != len(strconv.FormatInt(k.now, 10)) {
					queued++
				}
				switch {
				case c.Integers[0] == 0:
					allowed++
				case c.Effect == Set:
					corrected++
				default:
					limited++
				}
			}
		}
	})
	t.Logf("allowed %d, limited %d, corrected %d, on a queue %d", allowed, limited, corrected, queued)
	for _, n := range []int{allowed, limited, corrected, queued} {
		assert.Positive(t, n)
	}
}

func TestThrottleNeverForgetsAQueue(t *testing.T) {
	const s = nsPerSecond
	minute := oneLimit{1, 1, "1m"}
	queue := kept{now: nowNs}
	for range 3 {
		queue.apply(queue.decide(Limit, minute.ofLimit(1)+" MAXWAIT 5m"))
	}
	for _, tt := range []struct {
		what     string
		limit    oneLimit
		behindNs int64
		want     []int64
		write    Effect
	}{
		{"the same limit", minute, 0, []int64{1, 1, 0, 180, 180}, Keep},
		{"a quicker one", oneLimit{1, 2, "60"}, 0, []int64{1, 1, 0, 150, 150}, Set},
		{"a slower one", oneLimit{1, 1, "2m"}, 0, []int64{1, 1, 0, 180, 180}, Keep},
		{"a clock that was set back by 1 ns", minute, 1, []int64{1, 1, 0, 180, 180}, Set},
		{"a clock that was set back by an hour", minute, 3600 * s, []int64{1, 1, 0, 180, 180}, Set},
		{"a period that a key cannot say", oneLimit{1, 9e18, "100000000000d"}, 0, []int64{1, 1, 0, 121, 121}, Set},
	} {
		k := queue
		k.now -= tt.behindNs
		c := k.decide(Throttle, tt.limit.ofThrottle(1))
		assert.Equal(t, tt.want, c.Integers, tt.what)
		assert.Equal(t, tt.write, c.Effect, tt.what)
		k.apply(c)
		assert.Equal(t, byte(1), k.value[0], "%s: still a queue", tt.what)
		again := k.decide(Limit, minute.ofLimit(1))
		assert.Equal(t, int64(1), again.Integers[0], tt.what)
		assert.GreaterOrEqual(t, again.Integers[4], int64(120_000), "%s: who holds a slot is served before", tt.what)
	}
}

// Ten units of a bucket of three were taken at once, so seven of them wait.
func TestReservationsGoBeforeCallersOfThrottle(t *testing.T) {
	limit := oneLimit{3, 1, "1s"}
	queue := kept{now: nowNs}
	for range 10 {
		queue.apply(queue.decide(Limit, limit.ofLimit(1)+" MAXWAIT 1m"))
	}
	const s = nsPerSecond
	for _, tt := range []struct {
		rule     string
		now      int64
		cost     int64
		want     []int64
		newValue string
	}{
		{"behind the last of them", 0, 1, []int64{1, 3, 0, 8, 10}, ""},
		{"more units wait longer", 0, 3, []int64{1, 3, 0, 10, 10}, ""},
		{"more than the capacity never comes", 0, 4, []int64{1, 3, 0, -1, 10}, ""},
		{"a peek", 0, 0, []int64{0, 3, 0, -1, 10}, ""},
		{"a nanosecond before its turn", 8*s - 1, 1, []int64{1, 3, 0, 1, 3}, ""},
		{"its turn", 8 * s, 1, []int64{0, 3, 0, -1, 3}, tatIn(11 * s)},
		{"long after", 50 * s, 1, []int64{0, 3, 2, -1, 1}, tatIn(51 * s)},
	} {
		k := queue
		k.now += tt.now
		c := k.decide(Throttle, limit.ofThrottle(tt.cost))
		assert.Equal(t, tt.want, c.Integers, tt.rule)
		assert.Equal(t, tt.newValue, string(c.NewValue), tt.rule)
		requireOneLimit(t, k, limit, tt.cost)
	}
}
