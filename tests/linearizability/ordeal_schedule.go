package linearizability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is what goes wrong.
type kind string

// These come one after the other. They decide which servers run, and which of them reach each other.
const (
	kill       kind = "kill -9 and restart"
	freeze     kind = "SIGSTOP"
	partition  kind = "no network to another server"
	deafness   kind = "no network from another server"
	unreached  kind = "no network to the clients"
	fullDisk   kind = "full disk"
	failover   kind = "planned failover"
	slotMove   kind = "slots move"
	deadMaster kind = "master dies, replica takes over"
	splitBrain kind = "master is cut off, replica takes over"
	lateMaster kind = "master is stopped, replica takes over, master goes on"
)

// These come on top of the others.
const (
	clockStep   kind = "clock steps"
	slowDisk    kind = "slow fsync"
	outOfMemory kind = "out of memory"
	snapshot    kind = "BGSAVE"
	rewrite     kind = "BGREWRITEAOF"
)

// fault is something that goes wrong in a round.
type fault struct {
	kind kind
	// shard, from 0, is the master with its replicas that it befalls; place is 0 for the one that is the master then,
	// or the number of a replica.
	shard, place int
	// other is the place of another server, counted through all shards; of slotMove, the shard that the slots go to.
	other     int
	at, lasts time.Duration // since the beginning of the round
	size      time.Duration // of a step of the clock, or by which an fsync takes longer
}

func (f fault) String() string {
	s := fmt.Sprintf("%v: %s, server %d.%d", f.at, f.kind, f.shard, f.place)
	switch f.kind {
	case partition, deafness, slotMove:
		s += fmt.Sprint(" and ", f.other)
	}
	if f.lasts > 0 {
		s += fmt.Sprint(", for ", f.lasts)
	}
	if f.size != 0 {
		s += fmt.Sprint(", by ", f.size)
	}
	return s
}

// plan is what goes wrong in a round: faults in the order in which they begin.
type plan struct {
	inTurn, besides []fault
	// ahead is by how much each server's clock is ahead of the others at the beginning.
	ahead []time.Duration
}

// setup is some servers, and what may go wrong with them.
type setup struct {
	name             string
	shards, replicas int // servers beside the master of each shard
	inTurn, last     []kind
	besides          []kind
	mostAhead        time.Duration
	// oneClock is a fault that needs clocks which agree: MIGRATE sends the time to live, not an instant.
	oneClock kind
}

var (
	withReplicas = setup{
		name: "replicated", shards: 1, replicas: 2, mostAhead: 20 * time.Second,
		inTurn:  []kind{kill, freeze, partition, deafness, unreached, fullDisk, failover},
		last:    []kind{deadMaster, splitBrain},
		besides: []kind{clockStep, slowDisk, outOfMemory, snapshot, rewrite},
	}
	inCluster = setup{
		name: "clustered", shards: 3, replicas: 1, mostAhead: 300 * time.Millisecond, oneClock: slotMove,
		inTurn:  []kind{kill, freeze, partition, deafness, unreached, fullDisk, failover, slotMove},
		last:    []kind{deadMaster, splitBrain, lateMaster},
		besides: []kind{clockStep, slowDisk, outOfMemory, snapshot, rewrite},
	}
)

// plan returns the plan of a round. The same seed always gives the same one.
func (s setup) plan(seed uint64, round int) plan {
	d := drawer{s, rand.New(rand.NewPCG(seed, uint64(round)<<8|uint64(len(s.name))))}
	p := plan{ahead: make([]time.Duration, s.servers())}
	end := d.millis(50, 200)
	for range 1 + d.IntN(3) {
		f := d.inTurn(end)
		end += f.lasts + d.millis(50, 250)
		p.inTurn = append(p.inTurn, f)
	}
	moves := slices.ContainsFunc(p.inTurn, func(f fault) bool { return f.kind == s.oneClock })
	if !moves && d.IntN(2) == 0 {
		p.inTurn = append(p.inTurn, d.last(end))
	}
	for range 1 + d.IntN(3) {
		if f := d.besides(); f.kind != clockStep || !moves {
			p.besides = append(p.besides, f)
		}
	}
	slices.SortStableFunc(p.besides, func(a, b fault) int { return int(a.at - b.at) })
	for i := range p.ahead {
		if !moves && d.IntN(2) == 0 {
			p.ahead[i] = s.offset(d.Rand)
		}
	}
	return p
}

// drawer draws the faults of a round.
type drawer struct {
	setup
	*rand.Rand
}

func (d drawer) millis(least, most int) time.Duration {
	return time.Duration(least+d.IntN(most-least+1)) * time.Millisecond
}

// fault is one of these, of any server and some length.
func (d drawer) fault(from []kind) fault {
	f := fault{kind: from[d.IntN(len(from))], shard: d.IntN(d.shards), place: d.IntN(1 + d.replicas), lasts: d.millis(20, 400)}
	if d.IntN(5) == 0 {
		f.lasts *= 4
	}
	f.other = (f.shard*(1+d.replicas) + f.place + 1 + d.IntN(d.servers()-1)) % d.servers()
	return f
}

func (d drawer) inTurn(at time.Duration) fault {
	f := d.fault(d.setup.inTurn)
	f.at = at
	switch f.kind {
	case failover: // to a replica
		f.place, f.lasts = 1+d.IntN(d.replicas), 0
	case slotMove:
		f.place, f.lasts, f.other = 0, 0, (f.shard+1+d.IntN(d.shards-1))%d.shards
	}
	return f
}

func (d drawer) last(at time.Duration) fault {
	f := d.fault(d.setup.last)
	f.at, f.place, f.lasts = at, 1+d.IntN(d.replicas), d.millis(20, 300)
	return f
}

func (d drawer) besides() fault {
	f := d.fault(d.setup.besides)
	f.at = d.millis(0, 1500)
	switch f.kind {
	case clockStep:
		f.lasts, f.size = 0, d.offset(d.Rand)
	case slowDisk:
		f.size = time.Duration(1+d.IntN(10)) * time.Millisecond
	case outOfMemory:
		f.place = 0
	case snapshot, rewrite:
		f.lasts = 0
	}
	return f
}

// offset is how far clocks differ: mostly by some milliseconds. It is whole microseconds, as some servers tell a module
// no more of the time, and a model with more would lapse a lease a millisecond late.
func (s setup) offset(r *rand.Rand) time.Duration {
	most := s.mostAhead
	if r.IntN(3) > 0 {
		most = min(most, 50*time.Millisecond)
	}
	return (time.Duration(r.Int64N(int64(2*most))) - most).Truncate(time.Microsecond)
}

// servers is how many there are.
func (s setup) servers() int { return s.shards * (1 + s.replicas) }

func (p plan) String() string {
	var lines []string
	for _, f := range append(slices.Clone(p.inTurn), p.besides...) {
		lines = append(lines, f.String())
	}
	return fmt.Sprintf("clocks %v\n%s", p.ahead, strings.Join(lines, "\n"))
}
