package retry_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/retry"
)

func limited(retryAfter time.Duration) error {
	return ratelimit.Result{Limited: true, Limit: 5, RetryAfter: retryAfter}.Err()
}

// pauses runs Retry under a fake clock and returns the pauses between attempts.
func pauses(t *testing.T, b retry.Backoff, attempts int, retryAfter time.Duration) (pauses []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		last := time.Now()
		made := 0
		err := b.Do(t.Context(), func(context.Context) error {
			if made++; made > 1 {
				pauses = append(pauses, time.Since(last))
			}
			last = time.Now()
			if made == attempts {
				return nil
			}
			return limited(retryAfter)
		})
		require.NoError(t, err)
		require.Equal(t, attempts, made)
	})
	return pauses
}

func TestPausesAreTheReplysPlusFullJitterUnderADoublingCeiling(t *testing.T) {
	t.Parallel()
	const retryAfter = 3 * time.Second
	b := retry.Backoff{Base: 100 * time.Millisecond, Max: time.Second}
	ceilings := []time.Duration{100, 200, 400, 800, 1000, 1000}
	const runs = 300
	least, most := make([]time.Duration, len(ceilings)), make([]time.Duration, len(ceilings))
	for run := range runs {
		for i, pause := range pauses(t, b, len(ceilings)+1, retryAfter) {
			ceiling := ceilings[i] * time.Millisecond
			jitter := pause - retryAfter
			require.GreaterOrEqual(t, jitter, time.Duration(0), "pause %d", i)
			require.Less(t, jitter, ceiling, "pause %d", i)
			most[i] = max(most[i], jitter)
			if least[i] = min(least[i], jitter); run == 0 {
				least[i] = jitter
			}
		}
	}
	// Full jitter uses the whole range: that 300 even draws all miss a tenth at either end
	// has a probability of 10^-13.
	for i, ceiling := range ceilings {
		assert.Less(t, least[i], ceiling*time.Millisecond/10, "pause %d", i)
		assert.Greater(t, most[i], ceiling*time.Millisecond*9/10, "pause %d", i)
	}
}

func TestDefaultPauses(t *testing.T) {
	t.Parallel()
	for i, pause := range pauses(t, retry.Backoff{}, 50, 0) {
		assert.Less(t, pause, min(100*time.Millisecond<<min(i, 20), 10*time.Second), "pause %d", i)
	}
}

func TestRetryReturnsWhatIsNotALimit(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	for _, want := range []error{nil, failure} {
		calls := 0
		err := retry.Do(t.Context(), func(context.Context) error { calls++; return want })
		assert.Equal(t, want, err)
		assert.Equal(t, 1, calls)
	}
}

func TestRetryGivesUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule       string
		backoff    retry.Backoff
		timeout    time.Duration
		retryAfter time.Duration
		attempts   int
		cause      error
		after      time.Duration // at most
	}{
		{"after its attempts", retry.Backoff{Attempts: 3}, 0, time.Second, 3, nil, 3 * time.Second},
		{"when it can never succeed", retry.Backoff{}, 0, ratelimit.Never, 1, nil, 0},
		{"at once when the deadline comes before the reply's time", retry.Backoff{}, time.Second, time.Minute, 1, context.DeadlineExceeded, 0},
		{"but not when only the jitter would be too long", retry.Backoff{Base: time.Hour, Max: time.Hour, Attempts: 2}, time.Minute, 59 * time.Second, 2, nil, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.timeout)
				defer cancel()
			}
			began, calls := time.Now(), 0
			err := c.backoff.Do(ctx, func(context.Context) error { calls++; return limited(c.retryAfter) })
			var last *ratelimit.LimitedError
			require.ErrorAs(t, err, &last, c.rule)
			assert.Equal(t, c.retryAfter, last.RetryAfter, c.rule)
			assert.Equal(t, c.attempts, calls, c.rule)
			assert.LessOrEqual(t, time.Since(began), c.after, c.rule)
			if c.cause != nil {
				assert.ErrorIs(t, err, c.cause, c.rule)
			}
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		began := time.Now()
		err := retry.Do(ctx, func(context.Context) error { return limited(time.Minute) })
		require.ErrorIs(t, err, reason)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// The longest wait that a reply can tell, and jitter on top of it, is no short one.
func TestTheLongestWaitIsWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(365*24*time.Hour, cancel)
		attempts := 0
		err := retry.Do(ctx, func(context.Context) error {
			attempts++
			return limited(math.MaxInt64)
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, attempts)
	})
}

func TestLimitedErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	require.NoError(t, ratelimit.Result{}.Err())
	assert.EqualError(t, limited(2*time.Second), "limited: retry after 2s")
	assert.EqualError(t, limited(ratelimit.Never), "limited: the call costs more than the limit of 5")
}

func TestUntilWaitsAsLongAsTheResultSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, retry.Until(t.Context(), ratelimit.Result{Limited: true, RetryAfter: time.Hour}))
		assert.Equal(t, time.Hour, time.Since(began))
		require.NoError(t, retry.Until(t.Context(), ratelimit.Result{RetryAfter: time.Hour}), "it was let through")
		require.ErrorIs(t, retry.Until(t.Context(), ratelimit.Result{Limited: true, RetryAfter: ratelimit.Never}), ratelimit.ErrLimited)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, retry.Until(ctx, ratelimit.Result{Limited: true, RetryAfter: time.Hour}), context.DeadlineExceeded)
		assert.Equal(t, time.Hour+time.Minute, time.Since(began))
	})
}
