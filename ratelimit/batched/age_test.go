package batched_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
)

// denying is a server that denies everything for a month.
type denying struct{ asked int }

func (d *denying) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	if c.Verb == ratelimit.VerbLimit {
		d.asked++
	}
	return ratelimit.Result{Limited: true, RetryAfter: 30 * 24 * time.Hour, By: "server"}, nil
}

func callOn(key string) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: ratelimit.Limits{ratelimit.FixedMonths(100, 1)}}}, Cost: 1}
}

// A refund in another process, and a ban that was lifted, are noticed after DenialAge.
func TestADenialIsNoOlderThanDenialAge(t *testing.T) {
	t.Parallel()
	for age, lasts := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			server := &denying{}
			b := batched.New(server, batched.Options{DenialAge: age})
			for _, step := range []struct {
				passes time.Duration
				asked  int
			}{{0, 1}, {lasts - 1, 1}, {1, 2}, {lasts - 1, 2}, {1, 3}} {
				time.Sleep(step.passes)
				result, err := b.Decide(t.Context(), callOn("k"))
				require.NoError(t, err)
				assert.True(t, result.Limited)
				assert.Equal(t, step.asked, server.asked)
			}
			require.NoError(t, b.Close(t.Context()))
		})
	}
}

// A key is forgotten when it is told to, and after what may have changed the answer.
func TestDenialsOfAKeyAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := batched.New(&denying{}, batched.Options{})
		ask := func(key, want string) {
			t.Helper()
			time.Sleep(time.Nanosecond)
			result, err := b.Decide(t.Context(), callOn(key))
			require.NoError(t, err)
			require.Equal(t, want, result.By)
		}
		for _, key := range []string{"a", "b"} {
			ask(key, "server")
			ask(key, "cache")
		}
		b.Forget("a")
		ask("a", "server")
		ask("a", "cache")
		ask("b", "cache")
		for _, verb := range []ratelimit.Verb{ratelimit.VerbRefund, ratelimit.VerbBan, ratelimit.VerbSettle} {
			call := callOn("b")
			call.Verb = verb
			_, err := b.Decide(t.Context(), call)
			require.NoError(t, err)
			ask("b", "server")
			ask("b", "cache")
		}
		require.NoError(t, b.Close(t.Context()))
	})
}
