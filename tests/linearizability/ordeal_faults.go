package linearizability

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// befall carries out a plan, and returns when it is over.
func (st *stage) befall(p plan, begun time.Time, r *rand.Rand, subjects []subject) {
	var group sync.WaitGroup
	defer group.Wait() // also when a fault cannot be brought about, which ends this goroutine
	for _, f := range p.besides {
		group.Go(func() {
			time.Sleep(time.Until(begun.Add(f.at)))
			if st.happensBesides(f) {
				st.count(f.kind)
			}
		})
	}
	for _, f := range p.inTurn {
		time.Sleep(time.Until(begun.Add(f.at)))
		st.happens(f, r, subjects)
		st.count(f.kind)
	}
}

func (st *stage) count(k kind) {
	st.mutex.Lock()
	defer st.mutex.Unlock()
	st.befell[k]++
}

// happens brings about a fault, and ends it.
func (st *stage) happens(f fault, r *rand.Rand, subjects []subject) {
	n := st.at(f.shard, f.place)
	switch f.kind {
	case kill:
		n.Kill()
		st.gone(n)
		time.Sleep(f.lasts)
		st.start(n)
	case freeze:
		n.Pause()
		stopped := st.history.now()
		time.Sleep(f.lasts)
		st.history.silent(n.number, stopped, st.history.now())
		n.Resume()
	case partition, deafness:
		other := st.other(f)
		st.cut(n.host, other.host, f.kind == partition)
		time.Sleep(f.lasts)
		st.join(n.host, other.host)
	case unreached:
		st.cut(n.host, st.network.Here, true)
		began := st.history.now()
		time.Sleep(f.lasts)
		st.history.silent(n.number, began, st.history.now())
		st.join(n.host, st.network.Here)
	case fullDisk:
		st.runOutOfDisk(n, f.lasts)
	case failover:
		st.awaitPlaces()
		st.handOver(st.at(f.shard, 0), n)
		st.lead(n)
	case slotMove:
		st.awaitPlaces()
		st.moveSlots(f.shard, f.other, subjects, r)
	case deadMaster, splitBrain, lateMaster:
		st.awaitPlaces()
		st.loseMaster(f, st.at(f.shard, 0), n)
	}
}

// gone notes that a server has ended, or learnt of its successor.
func (st *stage) gone(n *node) { st.history.silent(n.number, st.history.now(), never) }

// runOutOfDisk fills the disk of a server. A write then ends the server: its file has to hold whatever it has answered.
func (st *stage) runOutOfDisk(n *node, d time.Duration) {
	n.ExpectEnd()
	n.host.FillDisk()
	time.Sleep(d)
	n.host.FreeDisk()
	// It has ended, or has survived.
	st.await("the server has ended or answers", func() bool { return !n.Running() || n.does("PING") })
	if !n.Running() {
		st.gone(n)
		st.start(n)
	}
}

// loseMaster takes the master from its replicas, in one way or another, and has one of them take over. No fault comes
// after it in its round, so a server is a former master for the rest of it.
func (st *stage) loseMaster(f fault, former, successor *node) {
	const lag = 50 * time.Millisecond // so that there is something to forget
	event := &succession{st.isOf(f.shard), successor.number, former.number}
	began := st.history.now()
	var apart int64
	switch f.kind {
	case lateMaster:
		former.Pause()
		apart = st.history.now()
	default:
		for _, other := range st.others(former) {
			st.cut(former.host, other.host, true)
		}
		apart = st.history.now()
		time.Sleep(min(lag, f.lasts))
	}
	took := began
	if f.kind == deadMaster {
		former.Kill()
		st.gone(former)
		took = st.history.now()
	} else {
		st.divide(former)
	}
	st.takeOver(former, successor)
	st.history.note(0, event, took, &outcome{})
	st.lead(successor)
	time.Sleep(f.lasts)
	for _, other := range st.others(former) {
		st.join(former.host, other.host)
	}
	switch f.kind {
	case deadMaster:
		st.start(former)
	case lateMaster:
		st.history.silent(former.number, apart, st.history.now())
		former.Resume()
	}
	st.rejoin(former, successor)
	st.gone(former)
	if f.kind != deadMaster {
		st.history.takeovers = append(st.history.takeovers, takeover{event, began, apart, st.history.now()})
	}
	st.divide(nil)
}

// happensBesides brings about a fault beside others, and ends it. It returns false if the server could not be reached.
func (st *stage) happensBesides(f fault) bool {
	n := st.at(f.shard, f.place)
	switch f.kind {
	case clockStep:
		began := st.history.now()
		st.clock.SetAhead(n.number, int64(f.size))
		st.history.note(0, &nodeClockStep{n.number, int64(f.size)}, began, &outcome{})
		return true
	case slowDisk:
		n.host.SlowDown(f.size)
		time.Sleep(f.lasts)
		n.host.SlowDown(0)
		return true
	case outOfMemory:
		short := n.does("CONFIG", "SET", "maxmemory", strconv.Itoa(1))
		time.Sleep(f.lasts)
		if short {
			st.await("the server has memory again", func() bool {
				v, err := n.try("CONFIG", "SET", "maxmemory", "0")
				// One that was killed has memory again when it is started.
				return errors.Is(err, syscall.ECONNREFUSED) || err == nil && !v.IsError()
			})
		}
		return short
	case snapshot:
		return n.does("BGSAVE")
	case rewrite:
		return n.does("BGREWRITEAOF")
	}
	panic("no such fault: " + string(f.kind))
}
