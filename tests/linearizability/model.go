// Package linearizability checks concurrent histories of real servers against the naive model of the
// documentation. It looks for one order of all calls in which a model that decides one call after the other
// gives the same replies. Each call is at some instant between its sending and its receiving.
//
// The servers run under a clock that the test moves while calls are under way. A move of the clock is an
// operation of the history like any other, so nothing is assumed of the instant of a decision but
// that it lies between sending and receiving. A call that was never answered may have happened or not.
package linearizability

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"redis-throttle/tests/resp"
)

// operation is what a client or the test did.
type operation struct {
	of    subject // nil for one that concerns all
	words []string
	// run is what it may have done to an object at an instant.
	run func(o object, nowNs int64) []result
	// read makes integers of a reply that is none of integers; nil where it is.
	read func(resp.Value) ([]int64, error)
	// exit is the second half of a call that may wait in line: when it leaves the line. run is when it
	// arrives. again is the same call, made once more.
	exit  *operation
	again func() *operation
	// event is something else than a call.
	event event
	nowNs int64 // to which the clock moves
}

// object is what callers share: some keys that one call may ask together, or a key with leases.
type object interface {
	// clone is a copy that has a life of its own.
	clone() object
	// String tells all: two objects with the same string go on alike. Stored tells what is in a key.
	String() string
	stored() string
	// after is the object of a replica that takes over, where what is stored is as it was in another.
	after(takeover object) object
}

// result is what may become of an object, and the reply.
type result struct {
	object
	reply []int64
	// open: the reply is not known yet, or was compared before. lost: nobody is let in, nor told so.
	open, lost bool
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
	// refused: the caller left the line with an error.
	refused bool
}

// agrees says whether a result may have had an outcome.
func (r result) agrees(out *outcome) bool {
	switch {
	case out.unknown, r.lost && out.refused:
		return true
	case r.lost:
		return false
	case out.refused:
		return r.open
	}
	return r.open || slices.Equal(r.reply, out.reply)
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
		return strings.Join(o.words, " ")
	}
}

// state is a clock and one object.
type state struct {
	nowNs  int64
	object object
	// written is what the object was before each write since the last that is known to be replicated,
	// where a replica may take over.
	written *write
	mayLose bool
	// print is the same for states that go on alike.
	print string
}

// write is a write, what the object was before it, and the one before.
type write struct {
	before   object
	previous *write
	print    string // the same for the same writes
}

func (w *write) then(before object) *write {
	print := before.stored()
	if w != nil {
		print += w.print
	}
	sum := sha256.Sum256([]byte(print))
	return &write{before, w, string(sum[:])}
}

func newState(nowNs int64, o object, mayLose bool, written *write) *state {
	s := &state{nowNs: nowNs, object: o, mayLose: mayLose, written: written}
	s.print = fmt.Sprint(nowNs, o)
	if written != nil {
		s.print += written.print
	}
	return s
}

// next is every state that an operation with an outcome may lead to; none if the outcome is impossible.
func (s *state) next(o *operation, out *outcome) (states []*state) {
	switch o.event {
	case clockMoves:
		return []*state{newState(o.nowNs, s.object, s.mayLose, s.written)}
	case replicated:
		return []*state{newState(s.nowNs, s.object, s.mayLose, nil)}
	case forgets:
		for w := s.written; w != nil; w = w.previous {
			states = append(states, newState(s.nowNs, s.object.after(w.before), s.mayLose, w.previous))
		}
		return append(states, newState(s.nowNs, s.object.after(s.object), s.mayLose, s.written))
	}
	for _, r := range o.run(s.object, s.nowNs) {
		if !r.agrees(out) {
			continue
		}
		written := s.written
		if s.mayLose && r.object.stored() != s.object.stored() {
			written = written.then(s.object)
		}
		states = append(states, newState(s.nowNs, r.object, s.mayLose, written))
	}
	if out.unknown && o.again == nil { // it did not happen
		states = append(states, s)
	}
	return states
}

// model is that of one object, which begins at an instant.
func model(begin object, nowNs int64, mayLose bool) porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{newState(nowNs, begin, mayLose, nil)} },
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

// check says whether the history of each object is that of the model. An object is independent of all others.
func (h *history) check() (failed []string, err error) {
	subjects, mayLose := map[string]subject{}, false
	for _, op := range h.operations {
		o := op.Input.(*operation)
		mayLose = mayLose || o.event == forgets
		if o.of != nil {
			subjects[o.of.name()] = o.of
		}
	}
	for name, subject := range subjects {
		operations := h.operationsOf(name)
		switch porcupine.CheckOperationsTimeout(model(subject.begin(), h.beginsNs, mayLose), operations, patience) {
		case porcupine.Illegal:
			failed = append(failed, name)
		case porcupine.Unknown:
			return nil, fmt.Errorf("%s: no answer within %s for %d operations", name, patience, len(operations))
		}
	}
	return failed, nil
}

// operationsOf are those that concern an object.
func (h *history) operationsOf(name string) (operations []porcupine.Operation) {
	for _, op := range h.operations {
		if of := op.Input.(*operation).of; of == nil || of.name() == name {
			operations = append(operations, op)
		}
	}
	return operations
}

// longest is the longest order that explains a history up to some instant, the states at its end, and the
// first operations that are not in it.
func (h *history) longest(name string) (order []porcupine.Operation, states []*state, rest []porcupine.Operation) {
	operations := h.operationsOf(name)
	var begin object
	for _, op := range operations {
		if of := op.Input.(*operation).of; of != nil {
			begin = of.begin()
		}
	}
	_, info := porcupine.CheckOperationsVerbose(model(begin, h.beginsNs, false), operations, patience)
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, o := range orders {
			if len(o) > len(order) {
				order = o
			}
		}
	}
	states = []*state{newState(h.beginsNs, begin, false, nil)}
	contained := map[any]bool{}
	for _, op := range order {
		contained[op.Input] = true
		var after []*state
		for _, s := range states {
			after = append(after, s.next(op.Input.(*operation), op.Output.(*outcome))...)
		}
		states = after
	}
	for _, op := range operations {
		if !contained[op.Input] {
			rest = append(rest, op)
		}
	}
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return order, states, rest
}
