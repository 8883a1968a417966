package ratelimit

import (
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"
)

// The RateLimit header fields are those of draft-ietf-httpapi-ratelimit-headers-11,
// structured fields (RFC 9651).
const (
	policyField    = "RateLimit-Policy"
	rateLimitField = "RateLimit"
)

// maxFieldInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxFieldInteger = 999_999_999_999_999

// policy is what the fields tell of a limit.
type policy struct {
	name   string
	unit   string // "" is requests
	quota  int64
	window int64 // seconds
	hidden bool  // a limit with Shadow is none for clients
}

// policiesOf refuses limits that the server or a field cannot take.
func policiesOf(limits Limits) ([]policy, error) {
	policies := make([]policy, len(limits))
	for i, limit := range limits {
		if err := limit.check(); err != nil {
			return nil, fmt.Errorf("ratelimit: %w", err)
		}
		p := policy{name: limits.policyName(i), unit: limit.unit, hidden: limit.shadow}
		p.quota, p.window = limit.quota()
		policies[i] = p
	}
	if _, err := httpsfv.Marshal(policyList(policies, nil)); err != nil { // hidden ones are not written
		return nil, fmt.Errorf("ratelimit: the names and units of limits must be printable ASCII: %w", err)
	}
	return policies, nil
}

// policyName is what the policy of l[i] is called.
func (l Limits) policyName(i int) string {
	switch {
	case l[i].name != "":
		return l[i].name
	case len(l) == 1:
		return "default"
	case i < len(numbered):
		return numbered[i]
	}
	return "limit-" + strconv.Itoa(i+1) // more than the server takes
}

// numbered are the names of limits that have none, for as many as a call may have.
var numbered = [...]string{"limit-1", "limit-2", "limit-3", "limit-4", "limit-5", "limit-6", "limit-7", "limit-8"}

// quota is the quota and window to announce: the window is the time in which a full
// limit gets all its units back, in whole seconds, the quota what it gets back in it.
// So their ratio is the rate, and the quota is never less than the capacity.
func (l Limit) quota() (quota, windowSeconds int64) {
	perSecond := new(big.Rat).SetInt64(l.count)
	perSecond.Quo(perSecond, l.period.seconds())
	refill := new(big.Rat).SetInt64(l.capacity())
	refill.Quo(refill, perSecond)
	windowSeconds = fieldInteger(refill, 1)
	units := new(big.Rat).SetInt64(windowSeconds)
	return fieldInteger(units.Mul(units, perSecond), 0), windowSeconds
}

// fieldInteger is n as a field takes it: a fraction is rounded down, and then up by
// roundUp.
func fieldInteger(n *big.Rat, roundUp int64) int64 {
	i, fraction := new(big.Int).QuoRem(n.Num(), n.Denom(), new(big.Int))
	if fraction.Sign() != 0 {
		i.Add(i, big.NewInt(roundUp))
	}
	if !i.IsInt64() {
		return maxFieldInteger
	}
	return min(i.Int64(), maxFieldInteger)
}

func policyList(policies []policy, partitionKey []byte) httpsfv.List {
	list := make(httpsfv.List, 0, len(policies))
	for _, p := range policies {
		if p.hidden {
			continue
		}
		item := httpsfv.NewItem(p.name)
		item.Params.Add("q", p.quota)
		if p.unit != "" {
			item.Params.Add("qu", p.unit)
		}
		item.Params.Add("w", p.window)
		if partitionKey != nil {
			item.Params.Add("pk", partitionKey)
		}
		list = append(list, item)
	}
	return list
}

// serviceLimits tells of the limit that decided, or of all limits when none did: a key that is banned has
// nothing left of any.
func serviceLimits(policies []policy, result Result, partitionKey []byte) httpsfv.List {
	list := make(httpsfv.List, 0, len(policies))
	for i, p := range policies {
		switch {
		case p.hidden:
		case result.undecided():
			list = append(list, serviceLimit(p, 0, max(result.NextAfter, result.RetryAfter), partitionKey))
		case i == result.Rule:
			list = append(list, serviceLimit(p, result.Remaining, result.NextAfter, partitionKey))
		}
	}
	return list
}

func serviceLimit(p policy, remaining int64, nextAfter time.Duration, partitionKey []byte) httpsfv.Item {
	item := httpsfv.NewItem(p.name)
	item.Params.Add("r", min(remaining, maxFieldInteger))
	// The time in which no more than the remaining units can be used: after it there is
	// one more. A full limit gets none.
	if nextAfter > 0 {
		item.Params.Add("t", ceilSeconds(nextAfter))
	}
	if partitionKey != nil {
		item.Params.Add("pk", partitionKey)
	}
	return item
}

// setHeader sets the fields of a response after result. partitionKey may be nil.
func setHeader(h http.Header, policies []policy, result Result, partitionKey []byte) {
	addField(h, policyField, policyList(policies, partitionKey))
	addField(h, rateLimitField, serviceLimits(policies, result, partitionKey))
	if result.Limited && result.RetryAfter != Never {
		// It must not point to before the end of t, and does not: there has to be one unit
		// more at least.
		setRetryAfter(h, result.RetryAfter)
	}
}

func setRetryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", strconv.FormatInt(max(ceilSeconds(d), 1), 10))
}

// Fields writes the header fields of some limits, for what is no net/http middleware: other web frameworks, gRPC.
type Fields struct{ policies []policy }

// NewFields refuses limits that Middleware refuses.
func NewFields(limits Limits) (*Fields, error) {
	policies, err := policiesOf(limits)
	if err != nil {
		return nil, err
	}
	return &Fields{policies}, nil
}

// Set adds RateLimit-Policy and RateLimit after a decision about the limits, and sets Retry-After if that was a denial
// with an end. It adds nothing about a decision that was made without any limit (FromPolicy). partitionKey may be nil; see
// Middleware.PartitionKey.
func (f *Fields) Set(h http.Header, result Result, partitionKey []byte) {
	if result.By != FromPolicy {
		setHeader(h, f.policies, result, partitionKey)
	}
}

// addField adds to what an outer limiter has put there: both fields are lists.
func addField(h http.Header, name string, list httpsfv.List) {
	text, err := httpsfv.Marshal(list)
	if err != nil || text == "" {
		return // policiesOf has refused every name that cannot be written; an empty list is no field
	}
	h.Add(name, text)
}

func ceilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// XRateLimit is whether a Middleware sets X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset as
// well, and what the last of them says. No standard defines these fields, and services differ about Reset.
type XRateLimit int

// Whether there are X-RateLimit fields, and the unit of X-RateLimit-Reset: the time when the limit is full.
const (
	NoXRateLimit      XRateLimit = iota
	XRateLimitSeconds            // seconds from now
	XRateLimitUnix               // seconds since the Unix epoch, by the clock of this process
)

// setXRateLimit sets the fields of the limit that decided. They have room for one: of nested middlewares it is
// the one that denied the request, otherwise the one with the fewest units left.
func setXRateLimit(h http.Header, form XRateLimit, result Result, now time.Time) {
	if form == NoXRateLimit {
		return
	}
	outer, err := strconv.ParseInt(h.Get("X-RateLimit-Remaining"), 10, 64)
	if err == nil && outer <= result.Remaining && !result.Limited {
		return
	}
	reset := ceilSeconds(result.ResetAfter)
	if form == XRateLimitUnix { // no earlier than the time itself, whose fractions are cut
		reset = now.Add(result.ResetAfter).Add(time.Second - 1).Unix()
	}
	h.Set("X-RateLimit-Limit", strconv.FormatInt(result.Limit, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(result.Remaining, 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}
