// Package guard protects a service from an outage of Redis. After a few failures in a row, a circuit
// breaker stops calling the server, so a dead server costs a microsecond instead of a timeout. A
// policy decides until the server is back.
//
//	limiter := guard.New(ratelimit.New(client), guard.Options{
//		Policy:    guard.Local,
//		Processes: 8,
//	})
//	result, err := limiter.Decide(ctx, "user:42", perUser)
//
// Only outages count (ratelimit.IsOutage). A mistake, such as a bad limit, is returned with every
// policy, and neither opens nor closes the breaker. Neither does a caller that leaves.
//
// Put a ratelimit.Cached or ratelimit.Batched before the guard, not behind it: remembered
// denials then also hold during an outage.
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"redis-throttle/ratelimit"
)

// Policy says how calls are decided that the server does not answer. Result.By is then
// FromPolicy or FromLocal.
type Policy int

const (
	// Fail returns an error at once, for which ratelimit.IsOutage is true: the caller decides, such
	// as ratelimit.Middleware by its FailClosed.
	Fail Policy = iota
	// Open lets everything through. Nothing is known of the limits: all numbers of the Result are 0.
	Open
	// Closed limits everything. RetryAfter is the time until the server is tried again.
	Closed
	// Local decides by the same limits and options in this process, with the code of CL.LIMIT. Its
	// limits are those of the call divided by Options.Processes: a Rate is that many times as slow,
	// capacities and counts are rounded down. So all processes together never let through more
	// than the limits while the server is away. What was taken of them before is not known here,
	// nor is this known to the server afterwards: at each change the limits are full once more.
	Local
)

// String is the word for p: fail, open, closed or local.
func (p Policy) String() string {
	switch p {
	case Fail:
		return "fail"
	case Open:
		return "open"
	case Closed:
		return "closed"
	case Local:
		return "local"
	}
	return fmt.Sprintf("Policy(%d)", int(p))
}

// Options are how a Guard goes about it. The zero Options are a breaker without a policy.
type Options struct {
	Policy Policy

	// Processes is how many processes share the limits, of the policy Local: each gets that part
	// of them. 1 when 0, which is right for a single process only.
	Processes int
	// AtLeastOne gives each process one unit of a limit that is smaller than Processes. All
	// together may then exceed it, up to Processes units. Without it such a limit has no unit for
	// anybody while the server is away, and every call is limited.
	AtLeastOne bool
	// Keys is how many keys Local remembers; 100,000 when 0. When there are more, those used least
	// recently are forgotten, and begin with full limits.
	Keys int

	// Failures is how many calls in a row have to fail before the server is left alone; 5 when 0.
	Failures int
	// Pause is how long it is left alone, after which one call tries it; 1 s when 0.
	Pause time.Duration
	// Patience is how long the server has to have kept a call waiting for the deadline of that
	// call's context to be the server's fault; 20 ms when 0.
	Patience time.Duration

	// IsOutage says which errors are outages; nil is ratelimit.IsOutage.
	IsOutage func(err error) bool

	// OnChange is called when the breaker opens, with the error that opened it, and when it
	// closes, with nil. Nil logs both through Logger.
	OnChange func(outage error)
	// Logger gets one line when an outage begins and one when it is over; slog.Default when nil.
	Logger *slog.Logger
}

// Guard is a Decider that survives the one behind it. It is safe for concurrent use.
type Guard struct {
	next    ratelimit.Decider
	o       Options
	breaker *gobreaker.CircuitBreaker[ratelimit.Result]
	local   *local

	mu      sync.Mutex // also held by the breaker when it calls changed
	last    error      // the last outage
	retry   time.Time  // when the server is tried again
	open    bool       // as it was last told
	changes []error    // to be told, in order
	pending atomic.Bool
	telling sync.Mutex
	began   time.Time     // when the outage did; guarded by telling
	instead atomic.Uint64 // calls decided by the policy since
}

// New returns a Guard before next.
func New(next ratelimit.Decider, o Options) *Guard {
	if o.Processes <= 0 {
		o.Processes = 1
	}
	if o.Keys <= 0 {
		o.Keys = 100_000
	}
	if o.Failures <= 0 {
		o.Failures = 5
	}
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 20 * time.Millisecond
	}
	if o.IsOutage == nil {
		o.IsOutage = ratelimit.IsOutage
	}
	g := &Guard{next: next, o: o}
	if o.Policy == Local {
		g.local = newLocal(o.Processes, o.AtLeastOne, o.Keys)
	}
	if g.o.OnChange == nil {
		g.o.OnChange = g.log
	}
	g.breaker = gobreaker.NewCircuitBreaker[ratelimit.Result](gobreaker.Settings{
		Timeout:       o.Pause,
		ReadyToTrip:   func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= uint32(o.Failures) },
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { var n *notCounted; return errors.As(err, &n) },
		OnStateChange: func(_ string, _, to gobreaker.State) { g.changed(to) },
	})
	return g
}

// notCounted hides from the breaker how a call went that says nothing about the server: a mistake,
// a caller that left, an answer that the server was not asked for.
type notCounted struct{ err error }

func (*notCounted) Error() string { return "not counted" }

// Decide asks the Decider behind, unless the breaker is open. In an outage the policy decides.
func (g *Guard) Decide(ctx context.Context, key string, limits ratelimit.Limits, opts ...ratelimit.LimitOption) (ratelimit.Result, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Result{}, fmt.Errorf("guard: %w", err)
	}
	result, err := g.breaker.Execute(func() (ratelimit.Result, error) {
		began := time.Now()
		result, err := g.next.Decide(ctx, key, limits, opts...)
		return result, g.judge(ctx, result, err, time.Since(began))
	})
	var not *notCounted
	if errors.As(err, &not) {
		err = not.err
	}
	switch {
	case err == nil:
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		g.mu.Lock()
		err = fmt.Errorf("guard: the server is left alone after: %w", g.last)
		g.mu.Unlock()
		result, err = g.decide(key, limits, opts, err)
	case g.o.IsOutage(err):
		result, err = g.decide(key, limits, opts, err)
	}
	if g.pending.Load() {
		g.tell()
	}
	return result, err
}

// judge is how the breaker is to take the outcome of a call.
func (g *Guard) judge(ctx context.Context, result ratelimit.Result, err error, took time.Duration) error {
	switch {
	case err == nil && result.By == ratelimit.FromServer:
		return nil
	case err == nil, !g.o.IsOutage(err), errors.Is(ctx.Err(), context.Canceled):
		return &notCounted{err}
	case over(ctx) && took < g.o.Patience:
		return &notCounted{err}
	}
	g.mu.Lock()
	g.last = err
	g.mu.Unlock()
	return err
}

// over says whether the deadline of ctx has passed, of which a connection may learn before ctx.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || (ok && !time.Now().Before(deadline))
}

// decide is what the policy makes of an outage.
func (g *Guard) decide(key string, limits ratelimit.Limits, opts []ratelimit.LimitOption, outage error) (ratelimit.Result, error) {
	g.instead.Add(1)
	switch g.o.Policy {
	case Open:
		return ratelimit.Result{By: ratelimit.FromPolicy}, nil
	case Closed:
		return ratelimit.Result{Limited: true, RetryAfter: g.untilRetry(), By: ratelimit.FromPolicy}, nil
	case Local:
		return g.local.decide(key, limits, opts, g.untilRetry())
	}
	return ratelimit.Result{}, outage
}

// untilRetry is the time until the server is tried again: once more where that is being done.
func (g *Guard) untilRetry() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if left := time.Until(g.retry); left > 0 {
		return left
	}
	return g.o.Pause
}

// Out reports whether the server is left alone, or just being tried again.
func (g *Guard) Out() bool { return g.breaker.State() != gobreaker.StateClosed }

// GiveBack hands units on to the ratelimit.Refunder behind g. In an outage they stay charged, and
// it is an error.
func (g *Guard) GiveBack(ctx context.Context, key string, limits ratelimit.Limits, units int64) error {
	refunder, ok := g.next.(ratelimit.Refunder)
	if !ok {
		return errors.New("guard: the limiter has no GiveBack")
	}
	if g.Out() {
		g.mu.Lock()
		defer g.mu.Unlock()
		return fmt.Errorf("guard: the server is left alone after: %w", g.last)
	}
	return refunder.GiveBack(ctx, key, limits, units)
}

// changed notes a new state of the breaker, which holds its lock meanwhile. An outage begins when
// the breaker opens and is over when it closes; the attempts in between are nobody's business.
func (g *Guard) changed(to gobreaker.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if to == gobreaker.StateOpen {
		g.retry = time.Now().Add(g.o.Pause)
	}
	if open := to != gobreaker.StateClosed; open != g.open {
		g.open = open
		var outage error
		if open {
			outage = g.last
		}
		g.changes = append(g.changes, outage)
		g.pending.Store(true)
	}
}

// tell tells of changes, in order.
func (g *Guard) tell() {
	g.telling.Lock()
	defer g.telling.Unlock()
	g.mu.Lock()
	changes := g.changes
	g.changes = nil
	g.pending.Store(false)
	g.mu.Unlock()
	for _, outage := range changes {
		g.o.OnChange(outage)
	}
}

func (g *Guard) log(outage error) {
	logger := g.o.Logger
	if logger == nil {
		logger = slog.Default()
	}
	if outage != nil {
		g.began = time.Now()
		logger.Error("rate limits: Redis is out of reach", "policy", g.o.Policy.String(), "error", outage)
		return
	}
	logger.Info("rate limits: Redis is back", "after", time.Since(g.began).Round(time.Millisecond), "decided_by_policy", g.instead.Swap(0))
}
