// Several keys at one instant, compared with a model that is written from the documentation alone.
package stack_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/limiter/stack"
)

// keys are several keys of the database, and a Joint for calls on all of them.
type keys struct {
	t      require.TestingT
	values [][]byte // nil where there is no key
	stacks [stack.MaxStacks]stack.Stack
	joint  stack.Joint
}

// call joins the stacks of the keys and stores what decide changes.
func (k *keys) call(specs [][]spec, nowNs int64, decide func(*stack.Joint) stack.Result) (result stack.Result, changed []bool) {
	k.joint.Reset()
	for i := range specs {
		k.stacks[i].Load(limits(k.t, specs[i]...))
		if k.values[i] != nil {
			require.NoError(k.t, k.stacks[i].Decode(k.values[i]), "%x", k.values[i])
		}
		k.joint.Join(&k.stacks[i])
	}
	result = decide(&k.joint)
	for i := range specs {
		changed = append(changed, k.joint.Changed(i))
		if !changed[i] {
			continue
		}
		k.values[i] = nil
		if k.stacks[i].ExpireAt(nowNs) > uint64(nowNs) || k.stacks[i].KeepsCalendar() {
			k.values[i] = k.stacks[i].Append(nil)
		}
	}
	return result, changed
}

func TestAJointAllocatesNothing(t *testing.T) {
	var full [stack.MaxStacks]stack.Stack
	for i := range full {
		full[i].Load(limits(t, rate(1, second, 1), rate(2, second, 1), window(1, second), window(2, second),
			rate(1, minute, 1), rate(2, minute, 1), window(1, minute), window(2, minute)))
	}
	var joint stack.Joint
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		joint.Reset()
		for i := range full {
			joint.Join(&full[i])
		}
	}))
}

// chooseOne is what Choose does, in the words of its documentation: it tries the request on a copy of
// each key.
func chooseOne(refs []*reference, specs [][]spec, request stack.Request, closedNs *[stack.MaxStacks]int64, nowNs int64) (index int) {
	request.Force = false
	type try struct{ wait, retry int64 }
	tries := make([]try, len(refs))
	for i, r := range refs {
		result := r.clone().take(specs[i], request, nowNs)
		switch {
		case result.RetryAfterNs == stack.Never && result.Limited:
			tries[i] = try{forever, forever}
		case closedNs[i] > 0:
			tries[i] = try{forever, max(closedNs[i], result.RetryAfterNs)}
		case !result.Limited:
			tries[i] = try{result.WaitNs, 0}
		default:
			tries[i] = try{forever, result.RetryAfterNs}
		}
	}
	for i, t := range tries {
		if t.wait < tries[index].wait || t.wait == tries[index].wait && t.retry < tries[index].retry {
			index = i
		}
	}
	return index
}

type seenOfKeys struct {
	seen
	all, one, closed                                                int
	allowedAll, limitedAll, waitedAll, chosen, chosenLate, noChoice int
	changedSome, changedEvery                                       int
}

// followKeys sends random traffic to several keys, jointly and each by itself, and compares every
// answer and what is kept.
func followKeys(t require.TestingT, pick chance.Draw, atMost int, seen *seenOfKeys) {
	d := newDrawer(pick)
	n := int(pick("keys", 2, 4))
	if d.OneIn("many keys", 8) {
		n = int(pick("keys", 1, stack.MaxStacks))
	}
	k := keys{t: t, values: make([][]byte, n)}
	refs, plain, specs := make([]*reference, n), make([][]spec, n), make([][]spec, n)
	for i := range n {
		refs[i], plain[i] = newReference(), d.stack()
		if d.OneIn("the same for all", 4) {
			plain[i] = plain[0]
		}
	}
	special := d.OneIn("terms", 3)
	for range atMost {
		if d.OneIn("change a stack", 16) {
			i := pick("which key", 0, int64(n)-1)
			plain[i] = d.change(plain[i])
			seen.changes++
		}
		for i := range specs {
			specs[i] = plain[i]
			if special && !d.OneIn("no terms", 4) {
				specs[i] = d.terms(plain[i])
			}
		}
		all := slices.Concat(specs...)
		d.moveClock(all)
		fullIn := int64(0)
		for _, ref := range refs {
			fullIn = max(fullIn, ref.fullAt()-d.nowNs)
		}
		r := d.request(all)
		if slices.ContainsFunc(all, func(s spec) bool { return s.terms.HasTake }) {
			r.UpTo = false // half of one cost is not half of another
		}
		if d.OneIn("force", 4) && mayForce(all, fullIn, r) {
			r.Force = true
		}
		var got, want stack.Result
		var changed, wantChanged []bool
		switch op := d.Draw("operation", 1, 10); {
		case op <= 5:
			seen.all++
			got, changed = k.call(specs, d.nowNs, func(j *stack.Joint) stack.Result { return j.Take(r, d.nowNs) })
			want, wantChanged = takeAll(refs, specs, r, d.nowNs)
		case op <= 8:
			seen.one++
			r.Strict = false
			var closedNs [stack.MaxStacks]int64
			if d.OneIn("closed", 4) {
				closedNs[pick("which is closed", 0, int64(n)-1)] = d.OfAnyMagnitude("closed for", 1, 1<<60)
				seen.closed++
			}
			var index int
			wantIndex := chooseOne(refs, specs, r, &closedNs, d.nowNs)
			got, changed = k.call(specs, d.nowNs, func(j *stack.Joint) stack.Result {
				index = j.Choose(r, &closedNs, d.nowNs)
				result := j.TakeOne(index, r, d.nowNs)
				require.Equal(t, index, j.Of(result.Rule))
				return result
			})
			require.Equal(t, wantIndex, index, "%+v, %+v at %d, closed for %v", specs, r, d.nowNs, closedNs)
			want = refs[index].take(specs[index], r, d.nowNs)
			wantChanged = make([]bool, n)
			wantChanged[index] = want.Changed
			before := len(slices.Concat(specs[:index]...))
			want.Rule += before
			if want.Shadow > 0 {
				want.Shadow += before
			}
			seen.countChoice(index, got)
		default: // as by other commands in between
			i := pick("which key", 0, int64(n)-1)
			alone := key{t: t, value: k.values[i]}
			if d.OneIn("refund", 2) {
				got, want = alone.refund(limits(t, specs[i]...), r.Cost, d.nowNs), refs[i].refund(specs[i], r.Cost, d.nowNs)
			} else {
				got, want = alone.take(limits(t, specs[i]...), stack.Request{Cost: r.Cost}, d.nowNs),
					refs[i].take(specs[i], stack.Request{Cost: r.Cost}, d.nowNs)
			}
			k.values[i] = alone.value
		}
		require.Equal(t, want, got, "%+v, %+v at %d", specs, r, d.nowNs)
		require.Equal(t, wantChanged, changed, "%+v, %+v at %d", specs, r, d.nowNs)
		for i, ref := range refs {
			require.Equal(t, ref.holds(), k.values[i] != nil, "key %d: %+v, %+v at %d", i, specs, r, d.nowNs)
			if len(changed) > 0 && changed[i] {
				require.Equal(t, uint64(ref.fullAt()), k.stacks[i].ExpireAt(d.nowNs), "key %d: %+v, %+v at %d", i, specs, r, d.nowNs)
			}
		}
		seen.countKeys(got, changed)
		d.last = got
	}
}

func (s *seenOfKeys) countKeys(result stack.Result, changed []bool) {
	s.steps++
	if changed == nil {
		return
	}
	hit := func(counter *int, does bool) {
		if does {
			*counter++
		}
	}
	hit(&s.allowedAll, result.Granted > 0)
	hit(&s.limitedAll, result.Limited)
	hit(&s.waitedAll, result.WaitNs > 0)
	hit(&s.changedEvery, len(changed) > 1 && !slices.Contains(changed, false))
	hit(&s.changedSome, slices.Contains(changed, false) && slices.Contains(changed, true))
}

func (s *seenOfKeys) countChoice(index int, result stack.Result) {
	switch {
	case result.Limited:
		s.noChoice++
	case result.WaitNs > 0:
		s.chosenLate++
	case index > 0:
		s.chosen++
	}
}

// everything reports whether each case came up as often as it has to in a number of steps.
func (s *seenOfKeys) everything(steps int) bool {
	return min(s.all, s.one, s.closed, s.allowedAll, s.limitedAll, s.chosen, s.noChoice, s.changedSome, s.changedEvery) > steps/500 &&
		min(s.waitedAll, s.chosenLate) > steps/5000 // of rates only
}

func TestEveryAnswerToSeveralKeysEqualsTheReference(t *testing.T) {
	pick := chance.FromSeed(t)
	var s seenOfKeys
	for n := steps(60_000); s.steps < n || s.steps < 4*n && !s.everything(n); {
		followKeys(t, pick, 100, &s)
	}
	require.True(t, s.everything(steps(60_000)), "%+v", s)
}

// The same at a smaller scale, for the smallest case that fails.
func TestEveryAnswerToSeveralKeysEqualsTheReferenceShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { followKeys(t, chance.FromRapid(t), 20, &seenOfKeys{}) })
}

// deny is Deny on keys, and Take on keys that hold the same.
func deny(t require.TestingT, values [][]byte, specs [][]spec, r stack.Request, nowNs int64) (denied, taken stack.Result, after, afterTake [][]byte) {
	one, other := keys{t: t, values: slices.Clone(values)}, keys{t: t, values: slices.Clone(values)}
	denied, _ = one.call(specs, nowNs, func(j *stack.Joint) stack.Result { return j.Deny(r, nowNs) })
	taken, _ = other.call(specs, nowNs, func(j *stack.Joint) stack.Result { return j.Take(r, nowNs) })
	return denied, taken, one.values, other.values
}

func TestDenyIsTakeWhereTheLimitsDenyTheRequest(t *testing.T) {
	pick := chance.FromSeed(t)
	for limited, shadows, n := 0, 0, steps(3_000); limited < n || shadows == 0; {
		d := newDrawer(pick)
		specs := [][]spec{d.terms(d.stack()), d.terms(d.stack())}
		values := make([][]byte, len(specs))
		for range 8 {
			all := slices.Concat(specs...)
			d.moveClock(all)
			r := d.request(all)
			r.UpTo, r.MaxWaitNs = false, 0
			denied, taken, after, afterTake := deny(t, values, specs, r, d.nowNs)
			if taken.Limited {
				require.Equal(t, taken, denied, "%+v, %+v at %d", specs, r, d.nowNs)
				require.Equal(t, afterTake, after, "%+v, %+v at %d", specs, r, d.nowNs)
				limited++
				if taken.Shadow > 0 {
					shadows++
				}
			}
			values, d.last = afterTake, taken
		}
	}
}
