package linearizability

import (
	"fmt"
	"slices"
	"strings"

	"redis-throttle/tests/resp"
)

// operation is what a client or the test did: a call, the end of one that waited in line, or an event.
type operation interface {
	// concerns says whether it happens to the object of a subject.
	concerns(of subject) bool
	// next is every state that it may lead to with an outcome; none if the outcome is impossible.
	next(s *state, out *outcome) []*state
}

// call is a call of a client.
type call struct {
	of    subject
	words []string
	// sent is the same call as one of a function; nil where it goes as it is.
	sent []string
	// run is what it may have done to an object at an instant. Of one that may wait in line, that is its arrival.
	run func(o object, nowNs int64) []result
	// read makes integers of a reply that is none of integers; nil where it is.
	read func(resp.Value) ([]int64, error)
	// wait is nil for a call that is answered at once.
	wait *wait
}

// wait is what else there is to a call that may wait in line.
type wait struct {
	leaves *departure
	// took is told how long the call took.
	took func(ns int64)
	// again is the same call, made once more.
	again func() *call
	// done is called when the call is over.
	done func()
}

// departure is the second half of a call that may wait in line: when it leaves the line, let in or not.
type departure struct {
	of  subject
	id  string
	run func(o object, nowNs int64) []result
}

// clockMove is a move of the clock of all nodes to an instant.
type clockMove struct{ nowNs int64 }

// nodeClockStep is a step of the clock of one node, which is ahead of the others by so much from then on.
type nodeClockStep struct {
	node  int
	ahead int64
}

// replication says that a replica has all that was written before.
type replication struct{ among }

// succession is a replica that takes over from a master, without what was written since some instant. There is one in
// a history of an object at most.
type succession struct {
	among
	node, former int // 0 where there is but one clock
}

// among tells the subjects that an event concerns, nil for all.
type among func(subject) bool

func (a among) concerns(of subject) bool { return a == nil || a(of) }

func (c *call) concerns(of subject) bool       { return c.of.name() == of.name() }
func (d *departure) concerns(of subject) bool  { return d.of.name() == of.name() }
func (m *clockMove) concerns(subject) bool     { return true }
func (c *nodeClockStep) concerns(subject) bool { return true }

func (c *call) String() string      { return strings.Join(c.wire(), " ") }
func (d *departure) String() string { return "leaves " + d.id }
func (m *clockMove) String() string { return fmt.Sprint("the clock moves to ", m.nowNs) }
func (c *nodeClockStep) String() string {
	return fmt.Sprint("the clock of node ", c.node, " is ahead by ", c.ahead)
}
func (*replication) String() string { return "replicated" }
func (*succession) String() string  { return "a replica takes over" }

// wire is what goes to the server.
func (c *call) wire() []string {
	if c.sent != nil {
		return c.sent
	}
	return c.words
}

// looks says whether a call changes nothing. Replicas answer it, and masters whose writes are paused.
func (c *call) looks() bool { return c.words[0] == "CL.PEEK" || c.words[0] == "CL.LEASES" }

func (c *call) next(s *state, out *outcome) []*state {
	states := s.after(c.run, out)
	if (out.unknown || out.elsewhere) && c.wait == nil { // it did not happen
		states = append(states, s)
	}
	return states
}

func (d *departure) next(s *state, out *outcome) []*state { return s.after(d.run, out) }

func (m *clockMove) next(s *state, _ *outcome) []*state {
	return []*state{s.with(func(next *state) { next.nowNs = m.nowNs })}
}

func (c *nodeClockStep) next(s *state, _ *outcome) (states []*state) {
	ahead := slices.Clone(s.ahead)
	ahead[c.node] = c.ahead
	objects := []object{s.object}
	if c.node == s.master {
		objects = s.readAt(s.object, s.nowNs+c.ahead)
	}
	for _, object := range objects {
		states = append(states, s.with(func(next *state) {
			next.ahead = ahead
			next.becomes(object)
		}))
	}
	return states
}

func (*replication) next(s *state, _ *outcome) []*state {
	return []*state{s.with(func(next *state) { next.written = nil })}
}

func (t *succession) next(s *state, _ *outcome) (states []*state) {
	takeOver := func(before object) {
		for _, object := range s.readAt(s.object.after(before), s.clock(t.node)) {
			states = append(states, s.with(func(next *state) {
				next.object, next.written, next.mayLose = object, nil, false // no other comes
				next.master, next.former = t.node, t.former
			}))
		}
	}
	for w := s.written; w != nil; w = w.previous {
		takeOver(w.before)
	}
	takeOver(s.object)
	return states
}
