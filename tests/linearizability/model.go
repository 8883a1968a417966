// Package linearizability checks concurrent histories of real servers against the naive model of the
// documentation. It looks for one order of all calls in which a model that decides one call after the other
// gives the same replies. Each call is at some instant between its sending and its receiving.
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
	exit *operation
	// took is told how long the call took, of an operation with an exit.
	took  func(ns int64)
	again func() *operation
	// done is called when the call is over; nil for nothing.
	done func()
	// event is something else than a call. It concerns the subjects that it is among, all of them by default.
	event  event
	among  func(subject) bool
	nowNs  int64 // to which the clock moves
	node   int   // whose clock steps, or that takes over
	ahead  int64 // of the others, the node's clock from now on
	former int   // the master that the node takes over from
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
	// haunted is this object, with what had expired at an instant kept as it was in another, unless something new is
	// there. Nobody sees it. But while writes are paused the server does not delete it, and it is there again if the clock
	// is set back.
	haunted(before object, nowNs int64) object
	// expiring are this object and what it may be when some keys that have expired at an instant are gone.
	expiring(nowNs int64) []object
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
	clockSteps       // of one node
	replicated       // a replica has all that was written before
	forgets          // a replica takes over, without what was written since some instant; once in a history
)

// outcome is what is known of an operation afterwards.
type outcome struct {
	reply []int64
	// unknown: no reply came, so it happened or did not.
	unknown bool
	// refused: the caller left the line with an error.
	refused bool
	// node is which one was asked, from 1 on; 0 where there is but one clock.
	node int
	// elsewhere: it may have happened to a copy that another node has taken over from.
	elsewhere bool
}

// agrees says whether a result may have had an outcome.
func (r result) agrees(out *outcome) bool {
	switch {
	case out.unknown, r.lost && (out.refused || out.elsewhere):
		return true
	case r.lost:
		return false
	case out.refused:
		return r.open
	}
	return r.open || slices.Equal(r.reply, out.reply)
}

// looks says whether a call changes nothing. Replicas answer it, and masters whose writes are paused.
func (o *operation) looks() bool {
	return len(o.words) > 0 && (o.words[0] == "CL.PEEK" || o.words[0] == "CL.LEASES")
}

func (o *operation) String() string {
	switch o.event {
	case clockMoves:
		return fmt.Sprint("the clock moves to ", o.nowNs)
	case clockSteps:
		return fmt.Sprint("the clock of node ", o.node, " is ahead by ", o.ahead)
	case replicated:
		return "replicated"
	case forgets:
		return "a replica takes over"
	default:
		return strings.Join(o.words, " ")
	}
}

// state is clocks and one object.
type state struct {
	nowNs int64
	// ahead is by how much the clock of each node is ahead of that; without them, nodes have one clock. master is the node
	// that decided last, and former the one that a replica has taken over from: 0 for none.
	ahead          []int64
	master, former int
	object         object
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

// signed completes a state.
func (s state) signed() *state {
	s.print = fmt.Sprint(s.nowNs, s.ahead, s.master, s.former, s.object)
	if s.written != nil {
		s.print += s.written.print
	}
	return &s
}

// clock is what a node's clock says.
func (s *state) clock(node int) int64 {
	if node < len(s.ahead) {
		return s.nowNs + s.ahead[node]
	}
	return s.nowNs
}

// readAt are what the object may be after the clock by which it expires goes to an instant. If that is earlier than what it
// said, a key that had expired is gone, or is there again.
func (s *state) readAt(o object, nowNs int64) []object {
	if said := s.clock(s.master); s.master != 0 && nowNs < said {
		return o.expiring(said)
	}
	return []object{o}
}

// next is every state that an operation with an outcome may lead to; none if the outcome is impossible.
func (s *state) next(o *operation, out *outcome) (states []*state) {
	add := func(change func(next *state)) {
		next := *s
		change(&next)
		states = append(states, next.signed())
	}
	switch o.event {
	case clockMoves:
		add(func(next *state) { next.nowNs = o.nowNs })
	case clockSteps:
		ahead := slices.Clone(s.ahead)
		ahead[o.node] = o.ahead
		objects := []object{s.object}
		if o.node == s.master {
			objects = s.readAt(s.object, s.nowNs+o.ahead)
		}
		for _, object := range objects {
			add(func(next *state) { next.ahead, next.object = ahead, object })
		}
	case replicated:
		add(func(next *state) { next.written = nil })
	case forgets:
		takeOver := func(before object) {
			for _, object := range s.readAt(s.object.after(before), s.clock(o.node)) {
				add(func(next *state) {
					next.object, next.written, next.mayLose = object, nil, false // no other comes
					next.master, next.former = o.node, o.former
				})
			}
		}
		for w := s.written; w != nil; w = w.previous {
			takeOver(w.before)
		}
		takeOver(s.object)
	default:
		return s.called(o, out)
	}
	return states
}

// called is next for a call.
func (s *state) called(o *operation, out *outcome) (states []*state) {
	dead := out.node != 0 && out.node == s.former
	for _, object := range s.readAt(s.object, s.clock(out.node)) {
		for _, r := range o.run(object, s.clock(out.node)) {
			if !r.agrees(out) || dead && !r.lost {
				continue
			}
			next := *s
			next.object = r.object
			if len(s.ahead) > 0 {
				next.object = r.object.haunted(object, s.clock(out.node))
			}
			if !r.lost {
				next.master = out.node
			}
			if s.mayLose && next.object.stored() != s.object.stored() {
				next.written = s.written.then(s.object)
			}
			states = append(states, next.signed())
		}
	}
	if (out.unknown || out.elsewhere) && o.again == nil { // it did not happen
		states = append(states, s)
	}
	return states
}

// model is that of one object, which begins in a state.
func model(begin *state) porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{begin} },
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
