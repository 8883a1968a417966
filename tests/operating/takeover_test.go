package operating_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A key may come from elsewhere: from redis-cell, from this limiter with another
// rate, from a server whose clock was wrong.

// redis-cell stores SET key TAT PX ms. Its buckets go on as they are.
func TestKeysOfRedisCellAreContinued(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	l := kit.LimitOf(15, 30, time.Minute)
	for i, ahead := range []time.Duration{-time.Hour, 0, time.Second, 10 * time.Second, 31 * time.Second, 32 * time.Second} {
		key := fmt.Sprint("key", i)
		tat := time.Now().Add(ahead).UnixNano()
		_, err := c.Do("SET", key, fmt.Sprint(tat), "PX", "40000")
		require.NoError(t, err)
		for _, quantity := range []int64{0, 1, 3} {
			p := kit.Probes(t, c, 1, key, fmt.Sprint("15 30 60 ", quantity))[0]
			if quantity == 0 {
				require.Equal(t, tat, p.TATAfter)
			}
			l.Judge(t, p, quantity)
		}
	}
}

// A day's unit is spent, then the limit is raised to 100 per second. The old TAT is a
// day away; it is read as an empty bucket of the new limit, which fills from then on.
func TestRaisedRateLetsCallersInSoon(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	spent := kit.Probes(t, w.Conn, 1, "key", "0 1 1d 1")[0]
	require.EqualValues(t, 0, spent.Limited)
	w.Stream.Drain()

	l := kit.LimitOf(0, 100, time.Second)
	peek := kit.Probes(t, w.Conn, 1, "key", "0 100 1 0")[0]
	l.Judge(t, peek, 0)
	assert.Equal(t, spent.TATAfter, peek.TATAfter, "a peek writes nothing, not even here")

	first := kit.Probes(t, w.Conn, 1, "key", "0 100 1 1")[0]
	l.Judge(t, first, 1)
	require.EqualValues(t, 1, first.Limited, "empty at first")
	assert.Equal(t, [][]string{effect("key", first.TATAfter, -1)}, w.Stream.Drain(), "replicas are told of the correction")

	var next kit.Probe
	require.Eventually(t, func() bool {
		next = kit.Probes(t, w.Conn, 1, "key", "0 100 1 1")[0]
		l.Judge(t, next, 1)
		return next.Limited == 0
	}, 30*time.Second, time.Millisecond)
	assert.GreaterOrEqual(t, next.To, first.From+int64(10*time.Millisecond), "not before a unit came back")
}

// A clock that was ahead left a TAT that the clock of today will not reach for years.
func TestTATFromAWrongClockHeals(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	l := kit.LimitOf(4, 100, time.Second)
	for i, tat := range []string{"9223372036854775807", fmt.Sprint(time.Now().AddDate(10, 0, 0).UnixNano())} {
		key := fmt.Sprint("key", i)
		_, err := c.Do("SET", key, tat)
		require.NoError(t, err)
		admitted := 0
		require.Eventually(t, func() bool {
			p := kit.Probes(t, c, 1, key, "4 100 1 1")[0]
			l.Judge(t, p, 1)
			admitted += 1 - int(p.Limited)
			return admitted >= 10
		}, 30*time.Second, time.Millisecond)
	}
	// The largest TAT of all is of 64 bits.
	_, err := c.Do("SET", "largest", "18446744073709551615")
	require.NoError(t, err)
	v, err := c.Do(kit.RawCallOf("largest", "4 100 1 1")...)
	require.NoError(t, err)
	assert.Equal(t, "*[1 5 0 1 1]", v.String())
}

// A lowered rate keeps what was taken: time already owed is not forgiven.
func TestLoweredRateGivesNothingBack(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	for _, p := range kit.Probes(t, c, 10, "key", "9 10 10 1") {
		kit.LimitOf(9, 10, 10*time.Second).Judge(t, p, 1)
	}
	slow := kit.LimitOf(9, 10, 100*time.Second)
	for _, p := range kit.Probes(t, c, 12, "key", "9 10 100 1") {
		slow.Judge(t, p, 1)
	}
}
