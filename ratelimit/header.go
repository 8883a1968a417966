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
}

// policiesOf refuses limits that the server or a field cannot take.
func policiesOf(limits Limits) ([]policy, error) {
	policies := make([]policy, len(limits))
	for i, limit := range limits {
		if err := limit.check(); err != nil {
			return nil, fmt.Errorf("ratelimit: %w", err)
		}
		p := policy{name: limit.name, unit: limit.unit}
		if p.name == "" {
			p.name = "default"
			if len(limits) > 1 {
				p.name = "limit-" + strconv.Itoa(i+1)
			}
		}
		p.quota, p.window = limit.quota()
		policies[i] = p
	}
	if _, err := httpsfv.Marshal(policyList(policies, nil)); err != nil {
		return nil, fmt.Errorf("ratelimit: the names and units of limits must be printable ASCII: %w", err)
	}
	return policies, nil
}

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
	list := make(httpsfv.List, len(policies))
	for i, p := range policies {
		item := httpsfv.NewItem(p.name)
		item.Params.Add("q", p.quota)
		if p.unit != "" {
			item.Params.Add("qu", p.unit)
		}
		item.Params.Add("w", p.window)
		if partitionKey != nil {
			item.Params.Add("pk", partitionKey)
		}
		list[i] = item
	}
	return list
}

func serviceLimit(p policy, result Result, partitionKey []byte) httpsfv.List {
	item := httpsfv.NewItem(p.name)
	item.Params.Add("r", min(result.Remaining, maxFieldInteger))
	// The time in which no more than the remaining units can be used: after it there is
	// one more. A full limit gets none.
	if result.NextAfter > 0 {
		item.Params.Add("t", ceilSeconds(result.NextAfter))
	}
	if partitionKey != nil {
		item.Params.Add("pk", partitionKey)
	}
	return httpsfv.List{item}
}

// setHeader sets the fields of a response after result. partitionKey may be nil.
func setHeader(h http.Header, policies []policy, result Result, partitionKey []byte) {
	addField(h, policyField, policyList(policies, partitionKey))
	addField(h, rateLimitField, serviceLimit(policies[result.Rule], result, partitionKey))
	if result.Limited && result.RetryAfter != Never {
		// It must not point to before the end of t, and does not: there has to be one unit
		// more at least.
		h.Set("Retry-After", strconv.FormatInt(max(ceilSeconds(result.RetryAfter), 1), 10))
	}
}

// addField adds to what an outer limiter has put there: both fields are lists.
func addField(h http.Header, name string, list httpsfv.List) {
	text, err := httpsfv.Marshal(list)
	if err != nil {
		return // policiesOf has refused every name that cannot be written
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
