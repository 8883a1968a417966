package durability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// wayToMove hands a slot from one master to another, or to its replica.
type wayToMove struct {
	name string
	// missing is why this server can not do it.
	missing string
	pass    func(t *testing.T, c *topology.Cluster, slot int, from, to *server.Server)
}

func waysToMove(program server.Program) []wayToMove {
	return []wayToMove{
		{name: "key by key, there and back and there", pass: func(t *testing.T, c *topology.Cluster, slot int, from, to *server.Server) {
			moveKeyByKey(t, c, slot, from, to)
			moveKeyByKey(t, c, slot, to, from)
			moveKeyByKey(t, c, slot, from, to)
		}},
		{name: "redis-cli reshard", pass: reshard},
		{name: "as a whole", missing: lacksSlotMigration(program), pass: moveAsAWhole},
		{name: "failover of the master", pass: failOver},
	}
}

// A slot changes hands while its keys are hammered: by each way that the server has
// to move one, and by a replica that takes over from its master.
func TestSlotChangesHandsUnderLoad(t *testing.T) {
	program := begin(t)
	cluster := topology.StartCluster(t)
	for _, way := range waysToMove(program) {
		t.Run(way.name, func(t *testing.T) {
			if way.missing != "" {
				t.Skip(way.missing)
			}
			cluster.AwaitAgreement()
			masters := cluster.Masters()
			from, to := masters[0], masters[1]
			tag, slot := tagAmongLowest(cluster, from)
			cr := hammerSlot(t, cluster, way.name+"{"+tag+"}")
			cr.awaitDenied(500)
			way.pass(t, cluster, slot, from, to)
			cr.awaitDenied(500)
			cluster.AwaitAgreement()
			owner := cluster.Owner(slot)
			cr.stop(owner)
			require.NotSame(t, from, owner, "the slot stayed where it was")
			replica := cluster.ReplicaOf(owner)
			topology.AwaitReplicas(t, owner, replica)
			topology.RequireCopies(t, owner, replica)
			for _, master := range cluster.Masters() {
				if master != owner {
					assert.Zero(t, master.MustDo("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)).Int, "keys left behind")
				}
			}
		})
	}
}

// reshardSlots is how many slots move together; redis-cli takes the lowest.
const reshardSlots = 100

// tagAmongLowest finds a hash tag whose slot is among the lowest of a master.
func tagAmongLowest(c *topology.Cluster, master *server.Server) (tag string, slot int) {
	slots := c.Slots(master)[:reshardSlots]
	for i := 0; ; i++ {
		tag := strconv.Itoa(i)
		if slot := c.Slot(tag); slices.Contains(slots, slot) {
			return tag, slot
		}
	}
}

// moveKeyByKey is how resharding is done by hand.
func moveKeyByKey(t *testing.T, c *topology.Cluster, slot int, from, to *server.Server) {
	number := strconv.Itoa(slot)
	to.MustDo("CLUSTER", "SETSLOT", number, "IMPORTING", c.ID(from))
	from.MustDo("CLUSTER", "SETSLOT", number, "MIGRATING", c.ID(to))
	moved := 0
	for {
		keys := from.MustDo("CLUSTER", "GETKEYSINSLOT", number, "2").Elems
		if len(keys) == 0 {
			break
		}
		migrate := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), "", "0", "10000", "KEYS"}
		for _, key := range keys {
			migrate = append(migrate, key.Text)
		}
		from.MustDo(migrate...) // NOKEY, which is fine, for a key that expired meanwhile
		moved += len(keys)
	}
	for _, master := range []*server.Server{to, from} {
		master.MustDo("CLUSTER", "SETSLOT", number, "NODE", c.ID(to))
	}
	require.Positive(t, moved)
}

func reshard(_ *testing.T, c *topology.Cluster, _ int, from, to *server.Server) {
	c.CLI("--cluster", "reshard", from.Addr(), "--cluster-from", c.ID(from), "--cluster-to", c.ID(to),
		"--cluster-slots", strconv.Itoa(reshardSlots), "--cluster-yes")
}

// moveAsAWhole leaves it to the servers (Valkey 9).
func moveAsAWhole(t *testing.T, c *topology.Cluster, slot int, from, to *server.Server) {
	number := strconv.Itoa(slot)
	v := from.Do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", number, number, "NODE", c.ID(to))
	require.False(t, v.IsError(), "%v", v)
	require.Eventually(t, func() bool { return c.Owner(slot) == to }, time.Minute, 5*time.Millisecond)
}

func lacksSlotMigration(p server.Program) string {
	if p.IsValkey() && p.Major >= 9 {
		return ""
	}
	return fmt.Sprintf("%s has no CLUSTER MIGRATESLOTS", p)
}

// failOver makes the replica of a master take over from it.
func failOver(t *testing.T, c *topology.Cluster, _ int, from, _ *server.Server) {
	replica := c.ReplicaOf(from)
	replica.MustDo("CLUSTER", "FAILOVER")
	topology.AwaitRole(t, replica, "master")
}

// slotCrowd hammers the keys of one slot: half of them under a limit that gives
// nothing back, so that each unit can be accounted for, half under one that does.
// Half of the callers use a standard client, the others count their redirections.
type slotCrowd struct {
	*crowd
	keys   []string
	given  []atomic.Int64 // units, by key
	sent   redirections
	fromNs int64
}

const slotKeys, slotCallers = 20, 20

func limitOfSlotKey(i int) limit { return []limit{hourly, steady}[i%2] }

func hammerSlot(t *testing.T, c *topology.Cluster, prefix string) *slotCrowd {
	t.Helper()
	s := &slotCrowd{given: make([]atomic.Int64, slotKeys)}
	for i := range slotKeys {
		s.keys = append(s.keys, fmt.Sprintf("%s:%d", prefix, i))
	}
	client := c.Client()
	s.fromNs = serverTime(t, c.Nodes[0])
	s.crowd = gather(t, slotCallers, func(caller int) ask {
		rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
		f := newFollower(t, c, &s.sent)
		send := f.do
		if caller%2 == 0 {
			send = func(command []string) (resp.Value, error) { return viaClient(client, command) }
		}
		return func() (answer, bool, error) {
			i := rnd.IntN(slotKeys)
			v, err := send(limitOfSlotKey(i).call(s.keys[i], 1))
			if !assert.NoError(t, err) {
				return answer{}, false, err
			}
			a, err := answerIn(v)
			if !assert.NoError(t, err) {
				return answer{}, false, err
			}
			if a.Allowed {
				s.given[i].Add(1)
			}
			return a, true, nil
		}
	})
	return s
}

// stop sends the callers home and settles the account of each key with its owner.
func (s *slotCrowd) stop(owner *server.Server) {
	t := s.t
	t.Helper()
	total := s.disperse()
	toNs := serverTime(t, owner)
	for i, key := range s.keys {
		l, given := limitOfSlotKey(i), s.given[i].Load()
		assertWithinLimit(t, l, given, 0, s.fromNs, toNs)
		if l == hourly {
			assert.Equal(t, l.capacity-given, remaining(t, owner, l, key), "remaining of %s", key)
		}
	}
	t.Logf("%d units to %d callers, %d calls denied; %s", total, slotCallers, s.denied.Load(), &s.sent)
}
