package ratelimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/policies"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// counted is a client that counts readings of hashes as they begin.
type counted struct {
	client
	begun atomic.Int64
}

func (c *counted) Process(ctx context.Context, cmd redis.Cmder) error {
	if cmd.Name() == "hgetall" {
		c.begun.Add(1)
	}
	return c.client.Process(ctx, cmd)
}

// process is what a process of a service has.
type process struct {
	decider ratelimit.Decider
	reads   *counted
}

// Processes share a limit whose number changes under load. No call fails, no unit too many is charged by either number,
// and a call that begins after the hash was read anew is decided by the new one.
func TestANumberChangesUnderLoad(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	inCode := ratelimit.Policy("load", ratelimit.Fixed(7, 365*day).First())
	set := func(count int64) {
		s.MustDo("HSET", "throttle:policies", "load", fmt.Sprintf("FIXED %d/365d FIRST", count))
	}
	processes := make([]process, 4)
	set(1)
	for i := range processes {
		reads := &counted{client: s.Client()}
		o := policies.Options{Refresh: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
		layer := policies.New(guard.New(ratelimit.New(reads.client, ratelimit.Options{}), guard.Options{}), reads, o)
		require.NoError(t, layer.Reader().Read(t.Context()))
		processes[i] = process{layer, reads}
	}
	var granted int64
	for _, count := range []int64{300, 500, 200, 700} {
		set(count)
		var total atomic.Int64
		var wg sync.WaitGroup
		for _, p := range processes {
			before := p.reads.begun.Load() // one of them may still be under way, and bring the old number
			for range 3 {
				wg.Go(func() {
					for {
						renewed := p.reads.begun.Load() >= before+2 // and so one that began afterwards has ended
						result, err := p.decider.Decide(t.Context(), calls.On("k", inCode))
						if !assert.NoError(t, err) || !assert.NotEmpty(t, result.Policies) {
							return
						}
						total.Add(result.Granted)
						isNew := result.Limit == count
						if renewed && !assert.True(t, isNew, "decided by %d after %d was read", result.Limit, count) {
							return
						}
						if isNew && result.Limited {
							return
						}
					}
				})
			}
		}
		wg.Wait()
		granted += total.Load()
		assert.Equal(t, max(count, granted-total.Load()), granted, "by %d", count)
	}
	assert.EqualValues(t, 700, granted)
}

// A limit of the same kind and period keeps what was taken when a policy raises or lowers its number. Another kind or
// period begins anew.
func TestStateIsKeptThroughAChangeOfPolicy(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	layer := policies.New(ratelimit.New(s.Client(), ratelimit.Options{}), s.Client(),
		policies.Options{Refresh: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	inCode := ratelimit.Policy("p", ratelimit.Rate(1, day))
	left := func(key, value string) int64 {
		s.MustDo("HSET", "throttle:policies", "p", value)
		require.NoError(t, layer.Reader().Read(t.Context()))
		call := calls.On(key, inCode)
		call.Verb = ratelimit.VerbPeek
		return calls.Ask(t, layer, call).Remaining
	}
	for kind, end := range map[string]string{"RATE": "/365d", "WINDOW": "/365d", "FIXED": "/365d FIRST"} {
		assert.EqualValues(t, 10, left(kind, kind+" 10"+end), kind)
		calls.Ask(t, layer, calls.On(kind, inCode, calls.Cost(4)))
		if kind == "RATE" { // which keeps the instant when its bucket is full: after 4 of 10 parts of its period
			assert.EqualValues(t, 6, left(kind, kind+" 10"+end), kind)
			assert.EqualValues(t, 12, left(kind, kind+" 20"+end), kind)
			assert.EqualValues(t, 3, left(kind, kind+" 5"+end), kind)
		} else {
			assert.EqualValues(t, 16, left(kind, kind+" 20"+end), kind)
			assert.EqualValues(t, 1, left(kind, kind+" 5"+end), kind)
			assert.EqualValues(t, 0, left(kind, kind+" 3"+end), kind)
		}
	}
	assert.EqualValues(t, 10, left("RATE", "WINDOW 10/365d"), "another kind begins anew")
	assert.EqualValues(t, 10, left("WINDOW", "WINDOW 10/364d"), "and so does another period")
	assert.EqualValues(t, 6, left("WINDOW", "WINDOW 10/365d"), "what was taken before is still there")
}

// policed is a layer on a client that has read the hash, or failed to.
func policed(t *testing.T, c client) (layer *policies.Policies, log *kit.Log, err error) {
	t.Helper()
	log = &kit.Log{}
	layer = policies.New(ratelimit.New(c, ratelimit.Options{}), c, policies.Options{Refresh: time.Hour, Logger: log.Logger()})
	return layer, log, layer.Reader().Read(t.Context())
}

var oneADay = ratelimit.Policy("p", ratelimit.Rate(1, day))

// The hash is read by every client that calls are sent by.
func TestPoliciesAreReadByEveryClient(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	clients := onServer(t, s)
	for name, c := range onServer(t, s, server.Protocol(2)) {
		clients[name+", RESP2"] = c
	}
	for name, c := range clients {
		s.MustDo("HSET", "throttle:policies", "p", "RATE 7/1m", "@version", "1")
		layer, log, err := policed(t, c)
		require.NoError(t, err, name)
		assert.EqualValues(t, 7, calls.Ask(t, layer, calls.On("rl:"+name, oneADay)).Limit, name)
		assert.Contains(t, log.String(), "throttle:policies: 1 policy", name)
		s.MustDo("HSET", "throttle:policies", "p", "RATE 8/1m")
		require.NoError(t, layer.Reader().Read(t.Context()), name)
		assert.EqualValues(t, 7, calls.Ask(t, layer, calls.On("rl:"+name, oneADay)).Limit, "%s: its version is as it was", name)
		s.MustDo("HDEL", "throttle:policies", "p", "@version")
		require.NoError(t, layer.Reader().Read(t.Context()), name)
		assert.EqualValues(t, 1, calls.Ask(t, layer, calls.On("rl:"+name, oneADay)).Limit, name)
	}
}

// The rights of the page suffice, and a user without them is told which they are.
func TestWhoMayReadPolicies(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("ACL", "SETUSER", "app", "on", ">secret", "resetkeys", "~rl:*", "%R~throttle:policies", "-@all", "+cl.limit", "+hget", "+hgetall")
	s.MustDo("ACL", "SETUSER", "blind", "on", ">secret", "resetkeys", "~rl:*", "-@all", "+cl.limit")
	s.MustDo("HSET", "throttle:policies", "p", "RATE 7/1m", "@version", "1")
	layer, _, err := policed(t, s.Client(server.User("app", "secret")))
	require.NoError(t, err)
	require.NoError(t, layer.Reader().Read(t.Context()), "its version")
	assert.EqualValues(t, 7, calls.Ask(t, layer, calls.On("rl:a", oneADay)).Limit)

	layer, log, err := policed(t, s.Client(server.User("blind", "secret")))
	require.ErrorContains(t, err, "NOPERM")
	assert.EqualValues(t, 1, calls.Ask(t, layer, calls.On("rl:b", oneADay)).Limit)
	assert.Contains(t, log.String(), "+hgetall +hget %R~throttle:policies")
}

// Every verb has the same results where the numbers come from a hash.
func TestEveryVerbByPolicies(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limiter := ratelimit.New(s.Client(), ratelimit.Options{})
	var want []ratelimit.Result
	for _, call := range everyVerb("bare:") {
		want = append(want, steady(calls.Ask(t, limiter, call)))
	}
	for _, call := range everyVerb("hash:") {
		for _, key := range call.Keys {
			if len(key.Limits) > 0 {
				text := strings.NewReplacer(";", "", " TAKE 10", "", " USED 4", "").Replace(key.Limits.String())
				s.MustDo("HSET", "throttle:policies", "p/"+key.Name, text)
			}
		}
	}
	b := batched.New(cached.New(limiter, cached.Options{}), batched.Options{})
	t.Cleanup(func() { assert.NoError(t, b.Close(context.Background())) })
	layer := policies.New(b, s.Client(), policies.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, layer.Reader().Read(t.Context()))
	for i, call := range everyVerb("hash:") {
		for k := range call.Keys {
			if limits := call.Keys[k].Limits; len(limits) > 0 {
				other := ratelimit.Rate(99, time.Second)
				switch call.Verb {
				case ratelimit.VerbSettle:
					other = other.Take(10).Used(4)
				case ratelimit.VerbLimit:
					if call.ID != "" {
						other = other.Take(10)
					}
				}
				call.Keys[k].Limits = ratelimit.Policy("p", other)
			}
		}
		result := calls.Ask(t, layer, call)
		result.Policies = nil
		assert.Equal(t, want[i], steady(result), "%d, %v", i, call.Verb)
	}
}
