package line_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Whatever command overwrites a key is seen by those in line for it at once: they are told that it holds something else, or are let in
// if nothing is left.
func TestWhateverOverwritesAKeyWakesItsLine(t *testing.T) {
	t.Parallel()
	const wrong = "WRONGTYPE "
	overwriting := map[string]string{
		"SET k text": wrong, "SETEX k 1000 text": wrong, "PSETEX k 100000 text": wrong, "MSET other x k text": wrong,
		"SORT list STORE k": wrong, "SORT nothing STORE k": "",
		"SUNIONSTORE k set": wrong, "SINTERSTORE k set set": wrong, "SDIFFSTORE k set nothing": wrong, "SUNIONSTORE k nothing": "",
		"BITOP NOT k text": wrong, "BITOP AND k nothing nothing": "",
		"ZUNIONSTORE k 1 scores": wrong, "ZINTERSTORE k 1 scores": wrong, "ZRANGESTORE k scores 0 -1": wrong, "ZUNIONSTORE k 1 nothing": "",
		"GEOSEARCHSTORE k places FROMLONLAT 15 37 BYRADIUS 200 km": wrong, "GEORADIUS places 15 37 200 km STORE k": wrong,
		"COPY list k REPLACE": wrong, "RENAME list k": wrong, "RESTORE k 0 %dump REPLACE": wrong,
		"EVAL return(redis.call('SET',KEYS[1],'text')) 1 k": wrong,
		"GETDEL k":               "", // of a string only
		"GETSET k x":             wrong,
		"APPEND k x":             wrong,
		"SETRANGE k 0 text":      wrong,
		"GETEX k PX 1":           "",
		"BITFIELD k SET u32 0 0": wrong,
	}
	ofStrings := "GETDEL GETSET APPEND SETRANGE GETEX BITFIELD"
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			for command, says := range overwriting {
				word, _, _ := strings.Cut(command, " ")
				if name == "lease" && strings.Contains(ofStrings, word) {
					continue
				}
				t.Run(command, func(t *testing.T) { overwrite(t, s, kind, command, says) })
			}
		})
	}
}

// overwrite overwrites the key of a line by a command. A caller in it is told what says begins with, or is let in.
func overwrite(t *testing.T, s *server.Server, kind kit.KindOfWait, command, says string) {
	c := s.Raw()
	kit.Do(t, c, "FLUSHALL")
	for _, fill := range []string{"RPUSH list 1 2", "SADD set a b", "SET text hello", "ZADD scores 17 player", "GEOADD places 13.361389 38.115556 Palermo"} {
		require.False(t, kit.Do(t, c, "%s", fill).IsError())
	}
	waiting := kind.Begin(t, s)
	kit.StillWaits(t, waiting)
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
}
