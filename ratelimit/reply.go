package ratelimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

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

// effect says what a command does that go-redis sends again because the reply got lost.
type effect int

const (
	charges    effect = iota // the units a second time
	repeatable               // nothing that it had not done already
)

func send[T any](ctx context.Context, client Client, e effect, parse func(any) (T, error), args ...any) *Reply[T] {
	return sendTo(ctx, client, e, 1, parse, args...)
}

// sendTo sends args to where the key is that is one of them.
func sendTo[T any](ctx context.Context, client Client, e effect, key int8, parse func(any) (T, error), args ...any) *Reply[T] {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(key)
	c := &Reply[T]{name: args[0].(string), cmd: cmd, parse: parse}
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

// Reply is the reply to a command that was sent, or queued in a pipeline.
type Reply[T any] struct {
	name  string
	cmd   *redis.Cmd
	parse func(reply any) (T, error)
	err   error
}

// Cmd is a Reply that says how a call went.
type Cmd = Reply[Result]

func failed(name string, err error) *Cmd { return &Cmd{name: name, err: err} }

// ErrNoModule is the error of a server that does not know the command, or whose module does
// not know COMPACT, such as version 0.1.0.
var ErrNoModule = errors.New("the server has not loaded throttle.so, or an older one")

// Result is the answer of the server. Being limited is no error; see Result.Err. An error
// wraps what go-redis or the server said; IsOutage tells whether Redis is to blame.
func (c *Reply[T]) Result() (T, error) {
	result, err := c.result()
	var none T
	switch {
	case err == nil:
		return result, nil
	case redis.HasErrorPrefix(err, "unknown command"), redis.HasErrorPrefix(err, "syntax error near '"+compact+"'"):
		return none, fmt.Errorf("ratelimit: %s: %w: %w", c.name, ErrNoModule, err)
	}
	return none, fmt.Errorf("ratelimit: %s: %w", c.name, err)
}

func (c *Reply[T]) result() (result T, err error) {
	if c.err != nil {
		return result, c.err
	}
	reply, err := c.cmd.Result()
	if err != nil {
		return result, err
	}
	return c.parse(reply)
}
