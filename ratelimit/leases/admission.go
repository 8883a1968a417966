package leases

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/internal/about"
	"redis-throttle/ratelimit/internal/taken"
)

// Admission is units of limits and slots that were taken together, the units by an estimate. Its slots renew themselves
// until it is settled by what was used; where that fails for so long that somebody else may have one of them, its
// Context ends.
type Admission struct {
	holding
	call      ratelimit.Call
	result    ratelimit.Result
	uncharged []place // shadows that the call exceeded, and so was not charged for

	mu    sync.Mutex
	used  map[int][]int64 // by the place of a key in the call
	wrong error           // in what was said of them
}

// place is where a limit is in a call.
type place struct{ key, rule int }

// Admit takes the units and slots of a call, all or nothing, and keeps the slots until Settle. It is a call with
// VerbLimit, of which one key at least has Slots with a TTL. Its ID is a random one if it is empty. Limit.Take is the
// estimate of a limit's units; without it, it is the Cost. If there are too few units or slots, the error is a
// *ratelimit.LimitedError. When ctx ends the slots are no longer renewed. If the reply to the call is lost, all of it
// is given back in the background.
//
// A call under the ID of an admission that holds its slots is charged nothing: a process that takes over somebody's
// work can go on with its admission.
func Admit(ctx context.Context, decider ratelimit.Decider, call ratelimit.Call) (*Admission, error) {
	if err := checkAdmission(&call); err != nil {
		return nil, err
	}
	if call.ID == "" {
		call.ID = rand.Text()
	}
	call.Keys = slices.Clone(call.Keys)
	a := &Admission{
		holding: holding{decider: ratelimit.With(decider), id: call.ID, owner: ownerOf(decider, call.ID)},
		call:    call, used: map[int][]int64{},
	}
	asked := call
	asked.Keys = slices.Clone(call.Keys)
	var slots []slot
	for i := range asked.Keys {
		key := &asked.Keys[i]
		if key.TTL != 0 {
			slots = append(slots, slot{key.Name, key.TTL})
			key.TTL = min(key.TTL, firstTTL)
		}
		// Only its own result says whether a shadow was charged. A policy may have one.
		asked.Each = asked.Each || slices.ContainsFunc(key.Limits, func(l ratelimit.Limit) bool { return about.Of(&l).Shadow || about.PolicyOf(&l) != "" })
	}
	if err := givingBack.stop(ctx, a.owner); err != nil {
		return nil, err
	}
	sent := time.Now()
	result, err := a.take(ctx, asked, a.undone(), min(longest(call.Keys), firstTTL))
	if err != nil {
		return nil, err
	}
	for _, each := range result.Each {
		if each.Limited {
			a.uncharged = append(a.uncharged, place{each.KeyIndex, each.Rule})
		}
	}
	if !call.Each {
		result.Each = nil
	}
	a.charged(&result)
	a.result = result
	a.begin(ctx, result, sent, slots)
	return a, nil
}

// DoAdmitted takes the units and slots of a call as Admit does, does work under them, and settles by what work said
// that it Used. It does so also when work fails or panics: what work has not said stays charged as it was estimated.
// The context of work ends when a slot is lost; the error is then ErrLost, beside that of work. A settlement that meets
// an outage goes on in the background, and is no error of work that is done.
func DoAdmitted(ctx context.Context, decider ratelimit.Decider, call ratelimit.Call, work func(ctx context.Context, a *Admission) error) error {
	admission, err := Admit(ctx, decider, call)
	if err != nil {
		return err
	}
	defer admission.Settle(ctx) // only the first call does anything
	err = work(admission.Context(), admission)
	lost := errors.Is(context.Cause(admission.Context()), ErrLost)
	settled := admission.Settle(ctx)
	switch {
	case (lost || errors.Is(settled, ErrLost)) && !errors.Is(err, ErrLost):
		return errors.Join(ErrLost, err)
	case settled == nil, mayPass(settled), errors.Is(settled, ErrLost):
		return err
	}
	return errors.Join(err, settled)
}

func checkAdmission(call *ratelimit.Call) error {
	switch {
	case call.Verb != ratelimit.VerbLimit:
		return fmt.Errorf("leases: an admission is a call with VerbLimit, not %v", call.Verb)
	case !slices.ContainsFunc(call.Keys, func(key ratelimit.Key) bool { return key.TTL != 0 }):
		return errors.New("leases: an admission needs a key with Slots and a TTL; LimitAll takes units alone")
	case call.Any, call.MaxWait != 0, call.Charge == charge.UpTo:
		return errors.New("leases: an admission takes neither Any nor MaxWait nor charge.UpTo: it has all of its keys at once, or nothing")
	}
	for _, key := range call.Keys {
		if key.TTL != 0 && key.TTL < time.Millisecond {
			return fmt.Errorf("leases: the TTL %v is shorter than a millisecond", key.TTL)
		}
	}
	return nil
}

// longest is the longest TTL of the slots among keys.
func longest(keys []ratelimit.Key) (ttl time.Duration) {
	for i := range keys {
		ttl = max(ttl, keys[i].TTL)
	}
	return ttl
}

// charged keeps the limits that were charged: those of a policy may have changed when the admission is settled.
func (a *Admission) charged(result *ratelimit.Result) {
	for i, applied := range result.Policies {
		if applied.Name != "" {
			a.call.Keys[i].Limits = applied.Limits
		}
	}
	for i := range a.call.Keys {
		limits := slices.Clone(a.call.Keys[i].Limits)
		for rule := range limits {
			about.Unbind(&limits[rule])
		}
		a.call.Keys[i].Limits = limits
	}
}

// ID is what the slots are held under, such as for a VerbSettle in another process.
func (a *Admission) ID() string { return a.id }

// Context ends when a slot is lost, with the cause ErrLost, when the admission is settled, and with the context that it
// was taken with. Work under the admission has to stop then.
func (a *Admission) Context() context.Context { return a.ctx }

// Result says how the call went that took the units and slots.
func (a *Admission) Result() ratelimit.Result { return a.result }

// Used says how many units were used in the end of the limits of a key: one number for all of them, or one for each.
// The last word counts. Limits that nothing is said of stay charged as they were estimated. A mistake is the error of
// Settle, which then settles the others.
func (a *Admission) Used(key string, units ...int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.call.Keys, func(k ratelimit.Key) bool { return k.Name == key && k.TTL == 0 })
	if i >= 0 && len(units) > 1 && len(units) != len(a.call.Keys[i].Limits) && (a.isApplied(i) || slices.Max(units) == slices.Min(units)) {
		// A policy may have another number of limits, also none.
		if least := slices.Min(units); least >= 0 {
			units = []int64{slices.Max(units)}
		} else {
			units = []int64{least}
		}
	}
	switch {
	case i < 0:
		a.wrong = errors.New("leases: Used names a key that the admission has no limits of")
	case len(units) != 1 && len(units) != len(a.call.Keys[i].Limits):
		a.wrong = fmt.Errorf("leases: Used takes one number for all limits of a key, or one for each of its %d, not %d", len(a.call.Keys[i].Limits), len(units))
	case slices.Min(units) < 0:
		a.wrong = fmt.Errorf("leases: the units Used, %d, are negative", slices.Min(units))
	default:
		if len(units) == 1 {
			units = slices.Repeat(units, len(a.call.Keys[i].Limits))
		}
		a.used[i] = slices.Clone(units)
	}
}

// isApplied says whether the limits of a key are those of a policy.
func (a *Admission) isApplied(key int) bool {
	return key < len(a.result.Policies) && a.result.Policies[key].Name != ""
}

// Settle frees the slots and charges what was Used in place of what was taken: more, into debt if need be, or less. It
// does so also when ctx has ended. The error is ErrLost if the slots had lapsed: then the units stay as they were
// estimated. If the server is away, Settle returns that error, and the admission is settled in the background when the
// server is there again, until its slots would have lapsed. Only the first call does anything; all return its error.
func (a *Admission) Settle(ctx context.Context) error {
	a.once.Do(func() {
		a.end()
		a.mu.Lock()
		settle := a.settlement(func(key int) []int64 { return a.used[key] })
		a.err = a.wrong
		a.mu.Unlock()
		if a.decider == nil {
			return
		}
		result, err := a.tell(ctx, settle, longest(a.call.Keys))
		switch {
		case err != nil:
			a.err = errors.Join(err, a.err)
		case result.Limited:
			a.err = errors.Join(ErrLost, a.err)
		}
	})
	return a.err
}

// undone is the call that gives everything back, if the server has granted it.
func (a *Admission) undone() ratelimit.Call {
	return a.settlement(func(key int) []int64 { return make([]int64, len(a.call.Keys[key].Limits)) })
}

// settlement is the call that settles the admission by what was used of the limits of each key. Keys of which nothing
// is said stay as they are.
func (a *Admission) settlement(used func(key int) []int64) ratelimit.Call {
	settle := ratelimit.Call{Verb: ratelimit.VerbSettle, ID: a.id}
	for i, key := range a.call.Keys {
		units := used(i)
		switch {
		case key.TTL != 0:
			settle.Keys = append(settle.Keys, key)
		case len(units) > 0:
			limits := slices.Clone(key.Limits)
			for rule, n := range units {
				switch l := about.Of(&limits[rule]); {
				case slices.Contains(a.uncharged, place{i, rule}):
					limits[rule] = limits[rule].Take(0).Used(0)
				case l.Takes:
					limits[rule] = limits[rule].Used(n)
				default:
					limits[rule] = limits[rule].Take(taken.Of(a.call.Cost, a.call.NoCost)).Used(n)
				}
			}
			settle.Keys = append(settle.Keys, ratelimit.Key{Name: key.Name, Limits: limits})
		}
	}
	return settle
}
