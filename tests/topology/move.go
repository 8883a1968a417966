package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Way hands a slot from one master to another, or to its replica.
type Way struct {
	Name    string
	missing string // why this server cannot do it
	Pass    func(c *Cluster, slot int, from, to *server.Server)
}

// InEachWay runs a test for each way in which a slot changes hands on this server, except for some.
func (c *Cluster) InEachWay(t *testing.T, test func(t *testing.T, way Way), except ...string) {
	t.Helper()
	p, missing := c.Nodes[0].Program, map[bool]string{}
	missing[true] = fmt.Sprintf("%s has no command for it", p)
	for _, way := range []Way{
		{"key by key", "", (*Cluster).MoveKeyByKey},
		{"redis-cli reshard", "", (*Cluster).reshard},
		{"as a whole", missing[!p.IsValkey() || p.Major < 9], (*Cluster).moveAsAWhole},
		{"imported as a whole", missing[p.IsValkey() || !p.AtLeast(8, 4)], (*Cluster).importAsAWhole},
		{Failover, "", (*Cluster).failOver},
	} {
		if slices.Contains(except, way.Name) {
			continue
		}
		t.Run(way.Name, func(t *testing.T) {
			if way.missing != "" {
				t.Skip(way.missing)
			}
			c.AwaitAgreement()
			test(t, way)
		})
	}
}

// Failover is the way in which a replica takes over from its master.
const Failover = "failover of the master"

// reshardSlots is how many slots move together; redis-cli takes the lowest.
const reshardSlots = 100

// TagAmongLowest finds a hash tag whose slot is among the lowest of a master, which every way can move.
func (c *Cluster) TagAmongLowest(master *server.Server) (tag string, slot int) {
	slots := c.Slots(master)[:reshardSlots]
	for i := 0; ; i++ {
		tag := strconv.Itoa(i)
		if slot := c.Slot(tag); slices.Contains(slots, slot) {
			return tag, slot
		}
	}
}

// KeyOn is a key of a master, which begins with a prefix.
func (c *Cluster) KeyOn(master *server.Server, prefix string) string {
	c.t.Helper()
	slots := c.Slots(master)
	for i := 0; ; i++ {
		if key := prefix + strconv.Itoa(i); slices.Contains(slots, c.Slot(key)) {
			return key
		}
	}
}

// BeginMove marks a slot as on its way.
func (c *Cluster) BeginMove(slot int, from, to *server.Server) {
	c.setSlot(to, slot, "IMPORTING", c.ID(from))
	c.setSlot(from, slot, "MIGRATING", c.ID(to))
}

// EndMove gives a slot to the node that has imported it.
func (c *Cluster) EndMove(slot int, from, to *server.Server) {
	c.setSlot(to, slot, "NODE", c.ID(to))
	c.setSlot(from, slot, "NODE", c.ID(to))
}

// setSlot waits for a replica if need be: Valkey has one take part.
func (c *Cluster) setSlot(s *server.Server, slot int, words ...string) {
	command := append([]string{"CLUSTER", "SETSLOT", strconv.Itoa(slot)}, words...)
	var v resp.Value
	require.Eventually(c.t, func() bool {
		v = s.Do(command...)
		return !strings.HasPrefix(v.Text, "NOREPLICAS")
	}, time.Minute, 5*time.Millisecond)
	require.False(c.t, v.IsError(), "%q answers %v", command, v)
}

// MoveKeyByKey is how resharding is done by hand.
func (c *Cluster) MoveKeyByKey(slot int, from, to *server.Server) {
	c.BeginMove(slot, from, to)
	for {
		if c.BetweenKeys != nil {
			c.BetweenKeys()
		}
		keys := from.MustDo("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), "1").Elems
		if len(keys) == 0 {
			break
		}
		from.MustDo("MIGRATE", to.Host, strconv.Itoa(to.Port), keys[0].Text, "0", "10000") // NOKEY, which is fine, for a key that expired meanwhile
	}
	c.EndMove(slot, from, to)
}

func (c *Cluster) reshard(_ int, from, to *server.Server) {
	c.CLI("--cluster", "reshard", from.Addr(), "--cluster-from", c.ID(from), "--cluster-to", c.ID(to),
		"--cluster-slots", strconv.Itoa(reshardSlots), "--cluster-yes")
}

// moveAsAWhole leaves it to the servers (Valkey 9).
func (c *Cluster) moveAsAWhole(slot int, from, to *server.Server) {
	number := strconv.Itoa(slot)
	from.MustDo("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", number, number, "NODE", c.ID(to))
	require.Eventually(c.t, func() bool { return c.Owner(slot) == to }, time.Minute, 5*time.Millisecond)
}

// importAsAWhole leaves it to the servers (Redis 8.4).
func (c *Cluster) importAsAWhole(slot int, _, to *server.Server) {
	number := strconv.Itoa(slot)
	to.MustDo("CLUSTER", "MIGRATION", "IMPORT", number, number)
	require.Eventually(c.t, func() bool { return c.Owner(slot) == to }, time.Minute, 5*time.Millisecond)
}

// LastPong is when a node last heard from another one, in ms, by its CLUSTER NODES; "" if it does not know it.
func LastPong(nodes, id string) string {
	for line := range strings.Lines(nodes) {
		if words := strings.Fields(line); words[0] == id {
			return words[5]
		}
	}
	return ""
}

// failOver makes the replica of a master take over from it, once the replica has heard from it again. Otherwise a
// replica of Redis 7.0 loses a slot that the master got last: it lets the master's next message take it back
// (redis/redis pull request 12564).
func (c *Cluster) failOver(_ int, from, _ *server.Server) {
	replica, id := c.ReplicaOf(from), c.ID(from)
	heard := func() string { return LastPong(replica.MustDo("CLUSTER", "NODES").Text, id) }
	last := heard()
	require.Eventually(c.t, func() bool { return heard() != last }, patience, 20*time.Millisecond)
	replica.MustDo("CLUSTER", "FAILOVER")
	AwaitRole(c.t, replica, "master")
}
