// Package chosen keeps what follows from the limits that LimitsFor of a middleware returns, so that it is not computed
// for each request.
package chosen

import (
	"sync"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/denials"
	"redis-throttle/ratelimit/internal/field"
)

// InForce holds the fields of limits that policies have put in place of those of the code. The zero InForce is ready
// for use. It is safe for concurrent use.
type InForce struct{ cache Cache[*field.Policies] }

// Of are the fields of the limits that counted for the key of a call at a place: own, or those of a policy. Nil are
// those of a policy that lets everything through.
func (f *InForce) Of(result *ratelimit.Result, place int, own *field.Policies) *field.Policies {
	if place >= len(result.Policies) || result.Policies[place].Name == "" {
		return own
	}
	limits := result.Policies[place].Limits
	if len(limits) == 0 {
		return nil
	}
	fields, err := f.cache.Of(limits, func(_ ratelimit.Limits, fields *field.Policies) *field.Policies { return fields })
	if err != nil { // of the names that the code gave, which were checked
		return own
	}
	return fields
}

// Most bounds how many different limits are kept.
const Most = 1000

// Cache holds a value for each of the last limits. The zero Cache is ready for use. It is safe for concurrent use.
type Cache[V any] struct {
	mu     sync.RWMutex
	values map[string]V
}

// Of is the value for limits, which compute makes of a copy of them. It fails for limits that are invalid.
func (c *Cache[V]) Of(limits ratelimit.Limits, compute func(ratelimit.Limits, *field.Policies) V) (V, error) {
	var buffer [512]byte
	text := denials.AppendLimits(buffer[:0], limits)
	for i := range limits {
		text = field.AppendName(text, &limits[i])
	}
	c.mu.RLock()
	value, ok := c.values[string(text)]
	c.mu.RUnlock()
	if ok {
		return value, nil
	}
	policies, err := field.Valid(limits)
	if err != nil {
		return value, err
	}
	value = compute(append(ratelimit.Limits(nil), limits...), policies)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.values) >= Most {
		clear(c.values)
	}
	if c.values == nil {
		c.values = map[string]V{}
	}
	c.values[string(text)] = value
	return value, nil
}
