// What a stack is compared with: package naive, a model that was written from the documentation alone.
package stack_test

import (
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/civil"
	"redis-throttle/internal/naive"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/stack"
)

// spec is a limit in the words of a command. The capacity is that of a rate. Of a calendar's
// windows, periodNs is a length that none exceeds.
type spec struct {
	kind                      stack.Kind
	count, periodNs, capacity int64
	terms                     stack.Terms
	calendar                  *civil.Windows
}

// plain is the limit without what a call says of it.
func (s spec) plain() spec {
	s.terms = stack.Terms{}
	return s
}

func (s spec) limit(t require.TestingT) stack.Limit {
	var limit stack.Limit
	var err error
	switch s.kind {
	case stack.Rate:
		limit, err = stack.NewRate(s.count, s.periodNs, time.Nanosecond, s.capacity)
	case stack.Window:
		limit, err = stack.NewWindow(s.count, s.periodNs, time.Nanosecond)
	case stack.First:
		limit, err = stack.NewFirst(s.count, s.periodNs, time.Nanosecond)
	default:
		limit, err = stack.NewFixedIn(s.windows(t), s.count)
	}
	if err != nil {
		require.NoError(t, err, "%+v", s)
	}
	return limit.With(s.terms)
}

// windows divides time as a FIXED without FIRST does.
func (s spec) windows(t require.TestingT) calendar.Spec {
	if s.calendar != nil {
		return windowsOf(t, s.calendar)
	}
	windows, err := calendar.Every(s.periodNs, time.Nanosecond, 0)
	require.NoError(t, err)
	return windows
}

func windowsOf(t require.TestingT, c *civil.Windows) calendar.Spec {
	zone, err := calendar.LookupZone([]byte(c.Zone))
	require.NoError(t, err)
	unit := map[string]calendar.Unit{"d": calendar.Day, "w": calendar.Week, "mo": calendar.Month, "y": calendar.Year}[c.Unit]
	windows, err := calendar.Calendar(c.N, unit, zone, int64(c.Offset))
	require.NoError(t, err)
	return windows
}

// number returns the number of the fixed window that an instant lies in.
func (s spec) number(at int64) int64 {
	if s.calendar != nil {
		return s.calendar.At(at).Number
	}
	return at / s.periodNs
}

// holds is the number of units there are when nothing is taken.
func (s spec) holds() int64 {
	if s.kind == stack.Rate {
		return s.capacity
	}
	return s.count
}

// unitNs is the time in which a rate puts one unit back.
func (s spec) unitNs() int64 {
	if s.count == 0 {
		return s.periodNs
	}
	ns := s.periodNs / s.count
	for ns*s.count < s.periodNs {
		ns++
	}
	return ns
}

// event is units granted at an instant.
type event struct{ at, units int64 }

const forever = int64(math.MaxInt64)

// naive is the limit as the model has it.
func (s spec) naive() naive.Limit {
	kind := map[stack.Kind]naive.Kind{stack.Rate: naive.Rate, stack.Window: naive.Window, stack.Fixed: naive.Fixed, stack.First: naive.First}[s.kind]
	return naive.Limit{Kind: kind, Count: s.count, Period: time.Duration(s.periodNs), Burst: s.capacity, Calendar: s.calendar}
}

// inModel are limits and their terms as the model has them.
func inModel(specs []spec) (limits []naive.Limit, terms []naive.Terms) {
	for _, s := range specs {
		limits = append(limits, s.naive())
		terms = append(terms, naive.Terms{Take: s.terms.Take, HasTake: s.terms.HasTake, Spare: s.terms.Spare, Shadow: s.terms.Shadow})
	}
	return limits, terms
}

// reference is a key in the model.
type reference struct{ model *naive.Model }

func newReference() *reference { return &reference{naive.Lasting()} }

func (r *reference) clone() *reference { return &reference{r.model.Clone()} }

// holds says whether the key exists.
func (r *reference) holds() bool { return r.model.Holds() }

func (r *reference) fullAt() int64 { return r.model.FullAt() }

// open is what the key holds of each limit.
func (r *reference) open(specs []spec) []*naive.Alone {
	limits, _ := inModel(specs)
	return r.model.Of(limits)
}

// answered is a reply of the model as a stack has it.
func answered(r naive.Reply, changed bool) stack.Result {
	return stack.Result{
		Limited: r.Limited == 1, Rule: int(r.Rule) - 1, Limit: r.Limit, Remaining: r.Remaining, RetryAfterNs: r.RetryAfter.Int64(),
		ResetAfterNs: r.ResetAfter.Int64(), NextAfterNs: r.NextAfter.Int64(), Granted: r.Granted, WaitNs: r.Wait.Int64(),
		Shadow: int(r.Shadow), Changed: changed,
	}
}

// wrote tells which of several keys a call has written.
func wrote(keys []*reference, call func() naive.Reply) (result stack.Result, changed []bool) {
	before := make([]int, len(keys))
	for i, r := range keys {
		before[i] = r.model.Writes()
	}
	reply := call()
	for i, r := range keys {
		changed = append(changed, r.model.Writes() > before[i])
	}
	return answered(reply, slices.Contains(changed, true)), changed
}

// takeAll asks the limits of several keys, and tells which keys it changed.
func takeAll(keys []*reference, specs [][]spec, r stack.Request, nowNs int64) (result stack.Result, changed []bool) {
	var calls []naive.Call
	for i, key := range keys {
		limits, terms := inModel(specs[i])
		calls = append(calls, naive.Call{Model: key.model, Limits: limits, Terms: terms})
	}
	o := naive.Options{Cost: r.Cost, UpTo: r.UpTo, Strict: r.Strict, Force: r.Force, MaxWait: time.Duration(r.MaxWaitNs)}
	return wrote(keys, func() naive.Reply { return naive.TakeAll(nowNs, calls, o) })
}

func (r *reference) take(specs []spec, request stack.Request, nowNs int64) stack.Result {
	result, _ := takeAll([]*reference{r}, [][]spec{specs}, request, nowNs)
	return result
}

func (r *reference) peek(specs []spec, cost, nowNs int64) stack.Result {
	limits, terms := inModel(specs)
	return answered(r.model.Peek(nowNs, limits, cost, terms...), false)
}

func (r *reference) refund(specs []spec, cost, nowNs int64) stack.Result {
	limits, terms := inModel(specs)
	result, _ := wrote([]*reference{r}, func() naive.Reply { return r.model.Refund(nowNs, limits, cost, terms...) })
	return result
}
