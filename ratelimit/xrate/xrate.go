// Package xrate has the shape of golang.org/x/time/rate: a program that uses xrate.New instead of rate.NewLimiter
// shares its limit with other processes.
//
//	limiter := xrate.New(ratelimit.New(client, ratelimit.Options{}), xrate.Options{
//		Key: "reports", Limit: ratelimit.Rate(5, time.Hour).Burst(2),
//	})
//	if limiter.Allow() {
package xrate

import (
	"context"
	"fmt"
	"math"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
	"redis-throttle/ratelimit/internal/quiet"
)

// Options configure New. Key and Limit are required.
type Options struct {
	Key string
	// Limit is a Rate.
	Limit ratelimit.Limit
	// OnError is called with each error that has no place in a result. Nil logs through slog, of each kind one line in
	// ten seconds.
	OnError func(error)
	// FailClosed makes Allow and Reserve say no during an outage of Redis (ratelimit.IsOutage), instead
	// of yes without a delay. They say no to every other error.
	FailClosed bool
}

// Limiter is one Rate on one key, with the methods of Limiter in golang.org/x/time/rate. Used by one process alone, it
// decides like a rate.Limiter, with these differences:
//
//   - The clock is the server's. The instants given to AllowN, ReserveN, DelayFrom and
//     CancelAt are the caller's time, and have no other effect on decisions.
//   - Every call is a round trip, and can fail: see OnError and FailClosed.
//   - Delays are rounded up to a millisecond, and count from the reply.
//   - 0 units are always available, even while others wait.
//
// A Limiter is safe for concurrent use.
type Limiter struct {
	Options
	decider  ratelimit.Decider
	keys     []ratelimit.Key
	capacity int64
	every    time.Duration // the emission interval, rounded down
	log      quiet.Log
}

// New returns a Limiter. It panics when decider is nil, and when the limit is no Rate, or one that cannot be.
func New(decider ratelimit.Decider, o Options) *Limiter {
	limits := ratelimit.Limits{o.Limit}
	limit := about.Of(&limits[0])
	if !limit.Rate || limit.Takes || limit.Spare != 0 || limit.Shadow {
		panic(fmt.Sprintf("xrate: Limit must be a Rate without Take, Spare and Shadow, not %v", o.Limit))
	}
	if err := limits.Validate(); err != nil {
		panic(fmt.Sprintf("xrate: %v", err))
	}
	return &Limiter{
		Options: o, decider: ratelimit.With(decider), keys: []ratelimit.Key{{Name: o.Key, Limits: limits}},
		capacity: limit.Capacity, every: max(limit.Period.Length/time.Duration(max(limit.Count, 1)), 1),
	}
}

// Burst is how many units go at once.
func (l *Limiter) Burst() int { return int(l.capacity) }

// Allow is AllowN(time.Now(), 1).
func (l *Limiter) Allow() bool { return l.AllowN(time.Now(), 1) }

// AllowN takes n units if they are there.
func (l *Limiter) AllowN(_ time.Time, n int) bool {
	result, err := l.decider.Decide(context.Background(), ratelimit.Call{Keys: l.keys, Cost: int64(n), NoCost: n == 0})
	if err != nil {
		return l.failed(err)
	}
	return !result.Limited
}

// Reserve is ReserveN(time.Now(), 1).
func (l *Limiter) Reserve() *Reservation { return l.ReserveN(time.Now(), 1) }

// ReserveN takes n units that the caller may use after the reservation's Delay. It is not OK
// when n is more than the burst, and while the key is banned.
func (l *Limiter) ReserveN(now time.Time, n int) *Reservation {
	r, err := l.reserve(context.Background(), now, n, ratelimit.Forever)
	if err != nil {
		return &Reservation{ok: l.failed(err)} // due long since
	}
	return r
}

// Wait is WaitN(ctx, 1).
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN returns nil when the time of n units has come. It returns a *ratelimit.LimitedError at once
// when n is more than the burst, while the key is banned, and when the wait would outlast
// ctx: this is a context.DeadlineExceeded, too. When ctx ends, its error is returned and the units are
// given back as by Cancel. Whether Redis is out of reach is for the caller to judge:
// FailClosed does not count here.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := ratelimit.Forever
	if deadline, ok := ctx.Deadline(); ok {
		wait = max(time.Until(deadline), 1)
	}
	// A call that was sent goes on after ctx: its reply tells what there is to give back.
	type reply struct {
		r   *Reservation
		err error
	}
	reserved := make(chan reply, 1)
	go func() {
		r, err := l.reserve(context.WithoutCancel(ctx), time.Now(), n, wait)
		reserved <- reply{r, err}
	}()
	select {
	case reply := <-reserved:
		if reply.err != nil {
			return reply.err
		}
		return reply.r.wait(ctx, wait)
	case <-ctx.Done():
		go func() {
			if reply := <-reserved; reply.err == nil {
				reply.r.giveBack(time.Now())
			}
		}()
		return ctx.Err()
	}
}

func (l *Limiter) reserve(ctx context.Context, now time.Time, n int, wait time.Duration) (*Reservation, error) {
	sent := time.Now()
	result, err := l.decider.Decide(ctx, ratelimit.Call{Keys: l.keys, Cost: int64(n), NoCost: n == 0, MaxWait: wait})
	if err != nil {
		return nil, err
	}
	due := now.Add(result.Wait)
	return &Reservation{ok: !result.Limited, limiter: l, result: result, due: due, act: due.Add(time.Since(sent))}, nil
}

// failed says what is decided without an answer.
func (l *Limiter) failed(err error) (allow bool) {
	l.report(err)
	return ratelimit.IsOutage(err) && !l.FailClosed
}

func (l *Limiter) report(err error) {
	if l.OnError != nil {
		l.OnError(err)
		return
	}
	l.log.Error(context.Background(), quiet.Kind(err), "a rate limit could not be checked", err)
}

// InfDuration is the Delay of a Reservation that is not OK.
const InfDuration time.Duration = math.MaxInt64

// Reservation is what a Limiter has put aside for its caller.
type Reservation struct {
	ok      bool
	limiter *Limiter // nil without an answer from the server
	result  ratelimit.Result
	due     time.Time // when the units are there, at the earliest
	act     time.Time // when they may be used, for sure
}

// OK says whether the units are reserved. If not, Delay is InfDuration and Cancel does nothing.
func (r *Reservation) OK() bool { return r.ok }

// Delay is DelayFrom(time.Now()).
func (r *Reservation) Delay() time.Duration { return r.DelayFrom(time.Now()) }

// DelayFrom is how long the caller must wait before it uses the units.
func (r *Reservation) DelayFrom(now time.Time) time.Duration {
	if !r.ok {
		return InfDuration
	}
	return max(r.act.Sub(now), 0)
}

// Cancel is CancelAt(time.Now()).
func (r *Reservation) Cancel() { r.CancelAt(time.Now()) }

// CancelAt gives the units back that will not be used, unless their time has come. As with
// x/time/rate, units that others reserved after them are not given back a second time: they
// keep their slots. Replies are in milliseconds and do not tell exactly how many those are. Where it is not
// certain, CancelAt gives back less: the units of up to 3 ms and of the time that the call takes stay charged. So above
// some 300 units a second, a single unit may not come back at all.
func (r *Reservation) CancelAt(now time.Time) {
	if !r.due.Before(now) {
		r.giveBack(now)
	}
}

func (r *Reservation) giveBack(now time.Time) {
	if !r.ok || r.limiter == nil || r.result.Granted == 0 || r.result.By != "server" { // the server gives back what it has charged
		return
	}
	l, sent := r.limiter, time.Now()
	state, err := l.decider.Decide(context.Background(), ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: l.keys, NoCost: true})
	if err == nil {
		// The last of all reservations is due when the bucket has been full except for its burst.
		last := now.Add(time.Since(sent) + state.ResetAfter - time.Duration(l.capacity)*l.every)
		later := int64(max(last.Sub(r.due)+time.Millisecond, 0) / l.every)
		if later >= r.result.Granted {
			return
		}
		_, err = l.decider.Decide(context.Background(), ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: l.keys, Cost: r.result.Granted - later})
	}
	if err != nil {
		l.report(err)
	}
}

// wait sleeps until the units may be used.
func (r *Reservation) wait(ctx context.Context, patience time.Duration) error {
	if err := r.result.Err(); err != nil {
		err = fmt.Errorf("xrate: waiting for %v: %w", r.limiter.Limit, err)
		if patience < ratelimit.Forever && !r.result.Banned && r.result.RetryAfter != ratelimit.Never {
			err = fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
		}
		return err
	}
	timer := time.NewTimer(r.result.Wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		go r.giveBack(time.Now())
		return ctx.Err()
	}
}
