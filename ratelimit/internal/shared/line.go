package shared

import (
	"cmp"
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/lag"
)

// line is where the calls to a server wait, and the pipelines that carry them.
type line struct {
	shared *Client
	server lag.Server

	mu       sync.Mutex
	queue    []*batch // that have not left; others can still join the last one
	ahead    *batch   // the newest that is under way; nil if there is none
	lanes    int      // pipelines that are under way, or about to be
	starting int      // of lanes, those that have not taken their batch yet
	overdue  bool     // the first of queue has waited long enough, and there was no lane for it
	waiting  int      // calls of queue, and of those under way
	stall    *time.Timer
}

// batch are calls that leave together.
type batch struct {
	cmds []redis.Cmder // copies of those of callers that may leave, who then read their own; nil if it was taken back
	live int           // cmds that were not taken back
	sent bool
	done chan struct{} // closed when the replies are there
	err  error         // of the pipeline, then
	late time.Duration // how late this process was meanwhile, if that is why the pipeline failed

	mu   sync.Mutex
	told map[any]bool
}

// place says where a call waits.
type place struct {
	line  *line
	batch *batch // nil if there was no room
	at    int
}

// stand puts a command at the end of the line. Its caller may leave before the reply is there.
func (l *line) stand(cmd redis.Cmder, mayLeave bool) place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting >= l.shared.o.Waiting {
		return place{line: l}
	}
	l.waiting++
	n := len(l.queue)
	if n == 0 || len(l.queue[n-1].cmds) >= l.shared.o.Calls {
		l.queue = append(l.queue, &batch{done: make(chan struct{})})
		if n == 0 && l.ahead != nil {
			l.giveTime()
		}
		n++
	}
	b := l.queue[n-1]
	if mayLeave {
		_, cmd = CopyOf(cmd)
	}
	b.cmds = append(b.cmds, cmd)
	b.live++
	return place{l, b, len(b.cmds) - 1}
}

// giveTime lets the first of the queue wait for the pipeline ahead. The caller has the lock.
func (l *line) giveTime() {
	if l.stall == nil {
		l.stall = time.AfterFunc(l.shared.o.Stall, l.hurry)
		return
	}
	l.stall.Reset(l.shared.o.Stall)
}

// leave sends a batch if nothing is ahead of it or it is full.
func (l *line) leave(b *batch) {
	if b == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.sent && ((l.ahead == nil && l.starting == 0) || len(b.cmds) >= l.shared.o.Calls) {
		l.start()
	}
}

// hurry sends what has waited for long. It may come late, when something else waits: that leaves early.
func (l *line) hurry() {
	runtime.Gosched() // in a busy process the reply may be there, and who is to read it waits for a processor
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start()
}

// start has another lane send the first batch that nobody is about to send. The caller has the lock.
func (l *line) start() {
	switch {
	case len(l.queue) <= l.starting:
	case l.lanes < l.shared.o.Pipelines:
		l.lanes++
		l.starting++
		go l.run()
	default:
		l.overdue = true
	}
}

// run sends a batch, and then those that gather meanwhile, until another goes ahead.
func (l *line) run() {
	for again := true; again; {
		l.gather()
		b := l.take()
		l.send(b)
		again = l.goesOn(b)
	}
}

// gathering bounds how long a batch waits while callers join it.
const gathering = 200 * time.Microsecond

// gather has callers that are ready to run join the next batch, until none does. A busy process saves a tenth of the
// CPU, an idle one loses nothing, and one that computes for long waits for it once.
func (l *line) gather() {
	began := time.Now()
	for before := -1; ; {
		runtime.Gosched()
		now := l.next()
		if now == before || time.Since(began) >= gathering {
			return
		}
		before = now
	}
}

// next is how many calls are in the batch that is sent next.
func (l *line) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue[0].cmds)
}

// take is the batch that a lane sends next. There is one for each lane that starts.
func (l *line) take() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting--
	b := l.queue[0]
	l.queue = l.queue[1:]
	b.sent, l.ahead = true, b
	if len(l.queue) > 0 {
		l.giveTime()
	}
	return b
}

// goesOn says whether the lane that has sent b takes another batch.
func (l *line) goesOn(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting -= b.live
	newest := l.ahead == b
	if len(l.queue) > l.starting && (newest || l.overdue) {
		l.overdue = false
		l.starting++
		return true
	}
	if newest {
		l.ahead = nil
	}
	l.lanes--
	return false
}

// dials is how often a pipeline dials, if this process was too busy to see that it was connected.
const dials = 5

// send sends a batch and waits for its replies.
func (l *line) send(b *batch) {
	defer close(b.done)
	if b.live == 0 { // the server would answer nothing
		return
	}
	for range dials {
		began := time.Now()
		watch := l.server.Begin(began)
		ctx := context.Background()
		if l.shared.masters != nil {
			ctx = context.WithValue(ctx, attemptsKey{}, &attempts{busy: func() bool { return l.server.IsBusy(began, watch.Late(), time.Since(began)) }})
		}
		b.exec(ctx, l.shared.client)
		late, took := watch.End(), time.Since(began)
		if !TimedOut(b.err) {
			if b.err == nil || isReply(b.err) {
				l.server.Answer()
			}
			if b.err != nil {
				b.leaves(&l.shared.leaving, l.shared.client)
			}
			return
		}
		if !l.server.IsBusy(began, late, took) {
			return
		}
		b.late = late
		var dial *net.OpError
		if !errors.As(b.err, &dial) || dial.Op != "dial" { // it may have been sent
			return
		}
	}
}

func (b *batch) exec(ctx context.Context, client redis.UniversalClient) {
	pipe := client.Pipeline()
	b.late = 0
	for _, cmd := range b.cmds {
		if cmd != nil {
			cmd.SetErr(nil)
			_ = pipe.Process(ctx, cmd)
		}
	}
	_, b.err = pipe.Exec(ctx)
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// Failure is the error of a call whose pipeline failed.
type Failure struct {
	err   error
	batch *batch
}

func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns what happened.
func (f *Failure) Unwrap() error { return f.err }

// FirstFor reports whether nobody has asked this for who yet, of all calls that were in the pipeline. A circuit breaker
// that asks with itself as who, and counts the failure of a call only if this is true, counts a pipeline that fails
// once.
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

var errNoReply = errors.New("pipelimit: the pipeline ended without a reply to this call")

// wait waits for the reply to cmd. The call began then, and watch is not nil if ctx has a deadline.
func (p *place) wait(ctx context.Context, cmd redis.Cmder, began time.Time, watch *lag.Watch) error {
	if p.batch == nil {
		err := Full(p.line.shared.o.Waiting)
		cmd.SetErr(err)
		return err
	}
	select {
	case <-p.batch.done:
	case <-ctx.Done():
		if !p.arrives(ctx, watch) {
			err := p.leaves(ctx, began, watch)
			cmd.SetErr(err)
			return err
		}
	}
	reply, err := p.batch.cmds[p.at].(interface{ Result() (any, error) }).Result()
	switch {
	case err == nil && reply == nil: // go-redis tells no command that the server refused the connection, such as for its password
		err = &Failure{cmp.Or(p.batch.err, errNoReply), p.batch}
	case err != nil && !isReply(err):
		err = &Failure{err, p.batch}
	}
	if err != nil && p.batch.late > 0 && TimedOut(err) {
		err = &Failure{busy(p.batch.late, err), p.batch}
	}
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	cmd.(settable).SetVal(reply)
	return nil
}

// arrives gives a call whose deadline has passed as much more time as this process was late, and says whether its reply
// is there then.
func (p *place) arrives(ctx context.Context, watch *lag.Watch) bool {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return false
	}
	runtime.Gosched() // who is to read the reply goes first
	timer := time.NewTimer(watch.Late())
	defer timer.Stop()
	select {
	case <-p.batch.done:
		return true
	case <-timer.C:
		return false
	}
}

// takeBack takes a call back that has not been sent, and the batch if no other is in it, unless a lane is about to send
// it: behind a server that hangs, callers come and leave for as long as the client waits. The caller has the lock.
func (l *line) takeBack(b *batch, at int) {
	b.cmds[at] = nil
	b.live--
	l.waiting--
	if b.live == 0 && len(l.queue) > l.starting {
		at := slices.Index(l.queue, b)
		l.queue = slices.Delete(l.queue, at, at+1)
	}
}

// leaves takes a call back if it has not been sent, and says why it leaves.
func (p *place) leaves(ctx context.Context, began time.Time, watch *lag.Watch) error {
	p.line.mu.Lock()
	if !p.batch.sent {
		p.line.takeBack(p.batch, p.at)
	}
	p.line.mu.Unlock()
	err := ctx.Err()
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	late := watch.Late()
	if p.line.server.IsBusy(began, late, time.Since(began)) {
		return busy(late, err)
	}
	if p.line.server.AnsweredSince(began) {
		return Others(err)
	}
	return err
}
