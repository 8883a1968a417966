package commands_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Thirty per minute, scaled down: 20 units shortly before a calendar window ends, and 20
// more as soon as the next has begun. FIXED lets all 40 in. WINDOW lets 30 in, and tells the
// 31st exactly when.
func TestBoundaryBurst(t *testing.T) {
	t.Parallel()
	const period = 3 * time.Second
	c := server.Start(t).Raw()
	phase := func() time.Duration { return time.Duration(kit.NowIn(t, c) % int64(period)) }
	for attempt := 0; ; attempt++ {
		require.Less(t, attempt, 10, "the machine never runs for %v at a time", period)
		fixed, window := fmt.Sprint("fixed", attempt), fmt.Sprint("window", attempt)
		for phase() < period*2/3 {
			time.Sleep(time.Millisecond)
		}
		first, from, to := kit.Timed(t, c, "CL.LIMIT "+fixed+" FIXED 30/3s COST 20", "CL.LIMIT "+window+" WINDOW 30/3s COST 20")
		for phase() > period/2 {
			time.Sleep(time.Millisecond)
		}
		second, secondFrom, secondTo := kit.Timed(t, c, "CL.LIMIT "+fixed+" FIXED 30/3s COST 20",
			"CL.LIMIT "+window+" WINDOW 30/3s COST 20 UPTO", "CL.LIMIT "+window+" WINDOW 30/3s")
		hasBegun := (secondFrom+int64(kit.ClockSkew))/int64(period) > from/int64(period)
		if from/int64(period) != to/int64(period) || !hasBegun || secondTo-from >= int64(period) {
			continue // this machine was busy elsewhere
		}
		var granted [2]int64
		for _, replies := range [][]resp.Value{first, second} {
			for j := range granted {
				a, err := kit.StandingIn(replies[j])
				require.NoError(t, err)
				granted[j] += a.Granted
			}
		}
		assert.EqualValues(t, 40, granted[0], "FIXED within %v", time.Duration(secondTo-from))
		assert.EqualValues(t, 30, granted[1], "WINDOW")

		the31st, err := kit.StandingIn(second[2])
		require.NoError(t, err)
		assert.EqualValues(t, 1, the31st.Limited)
		assert.GreaterOrEqual(t, the31st.RetryAfterMs, kit.CeilMs(from+int64(period)-secondTo))
		assert.LessOrEqual(t, the31st.RetryAfterMs, kit.CeilMs(to+int64(period)-secondFrom))
		for allowed := false; !allowed; time.Sleep(time.Millisecond) {
			peek, peekFrom, peekTo := kit.Timed(t, c, "CL.PEEK "+window+" WINDOW 30/3s")
			a, err := kit.StandingIn(peek[0])
			require.NoError(t, err)
			allowed = a.Limited == 0
			require.True(t, !allowed || peekTo >= from+int64(period), "a unit came back too early")
			require.True(t, allowed || peekFrom <= to+int64(period), "a unit came back too late")
		}
		return
	}
}

func TestStackChargesNothingWhenOneDenies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		limits string
		takes  int   // so many calls get through
		rule   int64 // the limit that then denies
	}{
		{"RATE 5/h RATE 100000/d", 5, 1},
		{"RATE 100000/d RATE 5/h", 5, 2},
		{"WINDOW 100/h FIXED 3/d RATE 9/h", 3, 2},
		{"FIXED 100/d RATE 9/h WINDOW 3/h", 3, 3},
		{"RATE 1/h RATE 2/h RATE 3/h RATE 4/h RATE 5/h RATE 6/h RATE 7/h RATE 8/h", 1, 1},
	} {
		t.Run(tc.limits, func(t *testing.T) {
			t.Parallel()
			w := kit.StartWatched(t)
			for range tc.takes {
				a := kit.Ask(t, w.Conn, "CL.LIMIT key %s", tc.limits)
				require.EqualValues(t, 0, a.Limited)
				require.Equal(t, tc.rule, a.Rule, "while allowed: the one with the fewest units left")
			}
			before := w.Traces(t, "key")
			for range 3 {
				a := kit.Ask(t, w.Conn, "CL.LIMIT key %s", tc.limits)
				assert.Equal(t, []int64{1, tc.rule, 0, 0}, []int64{a.Limited, a.Rule, a.Remaining, a.Granted})
				assert.Positive(t, a.RetryAfterMs)
			}
			a := kit.Ask(t, w.Conn, "CL.LIMIT key %s COST 1000000", tc.limits)
			assert.Equal(t, []int64{1, -1}, []int64{a.Limited, a.RetryAfterMs}, "more than there ever is")
			kit.Ask(t, w.Conn, "CL.PEEK key %s COST 2", tc.limits)
			assert.Equal(t, before, w.Traces(t, "key"))
		})
	}
}

// Of several limits that deny, the one with the longest wait is told.
func TestRuleOfADenialHasTheLongestWait(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	const limits = "RATE 1/h WINDOW 1/d RATE 1/2h"
	kit.Ask(t, c, "CL.LIMIT key %s", limits)
	a := kit.Ask(t, c, "CL.LIMIT key %s", limits)
	assert.Equal(t, []int64{1, 2}, []int64{a.Limited, a.Rule})
}

func TestChangedLimitKeepsTheOthersState(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	kit.Ask(t, c, "CL.LIMIT key RATE 10/h FIXED 100/365d WINDOW 50/d COST 5")
	for _, tc := range []struct {
		limits string
		rule   int64
		left   int64
	}{
		{"RATE 10/h FIXED 100/365d WINDOW 50/d", 1, 5},
		{"WINDOW 50/d", 1, 45},
		{"FIXED 100/365d", 1, 95},
		{"FIXED 20/365d", 1, 15},                 // lowered
		{"FIXED 4/365d", 1, 0},                   // below what was taken
		{"RATE 20/h BURST 17 WINDOW 50/d", 1, 7}, // half an hour of backlog is 10 units now
		{"FIXED 1000/365d WINDOW 500/d", 2, 495}, // raised
		{"RATE 3/2d WINDOW 50/d", 1, 3},          // a period of its own: starts full
		{"WINDOW 50/d FIXED 100/365d RATE 10/h", 3, 5},
	} {
		a := kit.Ask(t, c, "CL.PEEK key %s COST 0", tc.limits)
		assert.Equal(t, []int64{tc.rule, tc.left}, []int64{a.Rule, a.Remaining}, tc.limits)
	}
	// Not only for the eye: a call with other limits leaves the state of those it names.
	kit.Ask(t, c, "CL.LIMIT key RATE 10/h WINDOW 60/d COST 2")
	assert.EqualValues(t, 53, kit.Ask(t, c, "CL.PEEK key WINDOW 60/d").Remaining)
	assert.EqualValues(t, 3, kit.Ask(t, c, "CL.PEEK key RATE 10/h").Remaining)
}

// A single rate is the same state in both commands.
func TestKeyIsSharedWithThrottle(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	assert.EqualValues(t, 15, kit.Ask(t, c, "CL.LIMIT key RATE 30/h BURST 16").Remaining)
	assert.Positive(t, kit.TATIn(t, kit.Do(t, c, "GET key")), "a plain TAT")
	a, err := kit.AnswerIn(kit.Do(t, c, "CL.THROTTLE key 15 30 1h 4"))
	require.NoError(t, err)
	assert.EqualValues(t, 11, a.Remaining)
	assert.EqualValues(t, 11, kit.Ask(t, c, "CL.PEEK key RATE 30/h BURST 16").Remaining)
	assert.EqualValues(t, 13, kit.Ask(t, c, "CL.REFUND key RATE 30/h BURST 16 COST 2").Remaining)
	a, err = kit.AnswerIn(kit.Do(t, c, "CL.THROTTLE key 15 30 1h 14"))
	require.NoError(t, err)
	assert.EqualValues(t, 1, a.Limited)
	assert.Positive(t, kit.TATIn(t, kit.Do(t, c, "GET key")))

	kit.Ask(t, c, "CL.LIMIT stack RATE 30/h BURST 16 RATE 5/d COST 5")
	a, err = kit.AnswerIn(kit.Do(t, c, "CL.THROTTLE stack 15 30 1h 11"))
	require.NoError(t, err)
	assert.EqualValues(t, 0, a.Remaining, "the RATE of the same period")
	assert.EqualValues(t, 0, kit.Ask(t, c, "CL.PEEK stack RATE 5/d").Remaining, "the other RATE is kept")
}

// Reservations ahead are no damaged TAT to CL.THROTTLE: it denies until they are over.
func TestThrottleRespectsReservations(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	for i := range int64(4) {
		a := kit.Ask(t, w.Conn, "CL.LIMIT key RATE 1/h BURST 1 MAXWAIT 1d")
		require.EqualValues(t, 0, a.Limited)
		require.InDelta(t, i*3_600_000, a.WaitMs, 60_000)
	}
	before := w.Traces(t, "key")
	a, err := kit.AnswerIn(w.Call(t, kit.RawCallOf("key", "0 1 1h")...))
	require.NoError(t, err)
	assert.EqualValues(t, 1, a.Limited)
	assert.InDelta(t, 4*3600, a.RetryAfter, 60)
	assert.InDelta(t, 4*3600, a.ResetAfter, 60)
	assert.Equal(t, before, w.Traces(t, "key"))
	// A larger bucket of the same rate has room.
	a, err = kit.AnswerIn(w.Call(t, kit.RawCallOf("key", "9 1 1h")...))
	require.NoError(t, err)
	assert.EqualValues(t, 0, a.Limited)
}

func TestRefundRestoresWhatATakeTook(t *testing.T) {
	t.Parallel()
	for _, limits := range []string{
		"RATE 10/h", "RATE 10/h BURST 50", "WINDOW 20/h", "FIXED 20/365d",
		"RATE 10/h RATE 100/d", "RATE 10/h WINDOW 20/d FIXED 100/365d",
	} {
		t.Run(limits, func(t *testing.T) {
			t.Parallel()
			w := kit.StartWatched(t)
			holds := func() []string {
				return []string{w.Call(t, "DUMP", "key").String(), w.Call(t, "TTL", "key").String()}
			}
			empty := holds()
			kit.Ask(t, w.Conn, "CL.LIMIT key %s COST 7", limits)
			a := kit.Ask(t, w.Conn, "CL.REFUND key %s COST 7", limits)
			assert.EqualValues(t, -7, a.Granted)
			assert.Equal(t, empty, holds(), "the key is gone")

			kit.Ask(t, w.Conn, "CL.LIMIT key %s COST 2", limits)
			kit.Ask(t, w.Conn, "CL.LIMIT key %s", limits)
			dump, expiry := w.Call(t, "DUMP", "key").String(), w.Call(t, "PEXPIRETIME", "key").String()
			for cost := range 6 {
				kit.Ask(t, w.Conn, "CL.LIMIT key %s COST %d", limits, cost)
				kit.Ask(t, w.Conn, "CL.REFUND key %s COST %d", limits, cost)
				require.Equal(t, dump, w.Call(t, "DUMP", "key").String(), "COST %d", cost)
				require.Equal(t, expiry, w.Call(t, "PEXPIRETIME", "key").String(), "COST %d", cost)
			}

			a = kit.Ask(t, w.Conn, "CL.REFUND key %s COST 1000", limits)
			assert.EqualValues(t, []int64{a.Limit, -3, 0, 0}, []int64{a.Remaining, a.Granted, a.ResetAfterMs, a.NextAfterMs}, "never above full")
			assert.Equal(t, empty, holds())
			before := w.Traces(t, "key")
			kit.Ask(t, w.Conn, "CL.REFUND key %s", limits)
			assert.Equal(t, before, w.Traces(t, "key"), "nothing to give back, nothing to write")
		})
	}
}

// A WINDOW stays small whatever its traffic. 1.2 KB is what the server takes for all of
// the key: its name, its value, its expiry.
func TestWindowKeyStaysSmall(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	var most int64
	for since := time.Now(); time.Since(since) < 1500*time.Millisecond; {
		var commands [][]string
		for i := range 200 {
			commands = append(commands,
				[]string{"CL.LIMIT", "many", "WINDOW", "1000000000/s", "COST", fmt.Sprint(1 + i%7)},
				[]string{"CL.LIMIT", "slow", "WINDOW", "1000000000000/365d", "COST", fmt.Sprint(1 << (i % 30))},
				[]string{"CL.REFUND", "many", "WINDOW", "1000000000/s"})
		}
		commands = append(commands, []string{"MEMORY", "USAGE", "many"}, []string{"MEMORY", "USAGE", "slow"})
		replies, err := c.Pipeline(commands...)
		require.NoError(t, err)
		for i, v := range replies[:600] {
			require.False(t, v.IsError(), "%q answers %v", commands[i], v)
		}
		most = max(most, replies[600].Int, replies[601].Int)
	}
	t.Logf("at most %d bytes", most)
	assert.LessOrEqual(t, most, int64(1228))
}
