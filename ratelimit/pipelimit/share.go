package pipelimit

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/masters"
)

// Options configure Share. The zero Options are a good default.
type Options struct {
	// Stall is how long a call waits for the pipeline before it at most, then it leaves with another one: 5 ms when 0. So a connection that
	// hangs holds up the calls that it carries, and no others.
	Stall time.Duration
	// Calls is how many calls a pipeline carries at most; 128 when 0.
	Calls int
}

// Shared is a client for ratelimit.New, whose calls share pipelines. See Share.
type Shared struct {
	client  redis.UniversalClient
	masters *masters.Masters // nil unless client is for a cluster
	o       Options
	lines   sync.Map // of *line, by node
}

// Share returns a client whose calls share pipelines if they are under way at the same time:
//
//	limiter := ratelimit.New(pipelimit.Share(client, pipelimit.Options{}), ratelimit.Options{})
//
// A call leaves at once when no other is under way to its server. Calls that come meanwhile leave together when that one has its reply.
// So a busy process sends and the server reads many calls at a time, which saves most of the CPU that both spend on a call: reading and
// writing sockets takes more of it than deciding.
//
// Each call has its own result and error. A call whose context ends returns at once: it is taken back if it has not been sent, and
// otherwise the server may charge it. No context ends the call of another. What bounds a pipeline are the timeouts of the client.
// When a pipeline fails, the calls in it return a *Failure, so that a circuit breaker can count it as one.
//
// Servers have pipelines of their own: the nodes of a cluster and of a Ring. Share calls Follow. Commands other than those of
// package ratelimit, and calls that wait, are sent by themselves. Share panics if client is nil.
func Share(client redis.UniversalClient, o Options) *Shared {
	if client == nil {
		panic("pipelimit: Share needs a Redis client, not nil")
	}
	if o.Stall <= 0 {
		o.Stall = 5 * time.Millisecond
	}
	if o.Calls <= 0 {
		o.Calls = 128
	}
	Follow(client)
	s := &Shared{client: client, o: o}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		s.masters = masters.Of(cluster)
	}
	return s
}

// Client is the client that sends the pipelines.
func (s *Shared) Client() redis.UniversalClient { return s.client }

// Process sends a command with others, and waits for its reply.
func (s *Shared) Process(ctx context.Context, cmd redis.Cmder) error {
	if !shareable(cmd) {
		return s.client.Process(ctx, cmd)
	}
	p := s.Pipeline()
	_ = p.Process(ctx, cmd)
	_ = p.Exec(ctx)
	return cmd.Err()
}

// Pipeline returns a pipeline for Queue. What it carries leaves together, and with the calls of others.
func (s *Shared) Pipeline() *Pipeline { return &Pipeline{shared: s} }

// Pipeline is a part of pipelines that are shared. It is for one goroutine.
type Pipeline struct {
	shared *Shared
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
	if err := ctx.Err(); err != nil {
		for _, cmd := range queued {
			cmd.SetErr(err)
		}
		return err
	}
	places := make([]place, len(queued))
	for i, cmd := range queued {
		places[i] = p.shared.lineOf(cmd).stand(cmd)
	}
	for _, place := range places {
		place.line.leave(place.batch)
	}
	for i, cmd := range queued {
		if err := places[i].wait(ctx, cmd); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Failure is the error of a call whose pipeline failed.
type Failure struct {
	err   error
	batch *batch
}

func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns what happened.
func (f *Failure) Unwrap() error { return f.err }

// FirstFor reports whether nobody has asked this for who yet, of all calls that were in the pipeline. A circuit breaker that asks with itself
// as who, and counts the failure of a call only if this is true, counts a pipeline that fails once.
func (f *Failure) FirstFor(who any) bool {
	f.batch.mu.Lock()
	defer f.batch.mu.Unlock()
	if f.batch.told == nil {
		f.batch.told = map[any]bool{}
	}
	told := f.batch.told[who]
	f.batch.told[who] = true
	return !told
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

// batch are calls that leave together.
type batch struct {
	cmds []redis.Cmder // copies, as a caller that has left may read its own; nil if it was taken back
	sent bool
	done chan struct{} // closed when the replies are there
	err  error         // of the pipeline, then

	mu   sync.Mutex
	told map[any]bool
}

// line is where the calls to a server wait.
type line struct {
	shared *Shared
	mu     sync.Mutex
	next   *batch      // that others can still join; nil if there is none
	ahead  *batch      // the newest that is about to leave, or under way; nil if there is none
	stall  *time.Timer // sends next
}

// lineOf is where a command waits.
func (s *Shared) lineOf(cmd redis.Cmder) *line {
	node := ""
	if key := int(firstKey(cmd)); key < len(cmd.Args()) {
		name, _ := cmd.Args()[key].(string)
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
	l, _ := s.lines.LoadOrStore(node, &line{shared: s})
	return l.(*line)
}

// place says where a call waits.
type place struct {
	line  *line
	batch *batch
	at    int
}

// stand puts a command at the end of the line.
func (l *line) stand(cmd redis.Cmder) place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &batch{done: make(chan struct{})}
		switch {
		case l.ahead == nil:
		case l.stall == nil:
			l.stall = time.AfterFunc(l.shared.o.Stall, l.overdue)
		default:
			l.stall.Reset(l.shared.o.Stall)
		}
	}
	_, queued := copyOf(cmd)
	l.next.cmds = append(l.next.cmds, queued)
	return place{l, l.next, len(l.next.cmds) - 1}
}

// leave sends a batch if nothing is ahead of it or it is full.
func (l *line) leave(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == b && (l.ahead == nil || len(b.cmds) >= l.shared.o.Calls) {
		l.start()
	}
}

// overdue sends what has waited for long. It may come late, when something else waits: that leaves early.
func (l *line) overdue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil {
		l.start()
	}
}

// start sends the next batch beside those that are under way. The caller has the lock.
func (l *line) start() {
	if l.ahead != l.next {
		l.ahead = l.next
		go l.run(l.next)
	}
}

// run sends a batch, and then those that gather meanwhile, until another goes ahead.
func (l *line) run(b *batch) {
	for b != nil {
		runtime.Gosched() // callers that are ready to run join the batch: a busy process saves a tenth of the CPU, an idle one loses nothing
		l.mu.Lock()
		l.next, b.sent = nil, true
		l.mu.Unlock()
		b.send(l.shared.client)
		l.mu.Lock()
		if l.ahead == b {
			l.ahead = l.next
			b = l.next
		} else {
			b = nil
		}
		l.mu.Unlock()
	}
}

// send sends a batch and waits for its replies.
func (b *batch) send(client redis.UniversalClient) {
	defer close(b.done)
	pipe := client.Pipeline()
	ctx := context.Background()
	for _, cmd := range b.cmds {
		if cmd != nil {
			_ = pipe.Process(ctx, cmd)
		}
	}
	_, b.err = pipe.Exec(ctx)
}

var errNoReply = errors.New("pipelimit: the pipeline ended without a reply to this call")

// wait waits for the reply to cmd.
func (p *place) wait(ctx context.Context, cmd redis.Cmder) error {
	select {
	case <-p.batch.done:
	case <-ctx.Done():
		p.line.mu.Lock()
		if !p.batch.sent {
			p.batch.cmds[p.at] = nil
		}
		p.line.mu.Unlock()
		cmd.SetErr(ctx.Err())
		return ctx.Err()
	}
	reply, err := p.batch.cmds[p.at].(interface{ Result() (any, error) }).Result()
	var answered redis.Error
	switch {
	case err == nil && reply == nil: // go-redis tells no command that the server refused the connection, such as for its password
		err = &Failure{cmp.Or(p.batch.err, errNoReply), p.batch}
	case err != nil && !errors.As(err, &answered):
		err = &Failure{err, p.batch}
	}
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	cmd.(settable).SetVal(reply)
	return nil
}
