// Package pipelimit queues calls in a pipeline of go-redis, so that those that go out together take one round trip.
//
//	pipe := client.Pipeline()
//	byUser := pipelimit.Queue(ctx, pipe, ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:1", Limits: perDay}}, Cost: 1})
//	byAddress := pipelimit.Queue(ctx, pipe, ratelimit.Call{Keys: []ratelimit.Key{{Name: "address:203.0.113.7", Limits: perDay}}, Cost: 1})
//	if _, err := pipe.Exec(ctx); err != nil {
//		return err
//	}
//	user, err := byUser.Result()
//
// Call Follow once for the client, unless it is one of Share.
//
// Calls of several goroutines need not know each other: those of a Limiter share pipelines by themselves. Share is for
// options.
package pipelimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/shared"
)

// Reply is the reply to a call that was queued.
type Reply struct {
	call ratelimit.Call
	cmd  *redis.Cmd
	err  error
}

// Pipe is what Queue needs of a redis.Pipeliner, or of the Pipeline of a Shared.
type Pipe interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Queue queues a call of any verb that does not wait. It sends commands of the module alone: a pipeline has no answer
// yet when it would have to be sent as functions. Without the module, call a Limiter on Share. No layer sees the call:
// limits of ratelimit.Policy are those of the code.
func Queue(ctx context.Context, pipe Pipe, call ratelimit.Call) *Reply {
	if call.Verb == ratelimit.VerbWait || (call.Verb == ratelimit.VerbLease && call.MaxWait != 0) {
		return &Reply{err: fmt.Errorf("pipelimit: %v waits, which would hold up the pipeline", call.Verb)}
	}
	q := &queue{pipe: pipe}
	_, err := ratelimit.New(q, ratelimit.Options{}).Decide(ctx, call)
	if q.cmd == nil { // it was not sent: the call is wrong
		return &Reply{err: err}
	}
	return &Reply{call: call, cmd: q.cmd}
}

var errQueued = errors.New("pipelimit: the pipeline has not been executed, or its Exec returned the error that it failed with")

// Result is the result of the call, once the pipeline was executed. go-redis has errors that it tells by Exec alone,
// such as that a new connection's password is wrong: check that first.
func (r *Reply) Result() (ratelimit.Result, error) {
	if r.err != nil {
		return ratelimit.Result{}, r.err
	}
	result, err := ratelimit.New(answered{r.cmd}, ratelimit.Options{}).Decide(context.Background(), r.call)
	if errors.Is(err, ratelimit.ErrNoModule) {
		err = fmt.Errorf("pipelimit: Queue sends commands of the module alone; without it, call a Limiter on Share, which goes by functions: %w", err)
	}
	return result, err
}

// Follow makes the pipelines of client reach the new master after a failover in a cluster. go-redis asks a cluster for
// its masters once a minute, and when it repeats a command; it repeats no pipeline with a call that charges. After
// Follow it asks as soon as a pipeline meets an outage, in the background and once in 200 ms at most. Call it once for
// each client, before its first pipeline. A client of one server then leaves one that loads its data or has lost its
// master, as another server may have its address: by itself go-redis does so at READONLY alone. Follow does nothing for
// clients of other kinds, which need no help.
func Follow(client redis.UniversalClient) {
	if cluster, ok := client.(reloader); ok {
		client.AddHook(follower{func(ctx context.Context, err error) {
			if ratelimit.IsOutage(err) {
				cluster.ReloadState(ctx)
			}
		}})
	} else if single, ok := client.(*redis.Client); ok {
		leaving := new(shared.Leaving)
		client.AddHook(follower{func(_ context.Context, err error) { leaving.After(single, err) }})
	}
}

type reloader interface{ ReloadState(ctx context.Context) }

// follower is a hook of go-redis. It is told the errors of pipelines.
type follower struct {
	fails func(ctx context.Context, err error)
}

func (f follower) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f follower) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (f follower) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			return nil
		}
		f.fails(ctx, err)
		for _, cmd := range cmds { // err is that of the first one. Those of other nodes have their own
			if own := cmd.Err(); own != nil {
				f.fails(ctx, own)
			}
		}
		return err
	}
}

// queue puts a command into a pipeline.
type queue struct {
	pipe Pipe
	cmd  *redis.Cmd
}

func (q *queue) Process(ctx context.Context, cmd redis.Cmder) error {
	var queued redis.Cmder
	q.cmd, queued = shared.CopyOf(cmd)
	if err := q.pipe.Process(ctx, queued); err != nil {
		return err
	}
	cmd.SetErr(errQueued)
	return errQueued
}

// answered answers with the reply that a command in a pipeline got.
type answered struct{ cmd *redis.Cmd }

func (a answered) Process(_ context.Context, cmd redis.Cmder) error {
	reply, err := a.cmd.Result()
	switch {
	case err != nil:
		cmd.SetErr(err)
		return err
	case reply == nil:
		cmd.SetErr(errQueued)
		return errQueued
	}
	cmd.(interface{ SetVal(any) }).SetVal(reply) // a Limiter sends nothing but *redis.Cmd
	return nil
}
