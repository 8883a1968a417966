package ratelimittest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/ratelimit/xrate"
)

// What a program uses of x/time/rate's Limiter, that of xrate has in the same shape.
type inProcessOrShared interface {
	Allow() bool
	AllowN(time.Time, int) bool
	Burst() int
	Wait(context.Context) error
	WaitN(context.Context, int) error
}

var _, _ inProcessOrShared = (*rate.Limiter)(nil), (*xrate.Limiter)(nil)

// A model of x/time/rate is not needed: it is here itself, under the same clock.
func TestBucketDecidesAsXTimeRateDoes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(r *rapid.T) {
		l := ratelimittest.New(t)
		// Far above the time that a call takes: that is all that a cancellation cannot know. And with
		// powers of two the floating-point numbers of x/time/rate are exact.
		every := time.Second << rapid.IntRange(4, 12).Draw(r, "every")
		const tick = time.Second / 64
		burst := rapid.IntRange(1, 8).Draw(r, "burst")
		shared := xrate.New(l, xrate.Options{Key: "k", Limit: ratelimit.Rate(1, every).Burst(int64(burst))})
		local := rate.NewLimiter(rate.Every(every), burst)
		require.Equal(r, local.Burst(), shared.Burst())
		type pair struct {
			local  *rate.Reservation
			shared *xrate.Reservation
		}
		var reservations []pair
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			now = now.Add(tick * time.Duration(1+rapid.Int64Range(0, int64(3*every/tick)).Draw(r, "passed")/rapid.Int64Range(1, 1000).Draw(r, "by")))
			l.SetTime(now)
			n := rapid.IntRange(1, burst+1).Draw(r, "n")
			kind := rapid.SampledFrom([]string{"allow", "reserve", "reserve", "cancel"}).Draw(r, "call")
			switch {
			case kind == "allow":
				require.Equal(r, local.AllowN(now, n), shared.AllowN(now, n), "AllowN %d", n)
			case kind == "reserve":
				began := time.Now()
				p := pair{local.ReserveN(now, n), shared.ReserveN(now, n)}
				requireSameDelay(r, p.local, p.shared, now, time.Since(began))
				if p.local.OK() {
					reservations = append(reservations, p)
				}
			case len(reservations) > 0:
				i := rapid.IntRange(0, len(reservations)-1).Draw(r, "which")
				p := reservations[i]
				p.local.CancelAt(now)
				p.shared.CancelAt(now)
				if last := i == len(reservations)-1; last {
					reservations = reservations[:i]
				} else {
					// x/time/rate no longer knows of the others which came before which, and may give
					// back more units of one than it had.
					reservations = nil
				}
			}
		}
	})
}

// requireSameDelay leaves to shared the milliseconds that it is rounded up to, and the time that the call took.
func requireSameDelay(t require.TestingT, local *rate.Reservation, shared *xrate.Reservation, now time.Time, took time.Duration) {
	require.Equal(t, local.OK(), shared.OK())
	if !local.OK() {
		require.Equal(t, rate.InfDuration, local.DelayFrom(now))
		require.Equal(t, rate.InfDuration, shared.DelayFrom(now))
		return
	}
	want, got := local.DelayFrom(now), shared.DelayFrom(now)
	require.GreaterOrEqual(t, got, want)
	require.LessOrEqual(t, got, want+took+time.Millisecond)
}

func TestBucketWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	const every = 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		for name, limiter := range map[string]inProcessOrShared{
			"x/time/rate": rate.NewLimiter(rate.Every(every), 2),
			"bucket":      xrate.New(ratelimittest.New(t), xrate.Options{Key: "k", Limit: ratelimit.Rate(1, every).Burst(2)}),
		} {
			began := time.Now()
			for range 4 {
				require.NoError(t, limiter.Wait(t.Context()), name)
			}
			assert.Equal(t, 2*every, time.Since(began), name)
			assert.Error(t, limiter.WaitN(t.Context(), 3), "%s: more than the burst", name)

			ctx, cancel := context.WithTimeout(t.Context(), every/2)
			assert.Error(t, limiter.WaitN(ctx, 2), "%s: later than ctx", name)
			assert.NoError(t, ctx.Err(), "%s: it is known at once", name)
			cancel()
			assert.ErrorIs(t, limiter.Wait(ctx), context.Canceled, name)
		}
	})
}

func TestErrorsOfABucketThatDoesNotWait(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	b := xrate.New(l, xrate.Options{Key: "k", Limit: ratelimit.Rate(1, time.Hour)})
	require.True(t, b.Allow())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := b.Wait(ctx)
	var limited *ratelimit.LimitedError
	require.ErrorAs(t, err, &limited)
	assert.Greater(t, limited.RetryAfter, 50*time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, b.AllowN(time.Now(), 0))

	err = b.WaitN(ctx, 2)
	require.ErrorAs(t, err, &limited)
	assert.Equal(t, ratelimit.Never, limited.RetryAfter)
	require.NotErrorIs(t, err, context.DeadlineExceeded)

	_, err = l.Ban(t.Context(), "k", time.Hour)
	require.NoError(t, err)
	assert.False(t, b.Allow())
	assert.False(t, b.Reserve().OK())
	assert.Equal(t, xrate.InfDuration, b.Reserve().Delay())
	err = b.Wait(t.Context())
	require.ErrorAs(t, err, &limited)
	assert.True(t, limited.Banned)
}

func TestWaitThatEndsEarlyGivesItsUnitsBack(t *testing.T) {
	t.Parallel()
	for answered, before := range map[bool]func(*ratelimittest.Limiter){true: func(*ratelimittest.Limiter) {}, false: (*ratelimittest.Limiter).Hang} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			b := xrate.New(l, xrate.Options{Key: "k", Limit: ratelimit.Rate(1, time.Hour)})
			require.True(t, b.Allow())
			before(l)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- b.Wait(ctx) }()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			l.Heal()
			synctest.Wait()
			state, err := l.Peek(t.Context(), "k", hourly, 1)
			require.NoError(t, err)
			assert.Equal(t, time.Hour, state.ResetAfter, "answered: %v", answered)
			assert.Equal(t, "CL.REFUND k RATE 1/1h COMPACT", l.Asked()[3].String(), "it was reserved")
		})
	}
}

func TestBucketWithoutAnAnswerIsOpenOrClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err                error
		failClosed, allows bool
	}{
		{ratelimittest.ErrOutage, false, true}, {ratelimittest.ErrOutage, true, false}, {ratelimittest.ReplyError("WRONGTYPE"), false, false},
	} {
		l := ratelimittest.New(t)
		l.Fail(c.err)
		b := xrate.New(l, xrate.Options{Key: "k", Limit: ratelimit.Rate(1, time.Hour)})
		var told []error
		b.OnError, b.FailClosed = func(err error) { told = append(told, err) }, c.failClosed
		assert.Equal(t, c.allows, b.Allow())
		r := b.Reserve()
		assert.Equal(t, c.allows, r.OK())
		if c.allows {
			assert.Zero(t, r.Delay())
		}
		r.Cancel()
		assert.Len(t, told, 2)
		err := b.Wait(t.Context())
		require.ErrorIs(t, err, c.err)
		assert.False(t, errors.Is(err, context.DeadlineExceeded))
	}
	for _, limit := range []ratelimit.Limit{ratelimit.Fixed(1, day), ratelimit.Rate(-1, day)} {
		assert.Panics(t, func() { xrate.New(ratelimittest.New(t), xrate.Options{Key: "k", Limit: limit}) })
	}
}

// At any rate, Cancel never gives back more than was reserved, and all but the units of the time that it cannot tell.
func TestCancelOfAFastRateGivesBackAllButAFewMilliseconds(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []int64{500, 1000, 10_000, 1_000_000} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			limit := ratelimit.Rate(perSecond, time.Second)
			b := xrate.New(l, xrate.Options{Key: "k", Limit: limit})
			state := func() time.Duration {
				r, err := l.Peek(t.Context(), "k", ratelimit.Limits{limit}, 1)
				require.NoError(t, err)
				return r.ResetAfter
			}
			require.True(t, b.AllowN(time.Now(), b.Burst()))
			full := state()
			r := b.ReserveN(time.Now(), b.Burst())
			require.True(t, r.OK())
			require.Equal(t, 2*full, state())
			r.Cancel()
			unit := time.Second / time.Duration(perSecond)
			assert.GreaterOrEqual(t, state(), full, perSecond)
			assert.LessOrEqual(t, state(), full+3*time.Millisecond+unit, perSecond)
		})
	}
}
