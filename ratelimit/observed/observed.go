// Package observed tells observers of each decision: metrics, traces, logs.
//
//	decider := observed.New(ratelimit.New(client, ratelimit.Options{}), metrics.Observe, sloglimit.New(sloglimit.Options{}))
//
// Packages promlimit, otellimit and sloglimit have observers.
package observed

import (
	"context"
	"errors"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/field"
)

// Decision is what an observer learns of one decision.
type Decision struct {
	Call ratelimit.Call
	// Result is how it went; Result.By is where it was decided. When Err is set, Result is zero, except for what the
	// Decider that failed has set.
	Result ratelimit.Result
	Err    error
	// Duration is how long the caller waited for it.
	Duration time.Duration
}

// New returns next with observers that are called after each decision, whatever its verb, in their order and in the
// goroutine of the caller, which waits for them: an observer must be quick, and safe for concurrent use. It
// must not change what the Call holds. New panics if next or an observer is nil.
//
// Put it around everything else, such as a cache of denials: it then sees what was decided where. An observer
// sees the keys, which may hold addresses or secrets of clients. The ones in packages sloglimit, promlimit and
// otellimit do not pass them on unless told to.
func New(next ratelimit.Decider, observers ...func(ctx context.Context, d Decision)) ratelimit.Decider {
	limiter := ratelimit.With(next)
	for _, observe := range observers {
		if observe == nil {
			panic("observed: New needs observers, not nil")
		}
	}
	return &decider{limiter, observers}
}

type decider struct {
	next      ratelimit.Decider
	observers []func(context.Context, Decision)
}

func (o *decider) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	if call.Verb == ratelimit.VerbDenied { // which decides nothing; whoever denied those calls was observed
		return o.next.Decide(ctx, call)
	}
	began := time.Now()
	result, err := o.next.Decide(ctx, call)
	d := Decision{Call: call, Result: result, Err: err, Duration: time.Since(began)}
	for _, observe := range o.observers {
		observe(ctx, d)
	}
	return result, err
}

// Outcome is how a decision went, in one word.
type Outcome int

// How a decision went.
const (
	Allowed   Outcome = iota
	Denied            // Result.Limited
	Outage            // Redis is to blame (ratelimit.IsOutage)
	Overload          // this process asks for more connections than it has (ratelimit.IsOverload)
	Cancelled         // the caller left
	Mistake           // any other error
	numOutcomes
)

// outcomes are the words for them.
var outcomes = [numOutcomes]string{
	Allowed: "allowed", Denied: "limited", Outage: "outage", Overload: "overload", Cancelled: "cancelled", Mistake: "error",
}

// String is the word for o: allowed, limited, outage, overload, cancelled or error.
func (o Outcome) String() string {
	if o < 0 || o >= numOutcomes {
		return "unknown"
	}
	return outcomes[o]
}

// Outcome is how the decision went.
func (d Decision) Outcome() Outcome {
	switch {
	case d.Err == nil && d.Result.Limited:
		return Denied
	case d.Err == nil:
		return Allowed
	case ratelimit.IsOutage(d.Err):
		return Outage
	case ratelimit.IsOverload(d.Err):
		return Overload
	case errors.Is(d.Err, context.Canceled):
		return Cancelled
	}
	return Mistake
}

// By is where it was decided: Result.By, and "server" for a call that failed there.
func (d Decision) By() string {
	if d.Result.By == "" {
		return "server"
	}
	return d.Result.By
}

// Policy is the name of the limit that decided, as the RateLimit header fields have it: the one that
// Limit.Named gave, otherwise that of its policy (ratelimit.Policy), otherwise "default", or "limit-1", "limit-2" and
// so on of several. It is "" where no limit decided: after an error, when the key is banned, with leases, by "policy"
// and by "none".
func (d Decision) Policy() string {
	if d.Err != nil || field.Nobody(d.Result.By) || d.Result.Banned {
		return ""
	}
	return d.name(d.Result.KeyIndex, d.Result.Rule)
}

// Shadowed is the name of the limit that would have denied the call if it were enforced (Limit.Shadow), "" where
// there is none.
func (d Decision) Shadowed() string {
	if d.Err != nil || !d.Result.Shadowed {
		return ""
	}
	return d.name(d.Result.ShadowKeyIndex, d.Result.Shadow)
}

func (d Decision) name(key, rule int) string {
	if key < 0 || key >= len(d.Call.Keys) {
		return ""
	}
	limits := field.InForce(&d.Result, key, d.Call.Keys[key].Limits)
	if rule < 0 || rule >= len(limits) {
		return ""
	}
	return field.Name(limits, rule)
}
