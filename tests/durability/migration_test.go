package durability

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// load is callers that hammer keys of one slot, all of which begin with a prefix.
type load interface {
	await()                      // returns when enough calls more were answered
	settle(owner *server.Server) // ends it, and judges what the owner of the slot holds
}

// whileASlotMoves starts callers and has their slot change hands, by each way that the server has to move one, and by a replica that takes
// over from its master. Key by key it moves there and back and there.
func whileASlotMoves(t *testing.T, start func(t *testing.T, c *topology.Cluster, from *server.Server, prefix string) load) {
	t.Helper()
	begin(t)
	cluster := topology.StartCluster(t)
	cluster.InEachWay(t, func(t *testing.T, way topology.Way) {
		masters := cluster.Masters()
		from, to := masters[0], masters[1]
		tag, slot := cluster.TagAmongLowest(from)
		l := start(t, cluster, from, strings.ReplaceAll(way.Name, " ", "-")+"{"+tag+"}")
		l.await()
		way.Pass(cluster, slot, from, to)
		if way.Name == "key by key" {
			way.Pass(cluster, slot, to, from)
			way.Pass(cluster, slot, from, to)
		}
		l.await()
		cluster.AwaitAgreement()
		owner := cluster.Owner(slot)
		require.NotSame(t, from, owner, "the slot stayed where it was")
		l.settle(owner)
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

func TestSlotChangesHandsUnderLoad(t *testing.T) {
	whileASlotMoves(t, func(t *testing.T, c *topology.Cluster, _ *server.Server, prefix string) load {
		return hammerSlot(t, c, prefix)
	})
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

func (s *slotCrowd) await() { s.awaitDenied(500) }

// settle sends the callers home and settles the account of each key with its owner.
func (s *slotCrowd) settle(owner *server.Server) {
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
