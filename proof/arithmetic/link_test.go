package arithmetic

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/stack"
	"redis-throttle/proof/smt"
)

// The formulas are what package gcra computes: both are evaluated on the same values, random ones of all sizes
// and those around each bound.

// values draws numbers for both.
type values struct {
	*rand.Rand
	numbers smt.Values
}

func (v *values) set(name string, n int64) int64 {
	v.numbers[name] = big.NewInt(n)
	return n
}

// upTo is 0 to most: any size, or at most 3 from 0, most or one of the near ones.
func (v *values) upTo(most int64, near ...int64) int64 {
	if v.IntN(2) == 0 {
		return v.Int64() >> v.IntN(63) & math.MaxInt64 % max(most, 1)
	}
	near = append(near, 0, most)
	n := near[v.IntN(len(near))]
	if by := int64(v.IntN(7)) - 3; by < 0 || n <= math.MaxInt64-by {
		n += by
	}
	return min(max(n, 0), most)
}

func compare(t *testing.T, terms []*smt.Term, draw func(*values) []int64) {
	v := &values{chance.New(t), smt.Values{}}
	program := smt.Compile(terms...)
	n := size.Of(5_000, 100_000)
	for range n {
		want := draw(v)
		if want == nil {
			continue
		}
		for i, got := range program.Run(v.numbers) {
			if !got.IsInt64() {
				got = new(big.Int).Sub(got, new(big.Int).Lsh(big.NewInt(1), 64))
			}
			if got.Int64() != want[i] {
				t.Fatalf("term %d is %v, and Go has %d, of %v", i, got, want[i], v.numbers)
			}
		}
	}
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func TestNewIsItsFormula(t *testing.T) {
	made := NewOf(variable("capacity"), variable("count"), wholeVariable("product"))
	seen := map[string]int{}
	compare(t, []*smt.Term{made.TooFast, made.TooSlow, made.Emission, made.Tolerance}, func(v *values) []int64 {
		n, unit := 1+v.upTo(math.MaxInt64-1), 1+v.upTo(math.MaxInt64-1)
		count := v.set("count", 1+v.upTo(math.MaxInt64-1, n, unit))
		capacity := v.set("capacity", 1+v.upTo(math.MaxInt64-1, math.MaxInt64/unit, count))
		v.numbers["product"] = new(big.Int).Mul(big.NewInt(n), big.NewInt(unit))
		l, err := gcra.New(capacity, count, n, time.Duration(unit))
		seen[errName(err)]++
		return []int64{flag(err == gcra.ErrRate), flag(err == gcra.ErrTolerance), emissionOf(l), toleranceOf(l)}
	})
	require.Len(t, seen, 3, "%v", seen)
}

func errName(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// limitOf draws a limit that New makes.
func limitOf(v *values) gcra.Limit {
	emission := 1 + v.upTo(math.MaxInt64-1)
	capacity := 1 + v.upTo(math.MaxInt64/emission-1)
	l, err := gcra.New(capacity, 1, emission, 1)
	if err != nil {
		panic(err)
	}
	v.set("capacity", capacity)
	v.set("emission", emission)
	v.set("tolerance", toleranceOf(l))
	return l
}

// toleranceOf is the time in which an empty bucket of the limit fills, emissionOf the one in which a unit comes back.
func toleranceOf(l gcra.Limit) int64 { return math.MaxInt64 - (&gcra.Bucket{Limit: l}).LongestWait() }

func emissionOf(l gcra.Limit) int64 { return toleranceOf(l) / max(l.Capacity(), 1) }

// callOf draws a call on a limit; the increment is what Go multiplies.
func callOf(v *values, l gcra.Limit) (tat uint64, now, quantity int64) {
	now = v.set("now", v.upTo(math.MaxInt64))
	tat = uint64(now) + uint64(v.upTo(math.MaxInt64, toleranceOf(l)))
	if v.IntN(4) == 0 {
		tat = v.Uint64() >> v.IntN(64)
	}
	v.numbers["tat"] = new(big.Int).SetUint64(tat)
	quantity = v.set("quantity", v.upTo(math.MaxInt64, l.Capacity()))
	v.set("increment", quantity*emissionOf(l))
	return tat, now, quantity
}

func takeTerms(slack int64) []*smt.Term {
	take := TakeOf(AnyLimit(), smt.Var("tat", u64), variable("now"), variable("quantity"), variable("increment"), slack)
	return []*smt.Term{take.Allowed, take.Changed, take.TAT, take.Remaining, take.RetryAfter, take.ResetAfter}
}

func takes(v *values) []int64 {
	l := limitOf(v)
	tat, now, quantity := callOf(v, l)
	var d gcra.Decision
	l.TakeTo(&d, tat, now, quantity)
	return []int64{flag(d.Allowed), flag(d.Changed), int64(d.TAT), d.Remaining, d.RetryAfter, d.ResetAfter}
}

func TestTakeIsItsFormula(t *testing.T) {
	outcomes := map[[3]bool]int{}
	compare(t, takeTerms(0), func(v *values) []int64 {
		want := takes(v)
		outcomes[[3]bool{want[0] == 1, want[1] == 1, want[4] < 0}]++
		return want
	})
	require.Len(t, outcomes, 6, "allowed, changed, never: %v", outcomes)
}

// The comparison can fail: it finds a formula that is off by one ns.
func TestAFormulaOffByOneIsNotTakes(t *testing.T) {
	program := smt.Compile(takeTerms(1)...)
	v := &values{rand.New(rand.NewPCG(1, 1)), smt.Values{}}
	differs := 0
	for range 5_000 {
		want := takes(v)
		if program.Run(v.numbers)[0].Int64() != want[0] {
			differs++
		}
	}
	require.Greater(t, differs, 20)
}

// stateOf draws a bucket whose state has no lifts.
func stateOf(v *values, l gcra.Limit) (b gcra.Bucket, now, quantity int64) {
	b.Limit = l
	tat, now, quantity := callOf(v, l)
	queue := int64(0)
	if v.IntN(2) == 0 {
		queue = v.upTo(math.MaxInt64, math.MaxInt64-toleranceOf(l))
	}
	if tat == 0 {
		queue = 0
	}
	v.set("queue", queue)
	var encoded []byte
	if tat > 0 {
		encoded = binary.LittleEndian.AppendUint64(encoded, tat)
	}
	if queue > 0 {
		encoded = binary.LittleEndian.AppendUint64(encoded, uint64(queue))
	}
	if err := b.Decode(encoded); err != nil {
		panic(err)
	}
	return b, now, quantity
}

// parts are the TAT and the queue of a bucket.
func parts(b gcra.Bucket) []int64 {
	encoded := append(b.Append(nil), make([]byte, 16)...)
	return []int64{int64(binary.LittleEndian.Uint64(encoded)), int64(binary.LittleEndian.Uint64(encoded[8:]))}
}

func TestAskingAStateIsItsFormula(t *testing.T) {
	l, s, now, quantity, increment := AnyLimit(), AnyState(), variable("now"), variable("quantity"), variable("increment")
	more := l.Available(s, now).Plus(one).Times(l.Emission)
	current, corrected := l.BringTo(s, now)
	compare(t, []*smt.Term{l.Available(s, now), l.RetryAfter(s, now, quantity, increment), l.NextAfter(s, now, more), l.Backlog(s, now),
		FullIn(s, now), corrected, current.TAT, current.Queue}, func(v *values) []int64 {
		b, now, quantity := stateOf(v, limitOf(v))
		_, _, reset, next := b.Standing(now)
		answers := []int64{b.Available(now), b.RetryAfter(now, quantity), next, reset, b.FullIn(now)}
		answers = append(answers, flag(b.BringTo(now)))
		return append(answers, parts(b)...)
	})
}

func TestStandingIsItsFormula(t *testing.T) {
	l, s, now := AnyLimit(), AnyState(), variable("now")
	more := l.Available(s, now).Plus(one).Times(l.Emission)
	compare(t, []*smt.Term{l.Capacity, l.Available(s, now), l.Backlog(s, now), l.NextAfter(s, now, more), longest.Minus(l.Tolerance), s.TAT},
		func(v *values) []int64 {
			b, now, _ := stateOf(v, limitOf(v))
			capacity, available, reset, next := b.Standing(now)
			return []int64{capacity, available, reset, next, b.LongestWait(), int64(b.ExpireAt())}
		})
}

func TestChargeIsItsFormula(t *testing.T) {
	l, s := AnyLimit(), AnyState()
	after, _ := l.Charge(s, variable("now"), variable("increment"), variable("wait"))
	charged := 0
	compare(t, []*smt.Term{after.TAT, after.Queue}, func(v *values) []int64 {
		b, now, quantity := stateOf(v, limitOf(v))
		quantity = v.set("quantity", min(quantity, b.Capacity()))
		v.set("increment", quantity*emissionOf(b.Limit))
		retry, most := b.RetryAfter(now, quantity), b.LongestWait()
		if retry > most || quantity == 0 {
			return nil
		}
		charged++
		wait := v.set("wait", retry+v.upTo(most-retry))
		b.Charge(now, quantity, wait)
		return []int64{int64(b.TAT), max(int64(b.TAT-uint64(now))-toleranceOf(b.Limit), 0)}
	})
	require.NotZero(t, charged)
}

func TestForceChargeDeniedAndRefundAreTheirFormulas(t *testing.T) {
	l, s, now, quantity, increment, spare := AnyLimit(), AnyState(), variable("now"), variable("quantity"), variable("increment"), variable("spare")
	forced, units, _ := l.Force(s, now, quantity, increment)
	denied, took, _ := l.ChargeDenied(s, now, quantity, increment, spare, spare.Times(l.Emission))
	refunded, back, _ := l.Refund(s, now, quantity, increment)
	compare(t, []*smt.Term{units, forced.TAT, forced.Queue, took, denied.TAT, denied.Queue, back, refunded.TAT, refunded.Queue}, func(v *values) []int64 {
		b, now, quantity := stateOf(v, limitOf(v))
		spare := v.set("spare", v.upTo(math.MaxInt64, b.Capacity()))
		forced, denied, refunded := b, b, b
		want := append([]int64{forced.Force(now, quantity)}, parts(forced)...)
		want = append(append(want, flag(denied.ChargeDenied(now, quantity, spare) > 0)), parts(denied)...)
		want = append(want, refunded.Refund(now, quantity))
		return append(want, parts(refunded)...)
	})
}

// A rate of a stack: what MAXWAIT leaves of retry after.
func TestRetryAfterWithMaxWaitIsItsFormula(t *testing.T) {
	seen := 0
	compare(t, []*smt.Term{RetryWithMaxWait(variable("need"), variable("maxwait"))}, func(v *values) []int64 {
		const emission, capacity = 1_000, 50
		limit, err := stack.NewRate(1, emission, 1, capacity)
		if err != nil {
			panic(err)
		}
		var s stack.Stack
		s.Load([]stack.Limit{limit})
		now, used, asked := int64(1e9), 1+v.Int64N(capacity), 1+v.Int64N(capacity)
		s.Take(stack.Request{Cost: used}, now)
		now += v.Int64N(capacity * emission)
		v.set("need", s.Peek(asked, now).RetryAfterNs)
		maxWait := v.set("maxwait", v.Int64N(capacity*emission))
		r := s.Take(stack.Request{Cost: asked, MaxWaitNs: maxWait}, now)
		if !r.Limited {
			return nil
		}
		seen++
		return []int64{r.RetryAfterNs}
	})
	require.NotZero(t, seen)
}
