package kit

import (
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
)

// Limit is a rate limit as the oracle sees it: the model of the documentation, so that the module is not
// judged by its own code.
type Limit struct {
	naive.Limit
	Capacity  int64
	Emission  int64 // ns, rounded up
	Tolerance int64 // ns
}

// LimitOf is the limit of CL.THROTTLE with these arguments.
func LimitOf(maxBurst, count int64, period time.Duration) Limit {
	l := naive.Limit{Kind: naive.Rate, Count: count, Period: period, Burst: maxBurst + 1}
	empty := l.Alone()
	empty.Charge(0, maxBurst+1, 0)
	_, _, toleranceNs, emissionNs := empty.Standing(0)
	return Limit{l, maxBurst + 1, emissionNs, toleranceNs}
}

// Probe is one CL.THROTTLE on a key that nobody else uses, with what surrounds it.
type Probe struct {
	Answer
	// The call was decided at an instant from..to by the server's clock, in ns. That
	// instant is all a test cannot know.
	From, To int64
	// The key's value before and after the call; 0 for none.
	TATBefore, TATAfter int64
}

// Probes sends the same CL.THROTTLE n times in one pipeline. The server's TIME is
// asked around each call, so that neither the network nor a busy machine widens
// what is known of when it was decided.
func Probes(t Tester, c *resp.Conn, n int, key, args string) []Probe {
	t.Helper()
	get, clock := []string{"GET", key}, []string{"TIME"}
	commands := [][]string{get}
	for range n {
		commands = append(commands, clock, RawCallOf(key, args), get, clock)
	}
	replies, err := c.Pipeline(commands...)
	require.NoError(t, err)
	tat := TATIn(t, replies[0])
	result := make([]Probe, n)
	for i := range result {
		four := replies[1+4*i:]
		p := &result[i]
		p.From = TimeIn(t, four[0]) - int64(ClockSkew)
		p.Answer, err = AnswerIn(four[1])
		require.NoError(t, err, "CL.THROTTLE %s %s", key, args)
		p.TATBefore, tat = tat, TATIn(t, four[2])
		p.TATAfter = tat
		p.To = TimeIn(t, four[3]) + 999 + int64(ClockSkew) // TIME cuts off the nanoseconds
	}
	return result
}

// TATIn is the TAT in GET's reply. A key that expired between two commands reads as
// none, which is what its TAT, in the past, says as well.
func TATIn(t Tester, v resp.Value) int64 {
	t.Helper()
	if v.IsNull {
		return 0
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	require.NoError(t, err, "value %v", v)
	return n
}

// Judge fails the test unless the probe is what the limit demands at some instant
// between from and to.
func (l Limit) Judge(t Tester, p Probe, quantity int64) {
	t.Helper()
	if p.TATAfter == 0 && p.TATBefore <= p.To {
		p.TATBefore = 0 // expired meanwhile, being in the past
	}
	// All that depends on the instant does so monotonically, so its two ends bound it.
	early, late := l.Decide(p.TATBefore, p.From, quantity), l.Decide(p.TATBefore, p.To, quantity)
	want := late
	if p.Limited == 1 {
		want = early
	}
	require.Equal(t, want.Limited, p.Limited, "limited\nearly %+v\nlate  %+v\nprobe %+v", early, late, p)
	if early.Limited != late.Limited {
		// The instant of the change is known to the ns; place the other end there.
		turn := p.TATBefore + quantity*l.Emission - l.Tolerance
		if p.Limited == 1 {
			late = l.Decide(p.TATBefore, turn-1, quantity)
		} else {
			early = l.Decide(p.TATBefore, turn, quantity)
		}
	}
	between(t, early.Limit, p.Limit, late.Limit, "limit", p)
	between(t, early.Remaining, p.Remaining, late.Remaining, "remaining", p)
	between(t, late.RetryAfter, p.RetryAfter, early.RetryAfter, "retry after", p)
	between(t, late.ResetAfter, p.ResetAfter, early.ResetAfter, "reset after", p)
	if p.TATAfter == 0 && early.TATAfter <= p.To {
		return // the key had expired when it was read
	}
	between(t, early.TATAfter, p.TATAfter, late.TATAfter, "TAT", p)
}

func between(t Tester, low, have, high int64, what string, p Probe) {
	t.Helper()
	if have < low || have > high {
		require.Failf(t, what+" is wrong", "%d is not in %d..%d\nprobe %+v", have, low, high, p)
	}
}

// Decide is what a call at one instant must come to.
func (l Limit) Decide(tat, now, quantity int64) Probe {
	model := l.FullAt(uint64(tat))
	reply, stored := model.Throttle(now, quantity)
	p := Probe{TATBefore: tat, TATAfter: tat}
	five := reply.Throttle()
	p.Limited, p.Limit, p.Remaining, p.RetryAfter, p.ResetAfter = five[0], five[1], five[2], five[3], five[4]
	if stored {
		p.TATAfter = now + reply.ResetAfter.Int64()
	}
	return p
}
