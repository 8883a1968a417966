// Package shared is a client of go-redis whose calls share pipelines if they are under way at the same time. It is what
// ratelimit.New sends calls by; package pipelimit documents it.
package shared

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/lag"
	"redis-throttle/ratelimit/internal/masters"
)

// Options are documented in package pipelimit.
type Options struct {
	// Stall is how long a call waits for the pipeline before it at most, then it leaves with another one: 5 ms when 0.
	// So a connection that hangs holds up the calls that it carries, and no others.
	Stall time.Duration
	// Calls is how many calls a pipeline carries at most; 128 when 0.
	Calls int
	// Pipelines is how many pipelines are under way to a server at most. When 0 it is 16, or three quarters of PoolSize
	// if that is less.
	Pipelines int
	// Waiting is how many calls wait for a server at most, with those that are under way; 10,000 when 0. A call beyond
	// that is an overload at once.
	Waiting int
}

// Client is a client whose calls share pipelines.
type Client struct {
	client  redis.UniversalClient
	masters *masters.Masters // nil unless client is for a cluster
	o       Options
	lines   sync.Map // of *line, by node
	leaving Leaving
}

// New returns a Client that sends by client.
func New(client redis.UniversalClient, o Options) *Client {
	if o.Stall <= 0 {
		o.Stall = 5 * time.Millisecond
	}
	if o.Calls <= 0 {
		o.Calls = 128
	}
	if o.Pipelines <= 0 {
		size := poolSize(client)
		o.Pipelines = max(1, min(16, size-size/4))
	}
	if o.Waiting <= 0 {
		o.Waiting = 10_000
	}
	s := &Client{client: client, o: o}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		s.masters = masters.Of(cluster)
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(oneTimeout{}) })
	}
	return s
}

func poolSize(client redis.UniversalClient) int {
	switch client := client.(type) {
	case *redis.Client:
		return client.Options().PoolSize
	case *redis.ClusterClient:
		return client.Options().PoolSize
	case *redis.Ring:
		return client.Options().PoolSize
	}
	return 16
}

// Client is the client that sends the pipelines.
func (s *Client) Client() redis.UniversalClient { return s.client }

// Process sends a command with others, and waits for its reply.
func (s *Client) Process(ctx context.Context, cmd redis.Cmder) error {
	if !shareable(cmd) {
		err := s.client.Process(ctx, cmd)
		s.leaving.After(s.client, err)
		return err
	}
	var one [1]place
	_ = s.exec(ctx, []redis.Cmder{cmd}, one[:])
	return cmd.Err()
}

// Pipeline returns a pipeline for pipelimit.Queue. What it carries leaves together, and with the calls of others.
func (s *Client) Pipeline() *Pipeline { return &Pipeline{shared: s} }

// Pipeline is a part of pipelines that are shared. It is for one goroutine.
type Pipeline struct {
	shared *Client
	queued []redis.Cmder
}

// Process queues a command.
func (p *Pipeline) Process(_ context.Context, cmd redis.Cmder) error {
	p.queued = append(p.queued, cmd)
	return nil
}

// Exec sends what was queued, and returns when all replies are there or ctx ends. The error is the first one.
func (p *Pipeline) Exec(ctx context.Context) (first error) {
	queued := p.queued
	p.queued = nil
	return p.shared.exec(ctx, queued, make([]place, len(queued)))
}

// exec is Exec of some commands, with room for the place of each.
func (s *Client) exec(ctx context.Context, queued []redis.Cmder, places []place) (first error) {
	if err := Begins(ctx); err != nil {
		for _, cmd := range queued {
			cmd.SetErr(err)
		}
		return err
	}
	var watch *lag.Watch
	if _, ok := ctx.Deadline(); ok {
		watch = lag.Begin()
		defer watch.End()
	}
	var began time.Time // for callers that may leave
	mayLeave := ctx.Done() != nil
	if mayLeave {
		began = time.Now()
	}
	for i, cmd := range queued {
		places[i] = s.lineOf(cmd).stand(cmd, mayLeave)
	}
	for _, place := range places {
		place.line.leave(place.batch)
	}
	for i, cmd := range queued {
		if err := places[i].wait(ctx, cmd, began, watch); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// settable is a *redis.Cmd, and what wraps one.
type settable interface {
	redis.Cmder
	SetVal(val any)
}

// shareable says whether a command is one of package ratelimit that does not wait.
func shareable(cmd redis.Cmder) bool {
	args := cmd.Args()
	if _, ok := cmd.(settable); !ok || len(args) < 2 {
		return false
	}
	name, _ := args[0].(string)
	waits := name == "CL.WAIT" || (name == "CL.LEASE" && slices.Contains(args[2:], any("TIMEOUT")))
	return (strings.HasPrefix(name, "CL.") || strings.HasPrefix(name, "FCALL") || strings.HasPrefix(name, "EVALSHA")) && !waits
}

// lineOf is where a command waits.
func (s *Client) lineOf(cmd redis.Cmder) *line {
	node, name := "", ""
	if key := int(FirstKey(cmd)); key < len(cmd.Args()) {
		name, _ = cmd.Args()[key].(string)
		if s.masters != nil {
			node = s.masters.Addr(name)
		} else if ring, ok := s.client.(*redis.Ring); ok {
			if shard, err := ring.GetShardClientForKey(name); err == nil {
				node = shard.Options().Addr
			}
		}
	}
	if l, ok := s.lines.Load(node); ok {
		return l.(*line)
	}
	l, known := s.lines.LoadOrStore(node, &line{shared: s})
	if cluster, ok := s.client.(*redis.ClusterClient); ok && !known && node != "" { // the client may have known the node before it was shared
		if master, err := cluster.MasterForKey(context.Background(), name); err == nil {
			master.AddHook(oneTimeout{})
		}
	}
	return l.(*line)
}

// CopyOf is the command with the same arguments, and what to queue for it.
func CopyOf(cmd redis.Cmder) (*redis.Cmd, redis.Cmder) {
	c := redis.NewCmd(context.Background(), cmd.Args()...)
	c.SetFirstKeyPos(FirstKey(cmd))
	if once, ok := cmd.(interface{ NoRetry() bool }); ok && once.NoRetry() {
		return c, charging{c}
	}
	return c, c
}

// charging is a command that go-redis does not repeat.
type charging struct{ *redis.Cmd }

// NoRetry is asked by go-redis before it sends a pipeline again.
func (charging) NoRetry() bool { return true }

// FirstKey is the place of the first key of a command.
func FirstKey(cmd redis.Cmder) int8 {
	switch name, _ := cmd.Args()[0].(string); name {
	case "FCALL", "FCALL_RO", "EVALSHA", "EVALSHA_RO", "EVAL", "EVAL_RO":
		return 3
	case "CL.MLIMIT", "CL.SETTLE":
		return 2
	}
	return 1
}
