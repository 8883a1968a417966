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
	"time"

	"github.com/anishathalye/porcupine"
)

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
	// there. Nobody sees it. But while writes are paused the server does not delete it, and it is there again if the
	// clock is set back.
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

// state is clocks and one object.
type state struct {
	nowNs int64
	// ahead is by how much the clock of each node is ahead of that; without them, nodes have one clock. master is the
	// node that decided last, and former the one that a replica has taken over from: 0 for none.
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

// readAt are what the object may be after the clock by which it expires goes to an instant. If that is earlier than
// what it said, a key that had expired is gone, or is there again.
func (s *state) readAt(o object, nowNs int64) []object {
	if said := s.clock(s.master); s.master != 0 && nowNs < said {
		return o.expiring(said)
	}
	return []object{o}
}

// becomes has the object be others, one after the other. What it was before each is what a replica may have that takes
// over.
func (s *state) becomes(objects ...object) {
	for _, o := range objects {
		if s.mayLose && o.stored() != s.object.stored() {
			s.written = s.written.then(s.object)
		}
		s.object = o
	}
}

// with is a state that differs in what change does.
func (s *state) with(change func(next *state)) *state {
	next := *s
	change(&next)
	return next.signed()
}

// after is every state that a call may lead to with an outcome, if it happens.
func (s *state) after(run func(o object, nowNs int64) []result, out *outcome) (states []*state) {
	dead := out.node != 0 && out.node == s.former
	for _, object := range s.readAt(s.object, s.clock(out.node)) {
		for _, r := range run(object, s.clock(out.node)) {
			if !r.agrees(out) || dead && !r.lost {
				continue
			}
			states = append(states, s.with(func(next *state) {
				after := r.object
				if len(s.ahead) > 0 {
					after = r.object.haunted(object, s.clock(out.node))
				}
				// Replicas may know that a key has expired, and not what was written then.
				next.becomes(append(object.expiring(s.clock(out.node)), after)...)
				if !r.lost {
					next.master = out.node
				}
			}))
		}
	}
	return states
}

// model returns the model of one object, which begins in a state.
func model(begin *state) porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{begin} },
		Step: func(before, in, out any) (after []any) {
			for _, s := range in.(operation).next(before.(*state), out.(*outcome)) {
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
