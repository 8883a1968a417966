package ratelimit

import (
	"context"
	"errors"
	"time"
)

// Decision is what an observer learns of one decision.
type Decision struct {
	Key    string
	Limits Limits
	// Result is how it went; Result.By is where it was decided. When Err is set, all else of it is zero
	// unless the Decider that failed says more.
	Result Result
	Err    error
	// Duration is how long the caller waited for it.
	Duration time.Duration
}

// Observed returns decider with observers that are called after each decision, in their order and in the
// goroutine of the caller, which waits for them: an observer must be quick, and safe for concurrent use. It
// must not change Limits.
//
// Put it around everything else, such as a cache of denials: it then sees what was decided where. An observer
// sees the keys, which may hold addresses or secrets of clients. The ones in packages sloglimit, promlimit and
// otellimit do not pass them on unless told to.
func Observed(decider Decider, observers ...func(ctx context.Context, d Decision)) Decider {
	if len(observers) == 0 {
		return decider
	}
	return &observed{decider, observers}
}

type observed struct {
	decider   Decider
	observers []func(context.Context, Decision)
}

func (o *observed) Decide(ctx context.Context, key string, limits Limits, opts ...LimitOption) (Result, error) {
	began := time.Now()
	result, err := o.decider.Decide(ctx, key, limits, opts...)
	d := Decision{Key: key, Limits: limits, Result: result, Err: err, Duration: time.Since(began)}
	for _, observe := range o.observers {
		observe(ctx, d)
	}
	return result, err
}

// Outcome is how a decision went, in one word.
type Outcome int

// How a decision went.
const (
	Allowed Outcome = iota
	Denied
	Outage    // Redis is to blame (IsOutage)
	Cancelled // the caller left
	Mistake   // any other error
	numOutcomes
)

// outcomes are the words for them.
var outcomes = [numOutcomes]string{Allowed: "allowed", Denied: "limited", Outage: "outage", Cancelled: "cancelled", Mistake: "error"}

// String is the word for o: allowed, limited, outage, cancelled or error.
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
	case IsOutage(d.Err):
		return Outage
	case errors.Is(d.Err, context.Canceled):
		return Cancelled
	}
	return Mistake
}

// Policy is the name of the limit that decided, as the header fields of Middleware have it: the one that
// Limit.Named gave, otherwise "default", or "limit-1", "limit-2" and so on of several. It is "" where no limit
// decided: after an error, when the key is banned, and FromPolicy.
func (d Decision) Policy() string {
	if d.Err != nil || d.Result.By == FromPolicy || d.Result.undecided() || d.Result.Rule >= len(d.Limits) {
		return ""
	}
	return d.Limits.policyName(d.Result.Rule)
}

// Shadowed is the name of the limit that would have denied the call if it were enforced (Limit.Shadow), "" where
// there is none.
func (d Decision) Shadowed() string {
	if d.Err != nil || !d.Result.Shadowed || d.Result.Shadow >= len(d.Limits) {
		return ""
	}
	return d.Limits.policyName(d.Result.Shadow)
}

// undecided says that no limit decided.
func (r Result) undecided() bool { return r.Banned || r.Rule < 0 }
