package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Calls that charge strings and change sorted sets at once: CL.MLIMIT with SLOTS, and CL.SETTLE. What they decide is held against the model in
// virtual_admissions_test.go.

const (
	admission  = "CL.MLIMIT 3 req tok run RATE 60/h BURST 10 NEXT RATE 3600/h TAKE 100 NEXT SLOTS 2 TTL 1h ID "
	settlement = "CL.SETTLE 2 tok run RATE 3600/h TAKE 100 USED "
)

// Replicas get one transaction, and end with the same bytes without the module: keys that are there first, then those that are added. Notifications
// come when all keys are written.
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
	for counter, want := range map[string]int{"leases_granted": 6, "leases_limited": 1, "leases_released": 4, "calls_mlimit": 6, "calls_settle": 4, "allowed": 4, "limited": 2, "refunded_units": 51, "settled": 3, "not_settled": 1} {
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

// The id may stand anywhere, and calls of any order and number of keys may follow each other: each is read right, with existing sets and new
// ones. Lapsed leases go, up to sixteen at once, and more than that are counted right.
func TestAnAdmissionFindsItsIDAndWhatHasLapsed(t *testing.T) {
	t.Parallel()
	s := startMany(t)
	c := s.Raw()
	forms := []string{
		"CL.MLIMIT 2 k run RATE 9000/h NEXT SLOTS 100 TTL 1h ID %s",
		"CL.MLIMIT 2 run k SLOTS 100 TTL 1h ID %s NEXT RATE 9000/h COMPACT",
		"CL.MLIMIT 1 run SLOTS 100 TTL 1h COMPACT ID %s",
		"CL.MLIMIT 4 run a b new%[1]s SLOTS 100 TTL 1h ID %[1]s COST 3",
	}
	for i := range 60 {
		id := fmt.Sprint("id", i/2)
		require.EqualValues(t, 0, askMany(t, c, forms[(i*7+i/5)%len(forms)], id)[0], i)
		assert.EqualValues(t, 1+i/2, kit.Do(t, c, "ZCARD run").Int, "%d: every other call is a retry on this key", i)
		require.NotEmpty(t, kit.Do(t, c, "ZSCORE run %s", id).Text)
	}
	past := time.Now().Add(-time.Minute).UnixMilli()
	for i := range 40 {
		kit.Do(t, c, "ZADD run %d gone%d", past, i)
	}
	assert.EqualValues(t, []int64{1, 1, 30, 0}, askMany(t, c, "CL.MLIMIT 1 run SLOTS 30 TTL 1h ID one")[:4])
	assert.EqualValues(t, []int64{0, 1, 31, 0}, askMany(t, c, "CL.MLIMIT 1 run SLOTS 31 TTL 1h ID one")[:4])
	assert.EqualValues(t, 30+40+1-16, kit.Do(t, c, "ZCARD run").Int)
	assert.EqualValues(t, 16, s.InfoInt("throttle", "throttle_leases_lapsed"))
	kit.Do(t, c, "ZADD run 5 player")
	assert.Contains(t, kit.Do(t, c, "CL.MLIMIT 2 k run RATE 5/s NEXT SLOTS 90 TTL 1h ID two").Text, "does not hold leases")
	assert.Contains(t, kit.Do(t, c, "CL.SETTLE 2 k run RATE 5/s NEXT SLOTS ID one").Text, "does not hold leases")
}

// An admission and a settlement change the set first where that tells whether the id is there. What they answer does not depend on it: with
// few leases and many, for ids that hold one and that do not, and when a limit or a ban would deny what a retry is granted.
func TestAnAdmissionFindsItsIDAmongManyOrFew(t *testing.T) {
	t.Parallel()
	s := startMany(t)
	c := s.Raw()
	for _, holders := range []int{0, 1, 2, 100, 300} {
		kit.Do(t, c, "FLUSHALL")
		for i := range holders {
			kit.Do(t, c, "CL.LEASE run SLOTS 999 TTL 1h ID held%d", i)
		}
		const admit, settle = "CL.MLIMIT 2 q run RATE 3/d NEXT SLOTS 999 TTL 2h ID %s COMPACT", "CL.SETTLE 2 q run RATE 3/d TAKE 1 USED 0 NEXT SLOTS ID %s COMPACT"
		for i, step := range []struct {
			call, id          string
			first, left, runs int64 // the first integer of the reply, then the units left, and the leases held
		}{
			{settle, "a", 0, 3, 0},
			{admit, "a", 0, 2, 1},
			{admit, "a", 0, 2, 1},
			{admit, "b", 0, 1, 2},
			{admit, "c", 0, 0, 3},
			{admit, "d", 1, 0, 3},
			{admit, "b", 0, 0, 3}, // no unit is left, and none is needed
			{settle, "d", 0, 0, 3},
			{settle, "b", 1, 1, 2},
			{settle, "b", 0, 1, 2},
			{admit, "b", 0, 0, 3},
			{settle, "a", 1, 1, 2},
			{settle, "c", 1, 2, 1},
			{settle, "b", 1, 3, 0},
			{settle, "b", 0, 3, 0},
		} {
			about := fmt.Sprintf("step %d with %d holders: "+step.call, i, holders, step.id)
			v := kit.Do(t, c, step.call, step.id)
			ints, err := v.Ints()
			require.NoError(t, err, about)
			assert.Equal(t, step.first, ints[0], about)
			left, err := kit.Do(t, c, "CL.PEEK q RATE 3/d COMPACT").Ints()
			require.NoError(t, err, about)
			assert.Equal(t, step.left, left[3], about)
			assert.Equal(t, int64(holders)+step.runs, kit.Do(t, c, "ZCARD run").Int, about)
		}
	}
	kit.Do(t, c, "CL.BAN q 1h")
	v := kit.Do(t, c, "CL.MLIMIT 2 q run RATE 3/d NEXT SLOTS 999 TTL 2h ID held7 COMPACT")
	assert.Equal(t, int64(0), v.Elems[0].Int, "the id holds its lease, so it was admitted before the ban")
	v = kit.Do(t, c, "CL.MLIMIT 2 q run RATE 3/d NEXT SLOTS 999 TTL 2h ID new COMPACT")
	assert.Equal(t, int64(1), v.Elems[0].Int, "the key is banned")
	v = kit.Do(t, c, "CL.SETTLE 2 q run RATE 3/d TAKE 1 USED 2 NEXT SLOTS ID held8 EACH COMPACT")
	assert.Equal(t, int64(1), v.Elems[0].Int, "with EACH, it settles as well")
	kit.Do(t, c, "CL.MLIMIT 2 run other SLOTS 999 TTL 2h ID held9")
	v = kit.Do(t, c, "CL.SETTLE 2 run other SLOTS ID held9 COMPACT")
	assert.Equal(t, int64(1), v.Elems[0].Int, "two leases are ended")
	v = kit.Do(t, c, "CL.SETTLE 2 run other SLOTS ID held10 COMPACT")
	assert.Equal(t, int64(0), v.Elems[0].Int, "it never held the other")
	assert.True(t, kit.Do(t, c, "ZSCORE run held10").Text != "", "so it keeps this one")
}

// An id that holds a lease of one of two groups, both with many holders, is admitted to the other, and charged.
func TestAnAdmissionWithOneOfTwoLeases(t *testing.T) {
	t.Parallel()
	c := startMany(t).Raw()
	const admit = "CL.MLIMIT 3 q run other RATE 3/d NEXT SLOTS 99 TTL 2h NEXT SLOTS 99 TTL 2h ID %s COMPACT"
	for _, held := range []string{"run", "other"} {
		kit.Do(t, c, "FLUSHALL")
		for i := range 5 {
			kit.Do(t, c, "CL.LEASE run SLOTS 99 TTL 1h ID held%d", i)
			kit.Do(t, c, "CL.LEASE other SLOTS 99 TTL 1h ID held%d", i)
		}
		kit.Do(t, c, "CL.LEASE %s SLOTS 99 TTL 1h ID a", held)
		assert.True(t, kit.IsLetThrough(kit.Do(t, c, admit, "b")))
		assert.True(t, kit.IsLetThrough(kit.Do(t, c, admit, "a")))
		assert.Equal(t, int64(1), kit.Do(t, c, "CL.PEEK q RATE 3/d COMPACT").Elems[3].Int, "two were charged")
		for _, key := range []string{"run", "other"} {
			assert.Equal(t, int64(7), kit.Do(t, c, "ZCARD %s", key).Int, key)
		}
	}
}

// The module remembers the words of an admission without its id. A call whose id is empty is still refused, whether or not there is a
// set, and wherever the id stood in the call before.
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
