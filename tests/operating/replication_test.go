package operating_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// effects is what an allowed call may be replicated as, by when it was decided. A new key, without an expiry before,
// expires when its bucket is full, and one in use up to a quarter later. before is 0 of a new key, and -1 of one that
// never expires.
func effects(key string, p kit.Probe, before int64) (all [][]string) {
	value, second := strconv.FormatInt(p.TATAfter, 10), kit.CeilSeconds(p.TATAfter)
	for _, nowNs := range []int64{p.From, p.To} {
		latest := second + min((second-nowNs/int64(time.Second))/4, 3600)
		switch {
		case before == 0:
			latest = second
		case before >= second*1000 && before <= latest*1000:
			all = append(all, []string{"SET", key, value, "KEEPTTL"})
			continue
		}
		all = append(all, []string{"SET", key, value, "PXAT", strconv.FormatInt(latest*1000, 10)})
	}
	return all
}

// Replicas and the append-only file are sent what became of the key, never the call:
// SET with the expiry where it changed, SET ... KEEPTTL where it did not.
func TestEffectsAreReplicatedNeverTheCommand(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	type call struct {
		key   string
		probe kit.Probe
	}
	var allowed []call
	for _, tc := range []struct{ limit, first string }{
		{"15 30 1h", "1"},
		{"999 1000 100", "600"}, // a minute ahead, then steps of 0.1 s: few cross a second
		{"0 1 1d", "1"},
	} {
		for i := range 30 {
			quantity := "1"
			if i == 0 {
				quantity = tc.first
			}
			p := kit.Probes(t, w.Conn, 1, tc.limit, tc.limit+" "+quantity)[0]
			if p.Limited == 0 {
				allowed = append(allowed, call{tc.limit, p})
			}
		}
	}
	have := w.Stream.Drain()
	assert.Equal(t, have, w.AOF())
	require.Len(t, have, len(allowed))
	kept, expiries := 0, map[string]int64{}
	for i, command := range have {
		c := allowed[i]
		assert.Contains(t, effects(c.key, c.probe, expiries[c.key]), command)
		if last := command[len(command)-1]; last == "KEEPTTL" {
			kept++
		} else {
			expiries[c.key], _ = strconv.ParseInt(last, 10, 64)
		}
	}
	assert.Positive(t, kept, "no call left the expiry alone")
	assert.Less(t, kept, len(have), "no call changed the expiry")
}

// A key that lost its expiry, or was given another, gets the right one with the next
// allowed call.
func TestExpiryIsPutRightAgain(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	w.Call(t, kit.RawCallOf("key", "15 1 1d 1")...)
	for _, meddle := range [][]string{{"PERSIST", "key"}, {"EXPIRE", "key", "100000000"}, {"EXPIRE", "key", "1000"}} {
		require.EqualValues(t, 1, w.Call(t, meddle...).Int, meddle)
		w.Stream.Drain()
		p := kit.Probes(t, w.Conn, 1, "key", "15 1 1d 1")[0]
		require.EqualValues(t, 0, p.Limited)
		stream := w.Stream.Drain()
		require.Len(t, stream, 1, meddle)
		assert.Contains(t, effects("key", p, -1), stream[0], meddle)
	}
}

// A replica that is to load its master's data without a file, and to keep its own meanwhile, does so with the module,
// too: a server asks every module whether it can bear that.
func TestAReplicaMayLoadBesideItsOldData(t *testing.T) {
	t.Parallel()
	master := server.Start(t, server.Config("repl-diskless-sync yes"))
	master.MustDo(kit.RawCallOf("key", "15 1 1d 1")...)
	replica := server.Start(t, server.ReplicaOf(master), server.Config("repl-diskless-load swapdb"))
	if !replica.Program.AtLeast(7, 0) {
		t.Skip("modules are asked since Redis 7.0")
	}
	require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, 5*time.Millisecond)
	assert.Equal(t, master.MustDo("DUMP", "key").Text, replica.MustDo("DUMP", "key").Text)
	assert.Empty(t, replica.LogLines("Skipping diskless-load"))
	assert.NotEmpty(t, replica.LogLines("to parser"), "it loads what it receives")
}

// pipeline sends n random calls, none of which may fail.
func pipeline(t *testing.T, c *resp.Conn, random *rand.Rand, n int) {
	t.Helper()
	for n > 0 {
		commands := make([][]string, min(n, 500))
		for i := range commands {
			commands[i] = kit.AnyCall(random)
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
		onMaster, err := kit.StandingIn(a)
		require.NoError(t, err)
		onReplica, err := kit.StandingIn(b)
		require.NoError(t, err)
		assert.Equal(t, onMaster.Limit, onReplica.Limit)
		assert.InDelta(t, onMaster.ResetAfterMs, onReplica.ResetAfterMs, 60_000, key)
	}
	for _, call := range []string{"CL.LIMIT key RATE 1/h", "CL.REFUND key RATE 1/h", "CL.WAIT key RATE 1/h TIMEOUT 1s"} {
		v := kit.Do(t, replica, "%s", call)
		assert.True(t, strings.HasPrefix(v.Text, "READONLY "), "%s answers %v", call, v)
	}

	s.Configure(server.WithoutModule())
	s.Restart()
	topology.RequireEqual(t, want, topology.Read(t, s), "a server without the module that read the AOF")
}

// What takes nothing writes nothing: no replica, file or snapshot hears of a call that only looks, or is limited, by a
// limit, a ban or leases, or of which a word or one of several keys is wrong. So it is by the functions.
func TestWhatTakesNothingMovesNoOffset(t *testing.T) {
	t.Parallel()
	setup := []string{
		"CL.LIMIT rate RATE 2/365d COST 2", "CL.LIMIT window WINDOW 2/365d COST 2", "CL.LIMIT fixed FIXED 2/365d COST 2", "CL.LIMIT first FIXED 2/365d FIRST COST 2",
		"CL.LIMIT several RATE 2/365d WINDOW 9/365d FIXED 9/365d COST 2", "CL.LIMIT used RATE 2/365d", "CL.THROTTLE lone 0 1 365d", "CL.LIMIT shadow WINDOW 1/365d SHADOW",
		"CL.LIMIT banned RATE 2/365d WINDOW 5/m", "CL.BAN banned 1d", "CL.LEASE leases SLOTS 1 TTL 1h ID a", "CL.MLIMIT 2 taken slots RATE 1/365d NEXT SLOTS 1 TTL 1h ID a",
		"CL.LIMIT queue RATE 1/h BURST 1", "CL.LIMIT queue RATE 1/h BURST 1 MAXWAIT 3h", "CL.LIMIT queue RATE 1/h BURST 1 MAXWAIT 3h", "CL.LIMIT queue RATE 1/h BURST 1 MAXWAIT 3h",
	}
	calls := []string{
		"CL.LIMIT several RATE 2/365d", "CL.LIMIT several RATE 9/h COST 0", "CL.LIMIT several RATE 5/s COST 6", "CL.LIMIT several RATE 0/s", "CL.LIMIT several RATE 5", "CL.LIMIT shadow WINDOW 1/365d SHADOW",
		"CL.LIMIT queue RATE 1/h BURST 1 MAXWAIT 3h", "CL.WAIT queue RATE 1/h BURST 1 TIMEOUT 1h", "CL.PEEK queue RATE 1/h BURST 1",
		"CL.THROTTLE queue 0 1 1h 0", "CL.THROTTLE queue 0 1 1h 1", "CL.THROTTLE queue 0 1 1h 9223372036854775807", "CL.THROTTLE lone 0 1 365d", "CL.THROTTLE lone 0 1 365d 0",
		"CL.THROTTLE banned 9 1 1h", "CL.LIMIT banned RATE 10/h COST 0", "CL.LIMIT banned WINDOW 5/m BAN 1s", "CL.PEEK banned FIXED 5/m", "CL.LIMIT banned RATE 10/h STRICT",
		"CL.WAIT banned RATE 1/1ms TIMEOUT 0", "CL.BAN banned 1ms", "CL.BAN rate 0", "CL.BAN new 0",
		"CL.LEASE leases SLOTS 1 TTL 1h ID b", "CL.LEASE leases SLOTS 0 TTL 1h ID b TIMEOUT 1ms", "CL.RENEW leases ID b TTL 1h", "CL.RELEASE leases ID b c", "CL.LEASES leases",
		"CL.LEASE new SLOTS 0 TTL 1h ID a", "CL.LEASE leases SLOTS x TTL 1h ID a", "CL.RENEW leases ID a", "CL.RELEASE leases a",
		"CL.INSPECT leases", "CL.INSPECT rate", "CL.INSPECT several", "CL.INSPECT banned",
		"CL.MLIMIT 2 new rate RATE 2/365d", "CL.MLIMIT 2 rate new RATE 2/365d COST 9", "CL.MLIMIT 2 new used RATE 2/365d COST 0", "CL.MLIMIT 1 rate RATE 2/365d ANY",
		"CL.MLIMIT 2 new rate RATE 2/365d UPTO COST 4", "CL.MLIMIT 2 new rate RATE 2/365d MAXWAIT 1m", "CL.MLIMIT 2 new used RATE 2/365d NEXT", "CL.MLIMIT 2 new used RATE 0/h ANY",
		"CL.MLIMIT 3 new used list RATE 2/365d", "CL.MLIMIT 3 list new used RATE 2/365d FORCE", "CL.MLIMIT 3 new scores used RATE 2/365d ANY", "CL.MLIMIT 3 new used new RATE 2/365d STRICT",
		"CL.MLIMIT 2 taken slots RATE 1/365d NEXT SLOTS 1 TTL 1h ID b", "CL.SETTLE 2 taken slots RATE 1/365d TAKE 1 USED 0 NEXT SLOTS ID b",
	}
	for key, limits := range map[string]string{"rate": "RATE 2/365d", "window": "WINDOW 2/365d", "fixed": "FIXED 2/365d", "first": "FIXED 2/365d FIRST",
		"several": "RATE 2/365d WINDOW 9/365d FIXED 9/365d"} {
		for _, call := range []string{
			"CL.LIMIT KEY LIMITS", "CL.LIMIT KEY LIMITS UPTO", "CL.LIMIT KEY LIMITS COST 0", "CL.LIMIT KEY LIMITS MAXWAIT 1s", "CL.LIMIT KEY LIMITS COMPACT EACH",
			"CL.PEEK KEY LIMITS", "CL.PEEK KEY LIMITS COST 3", "CL.REFUND KEY LIMITS COST 0", "CL.PEEK new LIMITS", "CL.REFUND new LIMITS",
		} {
			calls = append(calls, strings.NewReplacer("KEY", key, "LIMITS", limits).Replace(call))
		}
	}
	requireNoTrace := func(t *testing.T, w kit.Watched, as func(words []string) []string) {
		kit.MustDoAll(t, w.Conn, "RPUSH list 1", "ZADD scores 1 a")
		for _, call := range setup {
			v := w.Call(t, as(strings.Fields(call))...)
			require.False(t, v.IsError(), "%s: %v", call, v)
		}
		w.Stream.Drain()
		traces := func() (all []kit.Traces) {
			for _, key := range strings.Fields("rate window fixed first several used lone shadow banned leases taken slots queue") {
				all = append(all, w.Traces(t, key))
			}
			return all
		}
		before := traces()
		for _, call := range calls {
			w.Call(t, as(strings.Fields(call))...)
			assert.Equal(t, before, traces(), call)
		}
		assert.Empty(t, w.Stream.Drain())
	}
	t.Run("module", func(t *testing.T) {
		t.Parallel()
		w := kit.StartWatched(t)
		w.Program.NeedsCountedKeys(t)
		requireNoTrace(t, w, slices.Clone[[]string])
	})
	t.Run("functions", func(t *testing.T) {
		t.Parallel()
		server.NeedsServer(t, "functions")
		w := kit.StartWatched(t, server.WithoutModule())
		kit.LoadFunctions(t, w.Server)
		requireNoTrace(t, w, kit.AsFunction)
	})
}
