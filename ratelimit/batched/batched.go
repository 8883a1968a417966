// Package batched takes units from the server by the batch, for keys with thousands of calls a second.
//
//	limiter := batched.New(ratelimit.New(client, ratelimit.Options{}), batched.Options{})
//	defer limiter.Close(ctx)
package batched

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/internal/about"
	"redis-throttle/ratelimit/internal/denials"
	"redis-throttle/ratelimit/internal/reports"
	"redis-throttle/ratelimit/internal/taken"
)

// Options configure New. The zero Options are a good default.
type Options struct {
	// Units is how many units of a key are held at most; 100 when 0.
	Units int64
	// MaxAge is how long a unit is held at most; 100 ms when 0.
	MaxAge time.Duration
	// Processes is how many processes take batches at the same time at most, each with one Batched of these Units;
	// count a new process beside the old one while it takes over. When set, the limits hold as they are: see What
	// holds.
	Processes int64
	// Keys is how many keys have units at a time; 10,000 when 0. Calls on others go to the
	// server, one by one.
	Keys int
	// DenialAge is how long a denial is remembered at most: 10 s when 0. See package cached.
	DenialAge time.Duration
	// OnError is called when units could not be given back. They stay charged. Nil ignores it.
	OnError func(err error)
}

const (
	defaultBatch     = 100
	defaultMaxAge    = 100 * time.Millisecond
	defaultBatchKeys = 10_000
	defaultDenialAge = 10 * time.Second
	// giveBackTimeout bounds what does not matter to anybody who waits.
	giveBackTimeout = time.Second
	// reported is how far a time in a Result is rounded up.
	reported = time.Millisecond
)

// Batched takes batches of units from the server (UPTO) and hands them out in the process.
// Use it for keys with thousands of calls a second. Callers that come at the same time
// share one call to the server.
//
// # What holds
//
// A unit is charged on the server before it is handed out, and handed out once. So all processes
// together never hand out more than the server let through. A unit may be handed out up to MaxAge
// after it was charged. So in any interval all processes together hand out
//
//   - at most what the limits let through in an interval that is longer by MaxAge, and
//   - at most Units for each process more than the limits let through in it.
//
// With Options.Processes the bound is the limit itself: every call has Units x Processes added to the Spare of its
// limits, so that what the processes hold comes on top of less. All calls on the key have to go through
// a Batched like this one, in each process with the same limits, and in that case
//
//   - less can be had at once: a Rate with a Burst of 1000, 100 Units and 4 Processes lets bursts of 600
//     through, or up to 1000 with what is held. A Rate of which nothing would be left is an error. A Window, and a
//     Fixed beside other limits, lets fewer through in each period by what the processes may hold, so one of which less
//     than half would be left is an error, too.
//   - one exception remains: a server that stands still for so long that a refund is given up, and
//     executes it later all the same, lets the units of the refund through in addition.
//
// A Fixed that is the only limit needs none of this: its units end with their window.
//
// # What it withholds
//
// Units for each process and key at most, for MaxAge at most: another process may be limited
// although there are units left here. The first batch of a key is one unit. Batches double while
// they are used up, and shrink to what was used when they are not, so a key that is asked about
// less than once in MaxAge is not batched.
//
// Units that are left after MaxAge are returned with CL.REFUND, and Close returns the rest. Units
// that the limit no longer counts are not returned, because they have come back by themselves. A process that
// crashes leaves its units charged, as if it had handed them out.
//
// # What is not batched
//
// All verbs but VerbLimit, calls on several keys, calls that cost 0 or more than Units, with options beside Cost, or
// with limits that have Take or Shadow. They go to the Decider behind, and may be limited by what is withheld. So do
// all calls on a key for MaxAge after that Decider decided without the server.
//
// Denials are remembered until their RetryAfter or DenialAge, as by a cached.Cached. A refund, a ban and a settlement
// that pass through make it forget those of their keys, and so does Forget. A Result from a batch has the deciding
// limit and the times of the call that fetched it, counted down; Remaining is what that call left on the server and
// what is left of the batch.
//
// A call for a batch goes on when the context of the caller that needed it ends, as others may wait
// for it: give the client a short read timeout.
type Batched struct {
	next    ratelimit.Decider
	b       Options
	reserve int64 // that Processes asks to spare
	denials *denials.Denials
	reports *reports.Reports

	mu     sync.Mutex
	pots   map[denials.ID]*pot
	closed bool
	busy   int             // workers and refunds under way
	idle   []chan struct{} // closed when there are none
	given  *sync.Cond      // a refund has ended
}

// New returns a Batched before next. Close it. It panics if next is nil.
func New(next ratelimit.Decider, b Options) *Batched {
	if b.Units <= 0 {
		b.Units = defaultBatch
	}
	if b.MaxAge <= 0 {
		b.MaxAge = defaultMaxAge
	}
	if b.Keys <= 0 {
		b.Keys = defaultBatchKeys
	}
	if b.DenialAge <= 0 {
		b.DenialAge = defaultDenialAge
	}
	reserve := int64(math.MaxInt64)
	if b.Processes <= reserve/b.Units {
		reserve = max(b.Processes, 0) * b.Units
	}
	behind := ratelimit.With(next)
	batched := &Batched{
		next: behind, reports: reports.New(behind), b: b, reserve: reserve, denials: denials.New(b.Keys, b.DenialAge), pots: make(map[denials.ID]*pot),
	}
	batched.given = sync.NewCond(&batched.mu)
	return batched
}

// spared are limits as they are asked, so that they hold with all that the processes hold.
func (b *Batched) spared(limits ratelimit.Limits) (ratelimit.Limits, error) {
	if b.reserve == 0 || (len(limits) == 1 && about.Of(&limits[0]).Fixed) {
		return limits, nil
	}
	limits = slices.Clone(limits)
	for i := range limits {
		l := about.Of(&limits[i])
		if l.Capacity < 1 {
			continue // the Decider behind says so
		}
		if l.Spare >= l.Capacity-b.reserve {
			return nil, fmt.Errorf("batched: %s: Units x Processes, %d, leave nothing of the limit", limits[i], b.reserve)
		}
		if room := l.Capacity - l.Spare; !l.Rate && b.reserve > room/2 {
			return nil, fmt.Errorf("batched: %s: Units x Processes, %d, leave only %d of %d units; take at most half, such as Units of %d",
				limits[i], b.reserve, room-b.reserve, room, max(room/2/b.b.Processes, 1))
		}
		limits[i] = limits[i].Spare(l.Spare + b.reserve)
	}
	return limits, nil
}

// direct hands a call on that is not batched.
func (b *Batched) direct(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	if b.reserve > 0 && spares(call.Verb) {
		keys := slices.Clone(call.Keys)
		for i := range keys {
			limits, err := b.spared(keys[i].Limits)
			if err != nil {
				return ratelimit.Result{}, err
			}
			keys[i].Limits = limits
		}
		call.Keys = keys
	}
	result, err := b.next.Decide(ctx, call)
	if !spares(call.Verb) && call.Verb != ratelimit.VerbDenied {
		for i := range call.Keys {
			b.Forget(call.Keys[i].Name)
		}
	}
	return result, err
}

// spares says whether a verb asks for units that may be held by others.
func spares(v ratelimit.Verb) bool {
	return v == ratelimit.VerbLimit || v == ratelimit.VerbPeek || v == ratelimit.VerbWait
}

// pot holds the units of one key and its limits. Batched.mu guards it.
type pot struct {
	id    denials.ID
	keys  []ratelimit.Key // one, with the limits of the callers
	asked []ratelimit.Key // the same, with more to spare
	fixed bool            // its limit is a lone Fixed

	units   int64            // to hand out
	until   time.Time        // when they end
	counted time.Time        // until when the server counts them
	used    int64            // handed out since the last batch came
	giving  int64            // being given back
	batch   ratelimit.Result // what the last batch came with
	came    time.Time
	timer   *time.Timer // ends the units; nil before the first batch

	size    int64     // of the next batch
	direct  time.Time // until when the pot is passed by
	waiters []*waiter // in order of arrival
	working bool      // a worker fetches for them
}

// waiter is a call that waits for a batch.
type waiter struct {
	ctx    context.Context
	came   time.Time
	units  int64
	done   chan struct{} // closed when it has its answer
	result ratelimit.Result
	err    error
	direct bool // the answer is to ask the Decider behind
	gone   bool // nobody waits for the answer
}

func (w *waiter) answer(result ratelimit.Result, err error) {
	w.result, w.err = result, err
	close(w.done)
}

// Decide hands out units of a batch, and fetches one when there are too few.
func (b *Batched) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	if !b.batches(&call) {
		return b.direct(ctx, call)
	}
	result, w, err := b.try(ctx, idOf(&call.Keys[0]), &call)
	if w == nil {
		b.count(&result)
		return result, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		b.mu.Lock()
		w.gone = true
		b.mu.Unlock()
		select {
		case <-w.done: // the units are taken already
		default:
			return ratelimit.Result{}, fmt.Errorf("batched: %w", ctx.Err())
		}
	}
	if w.direct {
		return b.direct(ctx, call)
	}
	b.count(&w.result)
	return w.result, w.err
}

// count counts a denial that another call has brought.
func (b *Batched) count(r *ratelimit.Result) {
	if r.Limited && r.By == "cache" {
		b.reports.Count(r.Key, time.Now())
	}
}

// batches says whether units of a batch serve for a call.
func (b *Batched) batches(call *ratelimit.Call) bool {
	units := taken.Of(call.Cost, call.NoCost)
	if call.Verb != ratelimit.VerbLimit || len(call.Keys) != 1 || units < 1 || units > b.b.Units ||
		denials.OptionsOf(call) != (denials.Options{Units: units}) ||
		denials.SlotsOf(&call.Keys[0]) != (denials.Slots{}) || len(call.Keys[0].Limits) == 0 {
		return false
	}
	for i := range call.Keys[0].Limits {
		if l := about.Of(&call.Keys[0].Limits[i]); l.Takes || l.Shadow || l.Capacity < 1 {
			return false
		}
	}
	return true
}

// idOf tells pots apart.
func idOf(key *ratelimit.Key) denials.ID {
	var buffer [256]byte
	b := binary.AppendUvarint(buffer[:0], uint64(len(key.Name)))
	return sha256.Sum256(denials.AppendLimits(append(b, key.Name...), key.Limits))
}

// needOf tells apart denials of different numbers of units.
func needOf(id denials.ID, units int64) denials.ID {
	var buffer [64]byte
	return sha256.Sum256(binary.AppendVarint(append(buffer[:0], id[:]...), units))
}

// passed is a waiter that is to ask the Decider behind.
var passed = func() *waiter {
	w := &waiter{done: make(chan struct{}), direct: true}
	close(w.done)
	return w
}()

// try answers a call at once, or returns what to wait for.
func (b *Batched) try(ctx context.Context, id denials.ID, call *ratelimit.Call) (ratelimit.Result, *waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, units := time.Now(), taken.Of(call.Cost, call.NoCost)
	p := b.pots[id]
	if p == nil {
		if denied, ok := b.denials.Recall(needOf(id, units), call.Keys, now); ok {
			return denied, nil, nil
		}
	}
	if b.closed || (p == nil && len(b.pots) >= b.b.Keys) || (p != nil && now.Before(p.direct)) {
		return ratelimit.Result{}, passed, nil
	}
	if p == nil {
		key := ratelimit.Key{Name: call.Keys[0].Name, Limits: slices.Clone(call.Keys[0].Limits)}
		asked, err := b.spared(key.Limits)
		if err != nil {
			return ratelimit.Result{}, nil, err
		}
		p = &pot{
			id: id, keys: []ratelimit.Key{key}, asked: []ratelimit.Key{{Name: key.Name, Limits: asked}}, size: 1,
			fixed: len(key.Limits) == 1 && about.Of(&key.Limits[0]).Fixed,
		}
		b.pots[id] = p
	}
	b.endOld(p, now)
	if p.units >= units {
		return p.handOut(units, now), nil, nil
	}
	if denied, ok := b.denials.Recall(needOf(id, units-p.units), p.keys, now); ok {
		return denied, nil, nil
	}
	w := &waiter{ctx: ctx, came: now, units: units, done: make(chan struct{})}
	p.waiters = append(p.waiters, w)
	if !p.working {
		p.working = true
		b.run(func() { b.work(p) })
	}
	return ratelimit.Result{}, w, nil
}

// handOut hands out units that are there.
func (p *pot) handOut(units int64, now time.Time) ratelimit.Result {
	p.units -= units
	p.used += units
	r := p.batch
	passed := max(now.Sub(p.came), 0)
	r.ResetAfter = max(r.ResetAfter-passed, 0)
	r.NextAfter = max(r.NextAfter-passed, min(reported, r.ResetAfter))
	r.Remaining = min(r.Remaining+p.units, r.Limit)
	r.Granted, r.By = units, "batch"
	return r
}

// work fetches batches until nobody waits.
func (b *Batched) work(p *pot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		p.waiters = slices.DeleteFunc(p.waiters, func(w *waiter) bool { return w.gone })
		if len(p.waiters) == 0 {
			p.working = false
			b.forget(p)
			return
		}
		b.fetch(p, p.waiters[0])
	}
}

// fetch asks the server once or twice, and answers the first waiter, unless its units were handed
// out to others meanwhile.
func (b *Batched) fetch(p *pot, first *waiter) {
	b.endOld(p, time.Now())
	var wanted int64
	for _, w := range p.waiters {
		wanted += w.units
	}
	need := first.units - p.units
	n := min(max(p.size, wanted-p.units), b.b.Units-p.units-p.giving)
	if n >= need {
		result, asked, now, err := b.ask(p, first, n, true)
		switch {
		case err != nil:
			p.answerAll(func(w *waiter) { w.answer(ratelimit.Result{}, err) })
			return
		case result.By != "server":
			b.passBy(p, first, result, now)
			return
		case !result.Limited:
			b.add(p, result, asked, now)
			p.serve(first, now)
		case need == 1:
			b.deny(p, first, need, result, asked, now)
		}
		if p.waiters = slices.DeleteFunc(p.waiters, (*waiter).answered); first.gone || first.answered() {
			return
		}
	}
	// It costs more than there is. When it can be had only the server knows.
	if need = first.units - p.units; need < 1 {
		p.serve(first, time.Now())
		p.waiters = slices.DeleteFunc(p.waiters, (*waiter).answered)
		return
	}
	if p.units+need+p.giving > b.b.Units { // what is being given back counts as held
		b.given.Wait()
		return
	}
	result, asked, now, err := b.ask(p, first, need, false)
	switch {
	case err != nil:
		p.answerAll(func(w *waiter) { w.answer(ratelimit.Result{}, err) })
	case result.By != "server":
		b.passBy(p, first, result, now)
	case result.Limited:
		b.deny(p, first, need, result, asked, now)
	default:
		b.add(p, result, asked, now)
		p.serve(first, now)
	}
	p.waiters = slices.DeleteFunc(p.waiters, (*waiter).answered)
}

// ask asks the Decider behind, while others may use b.
func (b *Batched) ask(p *pot, first *waiter, units int64, upTo bool) (result ratelimit.Result, asked, now time.Time, err error) {
	b.mu.Unlock()
	defer b.mu.Lock()
	asked = time.Now()
	call := ratelimit.Call{Keys: p.asked, Cost: units}
	if upTo {
		call.Charge = charge.UpTo
	}
	result, err = b.next.Decide(context.WithoutCancel(first.ctx), call)
	return result, asked, time.Now(), err
}

func (w *waiter) answered() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (p *pot) answerAll(answer func(*waiter)) {
	for _, w := range p.waiters {
		answer(w)
	}
	p.waiters = nil
}

// serve hands out units in order of arrival, to the one they were fetched for first. A caller that
// waited for the reply gets them even if they have ended meanwhile: so would a caller that had asked by itself. One
// that came after their end does not.
func (p *pot) serve(first *waiter, now time.Time) {
	for _, w := range p.waiters {
		if w.gone || w.answered() || p.units < w.units || (w != first && !w.came.Before(p.until)) {
			continue
		}
		result := p.handOut(w.units, now)
		if w == first {
			result.By = "server"
		}
		w.answer(result, nil)
	}
}

// deny answers first, which was limited when it needed need units, and all calls that ask for as much and
// came before there were units again.
func (b *Batched) deny(p *pot, first *waiter, need int64, result ratelimit.Result, asked, now time.Time) {
	b.denials.Remember(needOf(p.id, need), result, asked, now)
	for _, w := range p.waiters {
		shared := result
		switch {
		case w == first:
		case w.units == first.units && (result.RetryAfter <= 0 || w.came.Before(asked.Add(result.RetryAfter))):
			shared.By = "cache"
		default:
			continue
		}
		w.answer(shared, nil)
	}
}

// passBy answers first with what was decided without the server, and sends everyone else to next for MaxAge: units that
// the server does not know of are not kept.
func (b *Batched) passBy(p *pot, first *waiter, result ratelimit.Result, now time.Time) {
	p.direct, p.size = now.Add(b.b.MaxAge), 1
	b.schedule(p, b.b.MaxAge)
	p.answerAll(func(w *waiter) {
		if w != first || (!result.Limited && result.By == "local" && result.Granted < w.units) {
			w.direct = true
			close(w.done)
			return
		}
		result.Granted = min(result.Granted, w.units)
		w.answer(result, nil)
	})
}

// add puts a batch into the pot.
func (b *Batched) add(p *pot, batch ratelimit.Result, asked, now time.Time) {
	b.endOld(p, now)
	ends := asked.Add(b.b.MaxAge)
	counted := asked.Add(batch.ResetAfter - reported)
	if p.fixed && counted.Before(ends) {
		ends = counted
	}
	if p.units == 0 || ends.Before(p.until) {
		p.until = ends
	}
	if p.units == 0 || counted.Before(p.counted) {
		p.counted = counted
	}
	p.size = min(2*p.size, b.b.Units)
	p.units += batch.Granted
	p.used, p.batch, p.came = 0, batch, now
	b.schedule(p, p.until.Sub(now))
}

// schedule has the units of the pot, and the pot when it is idle, end after d.
func (b *Batched) schedule(p *pot, d time.Duration) {
	if p.timer != nil {
		p.timer.Reset(d)
		return
	}
	p.timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if now := time.Now(); now.Before(p.until) {
			p.timer.Reset(p.until.Sub(now))
		} else {
			b.end(p, now)
			b.forget(p)
		}
	})
}

// endOld is end, of units that are too old to be handed out.
func (b *Batched) endOld(p *pot, now time.Time) {
	if !now.Before(p.until) {
		b.end(p, now)
	}
}

// end takes the units out of the pot, and gives them back where the server still counts them.
func (b *Batched) end(p *pot, now time.Time) {
	units := p.units
	if units == 0 {
		return
	}
	p.units, p.size = 0, max(p.used, 1)
	left := min(p.counted.Sub(now), giveBackTimeout)
	if left <= 0 {
		return
	}
	p.giving += units
	b.run(func() {
		ctx, cancel := context.WithTimeout(context.Background(), left)
		defer cancel()
		_, err := b.next.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: p.keys, Cost: units})
		if err != nil && b.b.OnError != nil {
			b.b.OnError(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		p.giving -= units
		b.given.Broadcast()
		b.forget(p)
	})
}

// forget drops a pot that nobody needs.
func (b *Batched) forget(p *pot) {
	now := time.Now()
	if p.units == 0 && p.giving == 0 && !p.working && !now.Before(p.until) && !now.Before(p.direct) && b.pots[p.id] == p {
		delete(b.pots, p.id)
	}
}

// run runs f in the background. Batched.mu is held by the caller, and not by f.
func (b *Batched) run(f func()) {
	b.busy++
	go func() {
		f()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.busy--; b.busy == 0 {
			for _, idle := range b.idle {
				close(idle)
			}
			b.idle = nil
		}
	}()
}

// Forget forgets the denials of all calls on a key, such as after a refund in another process. Units of the key stay.
func (b *Batched) Forget(key string) { b.denials.Forget(key, time.Now()) }

// Close gives back what is left, and returns when that is done or ctx ends. Later calls go to the
// Decider behind.
func (b *Batched) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	if err := b.await(ctx); err != nil { // workers: what they fetch is given back as well
		return err
	}
	b.mu.Lock()
	now := time.Now()
	for _, p := range b.pots {
		if p.timer != nil {
			p.timer.Stop()
		}
		b.end(p, now)
	}
	b.mu.Unlock()
	return b.await(ctx)
}

// await returns when no worker and no refund is under way.
func (b *Batched) await(ctx context.Context) error {
	b.mu.Lock()
	if b.busy == 0 {
		b.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	b.idle = append(b.idle, idle)
	b.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("batched: %w", ctx.Err())
	}
}
