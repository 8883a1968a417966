package commands_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

func TestLimitFromLua(t *testing.T) {
	server.NeedsServer(t, "maps in scripts that speak RESP3")
	t.Parallel()
	c := server.Start(t).Raw()
	script := func(command, body, key string) resp.Value {
		v, err := c.Do(command, body, "1", key)
		require.NoError(t, err)
		return v
	}
	a, err := kit.StandingIn(script("EVAL", "return redis.call('CL.LIMIT', KEYS[1], 'RATE', '10/h')", "key"))
	require.NoError(t, err)
	assert.EqualValues(t, 9, a.Remaining)
	v := script("EVAL", "redis.setresp(3); return redis.call('CL.LIMIT', KEYS[1], 'RATE', '10/h')['map']['remaining']", "key")
	assert.EqualValues(t, 8, v.Int, "a map in a script that speaks RESP3")
	v = script("EVAL", "return redis.pcall('CL.LIMIT', KEYS[1], 'RATTE', '10/h').err", "key")
	assert.Contains(t, v.Text, "near 'RATTE'")
	v = script("EVAL_RO", "return redis.call('CL.PEEK', KEYS[1], 'RATE', '10/h')[8]", "key")
	assert.EqualValues(t, 8, v.Int, "CL.PEEK writes nothing, so a read-only script may")
	for _, command := range []string{"CL.LIMIT", "CL.REFUND"} {
		v = script("EVAL_RO", "return redis.call('"+command+"', KEYS[1], 'RATE', '10/h')", "key")
		assert.True(t, v.IsError(), "%s from a read-only script", command)
	}
}

// A cluster node serves the keys of its own slots and sends callers of others away.
func TestEveryCommandIsRoutedByItsKey(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Cluster(), server.Config("cluster-require-full-coverage no"))
	if !s.Program.AtLeast(7, 0) {
		t.Skip("CLUSTER ADDSLOTSRANGE came with Redis 7.0")
	}
	s.MustDo("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	c := s.Raw()
	mine, other := "", ""
	for i := 0; mine == "" || other == ""; i++ {
		key := fmt.Sprint("user:", i)
		if kit.Do(t, c, "CLUSTER KEYSLOT %s", key).Int < 8192 {
			mine = key
		} else {
			other = key
		}
	}
	require.Eventually(t, func() bool { return s.Info("cluster")["cluster_enabled"] == "1" && !s.Do("GET", mine).IsError() },
		60*time.Second, 5*time.Millisecond)
	for _, call := range kit.CallsOfAll {
		key := fmt.Sprintf("{%s}%s", mine, strings.Fields(call)[0])
		assert.False(t, kit.Do(t, c, call, key).IsError(), call)
		v := kit.Do(t, c, call, other)
		assert.True(t, strings.HasPrefix(v.Text, "CLUSTERDOWN") || strings.HasPrefix(v.Text, "MOVED"), "%s answers %v", call, v)
	}
	// Calls on several keys are routed by all of them.
	for keys, answers := range map[string]string{
		"1 {mine}a": "", "2 {mine}a {mine}b": "", "8 {mine}a {mine}b {mine}c {mine}d {mine}e {mine}f {mine}g {mine}h": "",
		"2 {other}a {other}b": "CLUSTERDOWN", "2 {mine}a {other}b": "CROSSSLOT", "3 {mine}a {mine}b {other}c": "CROSSSLOT",
		"0 {mine}a": "ERR numkeys", "9 {mine}a": "ERR numkeys", "x {mine}a": "ERR numkeys", "5 {mine}a": "ERR numkeys",
	} {
		keys = strings.NewReplacer("mine", mine, "other", other).Replace(keys)
		v := kit.Do(t, c, "CL.MLIMIT %s RATE 5/h", keys)
		assert.Equal(t, answers != "", v.IsError(), "%s: %v", keys, v)
		assert.True(t, strings.HasPrefix(v.Text, answers) || answers == "CLUSTERDOWN" && strings.HasPrefix(v.Text, "MOVED"), "%s: %v", keys, v)
	}
}

// Each key is notified of as its own call would be; "limited" and "shadowed" are about the key that decided.
func TestKeyspaceEvents(t *testing.T) {
	t.Parallel()
	s := startMany(t, server.Config("notify-keyspace-events E$gxdz"))
	if !s.Program.AtLeast(7, 0) {
		t.Skip("the class of modules' own events is of Redis 7.0")
	}
	heard := kit.ListenToEvents(t, s)
	c := s.Raw()
	for _, tc := range []struct {
		call string
		want []string
	}{
		{"CL.LIMIT key RATE 2/h", []string{"set key", "expire key"}},
		{"CL.PEEK key RATE 2/h", nil},
		{"CL.LIMIT key RATE 2/h", []string{"set key", "expire key"}},
		{"CL.LIMIT key RATE 2/h", []string{"limited key"}},
		{"CL.WAIT key RATE 2/h TIMEOUT 1s", []string{"limited key"}},
		{"CL.THROTTLE key 1 2 1h", []string{"limited key"}},
		{"CL.THROTTLE key 1 2 1h 0", nil},
		{"CL.PEEK key RATE 2/h", nil},
		{"CL.PEEK key RATE 2/h COST 3", nil},
		{"CL.REFUND key RATE 2/h", []string{"set key", "expire key"}},
		{"CL.REFUND key RATE 2/h", []string{"del key"}},
		{"CL.REFUND key RATE 2/h", nil},
		{"CL.LIMIT key RATTE 2/h", nil},
		{"CL.LIMIT fixed FIXED 1000/365d", []string{"set fixed", "expire fixed"}},
		{"CL.LIMIT fixed FIXED 1000/365d", []string{"set fixed"}}, // it expires when it did before
		{"CL.LIMIT fixed FIXED 1000/365d COST 999", []string{"limited fixed"}},
		{"CL.LIMIT fixed FIXED 1000/365d COST 999 STRICT", []string{"set fixed", "limited fixed"}},
		{"CL.LIMIT debt RATE 2/h COST 3 FORCE", []string{"set debt", "expire debt", "limited debt"}},
		{"CL.LIMIT shadow RATE 2/h SHADOW COST 2", []string{"set shadow", "expire shadow"}},
		{"CL.LIMIT shadow RATE 2/h SHADOW", []string{"shadowed shadow"}},
		{"CL.LIMIT shadow RATE 2/h SHADOW RATE 1/d COST 2", []string{"limited shadow"}}, // a call that is turned away is no more than that
		{"CL.PEEK shadow RATE 2/h SHADOW", nil},
		{"CL.LIMIT shadow RATE 2/h SHADOW COST 0", nil},
		{"CL.LEASE leases SLOTS 1 TTL 1h ID a", []string{"zadd leases", "expire leases", "leased leases"}},
		{"CL.LEASE leases SLOTS 1 TTL 2h ID a", []string{"zadd leases", "expire leases"}},
		{"CL.LEASE leases SLOTS 9 TTL 3h ID a", []string{"zadd leases", "expire leases"}},
		{"CL.LEASE leases SLOTS 1 TTL 1h ID b", []string{"limited leases"}},
		{"CL.RENEW leases ID a TTL 1h", []string{"zadd leases", "expire leases"}},
		{"CL.RENEW leases ID b TTL 1h", []string{"limited leases"}},
		{"CL.RELEASE leases ID b", nil},
		{"CL.LEASE leases SLOTS 2 TTL 30m ID b", []string{"zadd leases", "leased leases"}},
		{"CL.RENEW leases ID b TTL 40m", []string{"zadd leases"}},
		{"CL.RELEASE leases ID a", []string{"zrem leases", "expire leases", "released leases"}},
		{"CL.RELEASE leases ID b", []string{"del leases", "released leases"}},
		{"CL.MLIMIT 2 a b FIXED 3/365d", []string{"set a", "expire a", "set b", "expire b"}},
		{"CL.MLIMIT 2 a b FIXED 3/365d", []string{"set a", "set b"}},
		{"CL.MLIMIT 3 c b a FIXED 2/365d", []string{"limited b"}},
		{"CL.MLIMIT 3 c b a FIXED 2/365d ANY", []string{"set c", "expire c"}},
		{"CL.MLIMIT 2 a c FIXED 9/365d NEXT FIXED 1/365d SHADOW FIXED 9/365d TAKE 2", []string{"set a", "set c", "shadowed c"}},
		{"CL.MLIMIT 2 a b FIXED 9/365d NEXT FIXED 2/365d BAN 1000d", []string{"set b", "expire b", "limited b"}},
	} {
		v := kit.Do(t, c, "%s", tc.call)
		assert.Equal(t, tc.want, heard.Drain(t), "%s, which answers %v", tc.call, v)
	}
	kit.Ask(t, c, "CL.LIMIT short RATE 10/s")
	var last []string
	require.Eventually(t, func() bool { last = append(last, heard.Drain(t)...); return len(last) == 3 },
		60*time.Second, 10*time.Millisecond)
	assert.Equal(t, []string{"set short", "expire short", "expired short"}, last, "full again")
}

// A cache in the client holds the key; the server tells it when it no longer does.
func TestClientSideCacheIsInvalidatedByAnAllowedCallOnly(t *testing.T) {
	server.NeedsServer(t, "invalidations that name the key")
	t.Parallel()
	s := server.Start(t)
	cache, caller := s.Raw(), s.Raw()
	_, err := cache.Pipeline([]string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"})
	require.NoError(t, err)
	for i, tc := range []struct {
		args        string
		invalidated bool
	}{
		{"1 1 1d 1", true},
		{"1 1 1d 0", false},
		{"1 1 1d 1", true},
		{"1 1 1d 1", false},
		{"1 1 1d 0", false},
		{"1 1 1d 9", false},
		{"x 1 1d 1", false},
	} {
		_, err := cache.Do("GET", "key") // what was read is tracked, once
		require.NoError(t, err)
		_, err = caller.Do(kit.RawCallOf("key", tc.args)...)
		require.NoError(t, err)
		// A message comes before the reply to what is asked after the call.
		v, err := cache.Do("ECHO", fmt.Sprint(i))
		require.NoError(t, err)
		if tc.invalidated {
			assert.Equal(t, `>["invalidate" *["key"]]`, v.String(), tc.args)
			v, err = cache.Receive()
			require.NoError(t, err)
		}
		assert.Equal(t, strconv.Quote(fmt.Sprint(i)), v.String(), tc.args)
	}
}
