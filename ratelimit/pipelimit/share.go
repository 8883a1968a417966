package pipelimit

import (
	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/shared"
)

// Options configure Share. The zero Options are a good default, and that of ratelimit.New.
type Options = shared.Options

// Shared is a client for ratelimit.New, whose calls share pipelines. See Share.
type Shared = shared.Client

// Pipeline is a part of pipelines that are shared. It is for one goroutine.
type Pipeline = shared.Pipeline

// Failure is the error of a call whose pipeline failed.
type Failure = shared.Failure

// Share returns a client whose calls share pipelines if they are under way at the same time. ratelimit.New does that by
// itself for the clients of go-redis; Share is for other Options:
//
//	limiter := ratelimit.New(pipelimit.Share(client, pipelimit.Options{Stall: 20 * time.Millisecond}), ratelimit.Options{})
//
// A call leaves at once when no other is under way to its server. Calls that come meanwhile leave together when that
// one has its reply. So a busy process sends and the server reads many calls at a time, which saves most of the CPU
// that both spend on a call: reading and writing sockets takes more of it than deciding. It also needs few connections,
// which goroutines that wait for a processor would hold.
//
// Each call has its own result and error. A call whose context ends returns at once: it is taken back if it has not
// been sent, and otherwise the server may charge it. No context ends the call of another. What bounds a pipeline are
// the timeouts of the client. When a pipeline fails, the calls in it return a *Failure, so that a circuit breaker can
// count it as one.
//
// A process that is busy sees replies late. A call whose deadline passes is given as much more time as goroutines of
// this process had to wait for a processor. If its reply does not come, but those of others do, or if the process was
// late for half of the time, that is an overload (ratelimit.IsOverload), not an outage. So are calls beyond
// Options.Waiting.
//
// Servers have pipelines of their own: the nodes of a cluster and of a Ring. Share calls Follow. Commands other than
// those of package ratelimit, and calls that wait, are sent by themselves. Share panics if client is nil.
func Share(client redis.UniversalClient, o Options) *Shared {
	if client == nil {
		panic("pipelimit: Share needs a Redis client, not nil")
	}
	Follow(client)
	return shared.New(client, o)
}
