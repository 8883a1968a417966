package clock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/server"
)

// The server's own TIME tells microseconds, and keys expire by the same clock.
func TestAServerGoesByTheClockItIsGiven(t *testing.T) {
	t.Parallel()
	const start = 1_800_000_000_123_456_789
	c := clock.New(t, start)
	raw := c.Start().Raw()
	do := func(args ...string) string {
		v, err := raw.Do(args...)
		require.NoError(t, err)
		if len(v.Elems) == 2 {
			return v.Elems[0].Text + "." + v.Elems[1].Text
		}
		return v.String()
	}
	assert.Equal(t, "1800000000.123456", do("TIME"))
	do("SET", "key", "value", "PXAT", strconv.Itoa(1_800_000_060_000))
	for _, step := range []struct {
		atNs        int64
		time, value string
	}{
		{start, "1800000000.123456", `"value"`},
		{1_700_000_000_000_000_999, "1700000000.0", `"value"`},
		{1_800_000_060_000_000_000, "1800000060.0", `"value"`},
		{1_800_000_060_001_000_000, "1800000060.1000", "(null)"},
		{start, "1800000000.123456", "(null)"}, // it was found to have expired
	} {
		c.Set(step.atNs)
		assert.Equal(t, step.time, do("TIME"))
		assert.Equal(t, step.value, do("GET", "key"), "at %s", step.time)
	}
}

// Each host's clock is ahead of or behind the others by what it is told.
func TestClocksOfHostsDiffer(t *testing.T) {
	t.Parallel()
	const start = 1_800_000_000_000_000_000
	c := clock.New(t, start)
	p, err := server.DefaultProgram()
	require.NoError(t, err)
	a, b := server.Start(t, server.Run(c.ProgramOn(0, p, nil))), server.Start(t, server.Run(c.ProgramOn(1, p, nil)))
	seconds := func(s *server.Server) string { return s.MustDo("TIME").Elems[0].Text }
	c.SetAhead(1, -20e9)
	assert.Equal(t, "1800000000", seconds(a))
	assert.Equal(t, "1799999980", seconds(b))
	c.Set(start + 5e9)
	c.SetAhead(0, 1e9)
	assert.Equal(t, "1800000006", seconds(a))
	assert.Equal(t, "1799999985", seconds(b))
}

// A clock that runs is the kernel's, and a step moves it at once.
func TestAClockRunsAndSteps(t *testing.T) {
	t.Parallel()
	c := clock.Running(t)
	s := c.Start()
	seconds := func() int64 {
		n, err := strconv.ParseInt(s.MustDo("TIME").Elems[0].Text, 10, 64)
		require.NoError(t, err)
		return n
	}
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		c.SetAhead(0, int64(ahead))
		from := time.Now().Add(ahead).Unix()
		at := seconds()
		assert.GreaterOrEqual(t, at, from)
		assert.LessOrEqual(t, at, time.Now().Add(ahead).Unix())
		require.Eventually(t, func() bool { return seconds() > at }, time.Minute, time.Millisecond, "it runs")
	}
}

// What a timer of the module does is at the instant of that clock, too: nobody tells the module the time then.
func TestAModuleGoesByTheClockItsServerIsGiven(t *testing.T) {
	t.Parallel()
	s := clock.New(t, 1_800_000_000_000_000_000).Start()
	s.MustDo("CL.LEASE", "key", "SLOTS", "1", "TTL", "10s", "ID", "a")
	waiter := s.Raw()
	require.NoError(t, waiter.Send("CL.LEASE", "key", "SLOTS", "1", "TTL", "10s", "ID", "b", "TIMEOUT", "1m"))
	require.NoError(t, waiter.Flush())
	require.Eventually(t, func() bool { return s.InfoInt("throttle", "throttle_leases_waiting") == 1 }, time.Minute, time.Millisecond)
	s.MustDo("CL.RELEASE", "key", "ID", "a")
	_, err := waiter.Receive()
	require.NoError(t, err)
	assert.Equal(t, "1800000010000", s.MustDo("ZSCORE", "key", "b").Text)
}
