package tests

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A caller that goes away gives the slot back, and those behind move up, however it goes.
func TestThoseBehindMoveUp(t *testing.T) {
	t.Parallel()
	for how, leave := range map[string]func(*line, int64){
		"disconnect": func(l *line, _ int64) { assert.NoError(l.t, l.conns[1].Close()) },
		"reset":      func(l *line, _ int64) { assert.NoError(l.t, l.conns[1].Reset()) },
		"CLIENT KILL": func(l *line, id int64) {
			assert.EqualValues(l.t, 1, do(l.t, l.admin, "CLIENT KILL ID %d", id).Int)
		},
		"CLIENT UNBLOCK": func(l *line, id int64) {
			assert.EqualValues(l.t, 1, do(l.t, l.admin, "CLIENT UNBLOCK %d", id).Int)
			v, _ := l.receive(1)
			a, err := standingIn(v)
			assert.NoError(l.t, err)
			assert.Equal(l.t, []int64{1, 0, 0}, []int64{a.Limited, a.Granted, a.WaitMs})
		},
		"CLIENT UNBLOCK TIMEOUT": func(l *line, id int64) {
			assert.EqualValues(l.t, 1, do(l.t, l.admin, "CLIENT UNBLOCK %d TIMEOUT", id).Int)
			v, _ := l.receive(1)
			_, err := standingIn(v)
			assert.NoError(l.t, err)
		},
		"CLIENT UNBLOCK ERROR": func(l *line, id int64) {
			assert.EqualValues(l.t, 1, do(l.t, l.admin, "CLIENT UNBLOCK %d ERROR", id).Int)
			v, _ := l.receive(1)
			assert.True(l.t, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			l := standInLine(t, s, 4, 400*time.Millisecond, 2)
			leave(l, l.ids[1])
			l.awaitWaiting(3)
			l.requireServed(0, 0)
			l.requireMovedUp(2, 1)
			l.requireMovedUp(3, 2)
			waited, left := l.counted()
			assert.Equal(t, []int64{0, 3, 1}, []int64{s.InfoInt("throttle", "throttle_waiting"), waited, left})
			peek, from, _ := timed(t, l.admin, "CL.PEEK key "+l.limit())
			a, err := standingIn(peek[0])
			require.NoError(t, err)
			assert.LessOrEqual(t, a.ResetAfterMs, max(0, ceilMs(l.to+int64(l.slot(3))-from)), "the key holds five units' time, not six'")
		})
	}
}

// What is given back may let in a caller with other limits, who stands in line for it.
func TestWhatIsGivenBackWakesTheLine(t *testing.T) {
	t.Parallel()
	s := startCheckBuild(t)
	c := s.Raw()
	for _, db := range []int{0, 3} {
		do(t, c, "SELECT %d", db)
		ask(t, c, "CL.LIMIT key RATE 5/h BURST 5 COST 4")
		leaves, inLine := s.Raw(), s.Raw()
		for i, call := range []string{"CL.WAIT key RATE 5/h BURST 5 COST 2 TIMEOUT 0", "CL.WAIT key RATE 5/h BURST 5 WINDOW 9/h TIMEOUT 0"} {
			caller := []*resp.Conn{leaves, inLine}[i]
			do(t, caller, "SELECT %d", db)
			require.NoError(t, caller.Send(strings.Fields(call)...))
			require.NoError(t, caller.Flush())
			awaitWaiting(t, c, i+1)
		}
		stillWaits(t, inLine)
		require.NoError(t, leaves.Close())
		v, err := inLine.Receive()
		require.NoError(t, err)
		a, err := standingIn(v)
		require.NoError(t, err, "%v", v)
		assert.EqualValues(t, 0, a.Limited)
		awaitWaiting(t, c, 0)
	}
}

// All slots given back, the key is as if nobody had come.
func TestAllLeave(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	replica := server.Start(t, server.ReplicaOf(w.Server))
	ask(t, w.conn, "CL.LIMIT key RATE 1/h BURST 1")
	want := w.do(t, "DUMP", "key").String()
	for range 20 {
		c := w.Raw()
		require.NoError(t, c.Send(strings.Fields("CL.WAIT key RATE 1/h BURST 1 TIMEOUT 0")...))
		require.NoError(t, c.Flush())
		defer c.Close()
	}
	awaitWaiting(t, w.conn, 20)
	assert.NotEqual(t, want, w.do(t, "DUMP", "key").String())
	w.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	awaitWaiting(t, w.conn, 0)
	require.Eventually(t, func() bool { return w.do(t, "DUMP", "key").String() == want }, 60*time.Second, 5*time.Millisecond)
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
			l := standInLine(t, s, 6, 100*time.Millisecond, 6)
			stream.Drain()
			do(t, l.admin, "CLIENT PAUSE 1000 %s", mode)
			require.NoError(t, l.conns[2].Close())
			if mode == "WRITE" {
				offset := s.InfoInt("replication", "master_repl_offset")
				for left := int64(0); left == 0; _, left = l.counted() {
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
				l.requireServed(i, place)
			}
			// What was pipelined behind CL.WAIT comes after the pause.
			for _, i := range []int{0, 1, 3, 4, 5} {
				v, _ := l.receive(i)
				assert.False(t, v.IsError())
			}
			assert.Equal(t, []string{"0", "1", "3", "4", "5"}, l.order(5))
			assert.Equal(t, "0", s.Info("throttle")["throttle_waiting"])
		})
	}
}

// A server that becomes a replica sends its callers away with an error, and leaves the key
// to its new master.
func TestCallersAreSentAwayWhenTheServerBecomesAReplica(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := standInLine(t, s, 3, time.Hour, 1)
	before := do(t, l.admin, "DUMP key").String()
	do(t, l.admin, "REPLICAOF 127.0.0.1 1") // where nobody listens
	for i := range 3 {
		v, _ := l.receive(i)
		assert.True(t, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
	}
	l.awaitWaiting(0)
	do(t, l.admin, "PING") // a turn of the event loop, in which slots would be given back
	assert.Equal(t, before, do(t, l.admin, "DUMP key").String())

	do(t, l.admin, "REPLICAOF NO ONE")
	assert.EqualValues(t, 1, ask(t, l.admin, "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 1s").Limited)
}

func TestShutdownDoesNotWaitForThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.AppendOnly("always"), server.Config("save 3600 1"))
	l := standInLine(t, s, 10, time.Hour, 1)
	want := do(t, l.admin, "GET key").Text
	begun := time.Now()
	s.Stop()
	t.Logf("ended after %v", time.Since(begun))
	assert.Contains(t, s.Log(), "bye bye")
	for i := range l.conns {
		_, err := l.conns[i].Receive()
		assert.Error(t, err, "the connection is closed")
	}
	s.Restart()
	assert.Equal(t, want, s.MustDo("GET", "key").Text, "the slots stay reserved")
}

func TestModuleStaysLoadedWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := standInLine(t, s, 2, time.Hour, 1)
	for range 2 {
		v := do(t, l.admin, "MODULE UNLOAD throttle")
		assert.True(t, v.IsError(), "%v", v)
	}
	require.NoError(t, l.conns[0].Close())
	l.awaitWaiting(1)
	assert.True(t, do(t, l.admin, "MODULE UNLOAD throttle").IsError())
	require.NoError(t, l.conns[1].Close())
	l.awaitWaiting(0)
	require.Eventually(t, func() bool { return !do(t, l.admin, "MODULE UNLOAD throttle").IsError() },
		60*time.Second, 5*time.Millisecond)
	path, err := server.ModulePath()
	require.NoError(t, err)
	require.False(t, do(t, l.admin, "MODULE LOAD %s", path).IsError())
	l = standInLine(t, s, 2, 100*time.Millisecond, 3)
	l.requireServed(0, 0)
	l.requireServed(1, 1)
}

// Whatever others do to the key, callers that wait are answered at the promised times.
func TestKeyIsChangedWhileCallersWait(t *testing.T) {
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
			l := standInLine(t, s, 5, 100*time.Millisecond, 5)
			for _, command := range commands {
				v := do(t, l.admin, "%s", command)
				require.False(t, v.IsError(), "%s answers %v", command, v)
			}
			require.NoError(t, l.conns[1].Close()) // so that there is something to give back
			for _, i := range []int{0, 2, 3, 4} {
				l.requireServed(i, max(0, i-1))
			}
			l.awaitWaiting(0)
			assert.Equal(t, "PONG", do(t, l.admin, "PING").Text)
		})
	}
}
