package ratelimit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// poll has a call wait where the server has no module, and so cannot make it wait: it asks until the call is let
// through. Limits that are all Rates are asked once, since the server reserves their units.
func (r *remote) poll(ctx context.Context, call Call) (Result, error) {
	name := names[call.Verb]
	switch {
	case call.Group != "" || call.Priority != 0 || call.Weight != 0:
		return Result{}, fmt.Errorf("ratelimit: %s: %w: Group, Priority and Weight need the module, which keeps the line", name, ErrNoModule)
	case r.doors.Poll == 0:
		return Result{}, fmt.Errorf("ratelimit: %s: %w: a function cannot make a caller wait; Poll of commands.On has the caller ask again", name, ErrNoModule)
	}
	began := time.Now()
	left := func() time.Duration { return call.MaxWait - time.Since(began) }
	if call.MaxWait >= longest {
		left = func() time.Duration { return longest }
	}
	question := call
	question.MaxWait = 0
	reserves := false
	if call.Verb == VerbWait {
		question.Verb = VerbLimit
		reserves = call.Keys[0].Limits.areRates()
	}
	for {
		rest := left()
		if reserves {
			question.MaxWait = max(rest, 0)
		}
		result, err := r.Decide(ctx, question)
		if err == nil && !result.Limited && result.Wait > 0 {
			err = r.sitOut(ctx, result.Wait, &question)
		}
		if err != nil {
			return Result{}, err
		}
		// What is reserved, or a ban, ends when it was said to: the module, too, tells a caller at once that it is too
		// late for it.
		late := (reserves && !result.Banned) || (result.Banned && result.RetryAfter > rest)
		if !result.Limited || rest <= 0 || result.RetryAfter == Never || late {
			result.Wait = time.Since(began).Truncate(time.Millisecond)
			return result, nil
		}
		if err := pause(ctx, min(r.pollAfter(result.RetryAfter), rest)); err != nil {
			return Result{}, err
		}
	}
}

// areRates says whether units of all limits can be reserved.
func (l Limits) areRates() bool {
	for i := range l {
		if l[i].kind != rate {
			return false
		}
	}
	return true
}

// pollAfter is when a call asks again that can succeed after d, if nobody else asks. Callers that were told the same
// come apart.
func (r *remote) pollAfter(d time.Duration) time.Duration {
	if most := r.doors.Poll; d > most {
		return most/2 + rand.N(most/2+1)
	}
	return d + rand.N(d/10+1)
}

// sitOut waits for units that are reserved. They are given back when the caller leaves.
func (r *remote) sitOut(ctx context.Context, d time.Duration, call *Call) error {
	err := pause(ctx, d)
	if err != nil {
		back := Call{Verb: VerbRefund, Keys: call.Keys, Cost: call.Cost, NoCost: call.NoCost}
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.patience)
			defer cancel()
			_, _ = r.Decide(ctx, back)
		}()
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
