// Package retry repeats what was limited, when the reply says that it can succeed.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"redis-throttle/ratelimit"
)

// Backoff is how Do pauses between attempts: as long as the reply says, and on top
// of it a random time, so that callers who were limited together do not come back
// together. The random time is drawn evenly from 0 to a ceiling that doubles with each
// attempt ("full jitter", Marc Brooker, Exponential Backoff and Jitter, 2015).
type Backoff struct {
	Base     time.Duration // the first ceiling; 100 ms when 0
	Max      time.Duration // the highest ceiling; 10 s when 0
	Attempts int           // how often to try at most; 0 is until ctx ends
}

const (
	defaultBase = 100 * time.Millisecond
	defaultMax  = 10 * time.Second
)

// Do is Backoff{}.Do.
func Do(ctx context.Context, do func(ctx context.Context) error) error {
	return Backoff{}.Do(ctx, do)
}

// Do calls do until it returns something other than a *ratelimit.LimitedError, and returns
// that. It gives up, with an error that wraps the last *ratelimit.LimitedError, when there are no
// attempts left, when no waiting can help, and as soon as ctx would be over before the
// reply allows another attempt.
func (b Backoff) Do(ctx context.Context, do func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := do(ctx)
		var limited *ratelimit.LimitedError
		if !errors.As(err, &limited) {
			return err
		}
		if limited.RetryAfter == ratelimit.Never || attempt == b.Attempts {
			return fmt.Errorf("retry: gave up after attempt %d: %w", attempt, err)
		}
		if cause := b.pause(ctx, attempt, limited.RetryAfter); cause != nil {
			return fmt.Errorf("retry: gave up after attempt %d: %w: %w", attempt, cause, err)
		}
	}
}

// Until waits until a call that was denied can succeed, as far as its result tells, and returns nil. It returns a
// *ratelimit.LimitedError at once when no waiting can help, and the cause of ctx when that ends first. A result that is
// not limited needs no waiting.
func Until(ctx context.Context, result ratelimit.Result) error {
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case !result.Limited:
		return nil
	case result.RetryAfter == ratelimit.Never:
		return result.Err()
	}
	return sleep(ctx, result.RetryAfter)
}

// pause waits for at least d and the jitter of attempt, 1 being the first.
func (b Backoff) pause(ctx context.Context, attempt int, d time.Duration) error {
	ceiling := b.ceiling(attempt)
	if deadline, ok := ctx.Deadline(); ok {
		spare := time.Until(deadline) - d
		if spare <= 0 {
			return context.DeadlineExceeded
		}
		ceiling = min(ceiling, spare)
	}
	if jitter := rand.N(ceiling); d > math.MaxInt64-jitter { // a wait without an end
		d = math.MaxInt64
	} else {
		d += jitter
	}
	return sleep(ctx, d)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ceiling of the jitter after attempt; it is positive.
func (b Backoff) ceiling(attempt int) time.Duration {
	ceiling, limit := b.Base, b.Max
	if ceiling <= 0 {
		ceiling = defaultBase
	}
	if limit <= 0 {
		limit = defaultMax
	}
	for ; attempt > 1 && ceiling < limit; attempt-- {
		ceiling += min(ceiling, limit-ceiling)
	}
	return min(ceiling, limit)
}
