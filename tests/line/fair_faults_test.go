package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// fairPlaces are callers of some groups and priorities, none of which is let in in order of arrival.
func fairPlaces(first uint64) (all []naive.Turn) {
	for i, words := range []string{" 0", "a 1", "b 1", "a 1", " 0", "b 0", "c 1", "a 0"} {
		x := naive.Turn{Caller: first + uint64(i)}
		group, priority, _ := strings.Cut(words, " ")
		x.Group, x.Priority = group, int64(priority[0]-'0')
		all = append(all, x)
	}
	return all
}

// at is the caller that is let in after place others.
func (f *fairLine) at(place int) uint64 {
	order := f.order.Clone()
	for range place {
		order.LetIn()
	}
	return order.LetIn().Caller
}

// A caller may leave from any place of a fair line, by CLIENT UNBLOCK or CLIENT KILL, also at the very time at which a
// slot becomes free. It gets its answer, and the others are let in as if it had never come.
func TestACallerLeavesAFairLineFromAnyPlace(t *testing.T) {
	t.Parallel()
	for name, isLease := range kindsOfFairLine {
		for leave, answer := range map[string]string{"CLIENT UNBLOCK %d": "limited", "CLIENT UNBLOCK %d ERROR": "UNBLOCKED", "CLIENT KILL ID %d": ""} {
			t.Run(name+", "+leave, func(t *testing.T) {
				t.Parallel()
				kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
					f := newFairLine(t, kit.StartCheckBuild(t, opts...), isLease)
					next := uint64(1)
					for place := range len(fairPlaces(0)) {
						for _, when := range []string{"alone", "before a slot is free", "after a slot is free"} {
							for _, x := range fairPlaces(next) {
								f.join(x)
								next++
							}
							f.leavesAs(f.at(place), leave, answer, when)
							for f.order.Len() > 0 {
								f.letIn()
							}
						}
					}
					f.await()
				})
			})
		}
	}
}

// leavesAs has a caller leave by a command, alone or in a transaction that also makes the slot free.
func (f *fairLine) leavesAs(caller uint64, leave, answer, when string) {
	f.t.Helper()
	c := f.clients[caller]
	commands := [][]string{strings.Fields(fmt.Sprintf(leave, c.ID))}
	switch when {
	case "before a slot is free":
		commands = append(commands, strings.Fields(f.giveBack()))
	case "after a slot is free":
		commands = append([][]string{strings.Fields(f.giveBack())}, commands...)
	}
	replies, err := f.admin.Pipeline(append(append([][]string{{"MULTI"}}, commands...), []string{"EXEC"})...)
	require.NoError(f.t, err)
	for _, v := range replies[len(replies)-1].Elems {
		require.False(f.t, v.IsError(), "%v", v)
	}
	f.order.Drop(caller)
	delete(f.clients, caller)
	switch answer {
	case "":
		_, err := c.Conn.ReceiveWithin(kit.Patience)
		require.Error(f.t, err, "it was cut off")
	case "limited":
		kit.RequireLimited(f.t, c.Conn)
	default:
		assert.Contains(f.t, kit.ReceiveSoon(f.t, c.Conn).Text, answer)
	}
	if when != "alone" {
		f.requireLetIn()
	}
	f.await()
}

// A user loses its permission while its callers wait among those of others. They are told so by the time their turn
// comes, which costs their groups no turn, and the others are let in as if they had never come.
func TestCallersOfAFairLineLoseTheirPermission(t *testing.T) {
	t.Parallel()
	for name, isLease := range kindsOfFairLine {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kit.StartCheckBuild(t)
			if !s.Program.AtLeast(7, 0) {
				t.Skip("the module API knows no users' permissions")
			}
			f := newFairLine(t, s, isLease)
			next := uint64(1)
			for round := range size.Of(6, 24) {
				rules := func(user int, rule string) {
					require.Equal(t, "OK", kit.Do(t, f.admin, "ACL SETUSER u%d on >secret ~* +@all %s", user, rule).Text)
				}
				var denied []*resp.Conn
				for i, x := range fairPlaces(next) {
					user := (i + round/3) % 3
					rules(user, "")
					c := s.Raw()
					require.Equal(t, "OK", kit.Do(t, c, "AUTH u%d secret", user).Text)
					f.joinOn(c, x)
				}
				for i, x := range fairPlaces(next) {
					if (i+round/3)%3 == round%3 {
						f.order.Drop(x.Caller)
						denied = append(denied, f.clients[x.Caller].Conn)
						delete(f.clients, x.Caller)
					}
				}
				next += uint64(len(fairPlaces(0)))
				rules(round%3, "-cl.lease -cl.wait")
				for f.order.Len() > 0 {
					f.letIn()
				}
				require.False(t, kit.Do(t, f.admin, "%s", f.giveBack()).IsError()) // to nobody
				for _, c := range denied {
					v := kit.ReceiveSoon(t, c)
					assert.True(t, strings.HasPrefix(v.Text, "NOPERM "), "%v", v)
				}
				f.await()
				f.holder = next
				next++
				require.EqualValues(t, 0, kit.Do(t, f.admin, "%s", f.call(f.holder)+" TIMEOUT 0").Elems[1].Int)
			}
		})
	}
}

// Whatever the wall clock does, callers are let in in the order of a naive line: one when the lease or the window of
// the one before is over, and none when the clock is set back.
func TestAFairLineWhenTheClockSteps(t *testing.T) {
	t.Parallel()
	for name, isLease := range kindsOfFairLine {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, stepBy := kit.StartWithSteps(t)
			f := newFairLine(t, s, isLease)
			f.outlast()
			lifetime := map[bool]time.Duration{true: time.Hour, false: 365 * 24 * time.Hour}[isLease]
			r, ahead, furthest, next := chance.New(t), time.Duration(0), time.Duration(0), uint64(1)
			for range size.Of(10, 50) {
				for _, x := range fairPlaces(next)[:1+r.IntN(6)] {
					f.join(x)
					next++
				}
				switch r.IntN(3) {
				case 0:
					ahead -= lifetime / 4
					stepBy(ahead)
				case 1:
					furthest += lifetime + time.Minute // whenever the lease was taken
					ahead = furthest
					stepBy(ahead)
					f.requireLetIn()
				default:
					f.letIn()
				}
				for _, c := range f.clients {
					kit.StillWaits(t, c.Conn)
				}
			}
			for f.order.Len() > 0 {
				f.letIn()
			}
			f.await()
		})
	}
}

// A server whose memory is full lets nobody in, whether a settlement or a release has freed the slot. Leases are still
// renewed and settled. When there is memory again, callers come in order.
func TestAFairLineWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := kit.StartCheckBuild(t, opts...)
		if !s.Program.AtLeast(7, 0) {
			t.Skip("an older server cannot be asked")
		}
		f := newFairLine(t, s, true)
		memoryIs := func(most int) { require.False(t, kit.Do(t, f.admin, "CONFIG SET maxmemory %d", most).IsError()) }
		next := uint64(1)
		units := "RATE 1/10d BURST 100"
		for _, free := range []string{
			"CL.SETTLE 2 tok k %s TAKE 5 USED 2 NEXT SLOTS ID %d COMPACT", "CL.SETTLE 2 k tok SLOTS NEXT %s TAKE 5 USED 7 ID %d COMPACT",
			"CL.RELEASE k ID %[2]d", "CL.SETTLE 1 k SLOTS ID %[2]d COMPACT",
		} {
			require.EqualValues(t, 0, kit.Do(t, f.admin, "CL.LIMIT tok %s COST 5", units).Elems[1].Int)
			for _, x := range fairPlaces(next) {
				f.join(x)
				next++
			}
			memoryIs(1)
			renewed := kit.Do(t, f.admin, "CL.RENEW k ID %d TTL 2h COMPACT", f.holder)
			require.False(t, renewed.IsError(), "%v", renewed)
			require.EqualValues(t, 0, renewed.Elems[0].Int, "it is renewed")
			call := fmt.Sprintf(free, units, f.holder)
			for _, want := range []int64{1, 0} { // the slot is freed once
				v := kit.Do(t, f.admin, "%s", call)
				require.False(t, v.IsError(), "%v", v)
				if v.Kind != resp.Integer {
					v = v.Elems[0]
				}
				require.Equal(t, want, v.Int, call)
			}
			gone := f.at(int(next) % 3)
			f.leaves(gone, "CLIENT UNBLOCK")
			for _, c := range f.clients {
				kit.StillWaits(t, c.Conn)
			}
			memoryIs(0)
			f.requireLetIn()
			for f.order.Len() > 0 {
				f.letIn()
			}
		}
		f.await()
	})
}
