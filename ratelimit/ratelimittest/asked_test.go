package ratelimittest_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/ratelimittest"
)

// A test sees each call as a value, the words of its commands and how it ended.
func TestWhatWasAskedIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		call := on(`a "key"`, ratelimit.Limits{ratelimit.Rate(5, time.Second).Burst(10)})
		result := decide(t, l, call)
		wrong := call
		wrong.Ban = -time.Second
		_, err := l.Decide(t.Context(), wrong)
		require.Error(t, err)
		nonsense := call
		nonsense.Verb = 99
		_, err = l.Decide(t.Context(), nonsense)
		require.Error(t, err)

		lease := ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "jobs", Slots: 0, TTL: time.Minute}}, ID: "a", MaxWait: time.Second}
		go decide(t, l, lease)
		synctest.Wait()
		cmd := redis.NewCmd(t.Context(), "CL.LEASES", "jobs", "COUNT", 1)
		require.NoError(t, l.Process(t.Context(), cmd))

		asked := l.Asked()
		require.Len(t, asked, 5)
		assert.Equal(t, ratelimittest.Asked{At: l.Now(), Call: call, Done: true, Result: result,
			Commands: [][]string{{"CL.LIMIT", `a "key"`, "RATE", "5/1s", "BURST", "10", "COMPACT"}}}, asked[0])
		assert.Equal(t, `CL.LIMIT "a \"key\"" RATE 5/1s BURST 10 COMPACT`, asked[0].String())
		assert.ErrorContains(t, asked[1].Err, "BAN takes")
		assert.Empty(t, asked[2].Commands, "the client refuses it")
		assert.Equal(t, "CL.LEASE jobs SLOTS 0 TTL 1m ID a COMPACT\nCL.LEASE jobs SLOTS 0 TTL 1m ID a TIMEOUT 1s COMPACT", asked[3].String())
		assert.False(t, asked[3].Done)
		assert.Equal(t, "CL.LEASES jobs COUNT 1", asked[4].String())
		assert.Empty(t, asked[4].Call)
		assert.True(t, asked[4].Done)

		l.Advance(time.Second)
		assert.True(t, l.Asked()[3].Done)
		assert.True(t, l.Asked()[3].Result.Limited)
	})
}

// A change of what the caller passed changes nothing of what was asked.
func TestWhatWasAskedStays(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	call := on("before", hourly)
	decide(t, l, call)
	call.Keys[0].Name = "after"
	assert.Equal(t, "before", l.Asked()[0].Call.Keys[0].Name)
}

func TestTheOldestCallsAreForgotten(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	const most = 10_000
	for i := range most + 5 {
		decide(t, l, on(strconv.Itoa(i), hourly))
	}
	asked := l.Asked()
	require.Len(t, asked, most)
	assert.Equal(t, "5", asked[0].Call.Keys[0].Name)
	assert.Equal(t, strconv.Itoa(most+4), asked[most-1].Call.Keys[0].Name)
}
