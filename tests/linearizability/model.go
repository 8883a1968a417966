// Package linearizability checks concurrent histories of real servers against the naive model of the
// documentation: is there one order of all calls, each at some instant between its sending and its
// receiving, in which a model that decides one call after the other gives the same replies?
//
// The servers run under a clock that the test moves while calls are under way. A move of the clock is an
// operation of the history like any other, so nothing is assumed of the instant of a decision but
// that it lies between sending and receiving. A call that was never answered may have happened or not.
package linearizability

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"redis-throttle/tests/naive"
)

// operation is what a client or the test did.
type operation struct {
	key   string // empty for one that concerns all keys
	words []string
	// run is what it does to the model of its key, and the integers of the reply.
	run func(m *naive.Model, nowNs int64) []int64
	// event is something else than a call.
	event event
	nowNs int64 // to which the clock moves
}

type event int

const (
	call       event = iota
	clockMoves       // to nowNs
	replicated       // a replica has all that was written before
	forgets          // a replica takes over, without what was written since some instant
)

// outcome is what is known of an operation afterwards.
type outcome struct {
	reply []int64
	// unknown: no reply came, so it happened or did not.
	unknown bool
}

func (o *operation) String() string {
	switch o.event {
	case clockMoves:
		return fmt.Sprint("the clock moves to ", o.nowNs)
	case replicated:
		return "replicated"
	case forgets:
		return "a replica takes over"
	default:
		return fmt.Sprint(o.words)
	}
}

// state is a clock and one key.
type state struct {
	nowNs int64
	model *naive.Model
	// written is what the key was before each write since the last that is known to be replicated,
	// where a replica may take over.
	written *write
	mayLose bool
	// print is the same for states that go on alike.
	print string
}

// write is a write, what the key was before it, and the one before.
type write struct {
	before   *naive.Model
	previous *write
	print    string // the same for the same writes
}

func (w *write) then(before *naive.Model) *write {
	print := before.String()
	if w != nil {
		print += w.print
	}
	sum := sha256.Sum256([]byte(print))
	return &write{before, w, string(sum[:])}
}

func newState(nowNs int64, m *naive.Model, mayLose bool, written *write) *state {
	s := &state{nowNs: nowNs, model: m, mayLose: mayLose, written: written}
	s.print = fmt.Sprint(nowNs, m)
	if written != nil {
		s.print += written.print
	}
	return s
}

// next is every state that an operation with an outcome may lead to; none if the outcome is impossible.
func (s *state) next(o *operation, out *outcome) (states []*state) {
	switch o.event {
	case clockMoves:
		return []*state{newState(o.nowNs, s.model, s.mayLose, s.written)}
	case replicated:
		return []*state{newState(s.nowNs, s.model, s.mayLose, nil)}
	case forgets:
		for w := s.written; w != nil; w = w.previous {
			states = append(states, newState(s.nowNs, w.before, s.mayLose, w.previous))
		}
		return append(states, s)
	}
	m := s.model.Clone()
	reply := o.run(m, s.nowNs)
	if !out.unknown && !slices.Equal(reply, out.reply) {
		return nil
	}
	after := s
	if m.String() != s.model.String() {
		var written *write
		if s.mayLose {
			written = s.written.then(s.model)
		}
		after = newState(s.nowNs, m, s.mayLose, written)
	}
	if out.unknown {
		return []*state{s, after}
	}
	return []*state{after}
}

// model is that of one key, which begins at an instant.
func model(nowNs int64, mayLose bool) porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{newState(nowNs, &naive.Model{}, mayLose, nil)} },
		Step: func(before, in, out any) (after []any) {
			for _, s := range before.(*state).next(in.(*operation), out.(*outcome)) {
				after = append(after, s)
			}
			return after
		},
		Equal: func(a, b any) bool { return a.(*state).print == b.(*state).print },
		Hash:  func(s any) uint64 { return maphash.String(seed, s.(*state).print) },
	}
	return m.ToModel()
}

// patience bounds a search, which takes milliseconds.
const patience = 60 * time.Second

// check says whether the history of each key is that of the model. A key is independent of all others.
func (h *history) check() (failed []string, err error) {
	byKey, mayLose := map[string][]porcupine.Operation{}, false
	for _, op := range h.operations {
		mayLose = mayLose || op.Input.(*operation).event == forgets
		if key := op.Input.(*operation).key; key != "" {
			byKey[key] = nil
		}
	}
	for key := range byKey {
		var operations []porcupine.Operation
		for _, op := range h.operations {
			if of := op.Input.(*operation).key; of == key || of == "" {
				operations = append(operations, op)
			}
		}
		switch porcupine.CheckOperationsTimeout(model(h.beginsNs, mayLose), operations, patience) {
		case porcupine.Illegal:
			failed = append(failed, key)
		case porcupine.Unknown:
			return nil, fmt.Errorf("%s: no answer within %s for %d operations", key, patience, len(operations))
		}
	}
	return failed, nil
}
