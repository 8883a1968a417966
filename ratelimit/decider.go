package ratelimit

import (
	"context"
	"fmt"
)

// Decider decides one call on a key. It is a Limiter, or something in front of one, such as a cache of
// denials. The middleware takes any Decider.
type Decider interface {
	Decide(ctx context.Context, key string, limits Limits, opts ...LimitOption) (Result, error)
}

// Decide is Limit and its result.
func (l *Limiter) Decide(ctx context.Context, key string, limits Limits, opts ...LimitOption) (Result, error) {
	return l.Limit(ctx, key, limits, opts...).Result()
}

// Source is where a call was decided.
type Source int

// Where a call was decided. Only FromServer and FromBatch charge units that the server knows of.
const (
	FromServer Source = iota // by the server, for this call
	FromCache                // by a denial that the server gave before
	FromBatch                // with units that were taken for several calls at once
	FromLocal                // in this process, while there was no server
	FromPolicy               // by nobody: let through or refused because there was no server
)

// String is the word for s: server, cache, batch, local or policy.
func (s Source) String() string {
	switch s {
	case FromServer:
		return "server"
	case FromCache:
		return "cache"
	case FromBatch:
		return "batch"
	case FromLocal:
		return "local"
	case FromPolicy:
		return "policy"
	}
	return fmt.Sprintf("Source(%d)", int(s))
}
