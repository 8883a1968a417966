package clock_test

import (
	"strconv"
	"testing"

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
