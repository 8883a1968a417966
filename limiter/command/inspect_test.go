package command

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What CL.INSPECT tells of limits that count units is what CL.PEEK tells to somebody who knows them.
func TestWhatIsStoredIsWhatAPeekFindsThere(t *testing.T) {
	all := []string{"WINDOW 9/m", "WINDOW 300/h", "FIXED 7/m", "FIXED 20/90s", "FIXED 9/m FIRST", "FIXED 40/h FIRST"}
	var used, corrected int
	rapid.Check(t, func(t *rapid.T) {
		limits := rapid.Permutation(all).Draw(t, "limits")[:rapid.IntRange(1, len(all)).Draw(t, "count")]
		line := "k"
		for _, l := range limits {
			line += " " + l
		}
		value, now := "", nowNs
		for range rapid.IntRange(1, 80).Draw(t, "calls") {
			c := decideAt(now, Limit, value, fmt.Sprint(line, " COST ", rapid.IntRange(0, 4).Draw(t, "cost")))
			value = c.First.leaves(value)
			now += rapid.SampledFrom([]int64{0, 1, 100 * ms, nsPerSecond, 40 * nsPerSecond}).Draw(t, "step")
		}
		if rapid.IntRange(0, 3).Draw(t, "back") == 0 {
			now -= rapid.SampledFrom([]int64{ms, 10 * nsPerSecond, 2 * 3600 * nsPerSecond}).Draw(t, "step back")
			corrected++
		}
		if value == "" {
			return
		}
		c, peek := decideAt(now, Inspect, value, "k"), decideAt(now, Peek, value, line+" EACH")
		require.Equal(t, ReplyNested, c.Reply, "%s", c.Error)
		require.Equal(t, 1+len(limits), c.RowCount)
		for i, each := range peek.Each {
			_, said := c.Row(1 + i)
			require.Equal(t, each[1]-each[2], said[1], "%s: units used", limits[i])
			if each[4] == 0 {
				require.Equal(t, []int64{0, 0, 0}, said[2:5], limits[i])
				continue
			}
			used++
			// Both are rounded up: one from now, the other from the epoch.
			require.InDelta(t, now/ms+each[4], said[4], 1, "%s: all units are back", limits[i])
			require.True(t, said[3] <= said[4] && said[3] >= now/ms, "%s: the first is back at %d, all at %d", limits[i], said[3], said[4])
		}
	})
	require.Greater(t, used, 100)
	require.Positive(t, corrected)
}

// Whatever a key holds and whenever it expires, CL.INSPECT refuses what CL.BAN refuses. All else it tells within
// bounds, and it writes nothing.
func FuzzInspect(f *testing.F) {
	stacked := valueAfter(f, "k RATE 5/s WINDOW 100/m FIXED 1000/d FIXED 1000/h FIRST COST 3")
	counted := valueAfter(f, "k FIXED 1/d BAN 1m AFTER 3/1h", "k FIXED 1/d BAN 1m AFTER 3/1h")
	for _, value := range []string{
		"", "0", "18446744073709551615", "18446744073709551616", tatIn(5), stacked, counted, banned(nsPerSecond, ""), banned(nsPerSecond, stacked),
		valueAfter(f, "k RATE 5/s COST 5", "k RATE 5/s COST 5 MAXWAIT 1s"),
		valueAfter(f, "k FIXED 1000/mo TZ Europe/Berlin FIXED 9223372036854775807/106751d COST 9223372036854775807"),
		valueAfter(f, "k WINDOW 9223372036854775807/ms COST 9223372036854775807"), crowdedWindow(f), stacked[:20], stacked + "x",
	} {
		f.Add([]byte(value), nowNs, nowNs/ms)
		f.Add([]byte(value), int64(0), int64(0))
		f.Add([]byte(value), int64(math.MaxInt64), int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, value []byte, now, expiresAtMs int64) {
		if now < 0 || expiresAtMs < 0 {
			t.Skip("the server's clock is past 1970")
		}
		c := call("k")
		c.NowNs, c.First.Kind, c.First.Value, c.First.ExpireAtMs = now, String, slices.Clone(value), expiresAtMs
		c.Run(Inspect)
		require.Equal(t, value, c.First.Value, "the value is only looked at")
		require.Equal(t, Keep, c.First.Effect)
		if lift := decideAt(now, Ban, string(value), "k 0"); lift.Reply == ReplyError && len(value) > 0 {
			requireError(t, c, string(lift.Error), "k")
			return
		}
		if len(value) == 0 { // no string that a limiter wrote
			requireError(t, c, wrongValue, "k")
			return
		}
		require.Equal(t, ReplyNested, c.Reply)
		kind, head := c.Row(0)
		require.Contains(t, []string{"rate", "limits", "ban"}, string(kind))
		require.Equal(t, []int64{now / ms, int64(len(value))}, head[:2])
		require.Equal(t, string(kind) == "ban", c.RowCount == 1)
		for i := 1; i < c.RowCount; i++ {
			kind, said := c.Row(i)
			require.Contains(t, []string{"RATE", "WINDOW", "FIXED", "FIRST", "AFTER"}, string(kind))
			period, used, entries, next, reset, queue := said[0], said[1], said[2], said[3], said[4], said[5]
			require.True(t, period == -1 || period > 0, "period %d", period)
			require.True(t, used >= -1 && queue >= 0 && entries >= 0 && entries <= 65, "%v", said)
			require.Equal(t, string(kind) == "WINDOW" && used > 0, entries > 0, "%v", said)
			require.True(t, next >= -1 && reset >= -1 && (reset == -1 || next <= reset), "%v", said)
			require.Equal(t, used == 0, reset == 0, "%v", said)
		}
	})
}
