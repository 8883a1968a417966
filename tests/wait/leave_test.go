package wait_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A caller that leaves, however it does, costs the others nothing: it gives its slot back if it has one, nothing is
// written if it has none, those behind move up, and it is counted once. Callers of CL.LEASE are counted by what they
// are told.
func TestACallerThatLeavesCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	kinds := kit.WaitsOfAllKinds()
	kinds["window of which it alone needs much"] = kit.KindOfWait{Take: "CL.LIMIT k WINDOW 10/1h COST 8", Wait: "CL.WAIT k WINDOW 10/1h COST 5 TIMEOUT 0", Field: "waiting"}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, ahead := clock.Running(t), time.Duration(0)
			w := kit.StartWatched(t, server.Run(c.Program()))
			c.RequireBy(w.Server)
			counted := func() []int64 {
				return []int64{w.InfoInt("throttle", "throttle_waited"), w.InfoInt("throttle", "throttle_wait_left")}
			}
			for how, leave := range kit.WaysToLeave {
				t.Run(how, func(t *testing.T) {
					w.Call(t, "DEL", "k")
					kit.Do(t, w.Conn, "%s", kind.Take)
					before, was := w.Traces(t, "k"), counted()
					first, second := kit.NewClient(t, w.Server), kit.NewClient(t, w.Server)
					kind.WaitAs(t, w.Server, first.Conn, 1)
					kit.Send(t, second.Conn, strings.NewReplacer("COST 5 ", "", "ID w", "ID second").Replace(kind.Wait))
					kit.AwaitField(t, w.Conn, kind.Field, 2)
					leave(t, w.Conn, first)
					switch {
					case name == "rate":
						kit.AwaitWaiting(t, w.Conn, 1)
						require.Eventually(t, func() bool {
							return kit.Ask(t, w.Conn, "CL.PEEK k RATE 1/1h BURST 1").ResetAfterMs <= 2*time.Hour.Milliseconds()
						}, kit.Patience, kit.Tick, "its slot is given back")
						kit.StillWaits(t, second.Conn)
						ahead += time.Hour
						c.SetAhead(0, int64(ahead))
					case kind.GiveBack != "":
						kit.AwaitField(t, w.Conn, kind.Field, 1)
						assert.Equal(t, before, w.Traces(t, "k"), "nothing was written")
						kit.StillWaits(t, second.Conn)
						kit.Do(t, w.Conn, "%s", kind.GiveBack)
					}
					kit.RequireAdmitted(t, second.Conn)
					kit.AwaitField(t, w.Conn, kind.Field, 0)
					want := []int64{was[0] + 1, was[1] + 1}
					if name == "lease" {
						want = was
					}
					assert.Equal(t, want, counted(), "waited, and left")
				})
			}
		})
	}
}

// Another module may send a caller away when it hears that the caller is limited, because its time in line is over.
func TestACallerThatIsSentAwayAsItsTimeIsOverIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin, c := s.Raw(), kit.NewClient(t, s)
			kit.MustDoAll(t, admin, kind.Take)
			kit.Do(t, admin, "NEIGHBOUR.ON limited k CLIENT UNBLOCK %d", c.ID)
			kit.Send(t, c.Conn, strings.Replace(kind.Wait, "TIMEOUT 0", "TIMEOUT 100ms", 1))
			kit.RequireLimited(t, c.Conn)
			assert.NotZero(t, kit.Do(t, admin, "NEIGHBOUR.SEEN").Elems[0].Int, "it may hear of both that the caller was told, and that it had to go")
			kit.AwaitField(t, admin, kind.Field, 0)
			assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_limited"))
			if kind.Field == "waiting" {
				assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_wait_left"))
			}
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
			kit.Send(t, caller, call)
			kit.AwaitWaiting(t, c, i+1)
		}
		kit.StillWaits(t, inLine)
		require.NoError(t, leaves.Close())
		kit.RequireAdmitted(t, inLine)
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
		kit.StartWaiting(t, w.Server, "CL.WAIT key RATE 1/h BURST 1 TIMEOUT 0")
	}
	kit.AwaitWaiting(t, w.Conn, 20)
	assert.NotEqual(t, want, w.Call(t, "DUMP", "key").String())
	w.Call(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	kit.AwaitWaiting(t, w.Conn, 0)
	for _, s := range []*server.Server{w.Server, replica} {
		require.Eventually(t, func() bool { return s.Do("DUMP", "key").String() == want }, 60*time.Second, kit.Tick)
	}
}

// While writes are paused, a caller that leaves holds up no answer. Nothing is written, and its slot is given back when
// the pause is over.
func TestACallerLeavesWhileWritesArePaused(t *testing.T) {
	server.NeedsServer(t, "CLIENT PAUSE")
	t.Parallel()
	const pause = "CLIENT PAUSE 100000000 WRITE"
	for name, test := range map[string]struct{ begin, end string }{
		"CLIENT PAUSE": {pause, "CLIENT UNPAUSE"}, "FAILOVER": {"FAILOVER", "FAILOVER ABORT"},
		"a pause for all commands": {"CLIENT PAUSE 1000 ALL", ""}, // which is over when the clock moves
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t, topology.QuietLinks())
			if test.begin == "FAILOVER" {
				replica := server.Start(t, server.ReplicaOf(s), topology.QuietLinks())
				topology.AwaitReplicas(t, s, replica)
				replica.Pause() // so that it never catches up
				t.Cleanup(replica.Resume)
			}
			const call = "RATE 1/10m BURST 1"
			admin, callers := s.Raw(), []kit.Client{kit.NewClient(t, s), kit.NewClient(t, s), kit.NewClient(t, s)}
			kit.Ask(t, admin, "CL.LIMIT key %s", call)
			for i, c := range callers {
				kit.Send(t, c.Conn, "CL.WAIT key "+call+" TIMEOUT 0")
				kit.Send(t, c.Conn, "RPUSH order "+string(rune('0'+i)))
				kit.AwaitWaiting(t, admin, i+1)
			}
			resetAfter := func() int64 { return kit.Ask(t, admin, "CL.PEEK key %s", call).ResetAfterMs }
			const spacingMs = 600_000
			kit.Do(t, admin, "SET more to-replicate")
			require.False(t, kit.Do(t, admin, "%s", test.begin).IsError())
			require.NoError(t, callers[1].Conn.Close())
			if test.end != "" {
				kit.AwaitWaiting(t, admin, 2)
				assert.Greater(t, resetAfter(), int64(3*spacingMs), "its slot is still taken")
			}
			stepBy(10 * time.Minute)
			kit.RequireAdmitted(t, callers[0].Conn)
			if test.end != "" {
				assert.Greater(t, resetAfter(), int64(2*spacingMs), "nothing is written")
				kit.Do(t, admin, "%s", test.end)
			}
			require.Eventually(t, func() bool { return resetAfter() <= 2*spacingMs }, kit.Patience, kit.Tick, "its slot is given back")
			kit.StillWaits(t, callers[2].Conn)
			stepBy(20 * time.Minute)
			kit.RequireAdmitted(t, callers[2].Conn)
			// What was sent behind the calls comes after the pause.
			for _, c := range []kit.Client{callers[0], callers[2]} {
				assert.False(t, kit.ReceiveSoon(t, c.Conn).IsError())
			}
			assert.Equal(t, []string{"0", "2"}, kit.TextsOf(kit.Do(t, admin, "LRANGE order 0 -1")))
		})
	}
}

func TestShutdownDoesNotWaitForThoseWhoWait(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.AppendOnly("always"), server.Config("save 3600 1"))
	admin := s.Raw()
	kit.Ask(t, admin, "CL.LIMIT key RATE 1/1h BURST 1")
	waiting := kit.StartWaiting(t, s, "CL.WAIT key RATE 1/1h BURST 1 TIMEOUT 0")
	kit.AwaitWaiting(t, admin, 1)
	want := kit.Do(t, admin, "GET key").Text
	s.Stop()
	assert.Contains(t, s.Log(), "bye bye")
	_, err := waiting.Receive()
	assert.Error(t, err, "the connection is closed")
	s.Restart()
	assert.Equal(t, want, s.MustDo("GET", "key").Text, "the slot stays reserved")
}

// When all have left a line, however they did, nothing of it stays behind: no timer either, with which a server would
// not let the module go. A caller that has its answer may unload the module at once.
func TestNothingOfALineStaysWhenAllHaveLeft(t *testing.T) {
	server.NeedsServer(t, "modules to unload")
	t.Parallel()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	timeout := map[string]string{"CLIENT UNBLOCK": "TIMEOUT 0", "TIMEOUT": "TIMEOUT 20ms"}
	for name, kind := range kit.WaitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t, server.Config("enable-module-command yes"))
			for _, how := range []string{"disconnect", "CLIENT UNBLOCK", "disconnect", "TIMEOUT"} {
				if how == "TIMEOUT" && name == "rate" {
					continue // it is limited when it comes
				}
				admin, c := s.Raw(), kit.NewClient(t, s) // they use the module, so their connections may be closed by MODULE UNLOAD
				kit.MustDoAll(t, admin, "DEL k", kind.Take)
				if how == "disconnect" {
					kind.WaitAs(t, s, c.Conn, 1)
					assert.True(t, kit.Do(t, admin, "MODULE UNLOAD throttle").IsError(), "while somebody waits")
					kit.WaysToLeave[how](t, admin, c)
					kit.AwaitField(t, admin, kind.Field, 0)
					require.Eventually(t, func() bool { return !kit.Do(t, admin, "MODULE UNLOAD throttle").IsError() }, kit.Patience, kit.Tick)
				} else {
					// Both in one packet: the server has read the second before it answers the first.
					require.NoError(t, c.Conn.Send(strings.Fields(strings.Replace(kind.Wait, "TIMEOUT 0", timeout[how], 1))...))
					require.NoError(t, c.Conn.Send("MODULE", "UNLOAD", "throttle"))
					require.NoError(t, c.Conn.Flush())
					if how == "CLIENT UNBLOCK" {
						kit.AwaitField(t, admin, kind.Field, 1)
						kit.WaysToLeave[how](t, admin, c)
					} else {
						kit.RequireLimited(t, c.Conn)
					}
					assert.False(t, kit.ReceiveSoon(t, c.Conn).IsError())
				}
				s.MustDo("MODULE", "LOAD", path)
			}
		})
	}
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
			kit.MustDoAll(t, l.Admin, commands...)
			require.NoError(t, l.Conns[1].Close()) // so that there is something to give back
			for _, i := range []int{0, 2, 3, 4} {
				l.RequireServed(i, max(0, i-1))
			}
			l.AwaitWaiting(0)
			assert.Equal(t, "PONG", kit.Do(t, l.Admin, "PING").Text)
		})
	}
}
