// Package guard protects a service from an outage of Redis. After a few failures in a row, a circuit
// breaker stops calling the server, so a dead server costs a microsecond instead of a timeout. A
// policy decides until the server is back.
//
//	limiter := ratelimit.With(guard.New(ratelimit.New(client, ratelimit.Options{}), guard.Options{
//		Policy:    guard.Local,
//		Processes: 8,
//	}))
//	result, err := limiter.Limit(ctx, "user:42", perUser, 1)
//
// Only outages count (ratelimit.IsOutage). A mistake, such as a bad limit, and an overload of this process
// (ratelimit.IsOverload) are returned with every policy, and do not open the breaker. Neither does a caller that
// leaves. A mistake that the server replied ends the outage: it is there, whatever it says.
//
// The policy decides what is new: limits, peeks, waits, leases and admissions. Nobody stands in line meanwhile: with
// Local, a wait is limited where a limit would be. What is about the state on the server fails with the outage:
// refunds, bans, resets, and the renewal, release and settlement of leases that the server granted. Leases that Local
// granted are renewed, released and settled in this process, also when the server is back. The server is asked as well,
// as the same ID may hold a lease there. It knows nothing of the others, and grants all of its slots beside them until
// they end.
//
// When the pause is over, one call tries the server. Calls that wait (VerbWait, VerbLease with MaxWait) do not: for
// them a VerbPeek or the same VerbLease without a MaxWait does, so that nobody is kept from the server for as long as a
// call waits.
//
// Put a cached.Cached or batched.Batched before the guard, not behind it: remembered
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
	"redis-throttle/ratelimit/internal/shared"
)

// Policy says how calls are decided that the server does not answer. Result.By is then
// "policy" or "local".
type Policy int

const (
	// Fail returns an error at once, for which ratelimit.IsOutage is true: the caller decides, such
	// as httplimit by its Failures.
	Fail Policy = iota
	// Open lets everything through. Nothing is known of the limits: all numbers of the Result are 0.
	Open
	// Closed limits everything. RetryAfter is the time until the server is tried again.
	Closed
	// Local decides by the same limits and options in this process, with the code of CL.LIMIT. Its
	// limits are the call's, divided by Options.Processes: a Rate is that many times as slow,
	// capacities and counts are rounded down, but see NeverMore. So all processes together let through no more
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

// Options configure New. The zero Options are a breaker without a policy.
type Options struct {
	Policy Policy

	// Processes is how many processes share the limits, of the policy Local: each gets that part
	// of them. 1 when 0, which is right for a single process only.
	Processes int
	// NeverMore keeps all processes together to the limits even where a limit is smaller than Processes: it then has no
	// unit for anybody while the server is away, and every call is limited. Without it each process has one unit of
	// such a limit, which comes back as slowly as its part does, and all together may exceed it by up to Processes
	// units.
	NeverMore bool
	// Keys is how many keys Local remembers; 100,000 when 0. When there are more, those used least
	// recently are forgotten, and begin with full limits.
	Keys int

	// Node says which server has a key, such as Masters(client) for a cluster: each has a breaker of its own. Nil is
	// one breaker for all keys.
	Node func(key string) string

	// Failures is how many calls in a row have to fail before the server is left alone; 5 when 0. Four times as many in
	// 10 s have the same effect if at least half of all calls failed. The calls of a pipeline that pipelimit.Share
	// shares fail as one.
	Failures int
	// Pause is how long it is left alone, after which one call tries it; 1 s when 0.
	Pause time.Duration
	// Patience is how long the server is given to answer: 20 ms when 0. A call whose context reaches its deadline
	// earlier does not count as a failure of the server. Neither does one for which this process was too busy for half
	// of the time at least: that is an overload, unless the server has not answered for a second.
	Patience time.Duration

	// IsOutage says which errors are outages; nil is ratelimit.IsOutage.
	IsOutage func(err error) bool

	// OnChange is called when the breaker of a node opens, with the error that opened it, and when it
	// closes, or another node answers that has its keys now, with nil. It may call the Guard. Nil logs both through
	// Logger.
	OnChange func(node string, outage error)
	// Logger gets one line when an outage begins and one when it is over; slog.Default when nil.
	Logger *slog.Logger
}

// Guard is a Decider that survives the one behind it. It is safe for concurrent use.
type Guard struct {
	next     ratelimit.Decider
	o        Options
	breakers sync.Map     // of *breaker, by node
	open     atomic.Int64 // how many breakers are
	local    *local

	mu      sync.Mutex
	changes []change // to be told, in order
	telling bool
	pending atomic.Bool

	began   map[string]time.Time // when the outage of a node did; of who is telling
	instead atomic.Uint64        // calls decided by the policy since
}

// change is that a node is left alone, or, without an outage, that it is back.
type change struct {
	node   string
	outage error
}

// New returns a Guard before next. It panics if next is nil.
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
	g := &Guard{next: ratelimit.With(next), o: o, began: map[string]time.Time{}}
	if o.Policy == Local {
		g.local = newLocal(o.Processes, !o.NeverMore, o.Keys)
	}
	if g.o.OnChange == nil {
		g.o.OnChange = g.log
	}
	return g
}

// Decide asks the Decider behind, unless the breaker is open. In an outage the policy decides.
func (g *Guard) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	return g.DecideBy(ctx, call, g.next)
}

// DecideBy is Decide with another way to the same servers in place of the Decider behind, such as a pipeline that
// carries further calls.
func (g *Guard) DecideBy(ctx context.Context, call ratelimit.Call, send ratelimit.Decider) (ratelimit.Result, error) {
	if err := shared.Begins(ctx); err != nil {
		return ratelimit.Result{}, fmt.Errorf("guard: %w", err)
	}
	here, held := g.leased(ctx, call)
	b := g.breakerOf(&call)
	result, err := g.try(ctx, b, &call, send)
	switch {
	case held && (err != nil || !found(&call, &result)): // the server does not know the lease
		result, err = here, nil
	case err == nil:
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		result, err = g.applyPolicy(ctx, b, call, b.leftAlone())
	case g.o.IsOutage(err):
		result, err = g.applyPolicy(ctx, b, call, err)
	}
	if g.open.Load() > 0 && err == nil && result.By == "server" {
		g.replace(b)
	}
	if g.pending.Load() {
		g.tell()
	}
	return result, err
}

// try sends a call, if the breaker lets it.
func (g *Guard) try(ctx context.Context, b *breaker, call *ratelimit.Call, send ratelimit.Decider) (result ratelimit.Result, err error) {
	for {
		sent, probes, ran := call, false, false
		judged, judgement := b.Execute(func() (ratelimit.Result, error) {
			ran = true
			if waits(call) && b.out() { // it would be the one call that tries the server, for as long as it waits
				sent, probes = probe(call), true
			}
			watch := shared.Watch(&b.server)
			result, err = send.Decide(ctx, *sent)
			if replied(err) || result.By == "server" {
				b.server.Answer()
			}
			err = watch.End(err)
			return result, g.judge(ctx, b, sent, result, err, watch.Took())
		})
		switch {
		case !ran:
			return judged, judgement
		case !probes, sent.Verb == ratelimit.VerbLease && result.By != "" && !result.Limited:
			return result, err
		case judgement == nil: // the server is back, even if the user may not send what tried it
		case err == nil: // the Decider behind needs no server
			return send.Decide(ctx, *call)
		default:
			return result, err
		}
		if err := shared.Begins(ctx); err != nil {
			return ratelimit.Result{}, fmt.Errorf("guard: %w", err)
		}
	}
}

// waits says whether the server answers a call when its turn has come.
func waits(call *ratelimit.Call) bool {
	return call.Verb == ratelimit.VerbWait || (call.Verb == ratelimit.VerbLease && call.MaxWait != 0)
}

// probe is a call that is answered at once, and that tries the server for one that waits. A lease that it takes is the
// answer.
func probe(call *ratelimit.Call) *ratelimit.Call {
	if call.Verb == ratelimit.VerbWait {
		return &ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: call.Keys, Cost: call.Cost, NoCost: call.NoCost}
	}
	now := alone(*call)
	return &now
}

// replied says whether the server did, if only with an error.
func replied(err error) bool {
	if err == nil { // which allocates nothing
		return false
	}
	var reply interface{ RedisError() }
	return errors.As(err, &reply)
}

// judge is how the breaker is to take the outcome of a call: nil is a success.
func (g *Guard) judge(ctx context.Context, b *breaker, call *ratelimit.Call, result ratelimit.Result, err error, took time.Duration) error {
	switch {
	case err == nil && result.By == "server":
		return nil
	case err == nil:
		return errNotCounted
	case !g.o.IsOutage(err):
		if replied(err) && b.out() { // it is there, whatever it says
			return nil
		}
		return errNotCounted
	case errors.Is(ctx.Err(), context.Canceled), over(ctx) && (took < g.o.Patience || waits(call)):
		return errNotCounted
	}
	var shared interface{ FirstFor(who any) bool } // of package pipelimit
	if errors.As(err, &shared) && !shared.FirstFor(b) {
		b.together.Add(1)
		return errNotCounted
	}
	b.failed(err, call)
	return err
}

// over says whether the deadline of ctx has passed. A connection may notice that before ctx does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || (ok && !time.Now().Before(deadline))
}

// applyPolicy answers a call in an outage.
func (g *Guard) applyPolicy(ctx context.Context, b *breaker, call ratelimit.Call, outage error) (ratelimit.Result, error) {
	g.instead.Add(1)
	switch call.Verb {
	case ratelimit.VerbLimit, ratelimit.VerbPeek, ratelimit.VerbWait, ratelimit.VerbLease, ratelimit.VerbThrottle:
	default:
		return ratelimit.Result{}, outage
	}
	switch g.o.Policy {
	case Open:
		return ratelimit.Result{Key: firstOf(&call), By: "policy"}, nil
	case Closed:
		return ratelimit.Result{Limited: true, Key: firstOf(&call), RetryAfter: b.untilRetry(), By: "policy"}, nil
	case Local:
		return g.local.decideByPart(context.WithoutCancel(ctx), call, b.untilRetry())
	}
	return ratelimit.Result{}, outage
}

// firstOf is the name of the first key of a call.
func firstOf(call *ratelimit.Call) string {
	if len(call.Keys) == 0 {
		return ""
	}
	return call.Keys[0].Name
}

// leased renews, releases or settles leases that were taken in this process, also when the server is back. ok is false
// for all other calls.
func (g *Guard) leased(ctx context.Context, call ratelimit.Call) (result ratelimit.Result, ok bool) {
	switch call.Verb {
	case ratelimit.VerbRenew, ratelimit.VerbRelease, ratelimit.VerbSettle:
	default:
		return ratelimit.Result{}, false
	}
	if g.local == nil || !g.local.knows(call.Keys) {
		return ratelimit.Result{}, false
	}
	result, err := g.local.own.Decide(context.WithoutCancel(ctx), call)
	if err != nil || !found(&call, &result) {
		return ratelimit.Result{}, false
	}
	result.By = "local"
	return result, true
}

// found says whether a call that renews, releases or settles a lease found it.
func found(call *ratelimit.Call, result *ratelimit.Result) bool {
	return !result.Limited && (call.Verb != ratelimit.VerbRelease || result.Granted != 0)
}

// Out reports whether a server is left alone, or just being tried again.
func (g *Guard) Out() (out bool) {
	g.breakers.Range(func(_, b any) bool {
		out = out || b.(*breaker).out()
		return !out
	})
	return out
}

func (g *Guard) note(c change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changes = append(g.changes, c)
	g.pending.Store(true)
}

// tell tells of changes, in order. One caller at a time does, without a lock: OnChange may call the Guard.
func (g *Guard) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.telling {
		return
	}
	g.telling = true
	defer func() { g.telling = false }()
	for len(g.changes) > 0 {
		c := g.changes[0]
		g.changes = g.changes[1:]
		g.pending.Store(len(g.changes) > 0)
		func() {
			g.mu.Unlock()
			defer g.mu.Lock()
			g.o.OnChange(c.node, c.outage)
		}()
	}
}

func (g *Guard) log(node string, outage error) {
	logger := g.o.Logger
	if logger == nil {
		logger = slog.Default()
	}
	var attrs []any
	if node != "" {
		attrs = append(attrs, "node", node)
	}
	if outage != nil {
		g.began[node] = time.Now()
		logger.Error("redis-throttle: Redis is out of reach", append(attrs, "policy", g.o.Policy.String(), "error", outage)...)
		return
	}
	after := time.Since(g.began[node]).Round(time.Millisecond)
	delete(g.began, node)
	logger.Info("redis-throttle: Redis is back", append(attrs, "after", after, "decided_by_policy", g.instead.Swap(0))...)
}
