package migrating

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// The same calls go to redis-cell and to this module in turns, by the clock of this machine, and each keeps its
// own state. Each reply is what is known of the module that gave it, at an instant between two readings of the clock. How
// many replies are equal is printed: the two are asked one after the other, so fast limits have moved on in between.
//
// MIGRATING_LIVE_CALLS is how many calls to make.
func TestBothModulesAnswerByTheirRulesOnALiveClock(t *testing.T) {
	cell := begin(t)
	calls := chance.Calls(t, "MIGRATING_LIVE_CALLS", 20_000)
	r := chance.New(t)
	theirs, our := server.Start(t, cell), server.Start(t)
	a, b := theirs.Raw(), our.Raw()
	all := rules{}
	for _, rung := range ladder {
		rung.rule(&all)
	}
	for _, speed := range []struct {
		name          string
		count, period int64
	}{
		{"up to 100 a second", 100, 1},
		{"1,000 a second", 1000, 1},
		{"5,000 a second", 5000, 1},
		{"30 a minute", 30, 60},
	} {
		made, equal, split, limited := 0, 0, 0, 0
		for key := 0; made < calls/4; key++ {
			n := numbers{r.Int64N(10), 1 + r.Int64N(speed.count), speed.period, 0}
			if speed.count >= 1000 {
				n.count = speed.count
			}
			for range 200 {
				n.quantity = []int64{1, 1, 1, 2, 0}[r.IntN(5)]
				name := fmt.Sprint(speed.name, key)
				x, y := watch(t, a, name, n), watch(t, b, name, n)
				require.True(t, x.explainedBy(all), "not what is known of redis-cell: %+v", x)
				require.True(t, y.explainedBy(rules{}), "not what is known of this module: %+v", y)
				made++
				limited += int(x.answer.limited)
				if x.answer == y.answer {
					equal++
				}
				if x.answer.limited != y.answer.limited {
					split++
				}
			}
		}
		t.Logf("%-20s %6d calls, %5.1f %% limited; %5.1f %% of the replies are the same, and all but %d of the decisions (%.2f %%)",
			speed.name, made, 100*float64(limited)/float64(made), 100*float64(equal)/float64(made), split, 100*float64(split)/float64(made))
	}
}

// watched is one call, with what surrounds it: it was decided between the instants from and to.
type watched struct {
	numbers
	answer
	before   state
	from, to int64
}

func watch(t *testing.T, c *resp.Conn, key string, n numbers) watched {
	t.Helper()
	words := []string{"CL.THROTTLE", key, fmt.Sprint(n.maxBurst), fmt.Sprint(n.count), fmt.Sprint(n.period), fmt.Sprint(n.quantity)}
	before, err := c.Pipeline([]string{"GET", key}, []string{"TIME"})
	require.NoError(t, err)
	after, err := c.Pipeline(words, []string{"TIME"})
	require.NoError(t, err)
	ints, err := after[0].Ints()
	require.NoError(t, err)
	w := watched{numbers: n, from: kit.TimeIn(t, before[1]), to: kit.TimeIn(t, after[1]) + 999}
	w.answer = answer{ints[0], ints[1], ints[2], ints[3], ints[4], false}
	w.before.tat, w.before.exists = tatOf(t, before[0])
	w.before.expiresMs = w.to // not gone; explainedBy looks at that
	return w
}

// explainedBy says whether the reply is the one of these rules at an instant between from and to. All in a reply
// changes one way with time while the decision stays, so it is looked at where they begin, end and turn.
func (w watched) explainedBy(r rules) bool {
	states := []state{w.before}
	if w.before.exists && int64(w.before.tat) < w.to+int64(2*time.Millisecond) {
		states = append(states, state{}) // it may have expired in between
	}
	interval, _ := emissionInterval(w.numbers, r.fastInterval)
	for _, s := range states {
		turn := int64(s.tat) + interval*w.quantity - interval*(w.maxBurst+1)
		var low, high *answer
		for _, now := range []int64{w.from - int64(kit.ClockSkew), turn - 1, turn, w.to + int64(kit.ClockSkew)} {
			if now < w.from-int64(kit.ClockSkew) || now > w.to+int64(kit.ClockSkew) {
				continue
			}
			a := r.decide(w.numbers, s, now)
			if a.limited != w.limited {
				continue
			}
			if low == nil {
				low, high = &answer{}, &answer{}
				*low, *high = a, a
			}
			low.remaining, high.remaining = min(low.remaining, a.remaining), max(high.remaining, a.remaining)
			low.retryAfter, high.retryAfter = min(low.retryAfter, a.retryAfter), max(high.retryAfter, a.retryAfter)
			low.resetAfter, high.resetAfter = min(low.resetAfter, a.resetAfter), max(high.resetAfter, a.resetAfter)
		}
		if low != nil && low.limit == w.limit && low.remaining <= w.remaining && w.remaining <= high.remaining &&
			low.retryAfter <= w.retryAfter && w.retryAfter <= high.retryAfter &&
			low.resetAfter <= w.resetAfter && w.resetAfter <= high.resetAfter {
			return true
		}
	}
	return false
}
