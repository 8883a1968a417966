package ratelimit

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Bucket is one Rate on one key, with the methods of Limiter in golang.org/x/time/rate. A
// program that uses NewBucket instead of rate.NewLimiter shares its limit with other
// processes. Used by one process alone, a Bucket decides like a rate.Limiter, with these
// differences:
//
//   - The clock is the server's. The instants given to AllowN, ReserveN, DelayFrom and
//     CancelAt are the caller's time, and have no other effect on decisions.
//   - Every call is a round trip, and can fail: see OnError and FailClosed.
//   - Delays are rounded up to a millisecond, and count from the reply.
//   - 0 units are always available, even while others wait.
//
// A Bucket is safe for concurrent use.
type Bucket struct {
	// OnError is told of each error that has no place in a result. When nil, it is logged.
	OnError func(error)
	// FailClosed makes Allow and Reserve say no during an outage of Redis (IsOutage), instead
	// of yes without a delay. They say no to every other error.
	FailClosed bool

	limiter BucketLimiter
	key     string
	limits  Limits
	every   time.Duration // the emission interval, rounded down
}

// BucketLimiter is what a Bucket needs of a Limiter.
type BucketLimiter interface {
	Decider
	Refund(ctx context.Context, key string, limits Limits, opts ...Option) *Cmd
}

// NewBucket returns a Bucket on a key. It panics when limit is no Rate, or one that cannot be.
func NewBucket(limiter BucketLimiter, key string, limit Limit) *Bucket {
	if _, err := limit.throttleWords(); err != nil {
		panic(fmt.Sprintf("ratelimit: NewBucket: %v", err))
	}
	return &Bucket{limiter: limiter, key: key, limits: Limits{limit}, every: max(limit.period.length/time.Duration(limit.count), 1)}
}

// Burst is how many units go at once.
func (b *Bucket) Burst() int { return int(b.limits[0].capacity()) }

// Allow is AllowN(time.Now(), 1).
func (b *Bucket) Allow() bool { return b.AllowN(time.Now(), 1) }

// AllowN takes n units if they are there.
func (b *Bucket) AllowN(_ time.Time, n int) bool {
	result, err := b.limiter.Decide(context.Background(), b.key, b.limits, Cost(int64(n)))
	if err != nil {
		return b.failed(err)
	}
	return !result.Limited
}

// Reserve is ReserveN(time.Now(), 1).
func (b *Bucket) Reserve() *Reservation { return b.ReserveN(time.Now(), 1) }

// ReserveN takes n units that the caller may use after the reservation's Delay. It is not OK
// when n is more than the burst, and while the key is banned.
func (b *Bucket) ReserveN(now time.Time, n int) *Reservation {
	r, err := b.reserve(context.Background(), now, n, longest)
	if err != nil {
		return &Reservation{ok: b.failed(err)} // due long since
	}
	return r
}

// Wait is WaitN(ctx, 1).
func (b *Bucket) Wait(ctx context.Context) error { return b.WaitN(ctx, 1) }

// WaitN returns nil when the time of n units has come. It returns a *LimitedError at once
// when n is more than the burst, while the key is banned, and when the wait would outlast
// ctx: this is a context.DeadlineExceeded, too. When ctx ends, its error is returned and the units are
// given back as by Cancel. Whether Redis is out of reach is for the caller to judge:
// FailClosed does not count here.
func (b *Bucket) WaitN(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := longest
	if deadline, ok := ctx.Deadline(); ok {
		wait = max(min(time.Until(deadline), longest), 1)
	}
	// A call that was sent goes on after ctx: its reply tells what there is to give back.
	reserved := make(chan func() (*Reservation, error), 1)
	go func() {
		r, err := b.reserve(context.WithoutCancel(ctx), time.Now(), n, wait)
		reserved <- func() (*Reservation, error) { return r, err }
	}()
	select {
	case reply := <-reserved:
		r, err := reply()
		if err != nil {
			return err
		}
		return r.wait(ctx, wait)
	case <-ctx.Done():
		go func() {
			if r, err := (<-reserved)(); err == nil {
				r.giveBack(time.Now())
			}
		}()
		return ctx.Err()
	}
}

// longest is the longest wait that the server takes.
const longest = 100 * 365 * 24 * time.Hour

func (b *Bucket) reserve(ctx context.Context, now time.Time, n int, wait time.Duration) (*Reservation, error) {
	sent := time.Now()
	result, err := b.limiter.Decide(ctx, b.key, b.limits, Cost(int64(n)), MaxWait(wait))
	if err != nil {
		return nil, err
	}
	due := now.Add(result.Wait)
	return &Reservation{ok: !result.Limited, bucket: b, result: result, due: due, act: due.Add(time.Since(sent))}, nil
}

// failed says what is decided without an answer.
func (b *Bucket) failed(err error) (allow bool) {
	b.report(err)
	return IsOutage(err) && !b.FailClosed
}

func (b *Bucket) report(err error) {
	if b.OnError != nil {
		b.OnError(err)
		return
	}
	slog.Error("a rate limit could not be checked", "key", b.key, "error", err)
}
