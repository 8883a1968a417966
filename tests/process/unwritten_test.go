package process_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// The test build fills every call with a pattern before anything of it is written, so what is
// read without having been written is nonsense here.
func TestNothingIsReadThatWasNotWritten(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("modules have configurations since Redis 7.0")
	}
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	top := func(when string) {
		t.Helper()
		c := s.Raw()
		for _, db := range []string{"0", "3"} {
			kit.Do(t, c, "SELECT %s", db)
			for _, call := range []string{"CL.THROTTLE k 0 1 1d", "CL.LIMIT k RATE 1/1d", "CL.WAIT k RATE 1/1d TIMEOUT 1ms",
				"CL.WAIT k WINDOW 1/1d TIMEOUT 1ms", "CL.WAIT k WINDOW 1/1d TIMEOUT 1ms"} {
				kit.Do(t, c, "%s", call)
			}
		}
		keys := kit.Do(t, c, "CL.TOP").Elems
		require.Len(t, keys, 2, when)
		var dbs []string
		for _, key := range keys {
			assert.Equal(t, "k", key.Elems[1].Text)
			dbs = append(dbs, key.Elems[3].String())
		}
		assert.ElementsMatch(t, []string{"0", "3"}, dbs, when)
	}
	s.MustDo("CONFIG", "SET", "throttle.top", "10")
	top("CONFIG SET")
	s.MustDo("MODULE", "UNLOAD", "throttle")
	s.MustDo("MODULE", "LOADEX", path, "CONFIG", "throttle.top", "100")
	top("MODULE LOADEX ... CONFIG")
	s.MustDo("MODULE", "UNLOAD", "throttle")
	s.MustDo("MODULE", "LOADEX", path, "ARGS", "top", "100")
	top("MODULE LOADEX ... ARGS")
}

// A value up to 512 bytes is given room to grow, as the server does it. A longer one takes no more memory than it
// needs. The key is new once, however its value grows and shrinks.
func TestAValueThatGrowsTakesLittleMemory(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t, server.Config("notify-keyspace-events En"))
	s.Program.NeedsCountedKeys(t)
	heard := kit.ListenToEvents(t, s)
	c := s.Raw()
	memory := func(length int) int64 {
		t.Helper()
		require.False(t, kit.Do(t, c, "CL.PROBE 1 key %s", strings.Repeat("x", length)).IsError())
		require.EqualValues(t, length, kit.Do(t, c, "STRLEN key").Int)
		return kit.Do(t, c, "MEMORY USAGE key").Int
	}
	moves, used := 0, memory(100)
	for length := 101; length <= 512; length++ {
		now := memory(length)
		assert.GreaterOrEqual(t, now, used, "%d bytes", length)
		if now != used {
			moves++
		}
		used = now
	}
	assert.LessOrEqual(t, moves, 4, "each time it is moved, it is given twice the room")
	steps := [][]int{{512, 513, 514, 515}, {400, 600}, {600, 2000, 700, 4000, 513}}
	for length := 513; length <= 1100; length++ {
		steps = append(steps, []int{512, length})
	}
	for _, lengths := range steps {
		kit.Do(t, c, "DEL key")
		memory(1)
		for _, length := range lengths {
			used = memory(length)
			if length > 512 {
				assert.LessOrEqual(t, used, int64(length*5/4+200), "%d bytes, of %v", length, lengths)
			}
		}
	}
	assert.Len(t, heard.Drain(t), 1+len(steps), "it was deleted as often")
}

// The memory of a short value is that of an earlier one of the same length.
func TestNewKeysHaveTheirOwnValues(t *testing.T) {
	t.Parallel()
	s, replica := kit.StartCarrying(t)
	c := s.Raw()
	var keys []string
	for length := range 130 {
		if length == 0 {
			continue
		}
		for _, letter := range []string{"a", "b", "c"} {
			key := fmt.Sprint(letter, length)
			kit.Do(t, c, "CL.PROBE 1 %s %s", key, strings.Repeat(letter, length))
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		length, err := strconv.Atoi(key[1:])
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat(key[:1], length), kit.Do(t, c, "GET %s", key).Text)
	}
	kit.RequireReplica(t, s, replica, keys...)
}

// A call reads none of the words of the call before, which may still lie behind its own, and nothing else there. The
// calls of a transaction run one after the other, and their words stay where they are. What surrounds them is text,
// which is no address.
func TestNothingIsReadBehindTheWordsOfACall(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	var fill, free [][]string
	for i := range 800 {
		length := 45 + i%75 // the words of a short call are as long
		if i >= 600 {
			length += 650 // and those of a long one
		}
		fill = append(fill, []string{"SET", fmt.Sprint("text", i), strings.Repeat("x", length)})
		if i%2 == 0 {
			free = append(free, []string{"DEL", fmt.Sprint("text", i)})
		}
	}
	for _, test := range []struct{ before, call, want string }{
		{"CL.LEASE k SLOTS 5 TTL 1m TIMEOUT 1s ID a", "CL.LEASE k SLOTS 5 TTL 1m TIMEOUT 1s", "ERR syntax error: ID is missing"},
		{"CL.LEASE k SLOTS 5 TTL 1m TIMEOUT 1s ID a", "CL.LEASE k SLOTS 5 TTL 1m TIMEOUT 1s ID", "ERR syntax error near 'ID': ID takes 1 to 512 bytes"},
		{"CL.LEASE k TIMEOUT 1s TTL 1m ID a SLOTS 5", "CL.LEASE k TIMEOUT 1s TTL 1m ID a", "ERR syntax error: SLOTS is missing"},
		{"CL.LEASE k TIMEOUT 1s TTL 1m ID a SLOTS 5", "CL.LEASE k TIMEOUT 1s TTL 1m ID a SLOTS", "ERR syntax error near 'SLOTS': SLOTS takes an integer"},
		{"CL.RENEW k COMPACT TTL 1m ID a", "CL.RENEW k COMPACT TTL 1m COMPACT", "ERR syntax error near 'COMPACT': "},
		{"CL.RELEASE k ID b c d", "CL.RELEASE k ID b", "0"},
		{"CL.LEASE k SLOTS 5 TTL 1m ID a", "CL.RELEASE k ID" + strings.Repeat(" b", 90), "0"},
		{"CL.LIMIT k2 RATE 1/1d COST 5", "CL.LIMIT k2 RATE 1/1d COST", "ERR syntax error near 'COST'"},
	} {
		_, err := c.Pipeline(append(fill, free...)...)
		require.NoError(t, err)
		replies, err := c.Pipeline([]string{"MULTI"}, strings.Fields(test.before), strings.Fields(test.call), []string{"EXEC"})
		require.NoError(t, err)
		require.Len(t, replies[3].Elems, 2, test.call)
		v := replies[3].Elems[1]
		assert.True(t, strings.HasPrefix(strings.TrimPrefix(v.String(), "(error) "), test.want), "%s: %v", test.call, v)
	}
}
