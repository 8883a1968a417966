package shared

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// attempts are those of a pipeline of a cluster. go-redis repeats a pipeline that got no connection three times, and at
// a node that hangs each new connection waits for a greeting until the client's timeout. So an attempt that timed out
// is the last one, unless this process was too busy to see the reply.
type attempts struct {
	busy     func() bool
	timedOut atomic.Pointer[error]
}

type attemptsKey struct{}

// oneTimeout is a hook of the nodes of a cluster, which see each attempt.
type oneTimeout struct{}

func (oneTimeout) DialHook(next redis.DialHook) redis.DialHook { return next }

func (oneTimeout) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (oneTimeout) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		a, ok := ctx.Value(attemptsKey{}).(*attempts)
		if !ok {
			return next(ctx, cmds)
		}
		if before := a.timedOut.Load(); before != nil {
			return *before // without next, go-redis gives up
		}
		err := next(ctx, cmds)
		if TimedOut(err) && !a.busy() {
			a.timedOut.Store(&err)
		}
		return err
	}
}
