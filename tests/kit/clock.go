package kit

import (
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// NowIn is the server's clock in ns since the epoch.
func NowIn(t Tester, c *resp.Conn) int64 {
	t.Helper()
	return TimeIn(t, Do(t, c, "TIME"))
}

// TimeIn reads a reply of TIME, in ns.
func TimeIn(t Tester, v resp.Value) int64 {
	t.Helper()
	require.Len(t, v.Elems, 2, "TIME answers %v", v)
	seconds, err := strconv.ParseInt(v.Elems[0].Text, 10, 64)
	require.NoError(t, err)
	micros, err := strconv.ParseInt(v.Elems[1].Text, 10, 64)
	require.NoError(t, err)
	return seconds*int64(time.Second) + micros*int64(time.Microsecond)
}

// Timed is commands in one pipeline, and the server's clock before and after them.
func Timed(t Tester, c *resp.Conn, commands ...string) (replies []resp.Value, from, to int64) {
	t.Helper()
	words := [][]string{{"TIME"}}
	for _, command := range commands {
		words = append(words, strings.Fields(command))
	}
	replies, err := c.Pipeline(append(words, []string{"TIME"})...)
	require.NoError(t, err)
	n := len(replies)
	return replies[1 : n-1], TimeIn(t, replies[0]) - int64(ClockSkew), TimeIn(t, replies[n-1]) + 999 + int64(ClockSkew)
}

// Noon is 2026-12-01T12:00:00Z, when it is 13:00 in Berlin.
var Noon = time.Date(2026, time.December, 1, 12, 0, 0, 0, time.UTC)

// ClockSkew is by how much the processors' clocks may differ: a virtual machine's do, by
// microseconds, and a server may move between two readings of the time.
const ClockSkew = 10 * time.Microsecond
