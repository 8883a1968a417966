package ratelimit

import "context"

// Decider decides about one call on a key: a Limiter, or what stands before one, such as a cache of
// denials. The middleware takes any.
type Decider interface {
	Decide(ctx context.Context, key string, limits Limits, opts ...LimitOption) (Result, error)
}

// Decide is Limit and its result.
func (l *Limiter) Decide(ctx context.Context, key string, limits Limits, opts ...LimitOption) (Result, error) {
	return l.Limit(ctx, key, limits, opts...).Result()
}
