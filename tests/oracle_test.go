package tests

import (
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
)

// limit is a rate limit as the oracle sees it: the model of the documentation, so that the module is not
// judged by its own code.
type limit struct {
	naive.Limit
	capacity  int64
	emission  int64 // ns, rounded up
	tolerance int64 // ns
}

func limitOf(maxBurst, count int64, period time.Duration) limit {
	l := naive.Limit{Kind: naive.Rate, Count: count, Period: period, Burst: maxBurst + 1}
	empty := l.Alone()
	empty.Charge(0, maxBurst+1, 0)
	_, _, toleranceNs, emissionNs := empty.Standing(0)
	return limit{l, maxBurst + 1, emissionNs, toleranceNs}
}

// clockSkew is by how much the processors' clocks may differ: a virtual machine's do, by
// microseconds, and a server may move between two readings of the time.
const clockSkew = 10 * time.Microsecond

// probe is one CL.THROTTLE on a key that nobody else uses, with what surrounds it.
type probe struct {
	answer
	// The call was decided at an instant from..to by the server's clock, in ns. That
	// instant is all a test cannot know.
	from, to int64
	// The key's value before and after the call; 0 for none.
	tatBefore, tatAfter int64
}

// probes sends the same CL.THROTTLE n times in one pipeline. The server's TIME is
// asked around each call, so that neither the network nor a busy machine widens
// what is known of when it was decided.
func probes(t tester, c *resp.Conn, n int, key, args string) []probe {
	t.Helper()
	get, clock := []string{"GET", key}, []string{"TIME"}
	commands := [][]string{get}
	for range n {
		commands = append(commands, clock, rawCallOf(key, args), get, clock)
	}
	replies, err := c.Pipeline(commands...)
	require.NoError(t, err)
	tat := tatIn(t, replies[0])
	result := make([]probe, n)
	for i := range result {
		four := replies[1+4*i:]
		p := &result[i]
		p.from = timeIn(t, four[0]) - int64(clockSkew)
		p.answer, err = answerIn(four[1])
		require.NoError(t, err, "CL.THROTTLE %s %s", key, args)
		p.tatBefore, tat = tat, tatIn(t, four[2])
		p.tatAfter = tat
		p.to = timeIn(t, four[3]) + 999 + int64(clockSkew) // TIME cuts off the nanoseconds
	}
	return result
}

// tatIn is the TAT in GET's reply. A key that expired between two commands reads as
// none, which is what its TAT, in the past, says as well.
func tatIn(t tester, v resp.Value) int64 {
	t.Helper()
	if v.IsNull {
		return 0
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	require.NoError(t, err, "value %v", v)
	return n
}

// judge fails the test unless the probe is what the limit demands at some instant
// between from and to.
func (l limit) judge(t tester, p probe, quantity int64) {
	t.Helper()
	if p.tatAfter == 0 && p.tatBefore <= p.to {
		p.tatBefore = 0 // expired meanwhile, being in the past
	}
	// All that depends on the instant does so monotonically, so its two ends bound it.
	early, late := l.decide(p.tatBefore, p.from, quantity), l.decide(p.tatBefore, p.to, quantity)
	want := late
	if p.Limited == 1 {
		want = early
	}
	require.Equal(t, want.Limited, p.Limited, "limited\nearly %+v\nlate  %+v\nprobe %+v", early, late, p)
	if early.Limited != late.Limited {
		// The instant of the change is known to the ns; place the other end there.
		turn := p.tatBefore + quantity*l.emission - l.tolerance
		if p.Limited == 1 {
			late = l.decide(p.tatBefore, turn-1, quantity)
		} else {
			early = l.decide(p.tatBefore, turn, quantity)
		}
	}
	between(t, early.Limit, p.Limit, late.Limit, "limit", p)
	between(t, early.Remaining, p.Remaining, late.Remaining, "remaining", p)
	between(t, late.RetryAfter, p.RetryAfter, early.RetryAfter, "retry after", p)
	between(t, late.ResetAfter, p.ResetAfter, early.ResetAfter, "reset after", p)
	if p.tatAfter == 0 && early.tatAfter <= p.to {
		return // the key had expired when it was read
	}
	between(t, early.tatAfter, p.tatAfter, late.tatAfter, "TAT", p)
}

func between(t tester, low, have, high int64, what string, p probe) {
	t.Helper()
	if have < low || have > high {
		require.Failf(t, what+" is wrong", "%d is not in %d..%d\nprobe %+v", have, low, high, p)
	}
}

// decide is what a call at one instant must come to.
func (l limit) decide(tat, now, quantity int64) probe {
	model := l.FullAt(uint64(tat))
	reply, stored := model.Throttle(now, quantity)
	p := probe{tatBefore: tat, tatAfter: tat}
	five := reply.Throttle()
	p.Limited, p.Limit, p.Remaining, p.RetryAfter, p.ResetAfter = five[0], five[1], five[2], five[3], five[4]
	if stored {
		p.tatAfter = now + reply.ResetAfter.Int64()
	}
	return p
}

func ceilSeconds(ns int64) int64 {
	return (ns + int64(time.Second) - 1) / int64(time.Second)
}
