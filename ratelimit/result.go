package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Never is the RetryAfter of a call that can never succeed, because it costs more than
// the limit holds.
const Never time.Duration = -1

// Result is the outcome of a call, and the state after it of the limit that decided.
// Times count from the server's answer and are rounded up to a millisecond (with
// VerbThrottle, to a second).
type Result struct {
	// Limited says that the call was denied; with VerbRenew and VerbSettle, that the lease had lapsed.
	Limited bool
	// Key is the name of the key that decided, was charged or is banned, and KeyIndex its place in Call.Keys.
	Key      string
	KeyIndex int
	// Rule is the index in that key's Limits of the limit that decided: of a denied call the one with the longest wait,
	// otherwise the one with the fewest units left. Of a banned key it is 0, since Limit is that of the first limit
	// then.
	Rule int
	// Banned says that the call was denied because its key is banned, whatever its limits
	// would say. ResetAfter and NextAfter are the rest of the ban, RetryAfter
	// is the longer of that and the wait for the limits. VerbThrottle cannot tell, and leaves it
	// false.
	Banned bool
	// Limit is how many units that limit holds when it is full, or how many slots there are.
	Limit int64
	// Remaining is how many units could be taken right now, or how many slots are free.
	Remaining int64
	// RetryAfter is the time until the same call can succeed if nobody else asks: 0 when
	// it was not limited, Never when it cannot. Of a lease it is the time until the next one lapses, if nobody
	// releases one before.
	RetryAfter time.Duration
	// ResetAfter is the time until the limit is full.
	ResetAfter time.Duration
	// NextAfter is the time until there is one unit more, 0 when the limit is full.
	NextAfter time.Duration
	// Granted is how many units were charged. If it is negative, units were returned.
	Granted int64
	// Wait is how long the caller has to hold its request (VerbLimit with MaxWait), or how
	// long it has waited (VerbWait, VerbLease).
	Wait time.Duration
	// Lasts is how long a lease lasts if it is not renewed, or how long a key is banned (VerbBan).
	Lasts time.Duration
	// By is where the call was decided. "server" is the server. "cache" is a denial that the server gave before.
	// "batch" is units that were taken for several calls at once. "local" is this process, while there was no server.
	// "policy" is nobody: the call was let through or refused because there was no server. "none" is a policy that lets
	// everything through (package policies). The server knows only of "server" and "batch".
	By string
	// Shadowed says that a Limit with Shadow would have denied the call. The first one is at the index Shadow in the
	// Limits of the key ShadowKey, whose place in Call.Keys is ShadowKeyIndex.
	Shadowed       bool
	Shadow         int
	ShadowKey      string
	ShadowKeyIndex int
	// Each is the outcome for each limit by itself, in the order of the call, if Call.Each asks for it: Limited says
	// whether this limit alone would have denied the call. Limit, Remaining, RetryAfter, ResetAfter, Key, KeyIndex and
	// Rule are set.
	Each []Result
	// Policies are what package policies has put in place of limits of the call, for each of its keys. They are nil if
	// it changed none.
	Policies []Applied
}

// Applied says what counted for a key in place of the limits of the code. It is zero for a key that was left alone.
type Applied struct {
	// Name is that of the policy, and Field that of the hash which counted, such as api/user:42.
	Name, Field string
	// Limits are those that decided; none if the policy lets everything through. They must not be changed.
	Limits Limits
}

// ErrLimited is what every *LimitedError is, for errors.Is.
var ErrLimited = errors.New("limited")

// Err is nil, or a *LimitedError when the call was denied.
func (r Result) Err() error {
	if !r.Limited {
		return nil
	}
	return &LimitedError{r}
}

// LimitedError is a denied call as an error. An error for something else that
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

// Unwrap gives ErrLimited.
func (e *LimitedError) Unwrap() error { return ErrLimited }

// result reads the reply to c.
func (c *Call) result(name string, reply any) (r Result, err error) {
	switch c.Verb {
	case VerbThrottle:
		r, err = parseThrottle(reply, c.units())
	case VerbBan:
		var ms int64
		ms, err = parseInteger(reply)
		r.Lasts = times(ms, time.Millisecond)
	case VerbDenied:
		r.Granted, err = parseInteger(reply)
	case VerbRelease, VerbReset:
		r.Granted, err = parseInteger(reply)
		r.Granted = -r.Granted
	case VerbLease, VerbRenew:
		r, err = parseLease(reply)
	case VerbSettle:
		r, err = c.parseSettle(reply)
	default:
		r, err = c.parseCompact(reply, name == "CL.MLIMIT")
	}
	if err != nil {
		return Result{}, err
	}
	r.By = "server"
	if len(c.Keys) > 0 {
		c.nameKeys(&r)
	}
	return r, nil
}

// nameKeys sets the names of the keys that r has the places of.
func (c *Call) nameKeys(r *Result) {
	r.Key = c.Keys[r.KeyIndex].Name
	if r.Shadowed {
		r.ShadowKey = c.Keys[r.ShadowKeyIndex].Name
	}
	for i := range r.Each {
		r.Each[i].Key = c.Keys[r.Each[i].KeyIndex].Name
	}
}

// parseThrottle reads the reply of CL.THROTTLE to a call for cost units.
func parseThrottle(reply any, cost int64) (Result, error) {
	elements, _ := reply.([]any)
	var n [throttleFields]int64
	if len(elements) != len(n) || !integers(elements, n[:]) {
		return Result{}, fmt.Errorf("the reply is %v, not %d integers", reply, len(n))
	}
	r := Result{Limited: n[throttleLimited] != 0, Limit: n[throttleLimit], Remaining: n[throttleRemaining],
		ResetAfter: times(n[throttleResetAfter], time.Second)}
	if r.Limited {
		r.RetryAfter = times(n[throttleRetryAfter], time.Second)
	} else {
		r.Granted = cost
	}
	return r, nil
}

// rules is how many limits the server counts in k: slots, which are no limits, are one.
func (k *Key) rules() int { return max(len(k.Limits), 1) }

func (c *Call) rules() (rules int) {
	for i := range c.Keys {
		rules += c.Keys[i].rules()
	}
	return rules
}

// place is where a limit is that is counted through all keys.
func (c *Call) place(rule int) (key, index int) {
	for rule >= c.Keys[key].rules() {
		rule -= c.Keys[key].rules()
		key++
	}
	return key, rule
}

// parseCompact reads the reply of CL.LIMIT and its kin with COMPACT: an array of integers.
// Those that are not known here are of a newer server. CL.MLIMIT counts the limits of all keys in a row.
func (c *Call) parseCompact(reply any, several bool) (Result, error) {
	elements, _ := reply.([]any)
	var fields [mlimitFields]int64
	n := fields[:limitFields]
	if several {
		n = fields[:]
	}
	if !integers(elements, n) {
		return Result{}, fmt.Errorf("the reply is %v, not %d integers or more", reply, len(n))
	}
	r := Result{
		Limited:    n[limitLimited] != 0,
		Limit:      n[limitLimit],
		Remaining:  n[limitRemaining],
		ResetAfter: times(n[limitResetAfterMs], time.Millisecond),
		NextAfter:  times(n[limitNextAfterMs], time.Millisecond),
		Granted:    n[limitGranted],
		Wait:       times(n[limitWaitMs], time.Millisecond),
	}
	if r.Limited {
		r.RetryAfter = times(n[limitRetryAfterMs], time.Millisecond)
	}
	// Both count from 1. No limit decides while the key is banned; most often there is no shadow.
	rules := int64(c.rules())
	r.Banned, r.Shadowed = r.Limited && n[limitRule] == 0, n[limitShadow] != 0
	if n[limitRule] < 0 || (n[limitRule] == 0 && !r.Banned) || n[limitRule] > rules || n[limitShadow] < 0 || n[limitShadow] > rules {
		return Result{}, fmt.Errorf("the reply is %v, whose rule is none of the %d limits", reply, rules)
	}
	if !r.Banned {
		r.KeyIndex, r.Rule = c.place(int(n[limitRule] - 1))
	}
	if r.Shadowed {
		r.ShadowKeyIndex, r.Shadow = c.place(int(n[limitShadow] - 1))
	}
	if several {
		key := int(n[mlimitKey]) - 1
		if key < 0 || key >= len(c.Keys) || (!r.Banned && key != r.KeyIndex) {
			return Result{}, fmt.Errorf("the reply is %v, whose key is not that of its rule", reply)
		}
		r.KeyIndex = key
	}
	return r, c.parseEach(&r, elements)
}

// parseEach reads the arrays at the end of a reply with EACH.
func (c *Call) parseEach(r *Result, elements []any) error {
	if !c.Each {
		return nil
	}
	rules := c.rules()
	if len(elements) < rules {
		return fmt.Errorf("the reply is %v, without an array for each limit", elements)
	}
	r.Each = make([]Result, rules)
	for i, element := range elements[len(elements)-rules:] {
		standing, _ := element.([]any)
		var n [eachFields]int64
		if !integers(standing, n[:]) {
			return fmt.Errorf("the reply is %v, where %v is not the five integers of a limit", elements, element)
		}
		each := Result{Limited: n[eachLimited] != 0, Limit: n[eachLimit], Remaining: n[eachRemaining], ResetAfter: times(n[eachResetAfterMs], time.Millisecond)}
		if each.Limited {
			each.RetryAfter = times(n[eachRetryAfterMs], time.Millisecond)
		}
		each.KeyIndex, each.Rule = c.place(i)
		r.Each[i] = each
	}
	return nil
}

// parseLease reads the reply of CL.LEASE and CL.RENEW with COMPACT.
func parseLease(reply any) (Result, error) {
	elements, _ := reply.([]any)
	var n [leaseFields]int64
	if !integers(elements, n[:]) {
		return Result{}, fmt.Errorf("the reply is %v, not %d integers or more", reply, len(n))
	}
	r := Result{Limited: n[leaseLimited] != 0, Limit: n[leaseLimit], Remaining: n[leaseRemaining], Wait: times(n[leaseWaitMs], time.Millisecond)}
	if r.Limited {
		r.RetryAfter = times(n[leaseRetryAfterMs], time.Millisecond)
	} else {
		r.Lasts = times(n[leaseLeaseMs], time.Millisecond)
	}
	return r, nil
}

// parseSettle reads the reply of CL.SETTLE with COMPACT. Its fields are those of CL.MLIMIT, except that the first says
// whether it settled, and that no limit is told of when the call names none.
func (c *Call) parseSettle(reply any) (Result, error) {
	elements, _ := reply.([]any)
	var n [settleFields]int64
	if !integers(elements, n[:]) {
		return Result{}, fmt.Errorf("the reply is %v, not %d integers or more", reply, len(n))
	}
	r := Result{
		Limited:    n[settleSettled] == 0,
		Limit:      n[settleLimit],
		Remaining:  n[settleRemaining],
		ResetAfter: times(n[settleResetAfterMs], time.Millisecond),
		NextAfter:  times(n[settleNextAfterMs], time.Millisecond),
		Granted:    n[settleGranted],
	}
	if r.Limited {
		r.RetryAfter = Never
	}
	if n[settleRule] < 0 || n[settleRule] > int64(c.rules()) {
		return Result{}, fmt.Errorf("the reply is %v, whose rule is none of the %d limits", reply, c.rules())
	}
	if n[settleRule] > 0 {
		r.KeyIndex, r.Rule = c.place(int(n[settleRule] - 1))
	}
	return r, c.parseEach(&r, elements)
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
