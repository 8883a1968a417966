package ratelimittest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit/inspect"
	"redis-throttle/ratelimit/ratelimittest"
)

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
	assert.Equal(t, inspect.Limit{Kind: "WINDOW", Period: time.Hour, Used: 2, Entries: 1, NextAt: up(now.Add(time.Hour)),
		ResetAt: up(now.Add(time.Hour))}, h.Limits[0])
	assert.Equal(t, inspect.Limit{Kind: "FIXED"}, h.Limits[1], "the denied call has stored the month, of which no unit is used")
	assert.Equal(t, inspect.Limit{Kind: "AFTER", Period: 10 * time.Minute, Used: 1, NextAt: up(now.Add(10 * time.Minute)),
		ResetAt: up(now.Add(10 * time.Minute))}, h.Limits[2])

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
