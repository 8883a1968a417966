package line_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// twoLeases is a kind of wait in which the key stays when its holder is gone: another lease is in it.
const twoLeases = "two leases"

// Whatever command changes a key is seen by those in line for it at once: they are told that it holds something else,
// or are let in if nothing is left, or no more than lets them in.
func TestWhateverChangesAKeyWakesItsLine(t *testing.T) {
	t.Parallel()
	const wrong = "WRONGTYPE "
	ofAll := map[string]string{
		"DEL k": "", "UNLINK k": "", "RENAME k elsewhere": "", "MOVE k 5": "", "PEXPIRE k 1": "", "FLUSHALL": "", "FLUSHDB ASYNC": "", "SWAPDB 0 3": "",
		"SET k text": wrong, "SETEX k 1000 text": wrong, "PSETEX k 100000 text": wrong, "MSET other x k text": wrong,
		"SORT list STORE k": wrong, "SORT nothing STORE k": "",
		"SUNIONSTORE k set": wrong, "SINTERSTORE k set set": wrong, "SDIFFSTORE k set nothing": wrong, "SUNIONSTORE k nothing": "",
		"BITOP NOT k text": wrong, "BITOP AND k nothing nothing": "",
		"ZUNIONSTORE k 1 scores": wrong, "ZINTERSTORE k 1 scores": wrong, "ZRANGESTORE k scores 0 -1": wrong, "ZUNIONSTORE k 1 nothing": "",
		"GEOSEARCHSTORE k places FROMLONLAT 15 37 BYRADIUS 200 km": wrong, "GEORADIUS places 15 37 200 km STORE k": wrong,
		"COPY list k REPLACE": wrong, "RENAME list k": wrong, "RESTORE k 0 %dump REPLACE": wrong,
		"EVAL return(redis.call('SET',KEYS[1],'text')) 1 k": wrong,
	}
	ofStrings := map[string]string{"GETDEL k": "", "GETSET k x": wrong, "APPEND k x": wrong, "SETRANGE k 0 text": wrong, "GETEX k PX 1": "", "BITFIELD k SET u32 0 0": wrong}
	ofLeases := map[string]string{
		"ZREM k holder": "", "ZADD k 1700000000000 holder": "", "ZPOPMIN k": "", "CL.RENEW k ID holder TTL 1ms": "",
		"CL.LEASE k SLOTS 2 TTL 1h ID holder": "", "CL.LEASE k SLOTS 3 TTL 1h ID b": "", "CL.LEASE k SLOTS 2 TTL 1h ID b": "", "CL.LEASE k SLOTS 2 TTL 1h ID b TIMEOUT 10ms": "",
	}
	kinds := map[string]kit.KindOfWait{
		twoLeases: {Take: "CL.LEASE k SLOTS 2 TTL 1h ID holder", Wait: "CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0", Field: "leases_waiting"},
		// The key stays after a refund and expires when it did before: the server does not tell the module of that.
		"three units": {Take: "CL.LIMIT k FIXED 3/365d COST 3", Wait: "CL.WAIT k FIXED 3/365d TIMEOUT 0", Field: "waiting"},
	}
	changes := map[string][]map[string]string{"three units": {{"CL.REFUND k FIXED 3/365d": ""}}, twoLeases: {{"ZREM k holder": "", "ZREM k holder other": ""}}}
	for name, kind := range kit.WaitsInTurn {
		kinds[name] = kind
		changes[name] = []map[string]string{ofAll, ofStrings, {kind.GiveBack: ""}}
	}
	changes["lease"][1] = ofLeases
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			for _, commands := range changes[name] {
				for command, says := range commands {
					t.Run(command, func(t *testing.T) { change(t, s, name, kind, command, says) })
				}
			}
		})
	}
}

// change changes the key of a line by a command. A caller in it is told what says begins with, or is let in.
func change(t *testing.T, s *server.Server, name string, kind kit.KindOfWait, command, says string) {
	c := s.Raw()
	kit.MustDoAll(t, c, "FLUSHALL", "RPUSH list 1 2", "SADD set a b", "SET text hello", "ZADD scores 17 player", "GEOADD places 13.361389 38.115556 Palermo")
	if name == twoLeases {
		kit.Do(t, c, "ZADD k 4000000000000 other")
	}
	waiting := kind.Begin(t, s)
	kit.StillWaits(t, waiting)
	left, wrong := s.InfoInt("throttle", "throttle_wait_left"), s.InfoInt("throttle", "throttle_errors_wrongtype")
	words := strings.Fields(command)
	for i, w := range words {
		if w == "%dump" {
			words[i] = kit.Do(t, c, "DUMP list").Text
		}
	}
	v, err := c.Do(words...)
	require.NoError(t, err)
	if strings.Contains(v.Text, "unknown command") {
		kit.Do(t, c, "DEL k")
		kit.RequireAdmitted(t, waiting)
		t.Skip("this server is older than the command")
	}
	require.False(t, v.IsError(), "%v", v)
	if says == "" {
		kit.RequireAdmitted(t, waiting)
		return
	}
	v = kit.ReceiveSoon(t, waiting)
	assert.True(t, strings.HasPrefix(v.Text, says), "%v", v)
	assert.Equal(t, kit.Do(t, c, "%s", strings.ReplaceAll(kind.Wait, "TIMEOUT 0", "TIMEOUT 1ms")), v, "as others are told")
	assert.Equal(t, wrong+2, s.InfoInt("throttle", "throttle_errors_wrongtype"))
	if kind.Field == "waiting" { // those that wait for leases are counted by what they are told
		assert.Equal(t, left+1, s.InfoInt("throttle", "throttle_wait_left"))
	}
}
