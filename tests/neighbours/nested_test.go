package neighbours_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// What another module may run in the middle of a command. The unit each takes, or gives, is
// what it changes of a key that others use, too.
var nestedCommands = []struct {
	command string
	takes   int64
}{
	{"CL.THROTTLE %s 99 1 1d 10", 10},
	{"CL.LIMIT %s RATE 1/1d BURST 100 COST 10", 10},
	{"CL.LIMIT %s RATE 1/1d BURST 100 COST 1000 STRICT", 0}, // takes what is left
	{"CL.LIMIT %s RATE 1/1d BURST 100 COST 1 MAXWAIT 1000d", 1},
	{"CL.PEEK %s RATE 1/1d BURST 100", 0},
	{"CL.REFUND %s RATE 1/1d BURST 100 COST 10", 0},
	{"CL.WAIT %s RATE 1/1d BURST 100 COST 10 TIMEOUT 0", 10},
	{"CL.TOP", 0},
	{"CL.DENIED %s 3", 0},
	{"CL.MLIMIT 2 %s third RATE 1/1d BURST 100 COST 10", 10},
	{"CL.MLIMIT 2 %s third RATE 1/1d BURST 100 COST 10 EACH", 10},
	{"CL.MLIMIT 2 third %s RATE 1/1d BURST 100 ANY", 0}, // of the third
	{"CL.LEASE leases SLOTS 3 TTL 1d ID nested", 0},
	{"CL.LEASE leases SLOTS 1 TTL 1d ID late TIMEOUT 1d", 0},
	{"CL.RENEW leases ID a TTL 2d", 0},
	{"CL.RELEASE leases ID a nested", 0},
	{"CL.LEASES leases", 0},
	{"CL.INSPECT leases", 0},
	{"CL.INSPECT windows", 0},
}

// Commands that send every notification there is of ours: new, set, expire, del, limited,
// expired (of a key that is gone by the time it is asked for), keymiss, leased, released, zadd and zrem.
var nestingCommands = []string{
	"CL.THROTTLE key 99 1 1d 1", "CL.THROTTLE key 99 1 1d 1", "CL.THROTTLE key 99 1 1d 100",
	"CL.LIMIT key RATE 1/1d BURST 100", "CL.LIMIT key RATE 1/1d BURST 100 COST 100",
	"CL.REFUND key RATE 1/1d BURST 100 COST 100",
	"CL.PEEK nokey RATE 1/1d", "CL.PEEK key RATE 1/1d",
	"CL.WAIT key RATE 1/1d BURST 100 TIMEOUT 1ms",
	"CL.LIMIT gone RATE 1/1d BURST 100", "PEXPIREAT gone 1",
	"CL.LIMIT brief RATE 1/1ms BURST 2", "CL.LIMIT brief RATE 1/1ms BURST 2",
	"CL.LIMIT windows WINDOW 9/1d WINDOW 99/2d FIXED 7/3d", "CL.LIMIT windows WINDOW 9/1d WINDOW 99/2d FIXED 7/3d COST 9",
	"CL.MLIMIT 2 joint key RATE 1/1d BURST 100", "CL.MLIMIT 2 joint key RATE 1/1d BURST 100 COST 100", "CL.MLIMIT 2 key joint RATE 1/1d BURST 100 ANY",
	"CL.LEASE leases SLOTS 9 TTL 1d ID a", "CL.LEASE leases SLOTS 9 TTL 1d ID b", "CL.LEASE leases SLOTS 1 TTL 1d ID c",
	"CL.LEASE leases SLOTS 1 TTL 1d ID c TIMEOUT 1ms", "CL.RENEW leases ID b TTL 2d", "CL.LEASES leases", "CL.INSPECT leases", "CL.INSPECT windows",
	"CL.RELEASE leases ID a", "CL.RELEASE leases ID a b c nested late",
}

// Whatever another module runs in the middle of a command, on the same key or on another,
// both are decided as if they came one after the other, and replicas end with the same
// bytes.
func TestEveryCommandNestedInEveryNotification(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t, server.ModuleArgs("top", "10"))
	plain := server.Start(t, server.ModuleArgs("top", "10"))
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "up" }, 60*time.Second, 5*time.Millisecond)
	c, alone := s.Raw(), plain.Raw()
	for _, nested := range nestedCommands {
		for _, target := range []string{"key", "other", "windows"} {
			command := nested.command
			if strings.Contains(command, "%s") {
				command = fmt.Sprintf(command, target)
			}
			t.Run(command, func(t *testing.T) {
				s.MustDo("FLUSHALL")
				plain.MustDo("FLUSHALL")
				neighbour.Do(t, s, "")
				neighbour.Do(t, s, command)
				for _, outer := range nestingCommands {
					got, want := kit.Do(t, c, "%s", outer), kit.Do(t, alone, "%s", outer)
					assert.Equal(t, want.Kind, got.Kind, outer)
					sameLeases := strings.Contains(outer, " leases") && strings.Contains(command, " leases")
					if target == "other" && len(got.Elems) > 0 && !sameLeases {
						same := 4
						if strings.HasPrefix(outer, "CL.INSPECT") {
							same = 2 // what follows is the clock of each server
						}
						assert.Equal(t, want.Elems[:same], got.Elems[:same], "%s: another key does not matter", outer)
					}
				}
				times := s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int
				assert.Greater(t, times, int64(len(nestingCommands)), "it ran in the middle")
				neighbour.Do(t, s, "")
				requireSameData(t, s, replica)
			})
		}
	}
}

// requireSameData waits for a replica to have what its master has, byte for byte.
func requireSameData(t *testing.T, master, replica *server.Server) {
	t.Helper()
	state := func(s *server.Server) (all []string) {
		for _, key := range []string{"key", "other", "nokey", "gone", "brief", "windows", "third", "joint", "leases"} {
			all = append(all, key, s.Do("DUMP", key).String())
			if s.Program.AtLeast(7, 0) && key != "brief" {
				all = append(all, s.Do("PEXPIRETIME", key).String())
			}
		}
		return all
	}
	require.Eventually(t, func() bool {
		return master.Info("replication")["master_repl_offset"] == replica.Info("replication")["slave_repl_offset"]
	}, 60*time.Second, 5*time.Millisecond)
	want, have := state(master), state(replica)
	if master.Do("EXISTS", "brief").Int == 0 { // it expired while they were read, if not before
		i := slices.Index(want, "brief") + 1
		want[i], have[i] = "", ""
	}
	assert.Equal(t, want, have)
}

// A unit is taken once for each call, of a key that expires or is made in the middle, too.
// Only while the server adds the key, a call on it is refused.
func TestNestedCallsOnOneKeyAllCount(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c := s.Raw()
	if !s.Program.AtLeast(7, 0) {
		t.Skip("event new, and key that DEBUG keeps until they are asked for")
	}
	for _, nested := range nestedCommands {
		if nested.takes == 0 {
			continue
		}
		for state, want := range map[string]int64{"absent": 2, "expired": 2, "there": 1} {
			t.Run(nested.command+", the key is "+state, func(t *testing.T) {
				neighbour.Do(t, s, "")
				kit.Do(t, c, "FLUSHALL")
				kit.Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
				if state != "absent" {
					kit.Do(t, c, "CL.LIMIT key RATE 1/1d BURST 100 COST 7")
				}
				if state == "expired" {
					kit.Do(t, c, "PEXPIRE key 30") // a busy server deletes at once what expires sooner
					for from := kit.NowIn(t, c); kit.NowIn(t, c) < from+35_000_000; {
					}
				}
				neighbour.Do(t, s, fmt.Sprintf(nested.command, "key"))
				outer := kit.Ask(t, c, "CL.LIMIT key RATE 1/1d BURST 100")
				require.EqualValues(t, 0, outer.Limited)
				seen := s.MustDo("NEIGHBOUR.SEEN")
				neighbour.Do(t, s, "")
				ran, taken := seen.Elems[0].Int, int64(1)
				switch state {
				case "absent": // new, set, expire
					assert.Equal(t, kit.Refused, seen.Elems[1].Text)
					assert.EqualValues(t, 3, ran)
				case "expired": // expired, set, maybe expire; the nested call makes the key
					assert.Empty(t, seen.Elems[1].Text)
					want = ran
				case "there":
					assert.Empty(t, seen.Elems[1].Text)
					taken, want = 8, ran
				}
				assert.Equal(t, 100-taken-want*nested.takes, kit.Ask(t, c, "CL.PEEK key RATE 1/1d BURST 100").Remaining)
				assert.Positive(t, kit.Do(t, c, "PTTL key").Int, "the key expires")
			})
		}
	}
}

// Callers who wait are in the line of their own key whatever another module asks for in the
// middle of their calls, and leave it again.
func TestCallersWaitForTheirOwnKey(t *testing.T) {
	t.Parallel()
	for _, nested := range []string{
		"CL.PEEK far RATE 1/1h", "CL.LIMIT far RATE 1/1h", "CL.THROTTLE far 0 1 1h", "CL.REFUND far RATE 1/1h COST 0",
		"CL.WAIT far RATE 1/1h TIMEOUT 1d",
	} {
		t.Run(nested, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			far := s.Raw()
			kit.Do(t, far, "CL.LIMIT far RATE 1/1h")
			require.NoError(t, far.Send(strings.Fields("CL.WAIT far RATE 1/1h TIMEOUT 1d")...))
			require.NoError(t, far.Flush())
			admin := s.Raw()
			kit.AwaitWaiting(t, admin, 1)

			neighbour.Do(t, s, nested)
			const spacing = 100 * time.Millisecond
			near := s.Raw()
			_, from, _ := kit.Timed(t, near, "CL.LIMIT near RATE 1/100ms BURST 1")
			for place := 1; place <= 3; place++ {
				a := kit.Ask(t, near, "CL.WAIT near RATE 1/100ms BURST 1 TIMEOUT 1m")
				assert.Equal(t, []int64{0, 1}, []int64{a.Limited, a.Granted})
				assert.GreaterOrEqual(t, kit.NowIn(t, admin)+int64(kit.ClockSkew), from+int64(place)*int64(spacing))
			}
			assert.Positive(t, s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int)

			// A caller that leaves gives back the slot of near, not of far.
			leaver := s.Raw()
			kit.Do(t, admin, "DEL near")
			kit.Do(t, admin, "CL.LIMIT near RATE 1/1h")
			before := kit.Do(t, admin, "DUMP near").String()
			require.NoError(t, leaver.Send(strings.Fields("CL.WAIT near RATE 1/1h TIMEOUT 1d")...))
			require.NoError(t, leaver.Flush())
			kit.AwaitWaiting(t, admin, 2)
			require.NoError(t, leaver.Close())
			kit.AwaitWaiting(t, admin, 1)
			require.Eventually(t, func() bool { return kit.Do(t, admin, "DUMP near").String() == before }, 60*time.Second, 5*time.Millisecond)
		})
	}
}

// No other module runs while a caller is answered: it could cut that caller off, or the next one. So everybody who was
// let go on has the answer, also when the key is gone.
func TestNobodyIsCutOffBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		for killed := range 2 {
			s := neighbour.Start(t, opts...)
			l := kit.StandInLine(t, s, 2, 50*time.Millisecond, 4)
			kit.Do(t, l.Admin, "DEL key") // its callers' answers miss it
			neighbour.On(t, s, "keymiss", "key", fmt.Sprintf("CLIENT KILL ID %d", l.IDs[killed]))
			kit.Do(t, l.Admin, "DEBUG SLEEP 0.5") // both are due after it
			_, _ = l.Receive(0)
			_, _ = l.Receive(1)
			l.AwaitWaiting(0)
			assert.EqualValues(t, 0, s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int)
			waited, left := l.Counted()
			assert.Equal(t, []int64{2, 0}, []int64{waited, left})
		}
	})
}

// Another module may cut off the last caller in line while the slot of one that left before is given back. The line is
// gone then, and so is its timer.
func TestTheLastCallerIsCutOffWhileASlotIsGivenBack(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	l := kit.StandInLine(t, s, 2, 400*time.Millisecond, 5)
	neighbour.Do(t, s, fmt.Sprintf("CLIENT KILL ID %d", l.IDs[0]))
	kit.Do(t, l.Admin, "CLIENT PAUSE 60000 WRITE")
	require.NoError(t, l.Conns[1].Close())
	l.AwaitWaiting(1)
	left := time.Duration(l.To + int64(l.Slot(1)) - kit.NowIn(t, l.Admin))
	_, err := l.Admin.Pipeline([]string{"CLIENT", "UNPAUSE"}, []string{"DEBUG", "SLEEP", fmt.Sprint(left.Seconds())}) // the first is due after it
	require.NoError(t, err)
	l.AwaitWaiting(0)
	require.Positive(t, s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int)
	_, err = l.Conns[0].Receive()
	assert.Error(t, err, "it was cut off")
	served, gone := l.Counted()
	assert.Equal(t, []int64{0, 2}, []int64{served, gone})
	neighbour.Do(t, s, "")
	assert.EqualValues(t, 0, kit.Ask(t, l.Admin, "CL.WAIT other RATE 1/100ms BURST 1 TIMEOUT 1m").Limited)
	assert.EqualValues(t, 0, kit.Ask(t, l.Admin, "CL.WAIT other RATE 1/100ms BURST 1 TIMEOUT 1m").Limited, "and others are let in")
}
