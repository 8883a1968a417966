package explain

import (
	"context"
	"errors"
	"math"

	"redis-throttle/gateway/internal/decide"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
)

// looking is a Redis that charges nothing: it answers what a call would be answered by what CL.PEEK says of each key,
// and by what the request itself gives back and takes.
type looking struct {
	redis   ratelimit.Decider // nil if there is none
	cluster bool
	compat  bool // a call that denies does not have the others only look
	asked   bool
	seen    map[string]ratelimit.Result // by key
	err     error                       // that it did not answer: it is not asked again
	back    map[string]int64            // units that the request gives back, by key
	takes   map[string]int64            // units that it takes, by key
	denied  bool                        // by a call before this one
}

// expects notes what a request takes and gives back.
func (l *looking) expects(prefix string, asks []decide.Ask) {
	l.back, l.takes = map[string]int64{}, map[string]int64{}
	for i := range asks {
		if a := &asks[i]; a.Rule != nil && len(a.Rule.Limits) > 0 {
			units := l.takes
			if a.Refund {
				units = l.back
			}
			key := prefix + a.Key
			units[key] += min(a.Hits, math.MaxInt64-units[key])
		}
	}
}

var errNotAsked = errors.New("no Redis was named")

// Of is of decide.Redis.
func (l *looking) Of(guard.Policy, int64) ratelimit.Decider { return l }

// Cluster is of decide.Redis.
func (l *looking) Cluster() bool { return l.cluster }

// Each is of decide.Redis.
func (l *looking) Each(ctx context.Context, _ guard.Policy, calls []ratelimit.Call) ([]ratelimit.Result, []error) {
	results, errs := make([]ratelimit.Result, len(calls)), make([]error, len(calls))
	for i, call := range calls {
		results[i], errs[i] = l.Decide(ctx, call)
	}
	return results, errs
}

// Decide is of ratelimit.Decider. Of several keys, one that is banned decides, then the one that denies the longest.
func (l *looking) Decide(ctx context.Context, call ratelimit.Call) (whole ratelimit.Result, err error) {
	for i := range call.Keys {
		one, err := l.peek(ctx, &call, call.Keys[i])
		if err != nil {
			return ratelimit.Result{}, err
		}
		if call.Verb == ratelimit.VerbRefund { // which no limit denies
			one.Limited, one.Banned = false, false
		}
		for j := range one.Each {
			one.Each[j].KeyIndex = i
			one.Each[j].Limited = one.Each[j].Limited && call.Verb != ratelimit.VerbRefund
		}
		each := append(whole.Each, one.Each...)
		if i == 0 || decides(&one, &whole) {
			whole = one
			whole.KeyIndex = i
		}
		whole.Each = each
	}
	if call.Verb == ratelimit.VerbRefund {
		return whole, nil
	}
	if !whole.Limited && !whole.Banned && (l.compat || !l.denied) {
		l.charge(&call, &whole)
	}
	l.denied = l.denied || whole.Limited
	return whole, nil
}

// charge has a call that passes leave what it would, so that the rule with the fewest units left is the one that a
// decision names.
func (l *looking) charge(call *ratelimit.Call, whole *ratelimit.Result) {
	for i := range whole.Each {
		if one := &whole.Each[i]; !one.Limited { // a shadow that would deny takes nothing
			one.Remaining = max(one.Remaining-l.takes[call.Keys[one.KeyIndex].Name], 0)
		}
	}
	whole.Remaining = max(whole.Remaining-l.takes[call.Keys[whole.KeyIndex].Name], 0)
}

// given is a result of a key after the request has given units back.
func given(one *ratelimit.Result, back, takes int64) {
	one.Remaining = min(one.Limit, one.Remaining+min(back, math.MaxInt64-one.Remaining))
	if one.Remaining == one.Limit {
		one.ResetAfter = 0
	}
	if takes > one.Limit && back > 0 { // not even a full limit has that, however much comes back
		one.Limited, one.RetryAfter = true, ratelimit.Never
	}
}

// decides says whether key a decides a call, and not b.
func decides(a, b *ratelimit.Result) bool {
	switch {
	case a.Banned != b.Banned:
		return a.Banned
	case a.Limited != b.Limited:
		return a.Limited
	case a.Limited:
		return b.RetryAfter != ratelimit.Never && (a.RetryAfter == ratelimit.Never || a.RetryAfter > b.RetryAfter)
	}
	return a.Remaining < b.Remaining
}

func (l *looking) peek(ctx context.Context, call *ratelimit.Call, key ratelimit.Key) (ratelimit.Result, error) {
	switch {
	case l.err != nil:
		return ratelimit.Result{}, l.err
	case l.redis == nil:
		return ratelimit.Result{}, errNotAsked
	}
	l.asked = true
	peek := ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: []ratelimit.Key{key}, Cost: call.Cost, NoCost: call.NoCost, Each: true}
	back, takes := l.back[key.Name], l.takes[key.Name]
	if call.Verb == ratelimit.VerbRefund {
		takes = 0
	}
	if call.Verb == ratelimit.VerbRefund || back > 0 { // what comes back need not be there
		limits := make(ratelimit.Limits, len(key.Limits))
		for i := range limits {
			limits[i] = key.Limits[i].Take(max(takes-back, 0))
		}
		peek.Keys[0].Limits, peek.Cost, peek.NoCost = limits, 1, false
	}
	one, err := l.redis.Decide(ctx, peek)
	if err != nil {
		l.err = err
		return one, err
	}
	if back > 0 {
		given(&one, back, takes)
		for i := range one.Each {
			given(&one.Each[i], back, takes)
		}
	}
	if _, ok := l.seen[key.Name]; !ok || call.Verb != ratelimit.VerbRefund {
		l.seen[key.Name] = one
		kept := l.seen[key.Name]
		kept.Each = append([]ratelimit.Result{}, one.Each...) // those of the call are changed
		l.seen[key.Name] = kept
	}
	return one, nil
}
