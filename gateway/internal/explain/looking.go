package explain

import (
	"context"
	"errors"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
)

// looking is a Redis that charges nothing: it answers what a call would be answered by what CL.PEEK says of each key.
type looking struct {
	redis   ratelimit.Decider // nil if there is none
	cluster bool
	asked   bool
	seen    map[string]ratelimit.Result // by key
	err     error                       // that it did not answer: it is not asked again
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
	return whole, nil
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
	one, err := l.redis.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: []ratelimit.Key{key}, Cost: call.Cost, NoCost: call.NoCost, Each: true})
	if err != nil {
		l.err = err
		return one, err
	}
	if _, ok := l.seen[key.Name]; !ok {
		l.seen[key.Name] = one
		kept := l.seen[key.Name]
		kept.Each = append([]ratelimit.Result{}, one.Each...) // those of the call are changed
		l.seen[key.Name] = kept
	}
	return one, nil
}
