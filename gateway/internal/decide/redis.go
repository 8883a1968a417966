package decide

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/pipelimit"
)

// Chain is Redis with what stands before it: observers, a cache of denials, batches, and a guard for each policy.
type Chain struct {
	o        ChainOptions
	limiter  *ratelimit.Limiter
	guards   map[guard.Policy]*guard.Guard
	mu       sync.Mutex
	batches  []*batched.Batched
	deciders sync.Map // of ratelimit.Decider, by asked
}

// ChainOptions configure NewChain.
type ChainOptions struct {
	Client redis.UniversalClient
	// Guard are the options of all guards, except for the policy.
	Guard guard.Options
	// Denials is how many denials are remembered, none if it is negative, and DenialAge for how long at most.
	Denials   int
	DenialAge time.Duration
	Observe   []func(context.Context, observed.Decision)
}

type asked struct {
	down  guard.Policy
	units int64
}

// NewChain returns a Chain on a client.
func NewChain(o ChainOptions) *Chain {
	c := &Chain{o: o, limiter: ratelimit.New(o.Client, ratelimit.Options{}), guards: map[guard.Policy]*guard.Guard{}}
	pipelimit.Follow(o.Client)
	if cluster, ok := o.Client.(*redis.ClusterClient); ok {
		c.o.Guard.Node = guard.Masters(cluster)
	}
	for _, policy := range []guard.Policy{guard.Fail, guard.Open, guard.Closed, guard.Local} {
		c.o.Guard.Policy = policy
		c.guards[policy] = guard.New(&bundler{c}, c.o.Guard)
	}
	return c
}

// Of is of Redis.
func (c *Chain) Of(down guard.Policy, units int64) ratelimit.Decider {
	if d, ok := c.deciders.Load(asked{down, units}); ok {
		return d.(ratelimit.Decider)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.deciders.Load(asked{down, units}); ok {
		return d.(ratelimit.Decider)
	}
	var d ratelimit.Decider = c.guards[down]
	if units > 0 {
		b := batched.New(d, batched.Options{Units: units, DenialAge: c.o.DenialAge})
		c.batches = append(c.batches, b)
		d = b
	} else if c.o.Denials >= 0 {
		d = cached.New(d, cached.Options{Denials: c.o.Denials, MaxAge: c.o.DenialAge})
	}
	d = observed.New(d, c.o.Observe...)
	c.deciders.Store(asked{down, units}, d)
	return d
}

// Cluster is of Redis.
func (c *Chain) Cluster() bool {
	_, cluster := c.o.Client.(*redis.ClusterClient)
	return cluster
}

// Out says whether a server is left alone because it did not answer.
func (c *Chain) Out() bool {
	for _, g := range c.guards {
		if g.Out() {
			return true
		}
	}
	return false
}

// Close gives units of batches back.
func (c *Chain) Close(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.batches {
		if e := b.Close(ctx); e != nil {
			err = e
		}
	}
	return err
}

// Each is of Redis. The guard sees the first call alone, for which all are sent in one pipeline.
func (c *Chain) Each(ctx context.Context, down guard.Policy, calls []ratelimit.Call) ([]ratelimit.Result, error) {
	began := time.Now()
	b := &bundle{calls: calls, results: make([]ratelimit.Result, len(calls))}
	first, err := c.guards[down].Decide(context.WithValue(ctx, bundleKey{}, b), calls[0])
	sent := err == nil && b.sent && first.By == "server"
	b.results[0] = first
	for i := 1; i < len(calls) && err == nil && !sent; i++ { // decided without a server
		b.results[i], err = c.guards[down].Decide(ctx, calls[i])
	}
	took := time.Since(began)
	for i := range calls {
		for _, observe := range c.o.Observe {
			observe(ctx, observed.Decision{Call: calls[i], Result: b.results[i], Err: err, Duration: took})
		}
	}
	return b.results, err
}

// bundleKey leads from a context to a bundle.
type bundleKey struct{}

// bundle are the calls of a request that go out together.
type bundle struct {
	calls   []ratelimit.Call
	results []ratelimit.Result
	sent    bool
}

// bundler sends a call, or the bundle that it is the first of.
type bundler struct{ c *Chain }

func (s *bundler) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	b, ok := ctx.Value(bundleKey{}).(*bundle)
	if !ok || len(b.calls) == 1 {
		if ok {
			b.sent = true
		}
		return s.c.limiter.Decide(ctx, call)
	}
	pipe := s.c.o.Client.Pipeline()
	replies := make([]*pipelimit.Reply, len(b.calls))
	for i := range b.calls {
		replies[i] = pipelimit.Queue(ctx, pipe, b.calls[i])
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	b.sent = true
	for i := range replies {
		var err error
		if b.results[i], err = replies[i].Result(); err != nil {
			return ratelimit.Result{}, err
		}
	}
	return b.results[0], nil
}
