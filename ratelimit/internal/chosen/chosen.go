// Package chosen keeps what follows from the limits that LimitsFor of a middleware returns, so that it is not computed for each request.
package chosen

import (
	"sync"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/denials"
	"redis-throttle/ratelimit/internal/field"
)

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
