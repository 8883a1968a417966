// Package ratelimit is the Go client of redis-throttle: typed calls of its commands
// over any go-redis client, net/http middleware that answers 429 with the RateLimit
// header fields, and a retry loop that honours what the server replied.
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
// A limiter is in the path of every request, so give it a client that does not keep
// one waiting when Redis is in trouble: short dial and read timeouts, a DialerRetries
// of 1, and ContextTimeoutEnabled for the deadlines of contexts to count. go-redis
// repeats commands whose reply got lost; commands of this package that charge units are
// never repeated, as that could charge them twice.
//
// The commands are sent with COMPACT, which version 0.1.0 of the module does not know:
// upgrade the module on all servers, replicas included, before the applications.
package ratelimit

import (
	"context"
	"errors"
	"fmt"
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
	return ask(ctx, l.client, onlyReads, "CL.PEEK", key, limits, limitOptions(opts))
}

// Refund sends CL.REFUND: it gives units back, never above full. Result.Granted is what
// was taken back, as a negative number.
func (l *Limiter) Refund(ctx context.Context, key string, limits Limits, opts ...Option) *Cmd {
	return ask(ctx, l.client, charges, "CL.REFUND", key, limits, limitOptions(opts))
}

// Wait sends CL.WAIT: it reserves the units and is answered when their time has come,
// in order of arrival. A call that would take longer than timeout, or than ctx has
// until its deadline, is limited at once; a timeout of 0 waits as long as it takes.
// Only Rate limits can be waited for. Result.Wait is the time waited.
//
// A waiting call occupies a connection, and as with every blocking command of go-redis,
// cancelling ctx does not end it. Where that matters, take Limit with MaxWait, which
// answers at once how long to wait.
//
// The client's read timeout has to be longer than timeout. Wait sees to that itself
// with a *redis.Client; with a *redis.ClusterClient or *redis.Ring whose read timeout
// is shorter it is an error.
func (l *Limiter) Wait(ctx context.Context, key string, limits Limits, timeout time.Duration, opts ...Option) *Cmd {
	const name = "CL.WAIT"
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		if left <= 0 {
			return failed(name, context.DeadlineExceeded)
		}
		if timeout == 0 || left < timeout {
			timeout = left
		}
	}
	client, err := patient(l.client, timeout)
	if err != nil {
		return failed(name, err)
	}
	return ask(ctx, client, charges, name, key, limits, append(limitOptions(opts), timeoutOption(timeout)))
}

// compact asks for a reply of integers alone, which has the same form in RESP2 and RESP3.
const compact = "COMPACT"

func ask(ctx context.Context, client Client, e effect, name, key string, limits Limits, opts []LimitOption) *Cmd {
	args := []any{name, key}
	for _, limit := range limits {
		words, err := limit.words()
		if err != nil {
			return failed(name, err)
		}
		args = append(args, words...)
	}
	for _, o := range opts {
		args = append(args, o.words()...)
	}
	if len(args) > 2 { // otherwise the server's error would be about a word that the caller did not write
		args = append(args, compact)
	}
	parse := func(reply any) (Result, error) { return parseCompact(reply, len(limits)) }
	return send(ctx, client, e, parse, args...)
}

// effect says what a command does to its key.
type effect int

const (
	charges effect = iota
	onlyReads
)

func send(ctx context.Context, client Client, e effect, parse func(any) (Result, error), args ...any) *Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(1)
	c := &Cmd{name: args[0].(string), cmd: cmd, parse: parse}
	var cmder redis.Cmder = cmd
	if e == charges {
		cmder = once{cmd}
	}
	_ = client.Process(ctx, cmder) // cmd holds the error as well
	return c
}

// once is a command that go-redis does not repeat.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis before it sends a command again.
func (once) NoRetry() bool { return true }

// Cmd is a command that was sent, or queued in a pipeline.
type Cmd struct {
	name  string
	cmd   *redis.Cmd
	parse func(reply any) (Result, error)
	err   error
}

func failed(name string, err error) *Cmd { return &Cmd{name: name, err: err} }

// ErrNoModule is the error of a server that does not know the command, or whose module does
// not know COMPACT, such as version 0.1.0.
var ErrNoModule = errors.New("the server has not loaded throttle.so, or an older one")

// Result is the server's answer. Being limited is no error; see Result.Err. An error
// wraps what go-redis or the server said; IsOutage tells whether Redis is to blame.
func (c *Cmd) Result() (Result, error) {
	result, err := c.result()
	switch {
	case err == nil:
		return result, nil
	case redis.HasErrorPrefix(err, "unknown command"), redis.HasErrorPrefix(err, "syntax error near '"+compact+"'"):
		return Result{}, fmt.Errorf("ratelimit: %s: %w: %w", c.name, ErrNoModule, err)
	}
	return Result{}, fmt.Errorf("ratelimit: %s: %w", c.name, err)
}

func (c *Cmd) result() (Result, error) {
	if c.err != nil {
		return Result{}, c.err
	}
	reply, err := c.cmd.Result()
	if err != nil {
		return Result{}, err
	}
	return c.parse(reply)
}

// patience is how much longer than the server's answer may take a read may take.
const patience = 10 * time.Second

// patient returns client with a read timeout longer than timeout, 0 being forever.
func patient(client Client, timeout time.Duration) (Client, error) {
	var readTimeout time.Duration
	switch c := client.(type) {
	case *redis.Client:
		if suffices(c.Options().ReadTimeout, timeout) {
			return c, nil
		}
		if timeout == 0 {
			return c.WithTimeout(0), nil
		}
		return c.WithTimeout(timeout + patience), nil
	case *redis.ClusterClient:
		readTimeout = c.Options().ReadTimeout
	case *redis.Ring:
		readTimeout = c.Options().ReadTimeout
	}
	if !suffices(readTimeout, timeout) {
		return nil, fmt.Errorf("the client's ReadTimeout of %v must be longer than the timeout, %v", readTimeout, timeout)
	}
	return client, nil
}

// suffices says whether a read timeout, which is none at 0 and below, outlasts timeout.
func suffices(readTimeout, timeout time.Duration) bool {
	return readTimeout <= 0 || (timeout > 0 && timeout < readTimeout)
}
