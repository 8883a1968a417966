package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A quota of a month is not forgotten because another call names a rate.
func TestAQuotaOfAMonthOutlivesCallsWithOtherLimits(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	for attempt := 0; ; attempt++ {
		month := time.Unix(0, kit.NowIn(t, c)).UTC().Month()
		key := fmt.Sprint("q", attempt)
		require.EqualValues(t, 0, kit.Ask(t, c, "CL.LIMIT %s FIXED 5/mo COST 5", key).Limited)
		expires := kit.Do(t, c, "PTTL %s", key).Int
		require.EqualValues(t, 0, kit.Ask(t, c, "CL.LIMIT %s RATE 5/s", key).Limited)
		after := kit.Do(t, c, "PTTL %s", key).Int
		limited := kit.Ask(t, c, "CL.LIMIT %s FIXED 5/mo", key).Limited
		if time.Unix(0, kit.NowIn(t, c)).UTC().Month() != month {
			continue // the next month has begun in between
		}
		assert.EqualValues(t, 1, limited)
		assert.LessOrEqual(t, after, expires, "the key lives to the end of the month")
		assert.Greater(t, after, expires-120_000)
		return
	}
}

// During a rolling deploy some callers name the old limit, and some the new one. Each of the two holds.
func TestInARollingDeployOldAndNewLimitsHold(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	for _, old := range []string{"FIXED 3/60s", "WINDOW 3/60s", "FIXED 3/60s FIRST"} {
		key := strings.Fields(old)[0] + fmt.Sprint(len(old))
		began := kit.NowIn(t, c)
		allowed := int64(0)
		for i := range 12 {
			allowed += 1 - kit.Ask(t, c, "CL.LIMIT %s %s", key, []string{old, strings.Replace(old, "60s", "61s", 1)}[i%2]).Limited
		}
		ended := kit.NowIn(t, c)
		windows := func(period time.Duration) int64 { return 1 + ended/int64(period) - began/int64(period) }
		assert.GreaterOrEqual(t, allowed, int64(6), old)
		assert.LessOrEqual(t, allowed, 3*(windows(time.Minute)+windows(61*time.Second)), old)
	}
}

// A caller that can choose the kind of limit for a key cannot make it forget another one.
func TestACallerThatChoosesTheKindWipesNothing(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	others := []string{"WINDOW 9/s", "FIXED 9/s", "FIXED 9/s FIRST", "FIXED 9/d", "RATE 9/s", "WINDOW 9/2h RATE 9/1m FIXED 9/mo"}
	for i, quota := range []string{"WINDOW 5/100d", "FIXED 5/36500d", "FIXED 5/100d FIRST", "FIXED 5/100y", "RATE 5/100d BURST 5 WINDOW 5/100d"} {
		key := fmt.Sprint("k", i)
		require.EqualValues(t, 0, kit.Ask(t, c, "CL.LIMIT %s %s COST 5", key, quota).Limited)
		for _, other := range others {
			for _, call := range []string{"CL.LIMIT %s %s", "CL.LIMIT %s %s COST 99 STRICT", "CL.LIMIT %s %s FORCE", "CL.MLIMIT 1 %s %s", "CL.MLIMIT 1 %s %s ANY", "CL.REFUND %s %s", "CL.PEEK %s %s"} {
				require.False(t, kit.Do(t, c, call, key, other).IsError())
				require.EqualValues(t, 1, kit.Ask(t, c, "CL.LIMIT %s %s", key, quota).Limited, "%s %s, %s", call, other, quota)
			}
		}
		kit.Do(t, c, "CL.BAN %s 1h", key)
		kit.Do(t, c, "CL.LIMIT %s WINDOW 9/s FORCE", key)
		kit.Do(t, c, "CL.BAN %s 0", key)
		require.EqualValues(t, 1, kit.Ask(t, c, "CL.LIMIT %s %s", key, quota).Limited, "charged behind a ban: %s", quota)
	}
}

// Of nine limits the one is forgotten that is full soonest, and never one that the call names.
func TestOfNineLimitsTheOneThatIsFullSoonestIsForgotten(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	for _, hours := range []int{5, 9, 2, 7, 3, 8, 4, 6} {
		kit.Ask(t, c, "CL.LIMIT k WINDOW 1/%dh", hours)
	}
	require.EqualValues(t, 0, kit.Ask(t, c, "CL.LIMIT k WINDOW 1/1h").Limited)
	for hours := 1; hours <= 9; hours++ {
		want := int64(1)
		if hours == 2 {
			want = 0
		}
		assert.Equal(t, want, kit.Ask(t, c, "CL.PEEK k WINDOW 1/%dh", hours).Limited, hours)
	}
}

// CL.THROTTLE finds its rate beside other limits, and leaves them alone. When it is alone again, the value is redis-cell's.
func TestThrottleOnAKeyWithOtherLimits(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	throttle := func(quantity int) []int64 {
		v, err := kit.Do(t, c, "CL.THROTTLE k 4 5 86400 %d", quantity).Ints()
		require.NoError(t, err)
		return v
	}
	require.Equal(t, []int64{0, 5, 1, -1}, throttle(4)[:4])
	tat := kit.Do(t, c, "GET k").Text
	require.EqualValues(t, 4, kit.Ask(t, c, "CL.LIMIT k WINDOW 5/100d").Remaining)
	require.Equal(t, []int64{0, 5, 0, -1}, throttle(1)[:4], "as if it was alone")
	require.EqualValues(t, 1, throttle(1)[0])
	require.EqualValues(t, 4, kit.Ask(t, c, "CL.PEEK k WINDOW 5/100d").Remaining)
	require.EqualValues(t, 0, kit.Ask(t, c, "CL.PEEK k RATE 5/d").Remaining)

	require.EqualValues(t, 5, kit.Ask(t, c, "CL.REFUND k WINDOW 5/100d").Remaining)
	v, err := kit.Do(t, c, "CL.THROTTLE k 9 5 86400").Ints()
	require.NoError(t, err)
	require.EqualValues(t, 0, v[0])
	assert.Greater(t, kit.TATIn(t, kit.Do(t, c, "GET k")), mustInt(t, tat), "redis-cell's number again")
}

func mustInt(t *testing.T, text string) (n int64) {
	_, err := fmt.Sscan(text, &n)
	require.NoError(t, err)
	return n
}

// That a limit is full which a call does not name is no reason to write.
func TestACallThatChangesNothingKeepsWhatIsFull(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	kit.Ask(t, w.Conn, "CL.LIMIT k FIXED 1/1ms")
	kit.Ask(t, w.Conn, "CL.LIMIT k WINDOW 1/1h")
	before := w.Traces(t, "k")
	require.EqualValues(t, 1, kit.Ask(t, w.Conn, "CL.LIMIT k WINDOW 1/1h").Limited)
	require.Eventually(t, func() bool { return kit.Ask(t, w.Conn, "CL.PEEK k FIXED 1/1ms").Limited == 0 }, 30*time.Second, time.Millisecond)
	require.EqualValues(t, 1, kit.Ask(t, w.Conn, "CL.LIMIT k WINDOW 1/1h").Limited)
	require.EqualValues(t, 1, kit.Ask(t, w.Conn, "CL.LIMIT k WINDOW 1/1h COST 0").Granted+1)
	assert.Equal(t, before, w.Traces(t, "k"))
}

// A reservation of CL.WAIT neither forgets other limits nor is forgotten by calls that name others. A caller that leaves gives
// its slot back, and everything else stays.
func TestAReservationAndOtherLimitsLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Ask(t, c, "CL.LIMIT k WINDOW 5/100d COST 5")
	require.EqualValues(t, 0, kit.Ask(t, c, "CL.LIMIT k RATE 1/h").Limited)
	first := kit.StartWaiting(t, s, "CL.WAIT k RATE 1/h TIMEOUT 0")
	kit.AwaitWaiting(t, c, 1)
	second := kit.StartWaiting(t, s, "CL.WAIT k RATE 1/h TIMEOUT 0")
	kit.AwaitWaiting(t, c, 2)
	kit.Ask(t, c, "CL.LIMIT k FIXED 5/36500d COST 5")
	reset := kit.Ask(t, c, "CL.PEEK k RATE 1/h").ResetAfterMs
	require.Greater(t, reset, int64(2*3_600_000))
	require.NoError(t, first.Close())
	kit.AwaitWaiting(t, c, 1)
	require.Eventually(t, func() bool {
		return kit.Ask(t, c, "CL.PEEK k RATE 1/h").ResetAfterMs <= reset-3_500_000
	}, 30*time.Second, time.Millisecond, "one slot is given back")
	require.NoError(t, second.Close())
	kit.AwaitWaiting(t, c, 0)
	require.Eventually(t, func() bool {
		return kit.Ask(t, c, "CL.PEEK k RATE 1/h").ResetAfterMs <= 3_600_000
	}, 30*time.Second, time.Millisecond, "and the other one")
	for _, quota := range []string{"WINDOW 5/100d", "FIXED 5/36500d", "RATE 1/h"} {
		assert.EqualValues(t, 1, kit.Ask(t, c, "CL.PEEK k %s", quota).Limited, quota)
	}
}
