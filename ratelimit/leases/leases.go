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
//
// DoAdmitted and Admit take units of limits and slots together, by an estimate, and charge what was used in the end.
package leases

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"redis-throttle/ratelimit"
)

// Options configure Take. Key, Slots and TTL are required.
type Options struct {
	// Key is what the slots belong to. It must not be that of a limit.
	Key string
	// Slots is how many leases of the key are held at a time. With 0 every call is limited.
	Slots int64
	// TTL is how long the lease lasts without a renewal, from 1 ms to 100 years. After it, the slot of a process that
	// has died is free again. The lease renews itself three times within it, so choose a few times what a renewal may
	// be late: a server that is away for less than half of it ends no work. If the reply that grants the lease is lost,
	// its slot is free after 3 s.
	TTL time.Duration
	// MaxWait is how long to wait for a slot: 0 is not at all, ratelimit.Forever as long as it takes. The deadline of
	// the context ends it, too.
	MaxWait time.Duration
	// Group, Priority and the Weight of the Group say who of those that wait comes first. See ratelimit.Call.
	Group            string
	Priority, Weight int64
}

// ErrLost is why the Context of a Lease ends when it could not be renewed in time.
var ErrLost = errors.New("leases: the lease is lost")

// Lease is a slot that is held until it is released. It renews itself; where that fails for so long that somebody else
// may have the slot, its Context ends.
type Lease struct {
	holding
	key string
	ttl time.Duration
}

// firstTTL is how long a lease lasts at first. It is extended to its TTL as soon as the holder has the reply. Until
// then nobody knows whether there is a holder: a request that the server executes after its caller has given up must
// not shut the slot for long.
const firstTTL = 3 * time.Second

// Take takes a slot and keeps it until Release. If no slot is free, nor becomes free within MaxWait, the error is a
// *ratelimit.LimitedError. When ctx ends the lease is no longer renewed; a call that still waits for a slot then
// returns and leaves the line. If the reply to a call is lost, its slot is given back in the background.
func Take(ctx context.Context, decider ratelimit.Decider, o Options) (*Lease, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	id := rand.Text()
	lease := &Lease{holding: holding{decider: ratelimit.With(decider), id: id, owner: ownerOf(decider, id)}, key: o.Key, ttl: o.TTL}
	ttl := min(o.TTL, firstTTL)
	if o.MaxWait == 0 { // nobody stands in line
		o.Group, o.Priority, o.Weight = "", 0, 0
	}
	sent := time.Now()
	result, err := lease.take(ctx, ratelimit.Call{
		Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: o.Key, Slots: o.Slots, TTL: ttl}}, ID: lease.id,
		MaxWait: o.MaxWait, Group: o.Group, Priority: o.Priority, Weight: o.Weight,
	}, lease.released(), ttl)
	if err != nil {
		return nil, err
	}
	// The ttl begins when the slot is granted, Wait rounded up after the call has come.
	lease.begin(ctx, result, sent.Add(max(result.Wait-time.Millisecond, 0)), []slot{{o.Key, o.TTL}})
	return lease, nil
}

// Do takes a slot, does work under it and releases it. The context of work ends when the lease is lost; the error is
// then ErrLost, beside that of work. A slot that could not be given back is given back in the background, and is no
// error of work that is done.
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

// released is the call that gives the slot back.
func (l *Lease) released() ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbRelease, Keys: []ratelimit.Key{{Name: l.key}}, ID: l.id}
}

// ID is what the lease is held under.
func (l *Lease) ID() string { return l.id }

// Context ends when the lease is lost, with the cause ErrLost, when it is released, and
// with the context that it was taken with. Work under the lease has to stop then.
func (l *Lease) Context() context.Context { return l.ctx }

// Release gives the slot back, also when ctx has ended, which may be why the work is over. If the server is away,
// Release returns the error, and the slot is given back in the background when the server is there again. It is free
// after the TTL at the latest. Only the first call does anything; all return its error.
func (l *Lease) Release(ctx context.Context) error {
	l.once.Do(func() {
		if l.end(); l.decider != nil {
			_, l.err = l.tell(ctx, l.released(), l.ttl)
		}
	})
	return l.err
}

// Forget ends the lease here without telling the server: the slot is free after the TTL. A Release after it does
// nothing.
func (l *Lease) Forget() { l.once.Do(l.end) }
