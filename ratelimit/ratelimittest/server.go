package ratelimittest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/limiter/embedded"
	"redis-throttle/ratelimit"
)

// server is the host of the keys as a client sees it: callers block until they have their answers.
//
// It starts no goroutine. Outside of bubbles nothing happens but in calls, Advance and SetTime. In a bubble a timer
// fires when the next caller is due.
type server struct {
	mu      sync.Mutex // guards all below; nobody blocks who holds it
	clock   clock
	host    embedded.Host
	inLine  map[embedded.Waiter]*pending
	hung    []*pending // to be executed by Heal, in this order
	late    []delayed  // answers under way, soonest to come first
	fault   fault
	over    bool // the test is
	blocked int
	changed *sync.Cond // blocked has

	settling chan struct{} // in a bubble has room for the one goroutine that may call synctest.Wait
	timer    *time.Timer   // in a bubble
	due      time.Duration // when it fires, by clock.elapsed; 0 if it does not

	asked  []*record // a ring once it is full
	oldest int

	words [][]byte // room for those of a command
	bytes []byte
}

// pending is a command without an answer.
type pending struct {
	answer chan outcome // has room for it
	args   []any        // of one that hangs
	waiter embedded.Waiter
	fault  fault
	gone   bool // the caller has given up
}

// delayed is an answer on its way.
type delayed struct {
	at   time.Duration // by clock.elapsed
	p    *pending
	with outcome
}

func newServer() *server {
	s := &server{clock: newClock(), inLine: map[embedded.Waiter]*pending{}, settling: make(chan struct{}, 1)}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Process runs a command.
func (s *server) Process(ctx context.Context, cmd redis.Cmder) error {
	c, ok := cmd.(interface{ SetVal(value any) })
	if !ok {
		err := fmt.Errorf("ratelimittest: the command is a %T, not a *redis.Cmd", cmd)
		cmd.SetErr(err)
		return err
	}
	noted, ok := ctx.Value(ofRecord{}).(*record)
	if !ok {
		noted = s.remember(ratelimit.Call{})
	}
	out := s.run(ctx, noted, cmd.Args())
	if !ok {
		s.note(noted, ratelimit.Result{}, out.err)
	}
	if out.err != nil {
		cmd.SetErr(out.err)
		return out.err
	}
	c.SetVal(out.reply)
	return nil
}

func (s *server) run(ctx context.Context, noted *record, args []any) outcome {
	p, out := s.begin(ctx, noted, args)
	if p == nil {
		return out
	}
	select {
	case out = <-p.answer:
		return out
	case <-ctx.Done():
		return s.leave(p, ctx.Err())
	}
}

// begin executes a command. It returns its outcome, or a *pending to wait for.
func (s *server) begin(ctx context.Context, noted *record, args []any) (*pending, outcome) {
	if err := ctx.Err(); err != nil {
		return nil, outcome{err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	noted.commands = append(noted.commands, args)
	if s.over {
		return nil, outcome{err: errOver}
	}
	p := pending{args: args, fault: s.fault.next()}
	switch p.fault.kind {
	case failing:
		return nil, outcome{err: p.fault.err}
	case withoutModule:
		if !deletes(args) {
			return nil, outcome{err: unknown(args)}
		}
	case hanging:
		kept := s.block(p)
		s.hung = append(s.hung, kept)
		return kept, outcome{}
	}
	out, waiter := s.execute(args)
	switch {
	case waiter != 0:
		kept := s.block(p)
		kept.waiter = waiter
		s.inLine[waiter] = kept
		s.wake()
		return kept, outcome{}
	case p.fault.kind == slow:
		kept := s.block(p)
		s.finish(kept, out)
		return kept, outcome{}
	}
	return nil, p.seen(out)
}

// unknown is the reply of a server without the module.
func unknown(args []any) error {
	if len(args) == 0 {
		return ReplyError("ERR no command")
	}
	text := fmt.Sprintf("ERR unknown command '%v', with args beginning with: ", args[0])
	for _, arg := range args[1:] {
		text += fmt.Sprintf("'%v' ", arg)
	}
	return ReplyError(text)
}

// execute runs a command on the host. Then it wakes the callers that may go on, unless its own caller has to wait: that
// one has to be in s.inLine before.
func (s *server) execute(args []any) (out outcome, waiter embedded.Waiter) {
	s.words, s.bytes = s.words[:0], s.bytes[:0]
	for _, arg := range args {
		from := len(s.bytes)
		s.bytes = appendWord(s.bytes, arg)
		s.words = append(s.words, s.bytes[from:len(s.bytes):len(s.bytes)])
	}
	if deletes(args) {
		return s.del(args[1]), 0
	}
	reply := s.host.Do(embedded.Call{NowNs: s.clock.wallNs(), MayBlock: true, Words: s.words})
	if reply.Waiter != 0 {
		return outcome{}, reply.Waiter
	}
	out = outcomeOf(&reply)
	s.wake()
	return out, 0
}

// deletes says whether a command is that of VerbReset, which every server has.
func deletes(args []any) bool { return len(args) == 2 && args[0] == "DEL" }

// del deletes a key.
func (s *server) del(key any) outcome {
	name := string(appendWord(nil, key))
	there := s.host.Get(s.clock.wallNs(), 0, name) != nil
	if !there {
		return outcome{reply: int64(0)}
	}
	s.host.Delete(0, name)
	s.wake()
	return outcome{reply: int64(1)}
}

// seen is what the caller sees of an outcome.
func (p *pending) seen(out outcome) outcome {
	if p.fault.kind == losing {
		return outcome{err: errLost}
	}
	return out
}

func (s *server) block(p pending) *pending {
	p.answer = make(chan outcome, 1)
	s.blocked++
	s.changed.Broadcast()
	return &p
}

// finish answers a caller, after the delay of its fault.
func (s *server) finish(p *pending, out outcome) {
	if p.fault.kind != slow {
		s.answer(p, out)
		return
	}
	at := s.clock.elapsed() + p.fault.delay
	i, _ := slices.BinarySearchFunc(s.late, at, func(d delayed, at time.Duration) int {
		if d.at <= at {
			return -1
		}
		return 1
	})
	s.late = slices.Insert(s.late, i, delayed{at, p, out})
	s.schedule()
}

func (s *server) answer(p *pending, out outcome) { s.give(p, p.seen(out)) }

func (s *server) fail(p *pending, err error) { s.give(p, outcome{err: err}) }

func (s *server) give(p *pending, out outcome) {
	if p.gone {
		return
	}
	p.answer <- out
	p.gone = true
	s.blocked--
	s.changed.Broadcast()
}

// leave takes back a caller that gives up, unless it has its answer already.
func (s *server) leave(p *pending, why error) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gone {
		return <-p.answer
	}
	p.gone = true
	s.blocked--
	s.changed.Broadcast()
	if s.inLine[p.waiter] == p {
		s.forget(p)
		s.wake()
	}
	return outcome{err: why}
}

// forget takes a caller out of its line.
func (s *server) forget(p *pending) {
	delete(s.inLine, p.waiter)
	s.host.Disconnect(s.clock.wallNs(), p.waiter)
}

// wake answers the callers whose time has come.
func (s *server) wake() {
	if !s.fault.ofAll(hanging) {
		for _, a := range s.host.Wake(s.clock.wallNs()) {
			p := s.inLine[a.Waiter]
			delete(s.inLine, a.Waiter)
			if s.fault.ofAll(losing) {
				p.fault = s.fault
			}
			s.finish(p, outcomeOf(&a.Reply))
		}
	}
	s.schedule()
}

// next is when something happens next, by clock.elapsed.
func (s *server) next() (at time.Duration, ok bool) {
	if !s.fault.ofAll(hanging) {
		var ns int64
		ns, ok = s.host.Next()
		at = s.clock.after(ns)
	}
	if len(s.late) > 0 && (!ok || s.late[0].at < at) {
		at, ok = s.late[0].at, true
	}
	return at, ok
}

// schedule has the timer of a bubble fire when something happens next.
func (s *server) schedule() {
	if !s.clock.bubble {
		return
	}
	at, ok := s.next()
	if !ok || at == s.due {
		return
	}
	s.due = at
	wait := at - s.clock.elapsed()
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.tick)
		return
	}
	s.timer.Reset(wait)
}

func (s *server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = 0
	if !s.over {
		s.catchUp()
	}
}

// catchUp gives the answers whose time has come.
func (s *server) catchUp() {
	for len(s.late) > 0 && s.late[0].at <= s.clock.elapsed() {
		first := s.late[0]
		s.late = s.late[1:]
		s.answer(first.p, first.with)
	}
	s.wake()
}

func (s *server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Unix(0, s.clock.wallNs()).UTC()
}

func (s *server) advance(d time.Duration) {
	if s.clock.bubble {
		time.Sleep(d)
		s.settling <- struct{}{}
		synctest.Wait()
		<-s.settling
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.clock.passed + d
	for at, ok := s.next(); ok && at <= end; at, ok = s.next() {
		s.clock.passed = max(s.clock.passed, at)
		s.catchUp()
	}
	s.clock.passed = end
}

func (s *server) setTime(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.late {
		s.late[i].at -= s.clock.passed
	}
	s.clock.set(at)
	s.wake()
}

func (s *server) setFault(to fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.fault = to
	switch {
	case to.ofAll(failing):
		s.cutOff(to.err)
	case to.ofAll(losing):
		s.lose(errLost)
		s.resume()
	case to.kind != hanging:
		s.resume()
	}
	s.wake()
}

// cutOff breaks the connections of all callers that have no answer.
func (s *server) cutOff(err error) {
	for _, waiter := range slices.Sorted(maps.Keys(s.inLine)) {
		p := s.inLine[waiter]
		s.forget(p)
		s.fail(p, err)
	}
	for _, p := range s.hung {
		s.fail(p, err)
	}
	s.hung = nil
	s.lose(err)
}

// lose breaks the connections on which answers are under way.
func (s *server) lose(err error) {
	for _, d := range s.late {
		s.fail(d.p, err)
	}
	s.late = nil
}

// resume executes the commands that hang.
func (s *server) resume() {
	hung := s.hung
	s.hung = nil
	for _, p := range hung {
		p.fault = fault{}
		if s.fault.ofAll(losing) {
			p.fault = s.fault
		}
		out, waiter := s.execute(p.args)
		if waiter == 0 {
			s.answer(p, out)
			continue
		}
		p.waiter = waiter
		s.inLine[waiter] = p
		if p.gone {
			s.forget(p)
		}
		s.wake()
	}
}

// end ends the callers that have no answer when the test is over.
func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.fault = true, fault{}
	s.cutOff(errOver)
	s.changed.Broadcast()
}

func (s *server) blockedNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked
}

func (s *server) awaitBlocked(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.blocked < n && !s.over {
		s.changed.Wait()
	}
}
