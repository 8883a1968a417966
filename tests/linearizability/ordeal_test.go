package linearizability

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/hosts"
)

var (
	ordealFlag = flag.Duration("ordeal", 0, "how long the ordeal lasts; by default a minute, or 10s with -short")
	roundFlag  = flag.Int("round", 0, "the round of a seed to begin with")
)

// Servers of two set-ups, replicated and clustered, on hosts of their own, go through round after round of faults while
// clients call. The history of each round has to be linearizable; then all servers recover, replicas hold what their
// masters do, and nobody is left waiting. A seed repeats the calls and the faults:
//
//	SEED=42 go test ./tests/linearizability -run '^TestOrdeal$' -v -ordeal 10m
func TestOrdeal(t *testing.T) {
	t.Parallel()
	if !hosts.Inside(t) {
		return
	}
	seed := chance.Seed(t)
	setups := []setup{withReplicas, inCluster}
	servers := 0
	for _, s := range setups {
		servers += s.servers()
	}
	network := hosts.New(t, servers, diskBytes)
	end := time.Now().Add(cmp.Or(*ordealFlag, size.Of(5*time.Second, time.Minute)))
	first := 0
	for _, s := range setups {
		from := first
		first += s.servers()
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			endure(t, s, network, from, seed, end)
		})
	}
}

// endure has the servers of a set-up go through rounds until the end.
func endure(t *testing.T, s setup, network *hosts.Network, firstHost int, seed uint64, end time.Time) {
	st := newStage(t, s, network, firstHost, rand.New(rand.NewPCG(seed, 1)))
	st.loadFunctions()
	var sum tally
	defer func() { sum.log(t, st) }() // also of a run that fails
	told := time.Now()
	for round := *roundFlag; round == *roundFlag || time.Now().Before(end); round++ { // one at least
		p := s.plan(seed, round)
		h := st.round(p, seed, round)
		var failed []string
		if !t.Failed() {
			failed = sum.add(t, p, h)
		}
		if t.Failed() {
			t.Logf("round %d of seed %d:\n%v", round, seed, p)
			if len(failed) > 0 {
				show(t, h, failed[0])
			}
			return
		}
		st.tidy(round)
		if time.Since(told) > time.Minute {
			told = time.Now()
			t.Logf("%s: %d rounds and %d calls so far", st.name, sum.rounds, sum.calls)
		}
	}
}

// round runs clients and faults for a while and returns what happened.
func (st *stage) round(p plan, seed uint64, round int) *history {
	r := rand.New(rand.NewPCG(seed, uint64(round)<<32|uint64(len(st.name))))
	ahead := []int64{0} // of no node
	for i, d := range p.ahead {
		st.clock.SetAhead(i+1, int64(d))
		ahead = append(ahead, int64(d))
	}
	for i := range st.shards {
		st.await("the keys are gone", func() bool { return st.at(i, 0).does("FLUSHALL") })
	}
	l := &load{
		t: st.T, seed: r.Uint64(), subjects: subjects(r, false, ""), clients: 6, calls: 80, crashes: 200,
		network: st, pause: 12 * time.Millisecond, during: make(chan struct{}),
	}
	if st.functions {
		l.callFunctions(func() bool { return r.IntN(2) == 0 })
	}
	st.begin(l.subjects)
	st.history = st.ticks.record()
	st.history.ahead = ahead
	l.history = st.history
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		defer close(l.during)
		st.befall(p, time.Now(), r, l.subjects)
	}()
	var confirming sync.WaitGroup
	for i := range st.shards {
		confirming.Go(func() { st.confirm(i, stop) })
	}
	l.run()
	<-stopped
	close(stop)
	confirming.Wait()
	st.ticks.rest()
	st.rest()
	return st.history
}

// tidy keeps the files short, between rounds.
func (st *stage) tidy(round int) {
	const often = 25
	if round%often != often-1 {
		return
	}
	for _, n := range st.nodes {
		n.does("BGREWRITEAOF")
	}
	st.awaitPlaces()
}

// tally is what all rounds come to.
type tally struct {
	rounds, calls, unanswered, objects int
	lines, failed, undecided           int // histories: one or two of each object
	checked                            time.Duration
}

// add checks a history.
func (sum *tally) add(t *testing.T, p plan, h *history) (failed []string) {
	begun := time.Now()
	failed, undecided := h.check()
	if len(undecided) > 0 {
		t.Logf("not decided within %s: %s; %v", patience, strings.Join(undecided, ", "), p)
	}
	sum.failed += len(failed)
	sum.undecided += len(undecided)
	sum.checked += time.Since(begun)
	sum.rounds++
	for _, op := range h.operations {
		if _, ok := op.Input.(*call); ok {
			sum.calls++
			if op.Output.(*outcome).unknown {
				sum.unanswered++
			}
		}
	}
	for _, subject := range h.subjects() {
		sum.objects++
		sum.lines += len(h.lines(subject))
	}
	assert.Empty(t, failed, "no order of the calls explains the replies")
	return failed
}

func (sum *tally) log(t *testing.T, st *stage) {
	var faults []string
	for _, k := range slices.Sorted(maps.Keys(st.befell)) {
		faults = append(faults, fmt.Sprintf("%s %d", k, st.befell[k]))
	}
	t.Logf("%s: %d rounds on %s; %d calls, %d of them without a reply; %d histories of %d objects: %d linearizable, %d not, %d undecided, checked in %v",
		st.name, sum.rounds, st, sum.calls, sum.unanswered, sum.lines, sum.objects,
		sum.lines-sum.failed-sum.undecided, sum.failed, sum.undecided, sum.checked.Round(time.Second))
	assert.LessOrEqual(t, sum.unanswered, sum.calls/2, "most calls have to be answered, or their histories say little")
	assert.LessOrEqual(t, sum.undecided, 1+sum.lines/1000, "histories that the checker had no time for")
	t.Logf("%s: faults: %s", st.name, strings.Join(faults, ", "))
}
