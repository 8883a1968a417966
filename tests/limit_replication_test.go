package tests

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// anyCall is a well-formed call of any command that does not block, on one of 200 keys,
// and now and then a command of the server's own on such a key. Limits last long enough
// for no key to expire in a test.
func anyCall(random *rand.Rand) []string {
	i := random.IntN(200)
	key := fmt.Sprint("key", i)
	limits := []string{
		"RATE 100/h", "RATE 100/h BURST 500", "WINDOW 100/h", "FIXED 1000/365d", "RATE 50/h RATE 1000/d",
		"RATE 50/h WINDOW 100/d FIXED 10000/365d", "WINDOW 1000/h WINDOW 5000/d",
		"FIXED 1000/5y TZ Europe/Berlin OFFSET 6h FIXED 5000/300w", "FIXED 1000/365d FIRST RATE 100/h",
	}[i%9]
	cost := strconv.Itoa([]int{0, 1, 1, 1, 2, 3, 10, 1000}[random.IntN(8)])
	words := strings.Fields(limits + " COST " + cost)
	switch random.IntN(10) {
	case 0:
		return append([]string{"CL.PEEK", key}, words...)
	case 1:
		return append([]string{"CL.REFUND", key}, words...)
	case 2:
		return append(append([]string{"CL.LIMIT", key}, words...), "STRICT")
	case 3:
		return append(append([]string{"CL.LIMIT", key}, words...), "UPTO")
	case 4, 5:
		if i%9 < 2 {
			return append([]string{"CL.THROTTLE", key}, "99", "100", "1h", cost)
		}
	case 6:
		if i%9 < 2 || i%9 == 4 {
			return append(append([]string{"CL.LIMIT", key}, words...), "MAXWAIT", "1d")
		}
	case 7:
		if random.IntN(20) == 0 {
			return [][]string{{"DEL", key}, {"PERSIST", key}, {"EXPIRE", key, "100000"}}[random.IntN(3)]
		}
	}
	return append([]string{"CL.LIMIT", key}, words...)
}

// pipeline sends n random calls, none of which may fail.
func pipeline(t *testing.T, c *resp.Conn, random *rand.Rand, n int) {
	t.Helper()
	for n > 0 {
		commands := make([][]string, min(n, 500))
		for i := range commands {
			commands[i] = anyCall(random)
		}
		n -= len(commands)
		replies, err := c.Pipeline(commands...)
		require.NoError(t, err)
		for i, v := range replies {
			require.False(t, v.IsError(), "%q answers %v", commands[i], v)
		}
	}
}

// After any calls, replicas with and without the module, and readers of the
// append-only file, hold the same bytes and expiries.
func TestAnyCallsEndByteEqualEverywhere(t *testing.T) {
	t.Parallel()
	quiet := topology.QuietLinks()
	s := server.Start(t, server.AppendOnly("no"), quiet)
	with := server.Start(t, server.ReplicaOf(s), quiet)
	without := server.Start(t, server.ReplicaOf(s), server.WithoutModule(), quiet)
	topology.AwaitReplicas(t, s, with, without)
	pipeline(t, s.Raw(), chance.New(t), 20_000)
	topology.AwaitReplicas(t, s, with, without)
	want := topology.RequireCopies(t, s, with, without)
	require.Greater(t, len(want), 100)

	// A replica answers as its master does, except for the clock.
	master, replica := s.Raw(), with.Raw()
	for key := range want {
		a, err := master.Do("CL.PEEK", key, "RATE", "100/h", "COST", "0")
		require.NoError(t, err)
		b, err := replica.Do("CL.PEEK", key, "RATE", "100/h", "COST", "0")
		require.NoError(t, err)
		onMaster, err := standingIn(a)
		require.NoError(t, err)
		onReplica, err := standingIn(b)
		require.NoError(t, err)
		assert.Equal(t, onMaster.Limit, onReplica.Limit)
		assert.InDelta(t, onMaster.ResetAfterMs, onReplica.ResetAfterMs, 60_000, key)
	}
	for _, call := range []string{"CL.LIMIT key RATE 1/h", "CL.REFUND key RATE 1/h", "CL.WAIT key RATE 1/h TIMEOUT 1s"} {
		v := do(t, replica, "%s", call)
		assert.True(t, strings.HasPrefix(v.Text, "READONLY "), "%s answers %v", call, v)
	}

	s.Configure(server.WithoutModule())
	s.Restart()
	topology.RequireEqual(t, want, topology.Read(t, s), "a server without the module that read the AOF")
}

func TestWhatTakesNothingMovesNoOffset(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	limits := []string{"RATE 2/d", "WINDOW 2/d", "FIXED 2/365d", "RATE 2/d WINDOW 9/d FIXED 9/365d"}
	for i, l := range limits {
		ask(t, w.conn, "CL.LIMIT key%d %s COST 2", i, l)
	}
	for i, l := range limits {
		before := w.traces(t, fmt.Sprint("key", i))
		for _, command := range []string{
			"CL.LIMIT key%d %s", "CL.LIMIT key%d %s UPTO", "CL.LIMIT key%d %s COST 0", "CL.PEEK key%d %s",
			"CL.PEEK key%d %s COST 3", "CL.REFUND key%d %s COST 0", "CL.PEEK unused%d %s", "CL.REFUND unused%d %s",
		} {
			ask(t, w.conn, command, i, l)
		}
		assert.Equal(t, before, w.traces(t, fmt.Sprint("key", i)), l)
	}
	for range 4 {
		ask(t, w.conn, "CL.LIMIT queue RATE 1/h BURST 1 MAXWAIT 3h")
	}
	before := w.traces(t, "queue")
	for _, command := range []string{"CL.LIMIT queue RATE 1/h BURST 1 MAXWAIT 3h", "CL.WAIT queue RATE 1/h BURST 1 TIMEOUT 1h", "CL.PEEK queue RATE 1/h BURST 1"} {
		assert.EqualValues(t, 1, ask(t, w.conn, "%s", command).Limited)
	}
	assert.Equal(t, before, w.traces(t, "queue"))
}
