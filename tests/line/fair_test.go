package line_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// fairLine is callers that wait for one slot, or one unit of a window, and what they should be told by the naive line.
type fairLine struct {
	t       *testing.T
	s       *server.Server
	admin   *resp.Conn
	isLease bool
	order   naive.Turns
	clients map[uint64]*kit.Client
	holder  uint64
	others  int // leases that are held throughout
}

// kindsOfFairLine are the calls that may have GROUP and PRIORITY.
var kindsOfFairLine = map[string]bool{"leases": true, "a window": false}

func newFairLine(t *testing.T, s *server.Server, isLease bool) *fairLine {
	f := &fairLine{t: t, s: s, admin: s.Raw(), isLease: isLease, clients: map[uint64]*kit.Client{}}
	v := kit.Do(t, f.admin, "%s", f.call(0)+" TIMEOUT 0")
	require.False(t, v.IsError(), "%v", v)
	return f
}

func (f *fairLine) call(caller uint64) string {
	if f.isLease {
		return fmt.Sprintf("CL.LEASE k SLOTS %d TTL 1h ID %d", f.others+1, caller)
	}
	return "CL.WAIT k FIXED 1/365d FIRST"
}

// outlast makes the key outlast every step of the clock, by another lease or another limit. If it expired, that would
// wake the line by itself.
func (f *fairLine) outlast() {
	f.t.Helper()
	if f.isLease {
		f.others++
		require.EqualValues(f.t, 0, kit.Do(f.t, f.admin, "CL.LEASE k SLOTS %d TTL 36500d ID long", f.others+1).Elems[1].Int)
		return
	}
	require.EqualValues(f.t, 0, kit.Ask(f.t, f.admin, "CL.LIMIT k WINDOW 1/36500d").Limited)
}

// join returns when the caller is in line.
func (f *fairLine) join(x naive.Turn) {
	f.t.Helper()
	f.joinOn(f.s.Raw(), x)
}

// joinOn is join on a connection that there is already.
func (f *fairLine) joinOn(conn *resp.Conn, x naive.Turn) {
	f.t.Helper()
	c := &kit.Client{Conn: conn}
	c.ID = kit.Do(f.t, c.Conn, "CLIENT ID").Int
	kit.Send(f.t, c.Conn, f.call(x.Caller)+" TIMEOUT 0"+kit.PlaceOf(x))
	f.order.Join(x)
	f.clients[x.Caller] = c
	f.await()
}

func (f *fairLine) await() {
	f.t.Helper()
	field := "waiting"
	if f.isLease {
		field = "leases_waiting"
	}
	kit.AwaitField(f.t, f.admin, field, f.order.Len())
}

// giveBack is the call that gives the only slot back.
func (f *fairLine) giveBack() string {
	if f.isLease {
		return fmt.Sprint("CL.RELEASE k ID ", f.holder)
	}
	return "CL.REFUND k FIXED 1/365d FIRST"
}

// letIn gives the slot back and fails if it is not the right one that gets it.
func (f *fairLine) letIn() naive.Turn {
	f.t.Helper()
	require.False(f.t, kit.Do(f.t, f.admin, "%s", f.giveBack()).IsError())
	return f.requireLetIn()
}

// requireLetIn fails if another caller than the first has the slot that is free.
func (f *fairLine) requireLetIn() naive.Turn {
	f.t.Helper()
	x := f.order.LetIn()
	kit.RequireAdmitted(f.t, f.clients[x.Caller].Conn)
	require.NoError(f.t, f.clients[x.Caller].Conn.Close())
	delete(f.clients, x.Caller)
	f.holder = x.Caller
	return x
}

// leaves has a caller leave the line.
func (f *fairLine) leaves(caller uint64, how string) {
	f.t.Helper()
	f.order.Drop(caller)
	kit.WaysToLeave[how](f.t, f.admin, *f.clients[caller])
	delete(f.clients, caller)
	f.await()
}

// Random callers of many tenants and some priorities come, are let in, disconnect, are unblocked and give up. Each slot
// goes to the caller that a naive line says.
func TestCallersAreLetInByPriorityAndGroup(t *testing.T) {
	t.Parallel()
	for name, isLease := range kindsOfFairLine {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFairLine(t, kit.StartCheckBuild(t), isLease)
			r := chance.New(t)
			f.takeTurns(r, size.Of(150, 1500))
			for f.order.Len() > 0 {
				f.letIn()
			}
			f.await()
		})
	}
}

func (f *fairLine) takeTurns(r *rand.Rand, steps int) {
	overtook := 0
	for i := range steps {
		x := naive.Turn{Caller: uint64(i + 1), Priority: int64(r.IntN(3) - 1), Group: []string{"", "a", "b", "tenant-42"}[r.IntN(4)]}
		if x.Group != "" {
			x.Weight = []int64{0, 1, 2, 5, 1000}[r.IntN(5)]
		}
		switch step := r.IntN(10); {
		case step < 5:
			f.join(x)
		case f.order.Len() == 0:
		case step < 8:
			first := f.order.All()[0]
			if f.letIn() != first {
				overtook++
			}
		case step == 8:
			all := f.order.All()
			f.leaves(all[r.IntN(len(all))].Caller, []string{"disconnect", "CLIENT UNBLOCK", "CLIENT UNBLOCK ERROR"}[r.IntN(3)])
		default: // its time is over while it stands among the others
			c := f.s.Raw()
			kit.Send(f.t, c, f.call(x.Caller)+" TIMEOUT 1ms"+kit.PlaceOf(x))
			kit.RequireLimited(f.t, c)
			f.order.Join(x) // the weight of its group stays
			f.order.Drop(x.Caller)
		}
		if i%10 == 0 {
			f.requireGroups()
		}
	}
	assert.Positive(f.t, overtook)
}

// requireGroups fails if CL.LEASES does not tell how many callers wait in each group, in the order of their turns, and
// its weight.
func (f *fairLine) requireGroups() {
	f.t.Helper()
	type shown struct {
		group                     string
		priority, waiting, weight int64
	}
	var want, have []shown
	for priority := int64(1); priority >= -1; priority-- {
		groups, weights := f.order.Groups(priority)
		for i, group := range groups {
			x := shown{group: group, priority: priority, weight: weights[i]}
			for _, caller := range f.order.All() {
				if caller.Group == group && caller.Priority == priority {
					x.waiting++
				}
			}
			want = append(want, x)
		}
	}
	v := kit.Do(f.t, f.admin, "CL.LEASES k COUNT 100")
	if !f.isLease && len(want) == 0 {
		require.Contains(f.t, v.Text, "WRONGTYPE", "a window has no leases, and nobody waits for it")
		return
	}
	require.Len(f.t, v.Elems, 10)
	require.Equal(f.t, []string{"waiting_groups", "groups"}, []string{v.Elems[6].Text, v.Elems[8].Text})
	require.EqualValues(f.t, len(want), v.Elems[7].Int)
	for _, row := range v.Elems[9].Elems {
		require.Equal(f.t, []string{"group", "priority", "waiting", "weight"}, []string{row.Elems[0].Text, row.Elems[2].Text, row.Elems[4].Text, row.Elems[6].Text})
		have = append(have, shown{row.Elems[1].Text, row.Elems[3].Int, row.Elems[5].Int, row.Elems[7].Int})
	}
	require.Equal(f.t, want, have)
	if _, ok := f.order.First(); ok {
		require.Len(f.t, kit.Do(f.t, f.admin, "CL.LEASES k COUNT 1").Elems[9].Elems, 1)
	}
}

// Another module makes calls when it hears that a slot has become free, or that a key has expired that is looked at for
// the first in line.
func TestAnotherModuleCallsInTheMiddleOfAFairLine(t *testing.T) {
	t.Parallel()
	for nested, gets := range map[string]bool{
		"CL.LEASE k SLOTS 1 TTL 1h ID nested TIMEOUT 0 GROUP b PRIORITY 1": true,
		"CL.LEASE k SLOTS 1 TTL 1h ID nested TIMEOUT 0 GROUP b":            false,
		"CL.LEASES k": false,
	} {
		t.Run(nested, func(t *testing.T) {
			t.Parallel()
			f := newFairLine(t, neighbour.Start(t), true)
			f.join(naive.Turn{Caller: 1, Group: "a"})
			f.join(naive.Turn{Caller: 2, Group: "b"})
			neighbour.On(t, f.s, "released", "k", nested)
			kit.Do(t, f.admin, "%s", f.giveBack())
			assert.Positive(t, neighbour.Seen(t, f.s))
			neighbour.Do(t, f.s, "")
			if gets {
				assert.Equal(t, "nested", kit.Do(t, f.admin, "ZRANGE k 0 -1").Elems[0].Text)
				kit.StillWaits(t, f.clients[1].Conn)
				kit.Do(t, f.admin, "CL.RELEASE k ID nested")
			}
			for _, caller := range []uint64{1, 2} {
				kit.RequireAdmitted(t, f.clients[caller].Conn)
				kit.Do(t, f.admin, "CL.RELEASE k ID %d", caller)
			}
		})
	}
}

// Ten thousand jobs of one tenant delay the first job of another by one slot if tenants are groups, and by ten thousand
// if not.
func TestTenThousandJobsDelayAnotherTenantByOneSlot(t *testing.T) {
	var files syscall.Rlimit // not in parallel: other tests need as many
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	jobs := int(min(uint64(size.Of(1000, 10_000)), files.Max-1000))
	for name, groups := range map[string][2]string{"in order of arrival": {"", ""}, "with GROUP": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			f := newFairLine(t, server.Start(t, server.Config("maxclients 10200"), server.ModuleArgs("max-waiting", "0")), true)
			for i := range jobs {
				c := &kit.Client{Conn: f.s.Raw()}
				x := naive.Turn{Caller: uint64(i + 1), Group: groups[0]}
				kit.Send(f.t, c.Conn, f.call(x.Caller)+" TIMEOUT 1h"+kit.PlaceOf(x))
				f.clients[x.Caller] = c
				if i == 0 { // the server takes new connections in any order
					kit.AwaitField(t, f.admin, "leases_waiting", 1)
				}
			}
			kit.AwaitField(t, f.admin, "leases_waiting", jobs)
			others := [2]*resp.Conn{f.s.Raw(), f.s.Raw()}
			for i, c := range others {
				x := naive.Turn{Caller: uint64(jobs + 1 + i), Group: groups[1]}
				kit.Send(f.t, c, f.call(x.Caller)+" TIMEOUT 1h"+kit.PlaceOf(x))
				kit.AwaitField(t, f.admin, "leases_waiting", jobs+1+i)
			}
			var slots [2]int
			holder := "0"
			given := 0
			for i := range others {
				for ; ; given++ {
					require.EqualValues(t, 1, kit.Do(t, f.admin, "CL.RELEASE k ID %s", holder).Int)
					holder = f.awaitHolder(holder)
					if holder == fmt.Sprint(jobs+1+i) {
						break
					}
				}
				slots[i] = given
				kit.RequireAdmitted(t, others[i])
			}
			t.Logf("%s: %d jobs of others before the first of tenant b, %d before its second", name, slots[0], slots[1])
			if groups[0] != "" {
				assert.Equal(t, [2]int{1, 2}, slots)
			} else {
				assert.Equal(t, [2]int{jobs, jobs}, slots)
			}
			for _, c := range f.clients {
				require.NoError(t, c.Conn.Reset())
			}
			kit.AwaitField(t, f.admin, "leases_waiting", 0)
		})
	}
}

// awaitHolder returns who holds the lease after the holder before.
func (f *fairLine) awaitHolder(before string) (holder string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		v := kit.Do(f.t, f.admin, "ZRANGE k 0 -1")
		if len(v.Elems) != 1 || v.Elems[0].Text == before {
			return false
		}
		holder = v.Elems[0].Text
		return true
	}, kit.Patience, 100*time.Microsecond)
	return holder
}
