package wait_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A caller that goes away gives the slot back, and those behind move up, however it goes.
func TestThoseBehindMoveUp(t *testing.T) {
	t.Parallel()
	for how, leave := range map[string]func(*kit.Line, int64){
		"disconnect": func(l *kit.Line, _ int64) { assert.NoError(l.T, l.Conns[1].Close()) },
		"reset":      func(l *kit.Line, _ int64) { assert.NoError(l.T, l.Conns[1].Reset()) },
		"CLIENT KILL": func(l *kit.Line, id int64) {
			assert.EqualValues(l.T, 1, kit.Do(l.T, l.Admin, "CLIENT KILL ID %d", id).Int)
		},
		"CLIENT UNBLOCK": func(l *kit.Line, id int64) {
			assert.EqualValues(l.T, 1, kit.Do(l.T, l.Admin, "CLIENT UNBLOCK %d", id).Int)
			v, _ := l.Receive(1)
			a, err := kit.StandingIn(v)
			assert.NoError(l.T, err)
			assert.Equal(l.T, []int64{1, 0, 0}, []int64{a.Limited, a.Granted, a.WaitMs})
		},
		"CLIENT UNBLOCK TIMEOUT": func(l *kit.Line, id int64) {
			assert.EqualValues(l.T, 1, kit.Do(l.T, l.Admin, "CLIENT UNBLOCK %d TIMEOUT", id).Int)
			v, _ := l.Receive(1)
			_, err := kit.StandingIn(v)
			assert.NoError(l.T, err)
		},
		"CLIENT UNBLOCK ERROR": func(l *kit.Line, id int64) {
			assert.EqualValues(l.T, 1, kit.Do(l.T, l.Admin, "CLIENT UNBLOCK %d ERROR", id).Int)
			v, _ := l.Receive(1)
			assert.True(l.T, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			l := kit.StandInLine(t, s, 4, 400*time.Millisecond, 2)
			leave(l, l.IDs[1])
			l.AwaitWaiting(3)
			l.RequireServed(0, 0)
			l.RequireMovedUp(2, 1)
			l.RequireMovedUp(3, 2)
			waited, left := l.Counted()
			assert.Equal(t, []int64{0, 3, 1}, []int64{s.InfoInt("throttle", "throttle_waiting"), waited, left})
			peek, from, _ := kit.Timed(t, l.Admin, "CL.PEEK key "+l.Limit())
			a, err := kit.StandingIn(peek[0])
			require.NoError(t, err)
			assert.LessOrEqual(t, a.ResetAfterMs, max(0, kit.CeilMs(l.To+int64(l.Slot(3))-from)), "the key holds five units' time, not six'")
		})
	}
}

// What is given back may let in a caller with other limits, who stands in line for it.
func TestWhatIsGivenBackWakesTheLine(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	for _, db := range []int{0, 3} {
		kit.Do(t, c, "SELECT %d", db)
		kit.Ask(t, c, "CL.LIMIT key RATE 5/h BURST 5 COST 4")
		leaves, inLine := s.Raw(), s.Raw()
		for i, call := range []string{"CL.WAIT key RATE 5/h BURST 5 COST 2 TIMEOUT 0", "CL.WAIT key RATE 5/h BURST 5 WINDOW 9/h TIMEOUT 0"} {
			caller := []*resp.Conn{leaves, inLine}[i]
			kit.Do(t, caller, "SELECT %d", db)
			require.NoError(t, caller.Send(strings.Fields(call)...))
			require.NoError(t, caller.Flush())
			kit.AwaitWaiting(t, c, i+1)
		}
		kit.StillWaits(t, inLine)
		require.NoError(t, leaves.Close())
		v, err := inLine.Receive()
		require.NoError(t, err)
		a, err := kit.StandingIn(v)
		require.NoError(t, err, "%v", v)
		assert.EqualValues(t, 0, a.Limited)
		kit.AwaitWaiting(t, c, 0)
	}
}

// All slots given back, the key is as if nobody had come.
func TestAllLeave(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	replica := server.Start(t, server.ReplicaOf(w.Server))
	kit.Ask(t, w.Conn, "CL.LIMIT key RATE 1/h BURST 1")
	want := w.Call(t, "DUMP", "key").String()
	for range 20 {
		c := w.Raw()
		require.NoError(t, c.Send(strings.Fields("CL.WAIT key RATE 1/h BURST 1 TIMEOUT 0")...))
		require.NoError(t, c.Flush())
		defer c.Close()
	}
	kit.AwaitWaiting(t, w.Conn, 20)
	assert.NotEqual(t, want, w.Call(t, "DUMP", "key").String())
	w.Call(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	kit.AwaitWaiting(t, w.Conn, 0)
	require.Eventually(t, func() bool { return w.Call(t, "DUMP", "key").String() == want }, 60*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return replica.Do("DUMP", "key").String() == want }, 60*time.Second, 5*time.Millisecond,
		"the replica is told, too")
}

// While writes are paused those whose slot comes are answered all the same or at the end
// of the pause, nothing is written, and nobody is forgotten.
func TestPauseWhileCallersWait(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"WRITE", "ALL"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Config("repl-ping-replica-period 3600"))
			if !s.Program.AtLeast(6, 2) {
				t.Skip("CLIENT PAUSE has modes since Redis 6.2")
			}
			stream := s.Stream()
			l := kit.StandInLine(t, s, 6, 100*time.Millisecond, 6)
			stream.Drain()
			kit.Do(t, l.Admin, "CLIENT PAUSE 1000 %s", mode)
			require.NoError(t, l.Conns[2].Close())
			if mode == "WRITE" {
				offset := s.InfoInt("replication", "master_repl_offset")
				for left := int64(0); left == 0; _, left = l.Counted() {
					time.Sleep(time.Millisecond)
				}
				// INFO is allowed; the slot is given back once the pause is over.
				assert.Equal(t, offset, s.InfoInt("replication", "master_repl_offset"))
			}
			for _, i := range []int{0, 1, 3, 4, 5} {
				place := i
				if i > 2 {
					place--
				}
				l.RequireServed(i, place)
			}
			// What was pipelined behind CL.WAIT comes after the pause.
			for _, i := range []int{0, 1, 3, 4, 5} {
				v, _ := l.Receive(i)
				assert.False(t, v.IsError())
			}
			assert.Equal(t, []string{"0", "1", "3", "4", "5"}, l.Order(5))
			assert.Equal(t, "0", s.Info("throttle")["throttle_waiting"])
		})
	}
}

// A server that becomes a replica sends its callers away with an error, and leaves the key
// to its new master.
func TestCallersAreSentAwayWhenTheServerBecomesAReplica(t *testing.T) {
	server.NeedsServer(t, "replication")
	t.Parallel()
	s := server.Start(t)
	l := kit.StandInLine(t, s, 3, time.Hour, 1)
	before := kit.Do(t, l.Admin, "DUMP key").String()
	kit.Do(t, l.Admin, "REPLICAOF 127.0.0.1 1") // where nobody listens
	for i := range 3 {
		v, _ := l.Receive(i)
		assert.True(t, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
	}
	l.AwaitWaiting(0)
	kit.Do(t, l.Admin, "PING") // a turn of the event loop, in which slots would be given back
	assert.Equal(t, before, kit.Do(t, l.Admin, "DUMP key").String())

	kit.Do(t, l.Admin, "REPLICAOF NO ONE")
	assert.EqualValues(t, 1, kit.Ask(t, l.Admin, "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 1s").Limited)
}

func TestShutdownDoesNotWaitForThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.AppendOnly("always"), server.Config("save 3600 1"))
	l := kit.StandInLine(t, s, 10, time.Hour, 1)
	want := kit.Do(t, l.Admin, "GET key").Text
	begun := time.Now()
	s.Stop()
	t.Logf("ended after %v", time.Since(begun))
	assert.Contains(t, s.Log(), "bye bye")
	for i := range l.Conns {
		_, err := l.Conns[i].Receive()
		assert.Error(t, err, "the connection is closed")
	}
	s.Restart()
	assert.Equal(t, want, s.MustDo("GET", "key").Text, "the slots stay reserved")
}

func TestModuleStaysLoadedWhileSomebodyWaits(t *testing.T) {
	server.NeedsServer(t, "modules to unload")
	t.Parallel()
	s := server.Start(t)
	l := kit.StandInLine(t, s, 2, time.Hour, 1)
	for range 2 {
		v := kit.Do(t, l.Admin, "MODULE UNLOAD throttle")
		assert.True(t, v.IsError(), "%v", v)
	}
	require.NoError(t, l.Conns[0].Close())
	l.AwaitWaiting(1)
	assert.True(t, kit.Do(t, l.Admin, "MODULE UNLOAD throttle").IsError())
	require.NoError(t, l.Conns[1].Close())
	l.AwaitWaiting(0)
	require.Eventually(t, func() bool { return !kit.Do(t, l.Admin, "MODULE UNLOAD throttle").IsError() },
		60*time.Second, 5*time.Millisecond)
	path, err := server.ModulePath()
	require.NoError(t, err)
	require.False(t, kit.Do(t, l.Admin, "MODULE LOAD %s", path).IsError())
	l = kit.StandInLine(t, s, 2, 100*time.Millisecond, 3)
	l.RequireServed(0, 0)
	l.RequireServed(1, 1)
}

// Whatever others do to the key, callers that wait are answered at the promised times.
func TestKeyIsChangedWhileCallersWait(t *testing.T) {
	server.NeedsServer(t, "DEBUG RELOAD")
	t.Parallel()
	for name, commands := range map[string][]string{
		"DEL":        {"DEL key"},
		"FLUSHALL":   {"FLUSHALL"},
		"FLUSHDB":    {"FLUSHDB ASYNC"},
		"SET":        {"SET key bar"},
		"a list":     {"DEL key", "RPUSH key 1"},
		"RENAME":     {"RENAME key other"},
		"SWAPDB":     {"SWAPDB 0 1"},
		"EXPIRE":     {"PEXPIRE key 1"},
		"CL.REFUND":  {"CL.REFUND key RATE 1/100ms BURST 1 COST 100"},
		"CL.LIMIT":   {"CL.LIMIT key RATE 1/100ms BURST 1 MAXWAIT 1h"},
		"two limits": {"CL.LIMIT key RATE 1/100ms BURST 1 WINDOW 5/s COST 0", "CL.LIMIT key FIXED 1/1m"},
		"reload":     {"DEBUG RELOAD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			l := kit.StandInLine(t, s, 5, 100*time.Millisecond, 5)
			for _, command := range commands {
				v := kit.Do(t, l.Admin, "%s", command)
				require.False(t, v.IsError(), "%s answers %v", command, v)
			}
			require.NoError(t, l.Conns[1].Close()) // so that there is something to give back
			for _, i := range []int{0, 2, 3, 4} {
				l.RequireServed(i, max(0, i-1))
			}
			l.AwaitWaiting(0)
			assert.Equal(t, "PONG", kit.Do(t, l.Admin, "PING").Text)
		})
	}
}
