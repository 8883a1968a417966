package inspect_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/inspect"
	"redis-throttle/ratelimit/ratelimittest"
)

// A customer calls: is the key banned, and what was used of which limit.
func ExampleKey() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	limiter := ratelimit.New(client, ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(60, time.Hour).Burst(10), ratelimit.Fixed(1000, 24*time.Hour)}
	_, _ = limiter.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:42", Limits: limits}}, Cost: 3})

	holding, err := inspect.Key(ctx, client, "user:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(holding.Kind, "banned:", holding.Banned())
	for _, limit := range holding.Limits {
		fmt.Println(limit.Kind, limit.Period, limit.Used, limit.ResetAt.After(holding.Now))
	}
	// Output:
	// limits banned: false
	// RATE 1h0m0s -1 true
	// FIXED 24h0m0s 3 true
}

// The fake runs the commands of the module, so it tells what a server tells.
func TestWhatAKeyHolds(t *testing.T) {
	fake := ratelimittest.New(t)
	look := func(key string) inspect.Holding {
		h, err := inspect.Key(t.Context(), fake, key)
		require.NoError(t, err)
		return h
	}
	do := func(words ...any) {
		require.NoError(t, fake.Process(t.Context(), redis.NewCmd(t.Context(), words...)))
	}
	now := fake.Now()
	assert.Equal(t, inspect.Holding{Kind: inspect.None, Now: ms(now)}, look("nobody"))

	do("CL.LIMIT", "k", "RATE", "60/h", "COST", int64(3))
	assert.Equal(t, []inspect.Limit{{Kind: "RATE", Used: inspect.Unknown, ResetAt: up(now.Add(3 * time.Minute))}}, look("k").Limits)
	do("CL.BAN", "k", "1m")
	h := look("k")
	assert.True(t, h.Banned())
	assert.Equal(t, inspect.Rate, h.Kind)
	fake.Advance(time.Minute)
	assert.False(t, look("k").Banned(), "though it is still stored")

	now = fake.Now()
	do("CL.LIMIT", "w", "WINDOW", "9/h", "COST", int64(2))
	do("CL.LIMIT", "w", "WINDOW", "9/h", "FIXED", "9/mo", "BAN", "1h", "AFTER", "3/10m", "COST", int64(8))
	h = look("w")
	assert.Equal(t, inspect.Limits, h.Kind)
	require.Len(t, h.Limits, 3)
	assert.Equal(t, inspect.Limit{Kind: "WINDOW", Period: time.Hour, Used: 2, Entries: 1, NextAt: up(now.Add(time.Hour)), ResetAt: up(now.Add(time.Hour))}, h.Limits[0])
	assert.Equal(t, inspect.Limit{Kind: "FIXED"}, h.Limits[1], "the denied call has stored the month, of which no unit is used")
	assert.Equal(t, inspect.Limit{Kind: "AFTER", Period: 10 * time.Minute, Used: 1, NextAt: up(now.Add(10 * time.Minute)), ResetAt: up(now.Add(10 * time.Minute))}, h.Limits[2])

	do("CL.BAN", "banned", "1h")
	assert.Equal(t, inspect.Ban, look("banned").Kind)
	do("CL.LEASE", "jobs", "SLOTS", int64(2), "TTL", "1m", "ID", "a")
	h = look("jobs")
	assert.Equal(t, inspect.Leases, h.Kind)
	assert.EqualValues(t, 1, h.Held)
	assert.Equal(t, up(now.Add(time.Minute)), h.LapsesAt)
	assert.Equal(t, h.LapsesAt, h.ExpiresAt)
}

func ms(at time.Time) time.Time { return time.UnixMilli(at.UnixMilli()) }

// up is the first whole millisecond that is not before an instant.
func up(at time.Time) time.Time { return ms(at.Add(time.Millisecond - 1)) }

// odd answers every command with the same reply.
type odd struct{ reply any }

func (o odd) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.(*redis.Cmd).SetVal(o.reply)
	return nil
}

func TestAReplyThatIsNoHoldingIsAMistake(t *testing.T) {
	for _, reply := range []any{
		"OK", []any{}, []any{"kind", "none"}, map[any]any{"kind": int64(1)},
		[]any{"kind", "rate", "now_ms", int64(1), "bytes", int64(1), "expires_at_ms", int64(1), "banned_until_ms", int64(0), "held", int64(0),
			"lapses_at_ms", int64(0), "waiting", int64(0), "limits", []any{[]any{"kind", "RATE"}}},
	} {
		_, err := inspect.Key(t.Context(), odd{reply}, "k")
		assert.ErrorContains(t, err, "not what a key holds", "%v", reply)
	}
}
