package wait_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A line is looked at when something has happened that may let the first in, once, and not in between.
func TestALineIsLookedAtOnlyWhenItMayMove(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	first := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID first TIMEOUT 1d")
	leaver := kit.WaitForLease(t, s, 2, "CL.LEASE k SLOTS 1 TTL 1h ID leaver TIMEOUT 0")
	last := kit.WaitForLease(t, s, 3, "CL.LEASE k SLOTS 1 TTL 1h ID last TIMEOUT 1d")
	want := 0
	after := func(what string, more int) {
		t.Helper()
		want += more
		kit.Do(t, c, "PING") // a turn of the event loop
		assert.Equal(t, want, kit.Looks(t, s), what)
	}
	after("three came", 0)
	for _, call := range []string{"CL.LEASES k", "CL.LEASE k SLOTS 1 TTL 1h ID other", "CL.LEASE k SLOTS 1", "CL.RENEW k ID other TTL 1h"} {
		kit.Do(t, c, "%s", call)
		after(call, 0)
	}
	require.NoError(t, leaver.Close())
	kit.AwaitField(t, c, "leases_waiting", 2)
	after("one in the middle has left", 0)
	for range 2 {
		assert.EqualValues(t, 1, kit.AskLease(t, s.Raw(), "CL.LEASE k SLOTS 1 TTL 1h ID late TIMEOUT 20ms").Limited)
		after("one behind has given up", 1)
	}
	assert.EqualValues(t, 1, kit.Do(t, c, "CL.RELEASE k ID holder").Int)
	assert.EqualValues(t, 0, kit.ReceiveLease(t, first).Limited)
	after("the first was let in, and the next is not", 2)
	assert.EqualValues(t, 1, kit.AskLease(t, s.Raw(), "CL.LEASE k SLOTS 1 TTL 1h ID late TIMEOUT 20ms").Limited)
	after("one behind has given up", 1)
	<-time.After(1200 * time.Millisecond) // longer than a line of a cluster is left alone
	after("nothing has happened", 0)

	kit.AskLease(t, c, "CL.LEASE lapses SLOTS 2 TTL 1h ID holder")
	kit.AskLease(t, c, "CL.LEASE lapses SLOTS 2 TTL 1h ID short")
	waiting := kit.WaitForLease(t, s, 2, "CL.LEASE lapses SLOTS 2 TTL 1h ID w TIMEOUT 1d")
	kit.AskLease(t, c, "CL.RENEW lapses ID short TTL 300ms")
	assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
	after("a lease was renewed, and has lapsed", 2)
	kit.StillWaits(t, last)
}

// The first in line may be the only one who has to wait. When it leaves, however it does, those behind are let in.
func TestThoseBehindAreLetInWhenTheFirstLeaves(t *testing.T) {
	t.Parallel()
	for how, test := range map[string]struct {
		leave   func(*testing.T, *resp.Conn, *resp.Conn, int64)
		timeout string
		told    int // that it leaves with a reply
	}{
		"disconnect":  {leave: func(t *testing.T, _, c *resp.Conn, _ int64) { assert.NoError(t, c.Close()) }},
		"CLIENT KILL": {leave: func(t *testing.T, admin, _ *resp.Conn, id int64) { kit.Do(t, admin, "CLIENT KILL ID %d", id) }},
		"CLIENT UNBLOCK": {told: 1, leave: func(t *testing.T, admin, _ *resp.Conn, id int64) {
			assert.EqualValues(t, 1, kit.Do(t, admin, "CLIENT UNBLOCK %d", id).Int)
		}},
		"CLIENT UNBLOCK ERROR": {leave: func(t *testing.T, admin, _ *resp.Conn, id int64) {
			assert.EqualValues(t, 1, kit.Do(t, admin, "CLIENT UNBLOCK %d ERROR", id).Int)
		}},
		"TIMEOUT": {told: 1, timeout: "3s", leave: func(*testing.T, *resp.Conn, *resp.Conn, int64) {}},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			admin, first := s.Raw(), s.Raw()
			kit.Ask(t, admin, "CL.LIMIT k WINDOW 10/1h COST 8")
			id := kit.Do(t, first, "CLIENT ID").Int
			require.NoError(t, first.Send(strings.Fields("CL.WAIT k WINDOW 10/1h COST 5 TIMEOUT "+cmp.Or(test.timeout, "0"))...))
			require.NoError(t, first.Flush())
			kit.AwaitWaiting(t, admin, 1)
			behind := []*resp.Conn{}
			for range 2 {
				behind = append(behind, kit.StartWaiting(t, s, "CL.WAIT k WINDOW 10/1h TIMEOUT 0"))
				kit.AwaitField(t, admin, "calls_wait", 1+len(behind))
			}
			test.leave(t, admin, first, id)
			for i, c := range behind {
				v, err := c.ReceiveWithin(30 * time.Second)
				require.NoError(t, err)
				a, err := kit.StandingIn(v)
				require.NoError(t, err)
				assert.Equal(t, []int64{0, 1, int64(1 - i)}, []int64{a.Limited, a.Granted, a.Remaining})
			}
			info := s.Info("throttle")
			told := fmt.Sprint(test.told)
			assert.Equal(t, []string{"0", "2", "1", told, "3"}, []string{info["throttle_waiting"], info["throttle_waited"],
				info["throttle_wait_left"], info["throttle_limited"], info["throttle_allowed"]})
		})
	}
}

// When all have left a line, however they did, nothing of it stays behind: no timer either, with which a server would not let
// the module go. A caller that has its answer may unload the module at once.
func TestNothingOfALineStaysWhenAllHaveLeft(t *testing.T) {
	t.Parallel()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	for _, how := range []string{"disconnect", "CLIENT UNBLOCK", "TIMEOUT"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t, server.Config("enable-module-command yes"))
			for range 2 {
				admin := s.Raw() // it uses the module, so its connection may be closed by MODULE UNLOAD
				kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID a")
				c := s.Raw()
				id := kit.Do(t, c, "CLIENT ID").Int
				timeout := "0"
				if how == "TIMEOUT" {
					timeout = "20ms"
				}
				require.NoError(t, c.Send(strings.Fields("CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT "+timeout)...))
				if how == "disconnect" {
					require.NoError(t, c.Flush())
					kit.AwaitField(t, admin, "leases_waiting", 1)
					assert.True(t, kit.Do(t, admin, "MODULE UNLOAD throttle").IsError(), "while somebody waits")
					require.NoError(t, c.Close())
					kit.AwaitField(t, admin, "leases_waiting", 0)
					require.Eventually(t, func() bool { return !kit.Do(t, admin, "MODULE UNLOAD throttle").IsError() }, 30*time.Second, 5*time.Millisecond)
				} else {
					require.NoError(t, c.Send("MODULE", "UNLOAD", "throttle"))
					require.NoError(t, c.Flush())
					if how == "CLIENT UNBLOCK" {
						kit.AwaitField(t, admin, "leases_waiting", 1)
						assert.EqualValues(t, 1, kit.Do(t, admin, "CLIENT UNBLOCK %d", id).Int)
					}
					assert.EqualValues(t, 1, kit.ReceiveLease(t, c).Limited)
					v, err := c.Receive()
					require.NoError(t, err)
					assert.False(t, v.IsError(), "%v", v)
				}
				s.MustDo("MODULE", "LOAD", path)
			}
		})
	}
}

// Callers in line are told when the slot of their key is another node's.
func TestCallersInLineAreSentToTheNodeOfTheirSlot(t *testing.T) {
	t.Parallel()
	for _, renamed := range []bool{false, true} {
		t.Run(fmt.Sprint("ZADD renamed: ", renamed), func(t *testing.T) {
			t.Parallel()
			config := []string{"cluster-require-full-coverage no"}
			if renamed {
				config = append(config, `rename-command ZADD ""`)
			}
			s := kit.StartCheckBuild(t, server.Cluster(), server.Config(config...))
			if !s.Program.AtLeast(7, 0) {
				t.Skip("CLUSTER ADDSLOTSRANGE came with Redis 7.0")
			}
			c := s.Raw()
			kit.Do(t, c, "CLUSTER ADDSLOTSRANGE 0 16383")
			require.Eventually(t, func() bool { return !kit.Do(t, c, "GET {k}").IsError() }, 60*time.Second, 5*time.Millisecond)
			kit.AskLease(t, c, "CL.LEASE {k}leases SLOTS 1 TTL 1h ID a")
			kit.Ask(t, c, "CL.LIMIT {k}window WINDOW 1/1h")
			var conns []*resp.Conn
			for range 2 {
				conns = append(conns, kit.WaitForLease(t, s, len(conns)/2+1, "CL.LEASE {k}leases SLOTS 1 TTL 1h ID w%d TIMEOUT 0", len(conns)))
				conns = append(conns, kit.StartWaiting(t, s, "CL.WAIT {k}window WINDOW 1/1h TIMEOUT 1d"))
				kit.AwaitWaiting(t, c, len(conns)/2)
			}
			kit.Do(t, c, "CLUSTER DELSLOTS %d", kit.Do(t, c, "CLUSTER KEYSLOT k").Int)
			for _, conn := range conns {
				v, err := conn.ReceiveWithin(30 * time.Second) // the line is looked at once a second
				require.NoError(t, err)
				assert.Equal(t, "TRYAGAIN The slot of this key has moved to another node while the caller waited", v.Text)
				assert.True(t, v.IsError())
			}
			kit.AwaitWaiting(t, c, 0)
			kit.AwaitField(t, c, "leases_waiting", 0)
		})
	}
}

// Redis sends callers away while their cluster is down. With Valkey they keep their places.
func TestCallersInLineWhileTheClusterIsDown(t *testing.T) {
	t.Parallel()
	for name, k := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t, server.Cluster())
			if !s.Program.AtLeast(7, 0) {
				t.Skip("CLUSTER ADDSLOTSRANGE came with Redis 7.0")
			}
			c := s.Raw()
			isUp := func() bool { return !kit.Do(t, c, "EXISTS k").IsError() }
			kit.Do(t, c, "CLUSTER ADDSLOTSRANGE 0 16383")
			require.Eventually(t, isUp, 60*time.Second, kit.Tick)
			waiting := k.Begin(t, s)
			other := kit.Do(t, c, "CLUSTER KEYSLOT other").Int
			kit.Do(t, c, "CLUSTER DELSLOTS %d", other)
			require.Eventually(t, func() bool { return !isUp() }, 60*time.Second, kit.Tick)
			if !s.Program.IsValkey() {
				v, err := waiting.ReceiveWithin(30 * time.Second)
				require.NoError(t, err)
				assert.Equal(t, "CLUSTERDOWN The cluster is down", v.Text)
				kit.AwaitField(t, c, k.Field, 0)
				return
			}
			kit.Do(t, c, "CLUSTER ADDSLOTS %d", other)
			require.Eventually(t, isUp, 60*time.Second, kit.Tick)
			kit.Do(t, c, "%s", k.GiveBack)
			kit.RequireAdmitted(t, waiting)
		})
	}
}

// What the key holds instead is an error to callers in line as it is to others.
func TestCallersInLineAreToldThatTheKeyHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	for _, call := range []string{"CL.LEASE k SLOTS 1 TTL 1h ID %s TIMEOUT 1m", "CL.WAIT k WINDOW 1/1h TIMEOUT 1m"} {
		kit.Do(t, c, "RPUSH list 1")
		kit.Do(t, c, "%s", strings.ReplaceAll(call, "%s", "a"))
		waiting := kit.StartWaiting(t, s, strings.ReplaceAll(call, "%s", "w"))
		require.Eventually(t, func() bool { return s.InfoInt("clients", "blocked_clients") == 1 }, 60*time.Second, 2*time.Millisecond)
		wrong := s.InfoInt("throttle", "throttle_errors_wrongtype")
		kit.Do(t, c, "RENAME list k")
		v, err := waiting.ReceiveWithin(30 * time.Second)
		require.NoError(t, err)
		assert.Equal(t, kit.Do(t, c, "%s", strings.ReplaceAll(call, "%s", "x")), v)
		assert.True(t, strings.HasPrefix(v.Text, "WRONGTYPE "), "%v", v)
		assert.Equal(t, wrong+2, s.InfoInt("throttle", "throttle_errors_wrongtype"))
		kit.Do(t, c, "DEL k")
	}
}

// A crowd is let in some at a time, so that the server can serve others in between: each lot is one transaction to replicas.
func TestACrowdIsLetInSixtyFourAtATime(t *testing.T) {
	t.Parallel()
	const crowd = 150
	s := kit.StartCheckBuild(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("an older server tells replicas of each caller on its own")
	}
	admin := s.Raw()
	kit.AskLease(t, admin, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	var conns []*resp.Conn
	for i := range crowd {
		conns = append(conns, kit.StartWaiting(t, s, fmt.Sprintf("CL.LEASE k SLOTS 1 TTL 1h ID w%d TIMEOUT 1h", i)))
	}
	kit.AwaitField(t, admin, "leases_waiting", crowd)
	stream := s.Stream()
	kit.AskLease(t, admin, "CL.LEASE k SLOTS %d TTL 2h ID holder", crowd+1)
	for _, c := range conns {
		assert.EqualValues(t, 0, kit.ReceiveLease(t, c).Limited)
	}
	var lots []int
	for _, command := range stream.Drain() {
		switch strings.ToUpper(command[0]) {
		case "MULTI":
			lots = append(lots, 0)
		case "ZADD":
			lots[len(lots)-1]++
		}
	}
	assert.Equal(t, []int{1, 64, 64, 22}, lots, "the holder's own call, and the crowd")
}

// On a replica that takes writes, callers are let in as on a master.
func TestCallersAreLetInOnAReplicaThatTakesWrites(t *testing.T) {
	t.Parallel()
	master := server.Start(t)
	s := kit.StartCheckBuild(t, server.ReplicaOf(master), server.Config("replica-read-only no"))
	require.Eventually(t, func() bool { return kit.LinkIsUp(s) }, 60*time.Second, 5*time.Millisecond)
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID a")
	waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 1m")
	assert.EqualValues(t, 1, kit.Do(t, c, "CL.RELEASE k ID a").Int)
	assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
}

// No timer runs for longer than five minutes, but callers may wait for longer.
func TestAWaitMayBeLongerThanAnyTimer(t *testing.T) {
	t.Parallel()
	begun := time.Now().UnixNano()
	clock := clock.New(t, begun)
	s := clock.Start()
	kit.AskLease(t, s.Raw(), "CL.LEASE k SLOTS 1 TTL 11m ID holder")
	waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 20m")
	clock.Set(begun + int64(6*time.Minute)) // by this clock leases lapse; a TIMEOUT goes by the one that nobody can set
	kit.StillWaits(t, waiting)
	clock.Set(begun + int64(12*time.Minute))
	assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
}
