package guard

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/lag"
	"redis-throttle/ratelimit/internal/masters"
)

// breaker is for one node: a server of a cluster that is down must not keep calls from the others.
type breaker struct {
	guard *Guard
	node  string
	*gobreaker.CircuitBreaker[ratelimit.Result]
	server   lag.Server
	tally    tally
	together atomic.Uint32 // calls that failed with one that was counted, in about the window

	mu    sync.Mutex // also held when gobreaker, which holds its own lock, calls changed
	last  error      // the last outage
	key   string     // whose call met it
	retry time.Time  // when the server is tried again
	open  bool       // as it was last told
	gone  bool       // another node has its keys
}

// errNotCounted is what the breaker is told of a call that says nothing about the server: a mistake, a caller that
// left, an answer that the server was not asked for.
var errNotCounted = errors.New("not counted")

func (g *Guard) newBreaker(node string) *breaker {
	b := &breaker{guard: g, node: node}
	failures := uint32(g.o.Failures)
	b.CircuitBreaker = gobreaker.NewCircuitBreaker[ratelimit.Result](gobreaker.Settings{
		Timeout: g.o.Pause,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			t := &b.tally
			return counts.ConsecutiveFailures >= failures || (t.failed >= 4*failures && 2*(t.failed+b.together.Load()) >= counts.Requests-t.before)
		},
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { b.count(err); return err == errNotCounted },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.changed(to) },
	})
	return b
}

// window is how long failures are counted together that are not in a row. A row only ends with a success: where calls
// time out after seconds, five of them take longer than any window.
const window = 10 * time.Second

// tally counts the calls that end in a window. gobreaker holds its lock whenever it changes.
type tally struct {
	until         time.Time
	ended, before uint32 // calls since the breaker closed, and those of them that ended before the window
	failed        uint32 // in the window
}

// count counts a call that has ended.
func (b *breaker) count(err error) {
	t := &b.tally
	if now := time.Now(); now.After(t.until) {
		t.until, t.before, t.failed = now.Add(window), t.ended, 0
		b.together.Store(0)
	}
	t.ended++
	if err != nil && err != errNotCounted {
		t.failed++
	}
}

// breakerOf is the breaker of the node with the first key of a call.
func (g *Guard) breakerOf(call *ratelimit.Call) *breaker {
	node := ""
	if g.o.Node != nil && len(call.Keys) > 0 {
		node = g.o.Node(call.Keys[0].Name)
	}
	if b, ok := g.breakers.Load(node); ok {
		return b.(*breaker)
	}
	b, _ := g.breakers.LoadOrStore(node, g.newBreaker(node))
	return b.(*breaker)
}

// out reports whether the server is left alone, or just being tried again.
func (b *breaker) out() bool { return b.State() != gobreaker.StateClosed }

func (b *breaker) failed(err error, call *ratelimit.Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = err
	if len(call.Keys) > 0 {
		b.key = call.Keys[0].Name
	}
}

// leftAlone is the error of a call that was not sent.
func (b *breaker) leftAlone() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("guard: the server is left alone after: %w", b.last)
}

// untilRetry is the time until the server is tried again: once more where that is being done.
func (b *breaker) untilRetry() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := time.Until(b.retry); left > 0 {
		return left
	}
	return b.guard.o.Pause
}

// changed notes a new state. An outage begins when
// the breaker opens and is over when it closes; the attempts in between are nobody's business.
func (b *breaker) changed(to gobreaker.State) {
	b.tally = tally{}
	b.mu.Lock()
	defer b.mu.Unlock()
	if to == gobreaker.StateOpen {
		b.retry = time.Now().Add(b.guard.o.Pause)
	}
	if !b.gone {
		b.tell(to != gobreaker.StateClosed)
	}
}

// tell is called with the lock.
func (b *breaker) tell(open bool) {
	switch {
	case open == b.open:
		return
	case open:
		b.guard.open.Add(1)
		b.guard.note(change{b.node, b.last})
	default:
		b.guard.open.Add(-1)
		b.guard.note(change{b.node, nil})
	}
	b.open = open
}

// replace ends the outages of nodes whose keys another node has now, by, which has just answered: nobody calls them any
// more. Such a node is a master that a failover replaced, or the one without a name, which has all keys while a cluster
// is unknown.
func (g *Guard) replace(by *breaker) {
	if g.o.Node == nil {
		return
	}
	g.breakers.Range(func(node, value any) bool {
		b := value.(*breaker)
		b.mu.Lock()
		key, open := b.key, b.open
		b.mu.Unlock()
		if open && b != by && g.o.Node(key) == by.node && g.breakers.CompareAndDelete(node, b) {
			b.mu.Lock()
			b.gone = true
			b.tell(false)
			b.mu.Unlock()
		}
		return true
	})
}

// Masters is Options.Node for a cluster: the address of the master that has a key. While the cluster is unknown it says
// nothing, at once, and asks in the background: all keys have one breaker then.
func Masters(client *redis.ClusterClient) func(key string) string {
	if client == nil {
		panic("guard: Masters needs a cluster client, not nil")
	}
	return masters.Of(client).Addr
}
