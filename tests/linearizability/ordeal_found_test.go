package linearizability

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/hosts"
	"redis-throttle/tests/server"
)

// An ordeal has to notice servers, clocks and takeovers that are not as the checker is told.
func TestAnOrdealFindsOut(t *testing.T) {
	size.NeedsFull(t)
	t.Parallel()
	if !hosts.Inside(t) {
		return
	}
	network := hosts.New(t, withReplicas.servers(), diskBytes)
	for name, spoil := range map[string]func(st *stage, seed uint64) *history{
		// Everything is lost with the process, the replicas' copies too.
		"a server that does not write down what it answers": func(st *stage, seed uint64) *history {
			st.at(0, 0).Configure(server.Config("appendonly no"))
			return st.round(plan{inTurn: []fault{{kind: kill, at: 200 * time.Millisecond}}, ahead: make([]time.Duration, 3)}, seed, 0)
		},
		"a clock that steps": func(st *stage, seed uint64) *history {
			stepped := time.AfterFunc(200*time.Millisecond, func() { st.clock.SetAhead(st.at(0, 0).number, int64(30*time.Millisecond)) })
			defer stepped.Stop()
			return st.round(plan{inTurn: []fault{{kind: freeze, at: 400 * time.Millisecond}}, ahead: make([]time.Duration, 3)}, seed, 0)
		},
		"a replica that takes over": func(st *stage, seed uint64) *history {
			h := st.splitBrain(seed)
			h.operations = slices.DeleteFunc(h.operations, func(op porcupine.Operation) bool { _, ok := op.Input.(*succession); return ok })
			h.takeovers = nil
			return h
		},
		"a former master that still answers": func(st *stage, seed uint64) *history {
			h := st.splitBrain(seed)
			h.takeovers = nil
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			seeds := chance.New(t)
			for range 5 { // a fault may show in no reply
				seed := seeds.Uint64()
				st := newStage(t, withReplicas, network, 0, rand.New(rand.NewPCG(seed, 1)))
				failed, undecided := spoil(st, seed).check()
				t.Logf("seed %d, undecided: %v", seed, undecided)
				for _, n := range st.nodes {
					n.Stop()
				}
				if len(failed) > 0 {
					return
				}
			}
			t.Error("a history that cannot be is taken for one that can")
		})
	}
}

func (st *stage) splitBrain(seed uint64) *history {
	return st.round(plan{inTurn: []fault{{kind: splitBrain, place: 1, at: 200 * time.Millisecond, lasts: 300 * time.Millisecond}},
		ahead: make([]time.Duration, 3)}, seed, 0)
}
