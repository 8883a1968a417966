// Package leases bounds how many callers do something at a time, in all processes together.
//
//	err := leases.Do(ctx, limiter, leases.Options{Key: "reports:" + tenant, Slots: 3, TTL: time.Minute}, report)
//
// Take is for work that does not end in one function:
//
//	lease, err := leases.Take(ctx, limiter, leases.Options{Key: "reports:" + tenant, Slots: 3, TTL: time.Minute})
//	if err != nil {
//		return err // errors.Is(err, ratelimit.ErrLimited): no slot is free
//	}
//	defer lease.Release(ctx)
//	return report(lease.Context())
package leases

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"redis-throttle/ratelimit"
)

// Options configure Take. Key, Slots and TTL are required.
type Options struct {
	// Key is what the slots belong to. It must not be that of a limit.
	Key string
	// Slots is how many leases of the key are held at a time. With 0 every call is limited.
	Slots int64
	// TTL is how long the lease lasts without a renewal, from 1 ms to 100 years. After it, the slot of a process that has
	// died is free again. The lease renews itself three times within it, so choose a few times what a renewal may be late: a server
	// that is away for less than half of it ends no work. If the reply that grants the lease is lost, its slot is free after 3 s.
	TTL time.Duration
	// MaxWait is how long to wait for a slot: 0 is not at all, ratelimit.Forever as long as it takes. The deadline of the
	// context ends it, too.
	MaxWait time.Duration
	// Group, Priority and the Weight of the Group say who of those that wait comes first. See ratelimit.Call.
	Group            string
	Priority, Weight int64
}

// ErrLost is why the Context of a Lease ends when it could not be renewed in time.
var ErrLost = errors.New("leases: the lease is lost")

// Lease is a slot that is held until it is released. It renews itself; where that fails for so long that somebody else may
// have the slot, its Context ends.
type Lease struct {
	decider ratelimit.Decider // nil when no server knows of the lease
	key, id string
	ttl     time.Duration
	ctx     context.Context
	cancel  context.CancelCauseFunc
	expiry  *time.Timer
	failed  atomic.Bool
	once    sync.Once
	err     error
}

// firstTTL is how long a lease lasts at first. It is extended to its TTL as soon as the holder has the reply. Until then nobody knows
// whether there is a holder: a request that the server executes after its caller has given up must not shut the slot for long.
const firstTTL = 3 * time.Second

// Take takes a slot and keeps it until Release. If no slot is free, nor becomes free within MaxWait, the error is a
// *ratelimit.LimitedError. When ctx ends the lease is no longer renewed; a call that still waits for a slot then returns and
// leaves the line. If the reply to a call is lost, its slot is given back in the background.
func Take(ctx context.Context, decider ratelimit.Decider, o Options) (*Lease, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	lease := &Lease{decider: ratelimit.With(decider), key: o.Key, id: rand.Text(), ttl: o.TTL}
	ttl := min(o.TTL, firstTTL)
	if o.MaxWait == 0 { // nobody stands in line
		o.Group, o.Priority, o.Weight = "", 0, 0
	}
	sent := time.Now()
	result, err := lease.decider.Decide(ctx, ratelimit.Call{
		Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: o.Key, Slots: o.Slots, TTL: ttl}}, ID: lease.id,
		MaxWait: o.MaxWait, Group: o.Group, Priority: o.Priority, Weight: o.Weight,
	})
	if err == nil {
		err = ctx.Err() // the caller may have left while the answer came
	}
	if err != nil {
		if mayBeHeld(err) {
			lease.abandon(ctx, ttl)
		}
		return nil, err
	}
	if err := result.Err(); err != nil {
		return nil, err
	}
	lease.ctx, lease.cancel = context.WithCancelCause(context.WithValue(ctx, leaseOf{}, lease))
	if result.By == "policy" { // nobody holds it on a server: there is nothing to renew and nothing to give back
		lease.decider = nil
		return lease, nil
	}
	// The ttl begins when the slot is granted, Wait rounded up after the call has come.
	began := sent.Add(max(result.Wait-time.Millisecond, 0))
	lease.expiry = time.AfterFunc(time.Until(began.Add(believed(ttl))), lease.lost)
	go lease.renew(ttl)
	return lease, nil
}

// Do takes a slot, does work under it and releases it. The context of work ends when the lease is lost; the error is then ErrLost, beside that
// of work. A slot that could not be given back is given back in the background, and is no error of work that is done.
func Do(ctx context.Context, decider ratelimit.Decider, o Options, work func(ctx context.Context) error) error {
	lease, err := Take(ctx, decider, o)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	err = work(lease.Context())
	if errors.Is(context.Cause(lease.Context()), ErrLost) && !errors.Is(err, ErrLost) {
		err = errors.Join(ErrLost, err)
	}
	return err
}

func (o Options) check() error {
	switch {
	case o.Slots < 0:
		return fmt.Errorf("leases: the Slots, %d, are negative", o.Slots)
	case o.TTL < time.Millisecond:
		return fmt.Errorf("leases: the TTL %v is shorter than a millisecond", o.TTL)
	}
	return nil
}

// mayBeHeld says whether the server may execute, or have executed, a call that failed: unless it replied so itself.
func mayBeHeld(err error) bool {
	var reply interface{ RedisError() }
	return !errors.As(err, &reply)
}

const (
	// releasePatience bounds an attempt to give a slot back, and the pause before the next one.
	releasePatience = 5 * time.Second
	// firstPause is between the first two attempts to give a slot back in the background; each further one is twice as long.
	firstPause = 50 * time.Millisecond
	// mostInBackground is how many slots a process gives back in the background at a time. Others are free after their TTL.
	mostInBackground = 1000
)

// inBackground is how many slots are being given back in the background.
var inBackground atomic.Int64

// goOn gives the slot back in the background, after a pause, until isOver says that an attempt was the last one, and for atMost.
func (l *Lease) goOn(ctx context.Context, pause, atMost time.Duration, isOver func(result ratelimit.Result, err error) bool) {
	if inBackground.Add(1) > mostInBackground {
		inBackground.Add(-1)
		return
	}
	go func() {
		defer inBackground.Add(-1)
		ends := time.Now().Add(atMost)
		time.Sleep(min(pause, atMost))
		for pause := max(pause, firstPause); time.Now().Before(ends); pause *= 2 {
			if isOver(l.release(ctx)) {
				return
			}
			pause = min(pause, releasePatience)
			time.Sleep(min(pause, time.Until(ends)))
		}
	}()
}

// abandon gives back a slot that the server may grant yet, for ttl. A server that stood still executes what it finds in its
// sockets in any order: so one that says that there is nothing to give back is asked once more.
func (l *Lease) abandon(ctx context.Context, ttl time.Duration) {
	none := 0
	l.goOn(ctx, 0, ttl+releasePatience, func(result ratelimit.Result, err error) bool {
		if err == nil && result.Granted == 0 {
			none++
		}
		return err == nil && (result.Granted != 0 || none == 2)
	})
}

// mayPass says whether the same release may succeed later.
func mayPass(err error) bool { return ratelimit.IsOutage(err) || ratelimit.IsOverload(err) }

// ID is what the lease is held under.
func (l *Lease) ID() string { return l.id }

// Context ends when the lease is lost, with the cause ErrLost, when it is released, and
// with the context that it was taken with. Work under the lease has to stop then.
func (l *Lease) Context() context.Context { return l.ctx }

// Failed notes that the work failed because the service behind the slots is overloaded, such as by a timeout or a status 503. Call it before Release. Package
// adaptive then lowers the number of slots; without it nothing changes.
func (l *Lease) Failed() { l.failed.Store(true) }

// Failed calls Lease.Failed of the lease whose Context ctx is, or is derived from. It does nothing if there is none. It is for handlers behind
// httplimit.NewConcurrency.
func Failed(ctx context.Context) {
	if lease, ok := ctx.Value(leaseOf{}).(*Lease); ok {
		lease.Failed()
	}
}

// leaseOf is what a Context holds its Lease under.
type leaseOf struct{}

// Release gives the slot back, also when ctx has ended, which may be why the work is over. If the server is away, Release returns the
// error, and the slot is given back in the background when the server is there again. It is free after the TTL at the latest. Only the
// first call does anything; all return its error.
func (l *Lease) Release(ctx context.Context) error {
	l.once.Do(func() {
		l.end()
		if l.decider != nil {
			if _, l.err = l.release(ctx); mayPass(l.err) {
				l.goOn(ctx, firstPause, l.ttl, func(_ ratelimit.Result, err error) bool { return !mayPass(err) })
			}
		}
	})
	return l.err
}

// Forget ends the lease here without telling the server: the slot is free after the TTL. A Release after it does nothing.
func (l *Lease) Forget() { l.once.Do(l.end) }

func (l *Lease) end() {
	if l.expiry != nil {
		l.expiry.Stop()
	}
	l.cancel(context.Canceled)
}

func (l *Lease) release(ctx context.Context) (ratelimit.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer cancel()
	return l.decider.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbRelease, Keys: []ratelimit.Key{{Name: l.key}}, ID: l.id, Failed: l.failed.Load()})
}

// believed is how long a holder takes a lease for its own. It is a little less than the ttl, since timers of a busy process
// are late.
func believed(ttl time.Duration) time.Duration { return ttl - ttl/20 }

func (l *Lease) lost() { l.cancel(ErrLost) }

// renew ends with the Context. One that is under way when the lease is released takes no slot: CL.RENEW
// revives nothing. lasts is how long the lease lasts that was taken. One that lasts shorter than its TTL is extended at once: a server
// that is away for a few seconds from then on must not end the work.
func (l *Lease) renew(lasts time.Duration) {
	pause := lasts / 3
	if lasts < l.ttl {
		pause = 0
	}
	for {
		timer := time.NewTimer(pause)
		select {
		case <-l.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		sent := time.Now()
		result, err := l.decider.Decide(l.ctx, ratelimit.Call{
			Verb: ratelimit.VerbRenew, Keys: []ratelimit.Key{{Name: l.key, TTL: l.ttl}}, ID: l.id,
		})
		switch {
		case err != nil:
			pause = lasts / 10 // until the lease lapses
		case result.Limited:
			l.lost()
			return
		default:
			lasts = l.ttl
			pause = lasts / 3
			l.expiry.Reset(time.Until(sent.Add(believed(lasts))))
		}
	}
}
