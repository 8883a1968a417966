// README promises that a caller that waits as long as it is told is let through. Here random callers do
// that, whatever stands in the way: limits, bans, other keys, debts, reservations.
package command

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/stack"
)

// retryRun is a few keys, each with the limits that every call on it has.
type retryRun struct {
	*rand.Rand
	now    int64
	values []string
	limits []string
	seen   map[string]int
}

func (r *retryRun) one(words ...string) string { return words[r.IntN(len(words))] }

func (r *retryRun) draw() {
	r.now = nowNs + r.Int64N(86400*nsPerSecond)
	keys := 1 + r.IntN(3)
	r.values, r.limits = make([]string, keys), make([]string, keys)
	rates := r.IntN(2) == 0 // the only kind that slots are reserved of
	for i := range r.limits {
		for range 1 + r.IntN(3)*r.IntN(2) {
			limit := r.one("RATE 5/s", "RATE 2/m BURST 3", "RATE 7/h", "RATE 3/10s BURST 1")
			if !rates {
				limit = r.one(limit, "WINDOW 4/m", "WINDOW 2/7s", "FIXED 1/d", "FIXED 9/m", "FIXED 3/m FIRST", "FIXED 2/w TZ Europe/Berlin")
			}
			r.limits[i] += " " + limit + r.one("", "", "", " TAKE 2", " SPARE 1", " SHADOW")
		}
	}
}

// throttled is what CL.THROTTLE calls a limit.
var throttled = map[string]string{" RATE 5/s": "k 4 5 1", " RATE 2/m BURST 3": "k 2 2 60", " RATE 7/h": "k 6 7 3600", " RATE 3/10s BURST 1": "k 0 3 10"}

// call makes up a command on some of the keys, the first of which are asked. Its options may leave it to a
// limited call to change something.
func (r *retryRun) call() (cmd *Command, line string) {
	cost := r.one("", " COST 2", " COST 3", " COST 0", " COST 9")
	options := r.one("", "", "", " STRICT", " FORCE", " BAN 1s", " BAN 90s", " STRICT BAN 20s")
	joined := strings.Join(r.limits, "")
	if !strings.Contains(joined, "FIXED") && !strings.Contains(joined, "WINDOW") {
		options = r.one(options, " MAXWAIT 10s", " MAXWAIT 1h")
	}
	if !strings.Contains(joined, "TAKE") {
		options = r.one(options, options, options, " UPTO")
	}
	if len(r.values) > 1 && r.IntN(2) == 0 {
		if !strings.Contains(options, "STRICT") && !strings.Contains(options, "BAN") {
			options = r.one(options, options+" ANY")
		}
		return MLimit, fmt.Sprintf("%d %s%s%s%s", len(r.values), strings.Join([]string{"a", "b", "c"}[:len(r.values)], " "), strings.Join(r.limits, " NEXT"), cost, options)
	}
	switch r.IntN(8) {
	case 0:
		return Peek, "k" + r.limits[0] + cost
	case 1:
		if same, ok := throttled[r.limits[0]]; ok {
			return Throttle, same + r.one("", " 0", " 2", " 4")
		}
	case 2:
		if !strings.Contains(r.limits[0], "SHADOW") {
			return Wait, "k" + r.limits[0] + cost + " TIMEOUT 1s"
		}
	}
	return Limit, "k" + r.limits[0] + cost + options
}

// run runs a command at an instant, and returns what the keys hold then.
func (r *retryRun) run(cmd *Command, line string, now int64) (c *Call, values []string) {
	values = slices.Clone(r.values)
	if cmd == MLimit {
		c = many(values, line)
	} else {
		c = call(line)
		c.First.Kind, c.First.Value = String, []byte(values[0])
		if values[0] == "" {
			c.First.Kind = Absent
		}
	}
	c.NowNs = now
	c.Run(cmd)
	keys := c.Keys
	if cmd != MLimit {
		keys = []Key{*c.First}
	}
	for i := range keys {
		values[i] = keys[i].leaves(values[i])
	}
	return c, values
}

func TestACallerThatWaitsAsToldIsLetThrough(t *testing.T) {
	r := &retryRun{Rand: chance.New(t), seen: map[string]int{}}
	const calls = 20_000
	for n := 0; n < calls; n++ {
		if n%40 == 0 {
			r.draw()
		}
		r.now += r.Int64N(1 + []int64{0, nsPerSecond, 20 * nsPerSecond, 3600 * nsPerSecond}[r.IntN(4)])
		cmd, line := r.call()
		if r.IntN(12) == 0 {
			cmd, line = Ban, "k "+r.one("1ms", "700ms", "30s", "2h", "0")
		}
		c, values := r.run(cmd, line, r.now)
		r.values = values
		if cmd == Ban || c.Reply == ReplyError { // such as CL.THROTTLE on what is no single rate
			continue
		}
		r.check(t, c, cmd, line)
	}
	for _, what := range []string{"limited", "never", "banned", "banned for longer than the ban", "never, though the ban ends", "ANY and FORCE", "CL.THROTTLE", "CL.PEEK", "CL.WAIT", "CL.MLIMIT"} {
		assert.Greater(t, r.seen[what], calls/2000, what)
	}
}

// check repeats a call that was limited when it was told to, and just before.
func (r *retryRun) check(t *testing.T, c *Call, cmd *Command, line string) {
	limited, rule, retry, unit := c.Integers[0], int64(-1), int64(0), ms
	if cmd == Throttle {
		retry, unit = c.Integers[3], nsPerSecond
	} else {
		rule, retry = c.Integers[1], c.Integers[4]
	}
	if limited == 0 {
		require.Equal(t, stack.Never, retry)
		return
	}
	r.seen["limited"]++
	r.seen[cmd.Name]++
	if strings.Contains(line, "ANY") && strings.Contains(line, "FORCE") {
		r.seen["ANY and FORCE"]++
	}
	if rule == 0 {
		r.seen["banned"]++
		if retry > c.Integers[5] {
			r.seen["banned for longer than the ban"]++
		}
	}
	answer := slices.Clone(c.Integers)
	again := func(after int64) int64 {
		c, _ := r.run(cmd, line, r.now+after)
		return c.Integers[0]
	}
	if retry == stack.Never {
		r.seen["never"]++
		if rule == 0 {
			r.seen["never, though the ban ends"]++
		}
		require.EqualValues(t, 1, again(3650*86400*nsPerSecond), "%s of %q at %d: %v", line, r.values, r.now, answer)
		return
	}
	require.Positive(t, retry, "a caller that obeys would spin: %s of %q at %d: %v", line, r.values, r.now, answer)
	require.EqualValues(t, 0, again(retry*unit), "%s %s of %q at %d: %v", cmd.Name, line, r.values, r.now, answer)
	require.EqualValues(t, 1, again((retry-1)*unit), "%s %s of %q at %d: %v", cmd.Name, line, r.values, r.now, answer)
}
