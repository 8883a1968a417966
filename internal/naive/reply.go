package naive

import "time"

// Reply is what the commands answer. Lengths of time are in ns, to be rounded up to what a command
// shows, and may be longer than an int64 holds ns.
type Reply struct {
	Limited, Rule, Limit, Remaining int64
	RetryAfter                      Nanoseconds // -1 for none
	ResetAfter, NextAfter           Nanoseconds
	Granted, Shadow                 int64
	Wait                            Nanoseconds
	Key                             int64 // of CL.MLIMIT
	counts                          bool  // a denial that is counted, and not the last of those that it takes for a ban
}

// Nanoseconds is a length of time, which an int64 may be too small for.
type Nanoseconds = number

// Fields are the ten numbers of CL.LIMIT, CL.PEEK and CL.REFUND, in their order.
func (r Reply) Fields() [10]int64 {
	return [10]int64{r.Limited, r.Rule, r.Limit, r.Remaining, rounded(r.RetryAfter, millisecond),
		rounded(r.ResetAfter, millisecond), rounded(r.NextAfter, millisecond), r.Granted,
		rounded(r.Wait, millisecond), r.Shadow}
}

// Counts says that the call was denied, and that the key counts this, without a ban yet.
func (r Reply) Counts() bool { return r.counts }

// FieldsOfKeys are the eleven numbers of CL.MLIMIT, in their order.
func (r Reply) FieldsOfKeys() (fields [11]int64) {
	ten := r.Fields()
	copy(fields[:], ten[:])
	fields[10] = r.Key
	return fields
}

// Throttle are the five numbers of CL.THROTTLE, in their order.
func (r Reply) Throttle() [5]int64 {
	return [5]int64{r.Limited, r.Limit, r.Remaining, rounded(r.RetryAfter, second), rounded(r.ResetAfter, second)}
}

const (
	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
)

func rounded(ns number, unit int64) int64 {
	if ns.is(none) {
		return -1
	}
	return ns.overUp(n(unit)).Int64()
}

// none is RetryAfter where there is nothing to wait for, or no use in it.
var none = n(-1)

// describe fills in what a reply says of the rule.
func describe(now number, parties []party, rule int) Reply {
	s := parties[rule]
	left, next, full := s.have(now), zero, s.fullIn(now)
	switch most := s.capacity().minus(n(s.Spare)); {
	case !most.positive():
		full = zero // it has all that it can ever have
	case left.less(most):
		next = s.wait(now, left.plus(n(s.Spare)).plus(n(1)))
	}
	return Reply{
		Rule: int64(rule + 1), Limit: s.capacity().Int64(), Remaining: left.Int64(),
		RetryAfter: none, ResetAfter: full, NextAfter: next, Wait: zero,
	}
}
