package shared

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/lag"
)

// leavePause is between two connections that are left: the answers of many calls may ask for it.
const leavePause = 20 * time.Millisecond

// Leaving has a client leave a server that has no data for now: another one may have its address.
type Leaving struct{ last atomic.Int64 } // when a connection was left, by lag.Ns

// After has the only server of a client close a connection over which it has answered that it loads its data, or has
// lost its master. It returns at once. At READONLY go-redis does so itself, and clients of several servers learn where
// the masters are.
func (l *Leaving) After(client any, err error) {
	if err == nil || !redis.IsLoadingError(err) && !redis.IsMasterDownError(err) {
		return
	}
	single, ok := client.(interface {
		Options() *redis.Options
		Pipeline() redis.Pipeliner
		Process(ctx context.Context, cmd redis.Cmder) error
	})
	if !ok {
		return
	}
	before, now := l.last.Load(), lag.Ns(time.Now())
	if now-before < int64(leavePause) || !l.last.CompareAndSwap(before, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// Over the connections that were given back last: pipelines and single commands each have a pool.
		pipe := single.Pipeline()
		pipe.Do(ctx, "QUIT")
		_, _ = pipe.Exec(ctx)
		_ = single.Process(ctx, redis.NewStatusCmd(ctx, "QUIT"))
	}()
}

// leaves leaves the server of a pipeline one of whose replies asks for it. Another error may be the first one.
func (b *batch) leaves(l *Leaving, client any) {
	l.After(client, b.err)
	for _, cmd := range b.cmds {
		if cmd != nil {
			l.After(client, cmd.Err())
		}
	}
}
