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
