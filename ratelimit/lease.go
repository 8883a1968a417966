package ratelimit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// LeaseResult is the reply to TakeLease and RenewLease.
type LeaseResult struct {
	// Limited says that no slot is free, or that the lease to renew has lapsed.
	Limited bool
	// Limit is how many slots there are, and Remaining how many are free.
	Limit, Remaining int64
	// RetryAfter is the time until the next lease lapses, if nobody releases one before; 0 when
	// not limited, and when it is worth while to ask again at once. Never when there are no slots at all, and
	// when the lease to renew has lapsed.
	RetryAfter time.Duration
	// Lasts is how long the lease lasts if it is not renewed.
	Lasts time.Duration
	// Wait is how long the call has waited for a slot.
	Wait time.Duration
}

// LeaseOption is an option of Lease and TakeLease.
type LeaseOption interface {
	timeout() time.Duration
}

type leaseWait time.Duration

func (w leaseWait) timeout() time.Duration { return time.Duration(w) }

// WaitForSlot waits for a slot for up to d, in order of arrival; 0 waits as long as it takes. What
// Limiter.Wait says of connections and read timeouts holds here as well.
func WaitForSlot(d time.Duration) LeaseOption { return leaseWait(d) }

// TakeLease sends CL.LEASE: it takes one of the slots of key (0 or more) under id (1 to 512 bytes) for
// ttl (1 ms to 100 years, in whole milliseconds). The same id again renews its lease and takes no second
// slot. The key must not be that of a limit. Most programs want Lease, which renews by itself.
func (l *Limiter) TakeLease(ctx context.Context, key string, slots int64, ttl time.Duration, id string, opts ...LeaseOption) *Reply[LeaseResult] {
	const name = "CL.LEASE"
	args := []any{name, key, "SLOTS", slots, "TTL", waitWord(ttl), "ID", id}
	client := l.client
	for _, o := range opts {
		timeout, err := withinDeadline(ctx, o.timeout())
		if err == nil {
			client, err = patient(l.client, timeout)
		}
		if err != nil {
			return &Reply[LeaseResult]{name: name, err: err}
		}
		args = append(args, "TIMEOUT", waitWord(timeout))
	}
	return send(ctx, client, repeatable, parseLease, append(args, compact)...)
}

// RenewLease sends CL.RENEW: the lease of id lasts for ttl from now on, as in TakeLease. One that has
// lapsed is lost, since its slot may be somebody else's: the result is Limited then.
func (l *Limiter) RenewLease(ctx context.Context, key, id string, ttl time.Duration) *Reply[LeaseResult] {
	return send(ctx, l.client, repeatable, parseLease, "CL.RENEW", key, "ID", id, "TTL", waitWord(ttl), compact)
}

// ReleaseLeases sends CL.RELEASE: it gives back the slots of ids, one or more. The result is how many of
// them were held. An id that holds none is no error.
func (l *Limiter) ReleaseLeases(ctx context.Context, key string, ids ...string) *Reply[int64] {
	args := []any{"CL.RELEASE", key, "ID"}
	for _, id := range ids {
		args = append(args, id)
	}
	return send(ctx, l.client, repeatable, parseInteger, args...)
}

// LeasesResult is the reply to Leases.
type LeasesResult struct {
	// Held is how many leases there are, also when fewer are listed.
	Held int64
	// Waiting is how many callers wait for a slot; always 0 on a replica.
	Waiting int64
	// Leases are those that lapse next, in that order.
	Leases []HeldLease
}

// HeldLease is a lease that somebody holds.
type HeldLease struct {
	ID    string
	Lasts time.Duration // how long yet, in whole milliseconds
}

// Leases sends CL.LEASES: it tells how many leases of key are held, how many callers wait, and who holds the count
// leases (1 or more) that lapse next. It changes nothing. Replicas answer it, too.
func (l *Limiter) Leases(ctx context.Context, key string, count int64) *Reply[LeasesResult] {
	return send(ctx, l.client, repeatable, parseLeases, "CL.LEASES", key, "COUNT", count)
}

// ErrLeaseLost is why the Context of a Lease ends when it could not be renewed in time.
var ErrLeaseLost = errors.New("ratelimit: the lease is lost")

// Lease is a slot that is held until it is released. It renews itself three times within its
// ttl; where that fails for so long that somebody else may have the slot, its Context ends.
type Lease struct {
	limiter *Limiter
	key, id string
	ttl     time.Duration
	ctx     context.Context
	cancel  context.CancelCauseFunc
	expiry  *time.Timer
	once    sync.Once
	err     error
}

// Lease takes one of the slots of key and keeps it until Release. If no slot is free, nor becomes free within
// the time of WaitForSlot, the error is a *LimitedError. If the process dies, the slot is free after ttl, which
// should be a few times what a renewal may be late. The ranges are those of TakeLease.
// When ctx ends the lease is no longer renewed; a call that still waits for a slot then leaves it to others.
//
//	lease, err := limiter.Lease(ctx, "reports:"+tenant, 3, time.Minute)
//	if err != nil {
//		return err
//	}
//	defer lease.Release(ctx)
//	return report(lease.Context())
func (l *Limiter) Lease(ctx context.Context, key string, slots int64, ttl time.Duration, opts ...LeaseOption) (*Lease, error) {
	id := rand.Text()
	type reply struct {
		result LeaseResult
		began  time.Time // of the ttl, at the earliest
		err    error
	}
	replies := make(chan reply, 1)
	go func() { // go-redis does not end a call that waits when ctx is cancelled
		sent := time.Now()
		result, err := l.TakeLease(ctx, key, slots, ttl, id, opts...).Result()
		// The ttl begins when the slot is granted, Wait rounded up after the call has come.
		replies <- reply{result, sent.Add(max(result.Wait-time.Millisecond, 0)), err}
	}()
	var r reply
	select {
	case r = <-replies:
	case <-ctx.Done():
		go func() {
			if r := <-replies; r.err != nil || !r.result.Limited {
				_, _ = l.ReleaseLeases(context.WithoutCancel(ctx), key, id).Result()
			}
		}()
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.result.Limited {
		return nil, &LimitedError{Result{
			Limited: true, Limit: r.result.Limit, Remaining: r.result.Remaining, RetryAfter: r.result.RetryAfter, Wait: r.result.Wait,
		}}
	}
	lease := &Lease{limiter: l, key: key, id: id, ttl: ttl}
	lease.ctx, lease.cancel = context.WithCancelCause(ctx)
	lease.expiry = time.AfterFunc(time.Until(r.began.Add(believed(ttl))), lease.lost)
	go lease.renew()
	return lease, nil
}

// ID is what the lease is held under.
func (l *Lease) ID() string { return l.id }

// Context ends when the lease is lost, with the cause ErrLeaseLost, when it is released, and
// with the context that it was taken with. Work under the lease has to stop then.
func (l *Lease) Context() context.Context { return l.ctx }

// releasePatience bounds Release.
const releasePatience = 5 * time.Second

// Release gives the slot back, also when ctx has ended, which may be why the work is over. If the server cannot be told,
// the slot is free after the ttl. Only the first call does anything; all return its error.
func (l *Lease) Release(ctx context.Context) error {
	l.once.Do(func() {
		l.expiry.Stop()
		l.cancel(context.Canceled)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
		defer cancel()
		_, l.err = l.limiter.ReleaseLeases(ctx, l.key, l.id).Result()
	})
	return l.err
}

// believed is how long a holder takes a lease for its own. It is a little less than the ttl, since timers of a busy process
// are late.
func believed(ttl time.Duration) time.Duration { return ttl - ttl/20 }

func (l *Lease) lost() { l.cancel(ErrLeaseLost) }

// renew ends with the Context. One that is under way when the lease is released takes no slot: CL.RENEW
// revives nothing.
func (l *Lease) renew() {
	for pause := l.ttl / 3; ; {
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(pause):
		}
		sent := time.Now()
		result, err := l.limiter.RenewLease(l.ctx, l.key, l.id, l.ttl).Result()
		switch {
		case err != nil:
			pause = l.ttl / 10 // until the lease lapses
		case result.Limited:
			l.lost()
			return
		default:
			pause = l.ttl / 3
			l.expiry.Reset(time.Until(sent.Add(believed(l.ttl))))
		}
	}
}

// parseLease reads the reply of CL.LEASE and CL.RENEW with COMPACT.
func parseLease(reply any) (LeaseResult, error) {
	elements, _ := reply.([]any)
	var n [6]int64
	if !integers(elements, n[:]) {
		return LeaseResult{}, fmt.Errorf("the reply is %v, not %d integers or more", reply, len(n))
	}
	r := LeaseResult{Limited: n[0] != 0, Limit: n[1], Remaining: n[2], Wait: times(n[5], time.Millisecond)}
	if r.Limited {
		r.RetryAfter = times(n[3], time.Millisecond)
	} else {
		r.Lasts = times(n[4], time.Millisecond)
	}
	return r, nil
}

// parseLeases reads the reply of CL.LEASES, which has no COMPACT as it is nested.
func parseLeases(reply any) (LeasesResult, error) {
	var r LeasesResult
	var n [2]int64
	fields := named(reply)
	leases, ok := fields["leases"].([]any)
	if !ok || !integers([]any{fields["held"], fields["waiting"]}, n[:]) {
		return LeasesResult{}, fmt.Errorf("the reply is %v, not held, waiting and leases", reply)
	}
	r.Held, r.Waiting = n[0], n[1]
	for _, entry := range leases {
		fields := named(entry)
		id, isText := fields["id"].(string)
		ms, isInteger := fields["lease_ms"].(int64)
		if !isText || !isInteger {
			return LeasesResult{}, fmt.Errorf("the reply is %v, where %v is not a lease", reply, entry)
		}
		r.Leases = append(r.Leases, HeldLease{ID: id, Lasts: times(ms, time.Millisecond)})
	}
	return r, nil
}

// named are the fields of a map in RESP3, as go-redis or rueidis gives it, or of an array of names and
// values in RESP2; nil when reply is neither.
func named(reply any) map[string]any {
	switch reply := reply.(type) {
	case map[string]any:
		return reply
	case map[any]any:
		fields := make(map[string]any, len(reply))
		for name, value := range reply {
			fields[fmt.Sprint(name)] = value
		}
		return fields
	case []any:
		fields := make(map[string]any, len(reply)/2)
		for i := 0; i+1 < len(reply); i += 2 {
			fields[fmt.Sprint(reply[i])] = reply[i+1]
		}
		return fields
	}
	return nil
}
