package linearizability

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"redis-throttle/tests/server"
)

// led is a master and its replicas. They take over when the test, as the operator, tells them to. Clients are told whom
// to ask. When a master is cut off, every second client stays with it.
type led struct {
	*stage
	former atomic.Pointer[node]
}

func newLed(st *stage) *led { return &led{stage: st} }

func (l *led) options() []server.Option { return nil }

func (l *led) place(n *node) []server.Option {
	if master := l.at(0, 0); master != n {
		return []server.Option{server.ReplicaOf(master.Server)}
	}
	return []server.Option{server.ReplicaOf(nil)}
}

func (l *led) form() {
	for _, n := range l.shards[0][1:] {
		l.follow(n, l.shards[0][0])
	}
	l.await("every server has its place", l.settled)
}

func (l *led) follow(n, master *node) {
	l.await("REPLICAOF", func() bool { return n.does("REPLICAOF", master.Host, strconv.Itoa(master.Port)) })
}

func (l *led) begin([]subject) {}

func (l *led) settled() bool {
	master := l.at(0, 0)
	for place := 1; place <= l.replicas; place++ {
		if !l.at(0, place).follows(master) {
			return false
		}
	}
	return master.leads() && master.info("replication", "master_failover_state") == "no-failover"
}

func (l *led) handOver(from, to *node) {
	l.history.follows(from.number)
	defer l.history.leads(to.number)
	handed := func() bool { return to.leads() && from.info("replication", "role") == "slave" }
	l.await("FAILOVER", func() bool { // it is refused while a replica lags
		from.does("FAILOVER", "TO", to.Host, strconv.Itoa(to.Port))
		for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
			if handed() {
				return true
			}
			if from.info("replication", "master_failover_state") == "no-failover" && !to.leads() {
				break
			}
		}
		return handed()
	})
	for _, n := range l.others(to) {
		l.follow(n, to)
	}
}

func (l *led) takeOver(former, to *node) {
	l.await("REPLICAOF NO ONE", func() bool { return to.does("REPLICAOF", "NO", "ONE") })
	l.history.leads(to.number)
	for _, n := range l.others(former) {
		if n != to {
			l.follow(n, to)
		}
	}
}

func (l *led) rejoin(former, successor *node) {
	l.history.follows(former.number)
	l.follow(former, successor)
	l.await("a former master follows", func() bool { return former.follows(successor) })
}

func (l *led) divide(former *node) { l.former.Store(former) }

func (l *led) moveSlots(int, int, []subject, *rand.Rand) { panic("there are no slots") }

func (l *led) isOf(int) func(subject) bool { return func(subject) bool { return true } }

func (l *led) marker(int) string { return "marker" }

func (l *led) entry(client int, _ *rand.Rand, _ string) (string, bool) {
	if former := l.former.Load(); former != nil && client%2 == 0 {
		return former.Addr(), true
	}
	return l.at(0, 0).Addr(), true
}

func (l *led) learn(int, string, string) {}
