package decide

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/gateway/internal/settings"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/commands"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/pipelimit"
)

// Chain is Redis with what stands before it: observers, a cache of denials, batches, and a guard for each policy.
type Chain struct {
	settings *settings.Settings
	client   redis.UniversalClient
	server   ratelimit.Decider // without what stands before it
	cluster  bool
	shared   *pipelimit.Shared
	guards   map[guard.Policy]*guard.Guard
	observe  []func(context.Context, observed.Decision)
	up       atomic.Bool             // a server decided when Probe asked last
	apart    atomic.Bool             // a server has no module: calls of a request are sent as its doors are, not queued as commands of the module
	node     func(key string) string // the master of a key, in a cluster
	told     string                  // what Probe logged last

	mu       sync.Mutex
	deciders map[asked]ratelimit.Decider
	batches  []*batched.Batched
	denials  []interface{ Forget(key string) } // those of batches, too
}

// asked are the arguments of Of.
type asked struct {
	down  guard.Policy
	units int64
}

// NewChain returns a Chain on a client.
func NewChain(client redis.UniversalClient, o *settings.Settings, observe ...func(context.Context, observed.Decision)) *Chain {
	c := &Chain{
		settings: o, client: client, observe: observe, shared: pipelimit.Share(client, pipelimit.Options{}),
		guards: map[guard.Policy]*guard.Guard{}, deciders: map[asked]ratelimit.Decider{},
	}
	options := guard.Options{Processes: o.Replicas, Logger: slog.Default(), IsOutage: IsOutage}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		c.cluster, c.node = true, guard.Masters(cluster)
		options.Node = c.node
	}
	send := commands.Choice(o.Redis.Commands)
	c.server = ratelimit.New(commands.On(c.shared, commands.Options{Send: send, Logger: slog.Default()}), ratelimit.Options{})
	c.apart.Store(send == commands.Functions)
	for _, policy := range []guard.Policy{guard.Fail, guard.Open, guard.Closed, guard.Local} {
		options.Policy = policy
		c.guards[policy] = guard.New(c.server, options)
	}
	return c
}

// Of returns the decider for calls that down decides about in an outage, in batches of units. It is of the interface
// Redis.
func (c *Chain) Of(down guard.Policy, units int64) ratelimit.Decider {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.deciders[asked{down, units}]; ok {
		return d
	}
	var d ratelimit.Decider = c.guards[down]
	switch {
	case units > 0:
		b := batched.New(d, batched.Options{Units: units, DenialAge: c.settings.DenialAge})
		c.batches, c.denials, d = append(c.batches, b), append(c.denials, b), b
	case c.settings.Denials >= 0:
		remembered := cached.New(d, cached.Options{Denials: c.settings.Denials, MaxAge: c.settings.DenialAge})
		c.denials, d = append(c.denials, remembered), remembered
	}
	d = observed.New(d, c.observe...)
	c.deciders[asked{down, units}] = d
	return d
}

// Server is Redis without what stands before it: nothing remembers, batches or guards what it is asked.
func (c *Chain) Server() ratelimit.Decider { return c.server }

// Cluster is of Redis.
func (c *Chain) Cluster() bool { return c.cluster }

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
		err = errors.Join(err, b.Close(ctx))
	}
	return err
}

// Each is of Redis. The guard is asked about each call. The first that it lets through takes those behind it along, in
// one pipeline: while a node is left alone only those of its own node, so that nobody waits for the other. Batches and
// remembered denials are passed by, and the denials of keys that get units back are forgotten.
func (c *Chain) Each(ctx context.Context, down guard.Policy, calls []ratelimit.Call) ([]ratelimit.Result, []error) {
	results, errs := make([]ratelimit.Result, len(calls)), make([]error, len(calls))
	var at int // the call that the guard is asked about
	sent := make([]*answer, len(calls))
	together := pipelined(func() (ratelimit.Result, error) {
		if sent[at] == nil {
			var places []int
			apart := c.node != nil && c.guards[down].Out()
			for i := at; i < len(calls); i++ {
				if sent[i] == nil && (!apart || c.node(calls[i].Keys[0].Name) == c.node(calls[at].Keys[0].Name)) {
					places = append(places, i)
				}
			}
			c.send(ctx, calls, places, sent)
		}
		return sent[at].result, sent[at].err
	})
	began := time.Now()
	for at = range calls {
		results[at], errs[at] = c.guards[down].DecideBy(ctx, calls[at], together)
		if calls[at].Verb == ratelimit.VerbRefund {
			c.Forget(calls[at].Keys[0].Name)
		}
		for _, observe := range c.observe {
			observe(ctx, observed.Decision{Call: calls[at], Result: results[at], Err: errs[at], Duration: time.Since(began)})
		}
	}
	return results, errs
}

type answer struct {
	result ratelimit.Result
	err    error
}

// send asks the server about the calls at some places, at the same time, and puts the answers there.
func (c *Chain) send(ctx context.Context, calls []ratelimit.Call, places []int, sent []*answer) {
	answers := make([]answer, len(places))
	apart := c.apart.Load()
	if !apart {
		pipe := c.shared.Pipeline()
		replies := make([]*pipelimit.Reply, len(places))
		for i, at := range places {
			replies[i] = pipelimit.Queue(ctx, pipe, calls[at])
		}
		_ = pipe.Exec(ctx) // each reply has its error
		for i, reply := range replies {
			answers[i].result, answers[i].err = reply.Result()
		}
	}
	var asking sync.WaitGroup
	for i, at := range places {
		if apart || errors.Is(answers[i].err, ratelimit.ErrNoModule) {
			c.apart.Store(c.settings.Redis.Commands != string(commands.Module))
			asking.Go(func() { answers[i].result, answers[i].err = c.server.Decide(ctx, calls[at]) }) // they share a pipeline
		}
		sent[at] = &answers[i]
	}
	asking.Wait()
}

// Forget drops what is remembered of the denials of a key.
func (c *Chain) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.denials {
		d.Forget(key)
	}
}

// pipelined sends the call that the guard is asked about with others.
type pipelined func() (ratelimit.Result, error)

func (p pipelined) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) { return p() }
