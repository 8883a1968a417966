package denials_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
)

// denying is a server that denies everything for a month.
type denying struct{}

func (denying) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{Limited: true, RetryAfter: 30 * 24 * time.Hour, By: "server"}, nil
}

// layer remembers denials.
type layer interface {
	ratelimit.Decider
	Forget(key string)
}

// inLayers runs a test in each layer. Ask makes two calls on a key, which have to be decided by someone.
func inLayers(t *testing.T, age time.Duration, test func(d layer, ask func(key, by string))) {
	t.Helper()
	for name, make := range map[string]func() layer{
		"cached":  func() layer { return cached.New(denying{}, cached.Options{MaxAge: age, Denials: 4}) },
		"batched": func() layer { return batched.New(denying{}, batched.Options{DenialAge: age}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			d := make()
			test(d, func(key, by string) {
				t.Helper()
				for cost := range int64(2) {
					call := callOn(key, ratelimit.VerbLimit)
					call.Cost = 1 + cost
					result, err := d.Decide(t.Context(), call)
					require.NoError(t, err)
					assert.True(t, result.Limited)
					assert.Equal(t, by, result.By, "%s, key %s", name, key)
				}
			})
			if b, ok := d.(*batched.Batched); ok {
				require.NoError(t, b.Close(t.Context()))
			}
		})
	}
}

func callOn(key string, verb ratelimit.Verb) ratelimit.Call {
	return ratelimit.Call{Verb: verb, Keys: []ratelimit.Key{{Name: key, Limits: ratelimit.Limits{ratelimit.FixedMonths(100, 1)}}}}
}

// A refund in another process, and a ban that was lifted, are noticed after MaxAge, or DenialAge.
func TestADenialIsNoOlderThanMaxAge(t *testing.T) {
	t.Parallel()
	for age, lasts := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		inLayers(t, age, func(_ layer, ask func(key, by string)) {
			ask("k", "server")
			for range 2 {
				time.Sleep(lasts - 1)
				ask("k", "cache")
				time.Sleep(time.Nanosecond)
				ask("k", "server")
			}
		})
	}
}

// A key is forgotten when it is told to, and after what may have changed the answer. What was asked since is
// remembered.
func TestDenialsOfAKeyAreForgotten(t *testing.T) {
	t.Parallel()
	inLayers(t, 0, func(d layer, ask func(key, by string)) {
		again := func(key string) {
			time.Sleep(time.Nanosecond)
			ask(key, "server")
			ask(key, "cache")
		}
		again("a")
		again("b")
		time.Sleep(time.Nanosecond)
		d.Forget("a")
		again("a")
		ask("b", "cache")
		for _, verb := range []ratelimit.Verb{ratelimit.VerbRefund, ratelimit.VerbBan, ratelimit.VerbSettle, ratelimit.VerbReset} {
			time.Sleep(time.Nanosecond)
			_, err := d.Decide(context.Background(), callOn("b", verb))
			require.NoError(t, err)
			again("b")
		}
		if _, ok := d.(*cached.Cached); ok { // more keys than are kept apart: everything of before is asked again, rather than too little
			for _, key := range []string{"b", "1", "2", "3", "4"} {
				time.Sleep(time.Nanosecond)
				d.Forget(key)
			}
			ask("b", "server")
		}
	})
}
