package tests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// What a call allocates it gives back: allowed, limited, wrong, in a transaction and
// in a script, replicated into an append-only file.
func TestCallsLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.AppendOnly("no"), server.Config("auto-aof-rewrite-percentage 0"))
	c := s.Raw()
	round := func() int64 {
		t.Helper()
		for range 20 {
			var commands [][]string
			for i := range 200 {
				key := fmt.Sprint("key", i%100)
				commands = append(commands,
					rawCallOf(key, "1000 1 1d 1"), rawCallOf(key, "1 1 1d 2"), rawCallOf(key, "x 1 1d"), rawCallOf(key, "1 1"),
					[]string{"MULTI"}, rawCallOf(key, "1000000 10 1s 1"), []string{"EXEC"},
					[]string{"EVAL", "return redis.call('CL.THROTTLE', KEYS[1], 1000, 1, 60, 1)", "1", key})
			}
			_, err := c.Pipeline(commands...)
			require.NoError(t, err)
		}
		return s.InfoInt("memory", "used_memory")
	}
	round() // buffers and tables grow to their size
	before := round()
	after := round()
	// 32,000 commands: a leak of the smallest object there is, 16 bytes, in one kind of
	// them would be 64 KB.
	assert.Less(t, after-before, int64(48<<10), "used_memory")
}

// The module lets Go's threads sleep by raising a thread's timer slack. The server's
// own threads must keep theirs, or its timers come late.
func TestServerThreadsKeepTheirTimers(t *testing.T) {
	t.Parallel()
	with, without := server.Start(t), server.Start(t, server.WithoutModule())
	own := timerSlacks(t, without)[without.Pid()]
	slacks := timerSlacks(t, with)
	assert.Equal(t, own, slacks[with.Pid()], "main thread")
	sleepy := 0
	for tid, slack := range slacks {
		if slack > own {
			sleepy++
			assert.NotContains(t, threadName(t, tid), "bio_", "a thread of the server's")
		}
	}
	assert.Positive(t, sleepy, "Go's threads sleep")
}

// timerSlacks is the timer slack of each of the server's threads, in ns.
func timerSlacks(t *testing.T, s *server.Server) map[int]int64 {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.Pid()))
	require.NoError(t, err)
	slacks := map[int]int64{}
	for _, task := range tasks {
		b, err := os.ReadFile("/proc/" + task.Name() + "/timerslack_ns")
		if os.IsPermission(err) {
			t.Skip("the kernel tells timer slacks only to root")
		}
		require.NoError(t, err)
		tid, err := strconv.Atoi(task.Name())
		require.NoError(t, err)
		slacks[tid], err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		require.NoError(t, err)
	}
	return slacks
}

func threadName(t *testing.T, tid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tid))
	require.NoError(t, err)
	return string(b)
}
