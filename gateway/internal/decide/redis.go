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
	shared   *pipelimit.Shared
	limiter  *ratelimit.Limiter
	guards   map[guard.Policy]*guard.Guard
	mu       sync.Mutex
	batches  []*batched.Batched
	denials  []interface{ Forget(key string) } // those of batches, too
	deciders sync.Map                          // of ratelimit.Decider, by asked
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
	shared := pipelimit.Share(o.Client, pipelimit.Options{})
	c := &Chain{o: o, shared: shared, limiter: ratelimit.New(shared, ratelimit.Options{}), guards: map[guard.Policy]*guard.Guard{}}
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
		c.batches, c.denials = append(c.batches, b), append(c.denials, b)
		d = b
	} else if c.o.Denials >= 0 {
		remembered := cached.New(d, cached.Options{Denials: c.o.Denials, MaxAge: c.o.DenialAge})
		c.denials = append(c.denials, remembered)
		d = remembered
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

// Each is of Redis. The guard is asked about each call. The first that it lets through takes those behind it along, in one pipeline. Batches
// and remembered denials are passed by, and the denials of keys that get units back are forgotten.
func (c *Chain) Each(ctx context.Context, down guard.Policy, calls []ratelimit.Call) ([]ratelimit.Result, []error) {
	results, errs := make([]ratelimit.Result, len(calls)), make([]error, len(calls))
	b := &bundle{calls: calls}
	together := ctx
	if len(calls) > 1 {
		together = context.WithValue(ctx, bundleKey{}, b)
	}
	began := time.Now()
	for i := range calls {
		b.at = i
		results[i], errs[i] = c.guards[down].Decide(together, calls[i])
		if calls[i].Verb == ratelimit.VerbRefund {
			c.forget(calls[i].Keys[0].Name)
		}
		for _, observe := range c.o.Observe {
			observe(ctx, observed.Decision{Call: calls[i], Result: results[i], Err: errs[i], Duration: time.Since(began)})
		}
	}
	return results, errs
}

func (c *Chain) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.denials {
		d.Forget(key)
	}
}

// bundleKey leads from a context to a bundle.
type bundleKey struct{}

// bundle are the calls of a request that go out together.
type bundle struct {
	calls   []ratelimit.Call
	at      int // the call that the guard is asked about
	replies []*pipelimit.Reply
}

// bundler sends a call, or the bundle that it is the first of.
type bundler struct{ c *Chain }

func (s *bundler) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	b, ok := ctx.Value(bundleKey{}).(*bundle)
	if !ok {
		return s.c.limiter.Decide(ctx, call)
	}
	if b.replies == nil {
		pipe := s.c.shared.Pipeline()
		b.replies = make([]*pipelimit.Reply, len(b.calls))
		for i := b.at; i < len(b.calls); i++ {
			b.replies[i] = pipelimit.Queue(ctx, pipe, b.calls[i])
		}
		_ = pipe.Exec(ctx) // each reply has its error
	}
	return b.replies[b.at].Result()
}
