package ratelimit

import (
	"fmt"
	"math"
	"time"
)

// Never is the RetryAfter of a call that can never succeed, because it costs more than
// the limit holds.
const Never time.Duration = -1

// Result is the outcome of a call, and the state after it of the limit that decided.
// Times are those of the server when it answered, rounded up to a millisecond (with
// Throttle, to a second).
type Result struct {
	// Limited says that the call was denied.
	Limited bool
	// Rule is the index in Limits of the limit that decided: of a denied call the one
	// with the longest wait, otherwise the one with the fewest units left. Of a banned
	// key it is 0, since Limit is that of the first limit then.
	Rule int
	// Banned says that the call was denied because its key is banned, whatever its limits
	// would say. ResetAfter and NextAfter are the rest of the ban, RetryAfter
	// is the longer of that and the wait for the limits. Throttle cannot tell, and leaves it
	// false.
	Banned bool
	// Limit is how many units that limit holds when it is full.
	Limit int64
	// Remaining is how many units could be taken right now.
	Remaining int64
	// RetryAfter is the time until the same call can succeed if nobody else asks: 0 when
	// it was not limited, Never when it cannot.
	RetryAfter time.Duration
	// ResetAfter is the time until the limit is full.
	ResetAfter time.Duration
	// NextAfter is the time until there is one unit more, 0 when the limit is full.
	NextAfter time.Duration
	// Granted is how many units were charged. If it is negative, units were returned.
	Granted int64
	// Wait is how long the caller has to hold its request (Limit with MaxWait), or how
	// long it has waited (Wait).
	Wait time.Duration
	// By is where the call was decided: by the server, unless something stands before it.
	By Source
	// Shadowed says that a Limit with Shadow would have denied the call.
	Shadowed bool
	// Shadow is the index in Limits of the first such limit, 0 when there is none.
	Shadow int
}

// Err is nil, or a *LimitedError when the call was denied.
func (r Result) Err() error {
	if !r.Limited {
		return nil
	}
	return &LimitedError{r}
}

// LimitedError is a denied call as an error, for Retry. An error for something else that
// asked for a pause, such as a response with status 429, is
// &LimitedError{Result{Limited: true, RetryAfter: pause}}.
type LimitedError struct {
	Result
}

func (e *LimitedError) Error() string {
	if e.Banned {
		return fmt.Sprintf("limited: banned, retry after %v", e.RetryAfter)
	}
	if e.RetryAfter == Never {
		return fmt.Sprintf("limited: the call costs more than the limit of %d", e.Limit)
	}
	return fmt.Sprintf("limited: retry after %v", e.RetryAfter)
}

// parseThrottle reads the reply of CL.THROTTLE to a call for cost units.
func parseThrottle(reply any, cost int64) (Result, error) {
	elements, _ := reply.([]any)
	var n [5]int64
	if len(elements) != len(n) || !integers(elements, n[:]) {
		return Result{}, fmt.Errorf("the reply is %v, not %d integers", reply, len(n))
	}
	r := Result{Limited: n[0] != 0, Limit: n[1], Remaining: n[2], ResetAfter: times(n[4], time.Second)}
	if r.Limited {
		r.RetryAfter = times(n[3], time.Second)
	} else {
		r.Granted = cost
	}
	return r, nil
}

// parseCompact reads the reply of the other commands with COMPACT: an array of integers.
// Those beyond the tenth are of a newer server. rules is how many limits were asked.
func parseCompact(reply any, rules int) (Result, error) {
	elements, _ := reply.([]any)
	var n [10]int64
	if !integers(elements, n[:]) {
		return Result{}, fmt.Errorf("the reply is %v, not %d integers or more", reply, len(n))
	}
	r := Result{
		Limited:    n[0] != 0,
		Limit:      n[2],
		Remaining:  n[3],
		ResetAfter: times(n[5], time.Millisecond),
		NextAfter:  times(n[6], time.Millisecond),
		Granted:    n[7],
		Wait:       times(n[8], time.Millisecond),
	}
	if r.Limited {
		r.RetryAfter = times(n[4], time.Millisecond)
	}
	// Both count from 1. No limit decides while the key is banned; most often there is no shadow.
	r.Banned, r.Rule = r.Limited && n[1] == 0, int(max(n[1]-1, 0))
	r.Shadowed, r.Shadow = n[9] != 0, int(max(n[9]-1, 0))
	if n[1] < 0 || (n[1] == 0 && !r.Banned) || n[1] > int64(rules) || n[9] < 0 || n[9] > int64(rules) {
		return Result{}, fmt.Errorf("the reply is %v, whose rule is none of the %d limits", reply, rules)
	}
	return r, nil
}

func parseBan(reply any) (time.Duration, error) {
	ms, err := parseInteger(reply)
	return times(ms, time.Millisecond), err
}

func parseInteger(reply any) (int64, error) {
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("the reply is %v, not an integer", reply)
	}
	return n, nil
}

// integers fills n from the first elements, and says whether there are as many and all are
// integers.
func integers(elements []any, n []int64) bool {
	if len(elements) < len(n) {
		return false
	}
	for i := range n {
		var ok bool
		if n[i], ok = elements[i].(int64); !ok {
			return false
		}
	}
	return true
}

// times is n units, or as close to it as a Duration comes; -1 is Never.
func times(n int64, unit time.Duration) time.Duration {
	switch {
	case n < 0:
		return Never
	case n > math.MaxInt64/int64(unit):
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
