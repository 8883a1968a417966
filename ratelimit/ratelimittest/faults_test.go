package ratelimittest_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/ratelimittest"
)

// Each fault is what the client of a real server sees, until it is healed.
func TestFaultsAreWhatAClientSees(t *testing.T) {
	t.Parallel()
	own := errors.New("of the test")
	for name, c := range map[string]struct {
		fault    func(ratelimittest.Faults)
		want     error
		outage   bool
		executed bool
	}{
		"an outage":         {func(f ratelimittest.Faults) { f.Fail(ratelimittest.ErrOutage) }, ratelimittest.ErrOutage, true, false},
		"any error":         {func(f ratelimittest.Faults) { f.Fail(own) }, own, false, false},
		"a reply":           {func(f ratelimittest.Faults) { f.Fail(ratelimittest.ReplyError("LOADING Redis is loading")) }, ratelimittest.ReplyError("LOADING Redis is loading"), true, false},
		"a mistake":         {func(f ratelimittest.Faults) { f.Fail(ratelimittest.ReplyError("NOPERM no permissions")) }, ratelimittest.ReplyError("NOPERM no permissions"), false, false},
		"no module":         {ratelimittest.Faults.NoModule, ratelimit.ErrNoModule, false, false},
		"replies get lost":  {ratelimittest.Faults.LoseReplies, io.EOF, true, true},
		"nothing":           {func(f ratelimittest.Faults) { f.Fail(nil) }, nil, false, true},
		"slow by nothing":   {func(f ratelimittest.Faults) { f.Slow(0) }, nil, false, true},
		"slow by less":      {func(f ratelimittest.Faults) { f.Next(1).Slow(-time.Second) }, nil, false, true},
		"nothing once more": {func(f ratelimittest.Faults) { f.Hang(); f.Heal() }, nil, false, true},
	} {
		l := ratelimittest.New(t)
		c.fault(l.Faults)
		for range 3 {
			_, err := l.Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(9, time.Hour)}, 1)
			require.ErrorIs(t, err, c.want, name)
			assert.Equal(t, c.outage, ratelimit.IsOutage(err), name)
		}
		l.Heal()
		result, err := l.Peek(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(9, time.Hour)}, 1)
		require.NoError(t, err, name)
		assert.Equal(t, map[bool]int64{false: 9, true: 6}[c.executed], result.Remaining, name)
	}
}

func TestAFaultOfTheNextCommands(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	l.Next(2).Fail(ratelimittest.ErrOutage)
	for i := range 4 {
		_, err := l.Limit(t.Context(), "k", hourly, 0)
		assert.Equal(t, i < 2, err != nil, "call %d", i)
	}
	l.Next(0).Fail(ratelimittest.ErrOutage)
	l.Next(-1).Fail(ratelimittest.ErrOutage)
	_, err := l.Limit(t.Context(), "k", hourly, 0)
	require.NoError(t, err)
}

// A server that stands still executes afterwards what it was sent, also for callers that have gone.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		decide(t, l, on("line", hourly))
		inLineNow := make(chan time.Time, 1)
		go func() {
			decide(t, l, inLine("line", hourly))
			inLineNow <- time.Now()
		}()
		synctest.Wait()

		l.Hang()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Limit(ctx, "k", hourly, 1)
		require.True(t, ratelimit.IsOutage(err), "%v", err)
		assert.Equal(t, time.Second, time.Since(began))
		waits, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := l.Wait(waits, "k", hourly, 1)
			assert.ErrorIs(t, err, context.Canceled)
		}()
		patient := make(chan ratelimit.Result)
		go func() { patient <- decide(t, l, on("k", hourly)) }()
		synctest.Wait()
		cancel()
		l.Advance(2 * time.Hour)
		assert.Empty(t, inLineNow, "nobody is let in")
		assert.Equal(t, 2, l.Blocked())

		l.Heal()
		assert.True(t, (<-patient).Limited, "the first call was executed before")
		assert.Equal(t, 2*time.Hour+time.Second, (<-inLineNow).Sub(began))
		assert.Equal(t, time.Hour, decide(t, l, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: []ratelimit.Key{{Name: "k", Limits: hourly}},
			Cost: 1}).ResetAfter,
			"the caller that left the line took nothing")
		assert.Zero(t, l.Blocked())
	})
}

// Calls are slow by the limiter's clock, those in line on top of their wait. One whose caller gives up is executed.
func TestAServerThatIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		l.Slow(time.Minute)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Limit(ctx, "k", hourly, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(began))
		assert.True(t, decide(t, l, on("k", hourly)).Limited)
		assert.Equal(t, time.Minute+time.Second, time.Since(began))
		assert.Equal(t, time.Hour-time.Minute-time.Second, decide(t, l, inLine("k", hourly)).Wait)
		assert.Equal(t, time.Hour+time.Minute, time.Since(began))
	})
	l := ratelimittest.New(t)
	l.Slow(time.Minute)
	results := make(chan ratelimit.Result)
	go func() { results <- decide(t, l, on("k", hourly)) }()
	l.AwaitBlocked(1)
	l.Advance(time.Minute - 1)
	assert.Equal(t, 1, l.Blocked())
	l.Advance(1)
	assert.False(t, (<-results).Limited)
}

// The next fault ends the one before: commands that hang are executed, or fail with everything else.
func TestTheNextFaultEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next     func(*ratelimittest.Limiter)
		want     error
		executed bool
	}{
		"an outage":               {func(l *ratelimittest.Limiter) { l.Fail(ratelimittest.ErrOutage) }, ratelimittest.ErrOutage, false},
		"one that fails":          {func(l *ratelimittest.Limiter) { l.Next(1).Fail(ratelimittest.ErrOutage) }, nil, true},
		"replies that get lost":   {func(l *ratelimittest.Limiter) { l.LoseReplies() }, io.EOF, true},
		"a server that is slow":   {func(l *ratelimittest.Limiter) { l.Slow(time.Hour) }, nil, true},
		"a server that is healed": {func(l *ratelimittest.Limiter) { l.Heal() }, nil, true},
	} {
		l := ratelimittest.New(t)
		l.Hang()
		errs := make(chan error)
		go func() {
			_, err := l.Limit(t.Context(), "k", hourly, 1)
			errs <- err
		}()
		l.AwaitBlocked(1)
		c.next(l)
		assert.ErrorIs(t, <-errs, c.want, name)
		l.Heal()
		assert.Equal(t, c.executed, decide(t, l, on("k", hourly)).Limited, name)
	}
}

// A connection that breaks loses the answers that are on their way, and takes the callers in line with it.
func TestFaultsReachThoseWhoWait(t *testing.T) {
	t.Parallel()
	daily, monthly := ratelimit.Limits{ratelimit.Rate(1, 24*time.Hour)}, ratelimit.Limits{ratelimit.Rate(1, 30*24*time.Hour)}
	for name, c := range map[string]struct {
		fault func(*ratelimittest.Limiter)
		want  error
	}{
		"outage": {func(l *ratelimittest.Limiter) { l.Fail(ratelimittest.ErrOutage) }, ratelimittest.ErrOutage},
		"lost":   {func(l *ratelimittest.Limiter) { l.LoseReplies() }, io.EOF},
		"healed": {func(l *ratelimittest.Limiter) { l.Heal() }, nil},
	} {
		everywhere(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			decide(t, l, on("line", daily))
			waits := make(chan error, 1)
			go func() {
				_, err := l.Wait(t.Context(), "line", daily, 1)
				waits <- err
			}()
			l.AwaitBlocked(1)
			l.Slow(time.Hour)
			slow := make(chan error, 1)
			go func() {
				_, err := l.Limit(t.Context(), "k", monthly, 1)
				slow <- err
			}()
			l.AwaitBlocked(2)
			c.fault(l)
			if c.want == nil {
				l.Advance(time.Hour)
				assert.Equal(t, 1, l.Blocked(), "that in line")
			} else {
				l.Advance(24 * time.Hour) // to its turn: no reply gets lost before
				assert.ErrorIs(t, <-waits, c.want, name)
			}
			assert.ErrorIs(t, <-slow, c.want, name)
			l.Heal()
			assert.True(t, decide(t, l, on("k", monthly)).Limited, "%s: it was executed", name)
		})
	}
}
