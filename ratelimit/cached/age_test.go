package cached_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/cached"
)

// denying is a server that denies everything for a month.
type denying struct{ asked int }

func (d *denying) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	d.asked++
	return ratelimit.Result{Limited: true, RetryAfter: 30 * 24 * time.Hour, By: "server"}, nil
}

func callOn(key string, cost int64) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: ratelimit.Limits{ratelimit.FixedMonths(1, 1)}}}, Cost: cost}
}

// A refund in another process, and a ban that was lifted, are noticed after MaxAge.
func TestADenialIsNoOlderThanMaxAge(t *testing.T) {
	t.Parallel()
	for maxAge, lasts := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			server := &denying{}
			c := cached.New(server, cached.Options{MaxAge: maxAge})
			for _, step := range []struct {
				passes time.Duration
				asked  int
			}{{0, 1}, {lasts - 1, 1}, {1, 2}, {lasts - 1, 2}, {1, 3}} {
				time.Sleep(step.passes)
				result, err := c.Decide(t.Context(), callOn("k", 1))
				require.NoError(t, err)
				assert.True(t, result.Limited)
				assert.Equal(t, step.asked, server.asked)
			}
		})
	}
}

func TestAKeyIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &denying{}
		c := cached.New(server, cached.Options{Denials: 4})
		ask := func(key string, cost int64, want string) {
			t.Helper()
			time.Sleep(time.Nanosecond)
			result, err := c.Decide(t.Context(), callOn(key, cost))
			require.NoError(t, err)
			require.Equal(t, want, result.By)
		}
		for _, want := range []string{"server", "cache"} {
			ask("a", 1, want)
			ask("a", 2, want)
			ask("b", 1, want)
		}
		c.Forget("a")
		for _, want := range []string{"server", "cache"} { // what was asked since is remembered
			ask("a", 1, want)
			ask("a", 2, want)
		}
		ask("b", 1, "cache") // of another key
		for _, verb := range []ratelimit.Verb{ratelimit.VerbRefund, ratelimit.VerbBan, ratelimit.VerbSettle} {
			call := callOn("b", 1)
			call.Verb = verb
			_, err := c.Decide(t.Context(), call)
			require.NoError(t, err)
			ask("b", 1, "server")
			ask("b", 1, "cache")
		}
		// More keys than are kept apart: everything of before is asked again, rather than too little.
		for _, key := range []string{"b", "1", "2", "3", "4"} {
			time.Sleep(time.Nanosecond)
			c.Forget(key)
		}
		ask("b", 1, "server")
	})
}
