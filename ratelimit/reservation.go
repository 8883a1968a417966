package ratelimit

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Forever is the Delay of a Reservation that is not OK.
const Forever time.Duration = math.MaxInt64

// Reservation is what a Bucket has put aside for its caller.
type Reservation struct {
	ok     bool
	bucket *Bucket // nil without an answer from the server
	result Result
	due    time.Time // when the units are there, at the earliest
	act    time.Time // when they may be used, for sure
}

// OK says whether the units are reserved. If not, Delay is Forever and Cancel does nothing.
func (r *Reservation) OK() bool { return r.ok }

// Delay is DelayFrom(time.Now()).
func (r *Reservation) Delay() time.Duration { return r.DelayFrom(time.Now()) }

// DelayFrom is how long the caller must wait before it uses the units.
func (r *Reservation) DelayFrom(now time.Time) time.Duration {
	if !r.ok {
		return Forever
	}
	return max(r.act.Sub(now), 0)
}

// Cancel is CancelAt(time.Now()).
func (r *Reservation) Cancel() { r.CancelAt(time.Now()) }

// CancelAt gives the units back that will not be used, unless their time has come. As with
// x/time/rate, units that others reserved after them are not given back a second time: they
// keep their slots. Where the time a call takes leaves open how many those are, it gives back fewer.
func (r *Reservation) CancelAt(now time.Time) {
	if !r.due.Before(now) {
		r.giveBack(now)
	}
}

func (r *Reservation) giveBack(now time.Time) {
	if !r.ok || r.bucket == nil || r.result.Granted == 0 {
		return
	}
	b, sent := r.bucket, time.Now()
	state, err := b.limiter.Decide(context.Background(), b.key, b.limits, Cost(0))
	if err == nil {
		// The last of all reservations is due when the bucket has been full except for its burst.
		last := now.Add(time.Since(sent) + state.ResetAfter - time.Duration(b.limits[0].capacity())*b.every)
		later := int64(max(last.Sub(r.due)+time.Millisecond, 0) / b.every)
		if later >= r.result.Granted {
			return
		}
		_, err = b.limiter.Refund(context.Background(), b.key, b.limits, Cost(r.result.Granted-later)).Result()
	}
	if err != nil {
		b.report(err)
	}
}

// wait sleeps until the units may be used.
func (r *Reservation) wait(ctx context.Context, patience time.Duration) error {
	if err := r.result.Err(); err != nil {
		err = fmt.Errorf("ratelimit: waiting for %s of %s: %w", r.bucket.limits[0], r.bucket.key, err)
		if patience < longest && !r.result.Banned && r.result.RetryAfter != Never {
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
