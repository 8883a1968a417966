// Package ratelimit is the Go client of redis-throttle. It has typed calls of its commands over any
// go-redis client, and leases that renew themselves. Its net/http middleware answers 429 with the
// RateLimit header fields, and its retry loop waits as long as the server replied.
//
// Limits are values, defined once and given with every call on a key:
//
//	var perUser = ratelimit.Limits{
//		ratelimit.Rate(5, time.Second).Burst(10),
//		ratelimit.Rate(100_000, time.Hour),
//	}
//
//	result, err := limiter.Limit(ctx, "user:42", perUser, ratelimit.Cost(3)).Result()
//
// All limits of a call are decided at one instant, all or nothing. Arguments that the
// server refuses come back as its own error, which names the argument.
//
// Every request waits for the limiter, so give it a client that fails fast when Redis is
// in trouble: short dial and read timeouts, a DialerRetries of 1, and
// ContextTimeoutEnabled, without which the deadlines of contexts do not count. go-redis
// repeats commands whose reply got lost. It never repeats commands of this package that
// charge units, because that could charge them twice.
//
// The commands are sent with COMPACT, which version 0.1.0 of the module does not know:
// upgrade the module on all servers, replicas included, before the applications.
package ratelimit

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is what a Limiter needs of go-redis: a *redis.Client, *redis.ClusterClient,
// *redis.Ring, *redis.Conn, *redis.Tx, redis.UniversalClient or redis.Pipeliner.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Limiter sends the commands of redis-throttle. It holds nothing but its client, and
// is as safe for concurrent use.
type Limiter struct {
	client Client
}

// New returns a Limiter on client. One on a pipeline queues its commands there; their
// results are there once the pipeline was executed.
func New(client Client) *Limiter { return &Limiter{client} }

// Throttle sends CL.THROTTLE, which redis-cell and others have, too: a single Rate, and
// times in whole seconds. Rate(30, time.Minute).Burst(16) is what they call a max_burst
// of 15. The result's NextAfter is not told and 0.
func (l *Limiter) Throttle(ctx context.Context, key string, rate Limit, opts ...Option) *Cmd {
	const name = "CL.THROTTLE"
	words, err := rate.throttleWords()
	if err != nil {
		return failed(name, err)
	}
	cost := int64(1)
	for _, o := range opts {
		cost = o.units()
	}
	args := append([]any{name, key}, words...)
	parse := func(reply any) (Result, error) { return parseThrottle(reply, cost) }
	return send(ctx, l.client, charges, parse, append(args, cost)...)
}

// Limit sends CL.LIMIT: it asks all limits at once for the cost of the call, 1 unit
// unless told otherwise.
func (l *Limiter) Limit(ctx context.Context, key string, limits Limits, opts ...LimitOption) *Cmd {
	return ask(ctx, l.client, charges, "CL.LIMIT", key, limits, opts)
}

// Peek sends CL.PEEK: what Limit would answer, without charging anything. Replicas
// answer it, too.
func (l *Limiter) Peek(ctx context.Context, key string, limits Limits, opts ...Option) *Cmd {
	return ask(ctx, l.client, repeatable, "CL.PEEK", key, limits, limitOptions(opts))
}

// Refund sends CL.REFUND: it gives units back, never above full. Result.Granted is what
// was taken back, as a negative number.
func (l *Limiter) Refund(ctx context.Context, key string, limits Limits, opts ...Option) *Cmd {
	return ask(ctx, l.client, charges, "CL.REFUND", key, withoutSpare(limits), limitOptions(opts))
}

// Ban sends CL.BAN: every call on key is limited for d, in whole milliseconds, whatever its limits
// would say. A ban is never shortened, but 0 lifts it. The result is for how long the key is banned now.
func (l *Limiter) Ban(ctx context.Context, key string, d time.Duration) *Reply[time.Duration] {
	return send(ctx, l.client, repeatable, parseBan, "CL.BAN", key, waitWord(d))
}

// Wait sends CL.WAIT: it is answered when the units are there, in order of arrival. Result.Wait is the
// time waited. It waits for timeout, in whole milliseconds, or until just before the deadline of ctx, whichever
// comes first; a timeout of 0 is as long as it takes. What happens if that is not enough depends on the limits:
//
//   - With Rate limits only, the call reserves its units when it comes. If their time comes too late, it is
//     limited at once.
//   - With a Window or a Fixed among them, nothing is reserved. The call stands in line, and is limited when its time
//     is over, since a refund may come before.
//
// A waiting call occupies a connection. As with every blocking command of go-redis, cancelling ctx does not end it: its
// deadline does, and so does timeout. Where that matters, set one of them; take package rueidislimit, where a caller
// whose ctx ends leaves the line; or, for Rate limits, take Limit with MaxWait, which answers at once how long to wait.
//
// The client's read timeout has to be longer than timeout. Wait sees to that itself
// with a *redis.Client; with a *redis.ClusterClient or *redis.Ring whose read timeout
// is shorter it is an error.
func (l *Limiter) Wait(ctx context.Context, key string, limits Limits, timeout time.Duration, opts ...Option) *Cmd {
	const name = "CL.WAIT"
	timeout, err := withinDeadline(ctx, timeout)
	if err != nil {
		return failed(name, err)
	}
	client, err := patient(l.client, timeout)
	if err != nil {
		return failed(name, err)
	}
	return ask(ctx, client, charges, name, key, limits, append(limitOptions(opts), timeoutOption(timeout)))
}
