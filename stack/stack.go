package stack

import (
	"math"

	"redis-throttle/gcra"
)

// Never is the retry after of a request that no amount of waiting makes possible, or
// that was let through.
const Never = int64(-1)

// Stack is the limits of one call and what is kept of each. It is large (some 10 KB)
// and meant to be used again: Reset, Add, Decode, then one of Take, Peek and Refund. It must
// not be copied, since it points into itself.
type Stack struct {
	places [MaxLimits]place
	n      int
	// spare takes what a value keeps of limits that the stack does not have. Nobody looks
	// at it.
	spare place
}

// Request is what is asked of all limits at once.
type Request struct {
	Cost      int64 // units; 0 asks for nothing
	UpTo      bool  // take what fits of Cost; limited unless there is at least one unit
	Strict    bool  // take the cost of a denied request too, as far as it is there
	MaxWaitNs int64 // let through a request that waits up to this long; rates only
}

// Result is how a request went, and how things stand after it with the limit that
// decided.
type Result struct {
	Limited bool
	// Rule is the index of the deciding limit. Of a limited request it is the one
	// with the longest wait, Never being the longest; otherwise the one with the
	// fewest units left. Of several, the first.
	Rule         int
	Limit        int64 // the rule's capacity or count
	Remaining    int64 // units the rule has left
	RetryAfterNs int64 // until this same request succeeds if nobody else asks, or Never
	ResetAfterNs int64 // until the rule is full
	NextAfterNs  int64 // until the rule has a unit more, 0 when it is full
	Granted      int64 // units charged; negative, units given back
	WaitNs       int64 // how long the request has to be held
	// Changed says that the stack's state has to be stored.
	Changed bool
}

// Reset empties the stack.
func (s *Stack) Reset() { s.n = 0 }

// Len is the number of limits.
func (s *Stack) Len() int { return s.n }

// FirstCapacity is the capacity or count of the first limit, of which there must be one.
func (s *Stack) FirstCapacity() int64 {
	capacity, _, _, _ := s.places[0].Standing(0)
	return capacity
}

// Add puts a limit that was never used at the end. It returns false when the stack
// is full.
func (s *Stack) Add(limit Limit) bool {
	if s.n == MaxLimits {
		return false
	}
	s.places[s.n].set(&limit)
	s.n++
	return true
}

// RatesOnly reports whether all limits are rates.
func (s *Stack) RatesOnly() bool {
	for i := range s.n {
		if s.places[i].kind != Rate {
			return false
		}
	}
	return true
}

// Take asks every limit for r.Cost units at nowNs. Either all are charged or none.
func (s *Stack) Take(r Request, nowNs int64) Result {
	corrected := s.settle(nowNs)
	cost, needed := r.Cost, r.Cost
	if r.UpTo {
		cost = s.grantable(cost, nowNs)
		needed = max(cost, 1) // also for a request of nothing
	}
	rule, waitNs := s.wait(needed, nowNs)
	longestNs := s.longestWait(r.MaxWaitNs)
	var result Result
	if waitNs >= 0 && waitNs <= longestNs {
		s.charge(cost, waitNs, nowNs)
		result = Result{Rule: s.tightest(nowNs), RetryAfterNs: Never, Granted: cost, WaitNs: waitNs, Changed: cost > 0}
	} else {
		result = Result{Limited: true, Rule: rule, Changed: corrected && r.Cost > 0}
		if r.Strict && r.Cost > 0 {
			result.Changed = s.chargeDenied(r.Cost, nowNs) || corrected
			result.Rule, waitNs = s.wait(needed, nowNs)
		}
		result.RetryAfterNs = waitNs
		if waitNs > longestNs {
			result.RetryAfterNs -= longestNs
		}
	}
	s.describe(&result, nowNs)
	return result
}

// Peek tells what Take would answer to cost units, and charges nothing: the units
// that remain are those before the request.
func (s *Stack) Peek(cost, nowNs int64) Result {
	s.settle(nowNs)
	rule, waitNs := s.wait(cost, nowNs)
	result := Result{Limited: waitNs != 0, Rule: rule, RetryAfterNs: waitNs}
	if !result.Limited {
		result.Rule, result.RetryAfterNs = s.tightest(nowNs), Never
	}
	s.describe(&result, nowNs)
	return result
}

// Refund gives cost units back to every limit, none of which gets fuller than full.
// Granted is what the rule took back, as a negative number.
func (s *Stack) Refund(cost, nowNs int64) Result {
	changed := s.settle(nowNs) && cost > 0
	var refunded [MaxLimits]int64
	for i := range s.n {
		refunded[i] = s.places[i].Refund(nowNs, cost)
		changed = changed || refunded[i] > 0
	}
	rule := s.tightest(nowNs)
	result := Result{Rule: rule, RetryAfterNs: Never, Granted: -refunded[rule], Changed: changed}
	s.describe(&result, nowNs)
	return result
}

// ExpireAt is the instant from which all limits are full, 0 when they are: the state
// then equals none.
func (s *Stack) ExpireAt() uint64 {
	var latest uint64
	for i := range s.n {
		latest = max(latest, s.places[i].ExpireAt())
	}
	return latest
}

// settle brings all states to nowNs and reports whether one was corrected, which has
// to be stored even if the request is denied.
func (s *Stack) settle(nowNs int64) (corrected bool) {
	for i := range s.n {
		if s.places[i].Settle(nowNs) {
			corrected = true
		}
	}
	return corrected
}

// grantable is how much of cost every limit has, but at least one unit of a cost
// that is not zero.
func (s *Stack) grantable(cost, nowNs int64) int64 {
	least := cost
	for i := range s.n {
		least = min(least, s.places[i].Available(nowNs))
	}
	return max(least, min(cost, 1))
}

// wait is the longest time until a limit has cost units, or Never, and which limit's
// that is.
func (s *Stack) wait(cost, nowNs int64) (rule int, ns int64) {
	for i := range s.n {
		retryNs := s.places[i].RetryAfter(nowNs, cost)
		if retryNs < 0 {
			return i, Never
		}
		if retryNs > ns {
			rule, ns = i, retryNs
		}
	}
	return rule, ns
}

// longestWait is maxWaitNs, or less where a limit cannot be charged for so late.
func (s *Stack) longestWait(maxWaitNs int64) int64 {
	for i := 0; i < s.n && maxWaitNs > 0; i++ {
		maxWaitNs = min(maxWaitNs, s.places[i].LongestWait())
	}
	return maxWaitNs
}

func (s *Stack) charge(cost, waitNs, nowNs int64) {
	if cost == 0 {
		return
	}
	for i := range s.n {
		s.places[i].Charge(nowNs, cost, waitNs)
	}
}

func (s *Stack) chargeDenied(cost, nowNs int64) (changed bool) {
	for i := range s.n {
		if s.places[i].ChargeDenied(nowNs, cost) {
			changed = true
		}
	}
	return changed
}

// tightest is the limit with the fewest units left.
func (s *Stack) tightest(nowNs int64) (rule int) {
	if s.n == 1 {
		return 0
	}
	least := int64(math.MaxInt64)
	for i := range s.n {
		if available := s.places[i].Available(nowNs); available < least {
			rule, least = i, available
		}
	}
	return rule
}

func (s *Stack) describe(r *Result, nowNs int64) {
	r.Limit, r.Remaining, r.ResetAfterNs, r.NextAfterNs = s.places[r.Rule].Standing(nowNs)
}

// Limits appends the stack's limits to dst.
func (s *Stack) Limits(dst []Limit) []Limit {
	for i := range s.n {
		dst = append(dst, s.places[i].limit())
	}
	return dst
}

// Load makes limits the stack's, all full. There must be at most MaxLimits.
func (s *Stack) Load(limits []Limit) {
	s.n = len(limits)
	for i := range limits {
		s.places[i].set(&limits[i])
	}
}

// Rates appends the state of every rate at nowNs to dst. A stack of rates only is restored by
// SetRates.
func (s *Stack) Rates(dst []gcra.State, nowNs int64) []gcra.State {
	for i := range s.n {
		rate := s.places[i].rate.State
		s.places[i].rate.Limit.Settle(&rate, nowNs)
		dst = append(dst, rate)
	}
	return dst
}

// SetRates makes the states of a stack of rates what they were, as if that had been written at
// nowNs.
func (s *Stack) SetRates(rates []gcra.State, nowNs int64) {
	for i, rate := range rates {
		bucket := &s.places[i].rate
		bucket.Limit.Restore(&bucket.State, rate, nowNs)
	}
}

// FullWith reports whether each rate is full at the same instant as in rates.
func (s *Stack) FullWith(rates []gcra.State) bool {
	for i := range s.n {
		if s.places[i].rate.State.TAT != rates[i].TAT {
			return false
		}
	}
	return true
}
