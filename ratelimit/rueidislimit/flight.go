package rueidislimit

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"redis-throttle/ratelimit/internal/lag"
	"redis-throttle/ratelimit/internal/shared"
)

// most is how many calls are under way at most, also of callers that have left.
const most = 10_000

// flight are the calls that are under way.
type flight struct {
	calls  atomic.Int64
	left   atomic.Int64 // when the server was last left, by lag.Ns
	server lag.Server
}

// leadsElsewhere says whether a reply is that of a server that is no master now: its address may lead to another one.
func leadsElsewhere(reply *rueidis.RedisError) bool {
	code, _, _ := strings.Cut(strings.TrimPrefix(reply.Error(), "ERR "), " ")
	return code == "READONLY" || code == "MASTERDOWN" || code == "LOADING"
}

// leavePause is between two times that a server is left: the answers of many calls may say so.
const leavePause = 100 * time.Millisecond

// leave has the server close the connection, which rueidis has no call for. The next one goes to where the address
// leads then.
func (f *flight) leave(ctx context.Context, client rueidis.Client) {
	before, now := f.left.Load(), lag.Ns(time.Now())
	if now-before < int64(leavePause) || !f.left.CompareAndSwap(before, now) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	go func() {
		defer cancel()
		_ = client.Do(ctx, client.B().Quit().Build()) // whatever it says, the connection ends
	}()
}

// do sends a command and waits for its reply.
func (f *flight) do(ctx context.Context, client rueidis.Client, command rueidis.Completed) (any, error) {
	if f.calls.Add(1) > most {
		f.calls.Add(-1)
		return nil, shared.Full(most)
	}
	if ctx.Done() == nil || command.IsBlock() {
		defer f.calls.Add(-1)
		return f.send(ctx, client, command)
	}
	return f.within(ctx, client, command)
}

func (f *flight) send(ctx context.Context, client rueidis.Client, command rueidis.Completed) (any, error) {
	reply, err := client.Do(ctx, command).ToAny()
	if err == nil || rueidisReplied(err) {
		f.server.Answer()
	}
	return reply, err
}

func rueidisReplied(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply)
}

// answer is what the server said.
type answer struct {
	reply any
	err   error
}

// within is send for a caller that may leave. rueidis would end the call with its deadline, also where the reply is
// there and nobody has read it yet, and close a connection that carries one call alone. A caller that leaves would end
// a dial that others wait for. While the buffer of rueidis is full, it looks at no context.
func (f *flight) within(ctx context.Context, client rueidis.Client, command rueidis.Completed) (any, error) {
	watch := shared.Watch(&f.server)
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	answers := make(chan answer, 1)
	go func() {
		defer f.calls.Add(-1)
		defer cancel()
		reply, err := f.send(own, client, command)
		answers <- answer{reply, err}
	}()
	select {
	case a := <-answers:
		return a.reply, watch.End(a.err)
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		runtime.Gosched() // who is to read the reply goes first
		timer := time.NewTimer(watch.Late())
		defer timer.Stop()
		select {
		case a := <-answers:
			return a.reply, watch.End(a.err)
		case <-timer.C:
		}
	}
	if command.IsReadOnly() { // rueidis sends it again until its context ends
		time.AfterFunc(readPatience, cancel)
	}
	err := watch.End(ctx.Err())
	if client.Mode() != rueidis.ClientModeCluster && watch.Answered() && errors.Is(err, context.DeadlineExceeded) {
		err = shared.Others(err)
	}
	return nil, err
}
