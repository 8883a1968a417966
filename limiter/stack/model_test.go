// Every answer compared with a model that is written from the documentation alone, in numbers of any size.
package stack_test

import (
	"flag"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/civil"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/stack"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	m.Run()
}

// steps is how many random steps a test makes.
func steps(n int) int { return size.Of(n/20, n) }

// key is a key of the database and the commands on it: what they answer, and the bytes
// they leave. There are no bytes when there is no key.
type key struct {
	t     require.TestingT
	value []byte
	s     stack.Stack
}

func (k *key) call(limits []stack.Limit, nowNs int64, decide func(*stack.Stack) stack.Result) stack.Result {
	k.s.Load(limits)
	if k.value != nil {
		if err := k.s.Decode(k.value); err != nil {
			require.NoError(k.t, err, "%x", k.value)
		}
	}
	result := decide(&k.s)
	if result.Changed {
		k.value = nil
		if k.s.ExpireAt(nowNs) > uint64(nowNs) || k.s.KeepsCalendar() {
			k.value = k.s.Append(nil)
			if len(k.value) > stack.MaxEncodedLen {
				require.LessOrEqual(k.t, len(k.value), stack.MaxEncodedLen)
			}
		}
	}
	return result
}

func (k *key) take(limits []stack.Limit, r stack.Request, nowNs int64) stack.Result {
	return k.call(limits, nowNs, func(s *stack.Stack) stack.Result { return s.Take(r, nowNs) })
}

func (k *key) peek(limits []stack.Limit, cost, nowNs int64) stack.Result {
	return k.call(limits, nowNs, func(s *stack.Stack) stack.Result { return s.Peek(cost, nowNs) })
}

func (k *key) refund(limits []stack.Limit, cost, nowNs int64) stack.Result {
	return k.call(limits, nowNs, func(s *stack.Stack) stack.Result { return s.Refund(cost, nowNs) })
}

const (
	second = int64(time.Second)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	start  = int64(1_700_000_040) * second // a multiple of a minute
)

// drawer makes up limits and traffic for one key.
type drawer struct {
	chance.Draw
	kinds   []stack.Kind
	periods []int64 // few, so that limits meet their states again
	nowNs   int64
	last    stack.Result
}

func newDrawer(pick chance.Draw) *drawer {
	d := &drawer{Draw: pick}
	d.kinds = [][]stack.Kind{
		{stack.Rate},
		{stack.Rate},
		{stack.Rate, stack.Window},
		{stack.Rate, stack.Fixed},
		{stack.Rate, stack.Window, stack.Fixed},
		{stack.Fixed, stack.First},
		{stack.First},
		{stack.Rate, stack.Window, stack.Fixed, stack.First},
	}[pick("kinds", 0, 7)]
	usual := []int64{1, 50, 63, 64, 100, 127, 128, 4096, 1e6, second, minute, hour, 24 * hour, 30 * 24 * hour}
	for range 3 {
		d.periods = append(d.periods, usual[pick("period", 0, int64(len(usual))-1)])
	}
	d.nowNs = []int64{start, 0, d.OfAnyMagnitude("now", 0, 1<<62)}[pick("begin at", 0, 2)]
	return d
}

// calendars that differ in one thing, and such whose clocks are changed at midnight.
var calendars = []*civil.Windows{
	{N: 1, Unit: "d", Zone: "Europe/Berlin"},
	{N: 1, Unit: "d", Zone: "America/Sao_Paulo"},
	{N: 1, Unit: "d", Zone: "America/Sao_Paulo", Offset: 6 * time.Hour},
	{N: 1, Unit: "w", Zone: "UTC"},
	{N: 2, Unit: "w", Zone: "UTC", Offset: 10 * 24 * time.Hour},
	{N: 1, Unit: "mo", Zone: "UTC"},
	{N: 1, Unit: "mo", Zone: "Asia/Kathmandu"},
	{N: 1, Unit: "y", Zone: "America/New_York"},
}

func (d *drawer) spec() spec {
	s := spec{kind: d.kinds[d.Draw("kind", 0, int64(len(d.kinds))-1)], periodNs: d.periods[d.Draw("which period", 0, 2)]}
	if s.kind == stack.Rate {
		s.count = d.OfAnyMagnitude("count", 1, s.periodNs)
		s.capacity = d.OfAnyMagnitude("capacity", 1, min(1000, (1<<60)/s.unitNs()))
		return s
	}
	if s.kind == stack.Fixed && d.OneIn("calendar", 2) {
		c := calendars[d.Draw("which calendar", 0, int64(len(calendars))-1)]
		s.calendar, s.periodNs = c, c.N*map[string]int64{"d": 25 * hour, "w": 8 * 24 * hour, "mo": 32 * 24 * hour, "y": 367 * 24 * hour}[c.Unit]
	}
	s.count = d.Draw("count", 1, 63)
	if d.OneIn("large count", 8) {
		s.count = d.OfAnyMagnitude("count", 1, 1<<50)
	}
	return s
}

// nobody makes the counts of some limits 0.
func (d *drawer) nobody(specs []spec) []spec {
	specs = slices.Clone(specs)
	for i := range specs {
		if d.OneIn("nobody", 3) {
			specs[i].count, specs[i].capacity = 0, 0
		}
	}
	return specs
}

func (d *drawer) stack() []spec {
	specs := make([]spec, d.Draw("limits", 1, 8))
	if d.OneIn("a single limit", 3) {
		specs = specs[:1]
	}
	for i := range specs {
		specs[i] = d.spec()
	}
	return specs
}

// change returns a stack that differs in one thing, most of the time.
func (d *drawer) change(specs []spec) []spec {
	specs = slices.Clone(specs)
	i := int(d.Draw("which limit", 0, int64(len(specs))-1))
	switch d.Draw("change", 1, 7) {
	case 1, 2:
		s := d.spec()
		if s.kind == specs[i].kind && s.kind != stack.Rate { // the same windows
			specs[i].count = s.count
		} else if s.kind == specs[i].kind {
			s.periodNs = specs[i].periodNs
			s.count = min(s.count, s.periodNs)
			s.capacity = min(s.capacity, (1<<60)/s.unitNs())
			specs[i] = s
		}
	case 3:
		if len(specs) > 1 {
			specs = slices.Delete(specs, i, i+1)
		}
	case 4:
		if len(specs) < stack.MaxLimits {
			specs = slices.Insert(specs, i, d.spec())
		}
	case 5:
		if len(specs) < stack.MaxLimits {
			specs = append(specs, specs[i])
		}
	case 6:
		j := d.Draw("other limit", 0, int64(len(specs))-1)
		specs[i], specs[j] = specs[j], specs[i]
	default:
		specs = d.stack()
	}
	return specs
}

// lastInstant keeps the clock where no sum with a time of these stacks exceeds 63 bits.
const lastInstant = int64(1) << 62

func (d *drawer) moveClock(specs []spec) {
	s := specs[d.Draw("limit to move by", 0, int64(len(specs))-1)]
	var by int64
	switch d.Draw("clock", 1, 24) {
	case 1, 2, 3, 4, 5, 6, 7, 8:
	case 9, 10:
		by = d.Draw("elapsed", 0, 2*((s.periodNs-1)/s.count+1))
	case 11:
		by = max(d.last.RetryAfterNs, 0)
	case 12:
		by = max(d.last.RetryAfterNs-1, 0)
	case 13:
		by = d.last.NextAfterNs
	case 14:
		by = max(d.last.NextAfterNs-1, 0)
	case 15:
		by = d.last.ResetAfterNs
	case 16:
		by = max(d.last.ResetAfterNs-1, 0)
	case 17:
		by = d.last.WaitNs
	case 18:
		by = d.Draw("elapsed", 0, s.periodNs)
	case 19:
		by = d.OfAnyMagnitude("jump", 0, 1<<60)
	case 20:
		by = -d.Draw("back", 0, s.periodNs/64)
	case 21:
		by = -d.Draw("back", 0, s.periodNs)
	case 22:
		by = -d.OfAnyMagnitude("jump back", 0, d.nowNs)
	default:
		by = d.Draw("elapsed", 0, s.periodNs/8)
	}
	d.nowNs = max(d.nowNs+by, 0)
	if d.nowNs > lastInstant {
		d.nowNs = start
	}
}

func (d *drawer) cost(specs []spec) int64 {
	s := specs[d.Draw("limit to ask for", 0, int64(len(specs))-1)]
	switch d.Draw("cost of", 1, 12) {
	case 1:
		return 0
	case 2:
		return d.last.Remaining
	case 3:
		return d.last.Remaining + 1
	case 4:
		return d.Draw("cost", 0, s.holds())
	case 5:
		return s.holds()
	case 6:
		return s.holds() + 1
	case 7:
		return d.OfAnyMagnitude("cost", 0, math.MaxInt64)
	case 8, 9:
		return d.Draw("cost", 1, min(5, s.holds()))
	default:
		return 1
	}
}

func (d *drawer) request(specs []spec) stack.Request {
	r := stack.Request{Cost: d.cost(specs)}
	ratesOnly := !slices.ContainsFunc(specs, func(s spec) bool { return s.kind != stack.Rate })
	if ratesOnly && d.OneIn("may wait", 3) {
		r.MaxWaitNs = []int64{
			max(d.last.RetryAfterNs, 0),
			max(d.last.RetryAfterNs-1, 0),
			d.Draw("max wait", 0, specs[0].periodNs),
			d.OfAnyMagnitude("max wait", 0, 1<<60),
		}[d.Draw("max wait of", 0, 3)]
		return r
	}
	r.UpTo, r.Strict = d.OneIn("up to", 4), d.OneIn("strict", 6)
	return r
}

// terms makes up what a call says of each of its limits.
func (d *drawer) terms(specs []spec) []spec {
	specs = slices.Clone(specs)
	for i := range specs {
		t := &specs[i].terms
		*t = stack.Terms{Shadow: d.OneIn("shadow", 4)}
		if t.HasTake = d.OneIn("take", 4); t.HasTake {
			t.Take = d.cost(specs)
		}
		if d.OneIn("spare", 4) {
			t.Spare = d.Draw("spare", 0, min(specs[i].holds(), 10))
			if d.OneIn("much to spare", 4) {
				t.Spare = d.OfAnyMagnitude("spare", 0, math.MaxInt64)
			}
		}
	}
	return specs
}

// mayForce reports whether a request can be forced without sums of more than 63 bits. The limits are full in fullIn ns.
func mayForce(specs []spec, fullIn int64, r stack.Request) bool {
	if r.MaxWaitNs > 0 || r.UpTo || r.Strict || fullIn > 1<<59 {
		return false
	}
	return !slices.ContainsFunc(specs, func(s spec) bool {
		asked := r.Cost
		if s.terms.HasTake {
			asked = s.terms.Take
		}
		if s.kind == stack.Rate {
			return asked > (1<<57)/s.unitNs()
		}
		return asked > 1<<50
	})
}

// seen counts what a run came across, so that it cannot pass by avoiding the cases.
type seen struct {
	steps, allowed, limited, never, waits, partial, hammered, corrected, peeks, refunds, lifted, full, changes, plain, back, forced, shadowed, spared,
	firstForced, firstSpared, nobody int
	rules [stack.MaxLimits]int
}

func (s *seen) count(r stack.Request, result stack.Result, value []byte) {
	tally := func(counter *int, hit bool) {
		if hit {
			*counter++
		}
	}
	s.steps++
	tally(&s.allowed, result.Granted > 0)
	tally(&s.limited, result.Limited)
	tally(&s.never, result.Limited && result.RetryAfterNs == stack.Never)
	tally(&s.waits, result.WaitNs > 0)
	tally(&s.partial, result.Granted > 0 && result.Granted < r.Cost)
	tally(&s.hammered, r.Strict && result.Limited && result.Changed)
	tally(&s.corrected, !r.Strict && result.Limited && result.Changed)
	tally(&s.refunds, result.Granted < 0)
	tally(&s.forced, result.Limited && result.Granted > 0)
	tally(&s.shadowed, !result.Limited && result.Shadow > 0)
	tally(&s.full, value == nil)
	tally(&s.plain, len(value) > 0 && value[0] >= '0')
	s.rules[result.Rule]++
}

// everything reports whether each case came up as often as it has to in a number of steps.
func (s *seen) everything(steps int) bool {
	often := []int{s.allowed, s.limited, s.never, s.waits, s.partial, s.hammered, s.corrected,
		s.peeks, s.refunds, s.full, s.changes, s.plain, s.back, s.shadowed, s.spared, s.nobody}
	return slices.Min(append(s.rules[:], often...)) > steps/500 &&
		min(s.forced, s.firstForced, s.firstSpared) > steps/1000 &&
		s.lifted > steps/2000
}

// follow sends random traffic to one key and compares every answer and what is kept.
func follow(t require.TestingT, pick chance.Draw, atMost int, seen *seen) {
	d := newDrawer(pick)
	plain := d.stack()
	k, ref := key{t: t}, newReference()
	special := d.OneIn("terms", 3)
	for range atMost {
		if d.OneIn("change the stack", 16) {
			plain = d.change(plain)
			seen.changes++
		}
		specs := plain
		if special && !d.OneIn("no terms", 4) {
			specs = d.terms(plain)
		}
		before := d.nowNs
		d.moveClock(specs)
		if d.nowNs < before {
			seen.back++
		}
		r := d.request(specs)
		if d.OneIn("nobody", 8) {
			specs = d.nobody(specs)
			seen.nobody++
		}
		limits := make([]stack.Limit, len(specs))
		for i, s := range specs {
			limits[i] = s.limit(t)
		}
		was := k.value
		if r.UpTo {
			for i := range specs { // half of one cost is not half of another
				if specs[i].terms.HasTake {
					r.UpTo = false
				}
			}
		}
		if d.OneIn("force", 4) && mayForce(specs, ref.fullAt()-d.nowNs, r) {
			r.Force = true
		}
		if slices.ContainsFunc(specs, func(s spec) bool { return s.terms.Spare > 0 }) {
			seen.spared++
		}
		var got, want stack.Result
		switch op := d.Draw("operation", 1, 12); {
		case op <= 8:
			got, want = k.take(limits, r, d.nowNs), ref.take(specs, r, d.nowNs)
		case op == 9:
			seen.peeks++
			r = stack.Request{Cost: r.Cost}
			got, want = k.peek(limits, r.Cost, d.nowNs), ref.peek(specs, r.Cost, d.nowNs)
		default:
			r = stack.Request{Cost: r.Cost}
			for i, alone := range ref.open(specs) {
				if specs[i].kind != stack.Rate || specs[i].count == 0 {
					continue
				}
				if lifts := alone.Lifts(d.nowNs); len(lifts) > 0 {
					seen.lifted++
					if d.OneIn("all of the last reservation", 2) {
						r.Cost = lifts[0]
					}
					break
				}
			}
			got, want = k.refund(limits, r.Cost, d.nowNs), ref.refund(specs, r.Cost, d.nowNs)
		}
		if got != want || (k.value != nil) != ref.holds() {
			require.Equal(t, want, got, "%+v, %+v at %d of %x", specs, r, d.nowNs, was)
			require.Equal(t, ref.holds(), k.value != nil, "%+v, %+v at %d of %x left %x", specs, r, d.nowNs, was, k.value)
		}
		if fullAt := ref.fullAt(); got.Changed && uint64(fullAt) != k.s.ExpireAt(d.nowNs) {
			require.Equal(t, uint64(fullAt), k.s.ExpireAt(d.nowNs), "full at: %+v, %+v at %d of %x", specs, r, d.nowNs, was)
		}
		if slices.ContainsFunc(specs, func(s spec) bool { return s.kind == stack.First }) {
			if r.Force && got.Limited {
				seen.firstForced++
			}
			if slices.ContainsFunc(specs, func(s spec) bool { return s.kind == stack.First && s.terms.Spare > 0 }) {
				seen.firstSpared++
			}
		}
		d.last = got
		seen.count(r, got, k.value)
	}
}

func TestEveryAnswerEqualsTheReference(t *testing.T) {
	pick := chance.FromSeed(t)
	var s seen
	for n := steps(1_000_000); s.steps < n || s.steps < 4*n && !s.everything(n); {
		follow(t, pick, 200, &s)
	}
	require.True(t, s.everything(steps(1_000_000)), "%+v", s)
}

// The same at a smaller scale, for the smallest case that fails.
func TestEveryAnswerEqualsTheReferenceShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { follow(t, chance.FromRapid(t), 30, &seen{}) })
}
