package commands_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Calls that charge strings and change sorted sets at once: CL.MLIMIT with SLOTS, and CL.SETTLE. What they decide is
// held against the model in virtual_admissions_test.go.

const (
	admission  = "CL.MLIMIT 3 req tok run RATE 60/h BURST 10 NEXT RATE 3600/h TAKE 100 NEXT SLOTS 2 TTL 1h ID "
	settlement = "CL.SETTLE 2 tok run RATE 3600/h TAKE 100 USED "
)

// Replicas get one transaction, and end with the same bytes without the module: keys that are there first, then those
// that are added. Notifications come when all keys are written.
func TestAnAdmissionIsOneChange(t *testing.T) {
	t.Parallel()
	s, replica := kit.StartCarrying(t, server.Config("notify-keyspace-events KEA"))
	stream := s.Stream()
	e := kit.ListenToEvents(t, s)
	c := s.Raw()
	for _, step := range []struct {
		call, sent, events string
		settles            bool
	}{
		{call: admission + "a", sent: "MULTI SET SET ZADD PEXPIREAT EXEC",
			events: "set req expire req set tok expire tok zadd run expire run leased run"},
		{call: admission + "b", sent: "MULTI SET SET ZADD PEXPIREAT EXEC"},
		{call: admission + "c", sent: "", events: "limited run"},
		{call: "CL.MLIMIT 2 new run RATE 5/h NEXT SLOTS 9 TTL 30m ID d", sent: "MULTI ZADD SET EXEC", events: "zadd run set new expire new leased run"},
		{call: "CL.MLIMIT 2 run later SLOTS 9 TTL 30m NEXT RATE 5/h COST 6 ID e", sent: "", events: "limited later"},
		{call: "CL.MLIMIT 3 run user org SLOTS 9 TTL 30m ID e", sent: "MULTI ZADD ZADD PEXPIREAT ZADD PEXPIREAT EXEC"},
		{call: settlement + "50 NEXT SLOTS ID a", sent: "MULTI SET ZREM EXEC", events: "set tok expire tok zrem run released run"},
		{call: settlement + "50 NEXT SLOTS ID a", sent: ""},
		{call: "CL.SETTLE 2 user org SLOTS ID e", sent: "MULTI DEL DEL EXEC", events: "del user del org released user released org"},
		{call: "CL.SETTLE 2 new run RATE 5/h TAKE 1 USED 0 NEXT SLOTS ID d", sent: "MULTI DEL ZREM EXEC"},
		{call: "CL.MLIMIT 3 later req tok RATE 90/d TAKE 0 NEXT RATE 9/h NEXT RATE 9/h", sent: "MULTI SET SET EXEC"},
		{call: "CL.MLIMIT 3 later req tok RATE 90/d ANY", sent: "SET"},
		{call: "EVAL redis.call('CL.MLIMIT','2',KEYS[1],KEYS[2],'RATE','90/d');return(redis.call('CL.MLIMIT','2',KEYS[1],KEYS[2],'RATE','90/d')) 2 user org",
			sent: "MULTI SET SET SET SET EXEC"},
	} {
		e.Drain(t)
		stream.Drain()
		v := kit.Do(t, c, "%s", step.call)
		require.False(t, v.IsError(), "%s: %v", step.call, v)
		var sent []string
		for _, command := range stream.Drain() {
			sent = append(sent, command[0])
		}
		assert.Equal(t, strings.Fields(step.sent), append([]string{}, sent...), step.call)
		if events := e.Drain(t); step.events != "" {
			assert.ElementsMatch(t, wordPairs(step.events), events, step.call)
		}
		kit.RequireReplica(t, s, replica, "req", "tok", "run", "new", "later", "user", "org")
	}
	for counter, want := range map[string]int{"leases_granted": 6, "leases_limited": 1, "leases_released": 4, "calls_mlimit": 10, "calls_settle": 4, "allowed": 8, "limited": 2, "refunded_units": 51, "settled": 3, "not_settled": 1} {
		assert.EqualValues(t, want, s.InfoInt("throttle", "throttle_"+counter), counter)
	}
}

func wordPairs(words string) (all []string) {
	fields := strings.Fields(words)
	for i := 0; i+1 < len(fields); i += 2 {
		all = append(all, fields[i]+" "+fields[i+1])
	}
	return all
}

// In MULTI and in scripts, and with a fault in the decision.
func TestAdmissionsInTransactionsAndScripts(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	s.Program.NeedsCountedKeys(t)
	c := s.Raw()
	kit.Do(t, c, "MULTI")
	kit.Do(t, c, admission+"a COMPACT")
	kit.Do(t, c, settlement+"40 NEXT SLOTS ID a COMPACT")
	replies := kit.Do(t, c, "EXEC").Elems
	require.Len(t, replies, 2)
	assert.EqualValues(t, []int64{0, 1}, []int64{replies[0].Elems[0].Int, replies[1].Elems[0].Int})
	v, err := c.Do("EVAL", "return redis.call('CL.MLIMIT', 2, KEYS[1], KEYS[2], 'SLOTS', 1, 'TTL', '1h', 'NEXT', 'RATE', '5/h', 'ID', ARGV[1], 'COMPACT')", "2", "{x}run", "{x}k", "a")
	require.NoError(t, err)
	require.Len(t, v.Elems, 11, v.String())
	assert.EqualValues(t, 0, v.Elems[0].Int)
	size := s.MustDo("DBSIZE").Int
	assert.Contains(t, kit.Do(t, c, "CL.MLIMIT 3 run fault:panic b SLOTS 5 TTL 1h NEXT RATE 5/s NEXT SLOTS 1 TTL 1h ID z").Text, "internal error")
	assert.Equal(t, size, s.MustDo("DBSIZE").Int)
	assert.EqualValues(t, 0, kit.Do(t, c, "ZCARD run").Int)
	assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_leases_granted")-1)
}

// The module remembers the words of an admission without its id. A call whose id is empty is still refused, whether or
// not there is a set, and wherever the id stood in the call before.
func TestAnEmptyIDIsRefusedWhateverIsRemembered(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	for i, step := range []struct{ before, call string }{
		{"DEL k", "CL.MLIMIT 1 k SLOTS 9 TTL 1m ID"},
		{"CL.MLIMIT 1 k SLOTS 9 TTL 1m ID a COMPACT", "CL.MLIMIT 1 k SLOTS 9 TTL 1m ID"},
		{"DEL k", "CL.SETTLE 1 k SLOTS ID"},
		{"CL.MLIMIT 1 k SLOTS 9 TTL 1m ID a COMPACT", "CL.SETTLE 1 k SLOTS ID"},
	} {
		kit.Do(t, c, "CL.MLIMIT 1 k SLOTS 9 TTL 1m ID a")
		kit.Do(t, c, "%s a", step.call)
		kit.Do(t, c, "%s", step.before)
		held := kit.Do(t, c, "ZRANGE k 0 -1").String()
		v, err := c.Do(append(strings.Fields(step.call), "")...)
		require.NoError(t, err)
		assert.Equal(t, "ERR syntax error near '': ID takes 1 to 512 bytes", v.Text, i)
		assert.Equal(t, held, kit.Do(t, c, "ZRANGE k 0 -1").String(), i)
	}
}
