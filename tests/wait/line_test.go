package wait_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	for _, call := range []string{
		"CL.LEASES k", "CL.LEASE k SLOTS 1 TTL 1h ID other", "CL.LEASE k SLOTS 1", "CL.RENEW k ID other TTL 1h", "CL.RENEW k ID holder",
		"CL.RELEASE k ID nobody", "CL.LEASES other", "CL.LIMIT other RATE 1/1d", "CL.TOP",
	} {
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

// A crowd is let in some at a time, so that the server can serve others in between: each lot is one transaction to
// replicas.
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
