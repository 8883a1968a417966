// Package line keeps the callers that wait for a key. There are two kinds. One has reserved a slot of rates, and only
// its answer waits; these are answered in order of arrival. The other is in turn: its call is decided anew when it is
// first and something may have changed; these stand in order of priority, by group (order.go). Lines says which line to
// look at (turn.go) and what to do next for it (Next); the host does it: it blocks callers, sets one timer for all
// lines, decides, writes and answers.
//
// The package has no clock, no I/O and no knowledge of the server. The host knows lines and callers by handles, which
// are never used twice. It may call other code between two calls, which may call anything here.
package line

import (
	"math"
	"unsafe"
)

// ID is the handle of a line or of an entry, never 0. The upper half is how many have had the same place before.
type ID uint64

func (id ID) place() int { return int(uint32(id)) }

const nextGeneration ID = 1 << 32

// Clock is one instant on both clocks. Slots and looks go by the wall clock, like the limits. How long a caller waits
// goes by the monotonic one.
type Clock struct{ WallNs, MonoNs int64 }

// Lines are the lines of all keys. The zero value has none.
//
// Lines keeps memory for as many callers, groups and lines as there ever were at the same time, and uses it again.
// Names of keys are the host's memory; those of groups are copied.
type Lines struct {
	// LookEachNs is how often the first in turn is decided at least, 0 for only when something may have changed.
	LookEachNs int64

	lines, spareLines []*line
	entries, spare    []*entry
	byName            map[key]*line
	byCaller          map[uintptr]*entry
	byGroup           map[groupKey]*group
	spareRanks        *rank
	spareGroups       *group
	spareRings        *ring
	given             uint64 // turns of groups
	latest            *group // that was looked up
	latestLine        *line  // that was looked up, or nil
	shown             heads  // the groups that Groups comes to next
	held              []ID
	arrivals          uint64
	moving            []*entry // room for GiveBack
	queue
}

type line struct {
	id   ID
	key  key
	host uintptr

	reserved  entries // in order of arrival
	highest   *rank   // of those in turn
	inTurn    int64   // how many, of all ranks
	deadlines *entry  // the heap of those in turn that have one
	left      int     // how many of reserved are gone
	someLeft  bool    // since slots were last given back
	slots     int64   // what the latest caller in turn told
	// When the first in turn is to be decided, on the wall clock, and when it was, on the monotonic one.
	lookNs, lookedNs int64
	changed          bool // something may let it in; without meaning while nobody is in turn
	isHeld           bool // nothing can be written now
	awake            bool // the host asks for its next steps
	links[line]           // in queue.soon
	soon             bool // it is in there
	wakesNs          int64
	sleeper          int // its place in queue.sleepers, counted from 1; 0 for none
	// Callers in turn that came before turnsAway are sent away; before allAway everybody is.
	turnsAway, allAway uint64
}

// entry is a caller in line.
type entry struct {
	id           ID
	order        uint64 // of arrival
	caller, host uintptr
	line         *line
	enteredNs    int64
	links[entry]        // in the reserved of its line, or in its group
	group        *group // of a caller in turn
	isReserved   bool
	slot
	deadline
}

type entries = list[entry, *entry]

func (e *entry) linksOf() *links[entry] { return &e.links }

// Step is what the host does next for a line.
type Step struct {
	Kind  StepKind
	Line  ID
	Entry ID
	// LineHost and Host are what the host has told of the line and of the entry.
	LineHost, Host uintptr
	Ns             int64 // how long to sleep, or how long the caller has waited
	Slots          int64 // what the latest caller in turn told
}

type StepKind int32

const (
	Sleep    StepKind = iota // for Ns; then ask Next again
	Close                    // the line is no more
	Answer                   // the caller's slot has come; it has left the line
	SendAway                 // the server is a replica now: the caller has left the line without a decision
	Moved                    // the same, because the key's slot is another node's now
	GiveBack                 // write the key without those that left (Lines.GiveBack)
	Decide                   // decide the caller anew: then WaitsOn, LetIn or Dismiss; or HoldUp
	TimeOut                  // the caller's time is over: tell it so, then Dismiss
)

// Look returns who is in turn for a key, how many they are, and what the latest told of the slots.
func (q *Lines) Look(db int, name []byte) (v View, waiting, slots int64) {
	if l := q.find(db, name); l != nil && l.inTurn > 0 {
		return View{l.id, q}, l.inTurn, l.slots
	}
	return v, 0, 0
}

// Tell notes how many slots a call that passes the line told. It returns the host of the line if it is to be woken, or
// 0.
func (q *Lines) Tell(id ID, slots int64) (wake uintptr) {
	l := q.line(id)
	if l == nil || l.slots == slots {
		return 0
	}
	l.slots = slots
	return q.change(l)
}

// Turn is what the decision to let a caller wait in turn says.
type Turn struct {
	Place
	Slots     int64
	LookNs    int64 // until it is to be decided again, if nothing happens before
	TimeoutNs int64 // 0 for none
	Changed   bool  // the decision has changed the key, which other code may have seen and changed again
}

// EnterTurn puts a caller at its place among those in turn for a key. name has to stay valid until the line is closed;
// for a new line, whose LineHost is 0 in the step, Own may replace it. The step says to sleep: for less than 0 if the
// timer is right as it is.
func (q *Lines) EnterTurn(db int, name []byte, caller, host uintptr, t Turn, now Clock) Step {
	l := q.open(db, name)
	l.changed = l.inTurn > 0 && l.changed || t.Changed
	l.slots = t.Slots
	e, before := q.newEntry(l), l.first()
	q.join(e, t.Place)
	switch l.first() {
	case before:
	case e:
		l.lookNs, l.lookedNs = later(now.WallNs, t.LookNs), now.MonoNs
	default: // the weight has brought another one of its group to the front, which may need less
		l.changed = true
	}
	if t.TimeoutNs > 0 {
		e.deadlineNs = later(now.MonoNs, t.TimeoutNs)
		l.deadlines = meld(l.deadlines, e)
	}
	return q.stand(e, caller, host, now)
}

// stand lets the host know an entry by its caller from now on.
func (q *Lines) stand(e *entry, caller, host uintptr, now Clock) Step {
	e.caller, e.host, e.enteredNs = caller, host, now.MonoNs
	q.byCaller[caller] = e
	step := Step{Line: e.line.id, LineHost: e.line.host, Entry: e.id, Ns: -1}
	ns := q.sleepNs(e.line, now)
	if wakesNs := later(now.MonoNs, ns); !e.line.awake && (step.LineHost == 0 || wakesNs < e.line.wakesNs) {
		step.Ns = ns
		q.sleepUntil(e.line, wakesNs)
	}
	return step
}

// Own tells what the host keeps of a new line, and a name for it that stays valid.
func (q *Lines) Own(id ID, host uintptr, name []byte) {
	l := q.line(id)
	delete(q.byName, l.key)
	l.host, l.key.name = host, text(name)
	q.byName[l.key] = l
}

// Stands reports whether an entry is still in line.
func (q *Lines) Stands(id ID) bool { return q.entry(id) != nil }

// IsFirst reports whether a caller in turn is still the first. It may have left, or one of a higher priority has come.
func (q *Lines) IsFirst(id ID) bool {
	e := q.entry(id)
	return e != nil && e.line.first() == e
}

// WaitsOn notes that a caller in turn waits on: for lookNs, if nothing happens before.
func (q *Lines) WaitsOn(id ID, lookNs int64, now Clock) {
	if e := q.entry(id); e != nil && e.line.first() == e {
		e.line.lookNs = later(now.WallNs, lookNs)
	}
}

// LetIn removes a caller in turn that is let in. The turn of its group is over.
func (q *Lines) LetIn(id ID) {
	if e := q.entry(id); e != nil {
		q.useTurn(e)
	}
}

// Dismiss removes a caller in turn that gets any other answer.
func (q *Lines) Dismiss(id ID) {
	if e := q.entry(id); e != nil {
		q.leaveTurn(e)
	}
}

// Leave notes that a caller has gone without an answer. ok is false if it did not wait. A reserved slot stays taken
// until it is given back. wake is the host of the line if that is to be woken, or 0.
func (q *Lines) Leave(caller uintptr) (host, wake uintptr, ok bool) {
	e := q.byCaller[caller]
	if e == nil {
		return 0, 0, false
	}
	l, host := e.line, e.host
	if e.isReserved {
		q.leaveReserved(e)
		return host, q.wake(l), true
	}
	q.leaveTurn(e)
	if l.changed || l.inTurn == 0 {
		wake = q.wake(l)
	}
	return host, wake, true
}

// Find returns what the host needs to tell a caller that it has to go; ok is false if it does not wait.
func (q *Lines) Find(caller uintptr, now Clock) (step Step, ok bool) {
	e := q.byCaller[caller]
	if e == nil {
		return step, false
	}
	return Step{Line: e.line.id, LineHost: e.line.host}.of(TimeOut, e, now), true
}

// leaveTurn forgets a caller in turn. The one behind may need less than it.
func (q *Lines) leaveTurn(e *entry) {
	l := e.line
	l.changed = l.changed || l.first() == e
	q.drop(e)
	l.deadlines = withdraw(l.deadlines, e)
	delete(q.byCaller, e.caller)
	q.free(e)
}

// Changed notes that something may let in the first in turn for a key. It returns the host of the line if that is to be
// woken, or 0.
func (q *Lines) Changed(db int, name []byte) (wake uintptr) {
	if l := q.find(db, name); l != nil {
		return q.change(l)
	}
	return 0
}

// each calls visit with every line that the host knows.
func (q *Lines) each(visit func(l *line)) {
	for _, l := range q.lines {
		if l.host != 0 {
			visit(l)
		}
	}
}

// AllDBs stands for every database.
const AllDBs = -1

// AllChanged notes that something may let in the first in turn of every line of a database, or of AllDBs, and calls
// wake with the host of each to be woken.
func (q *Lines) AllChanged(db int, wake func(host uintptr)) {
	q.each(func(l *line) {
		if db != AllDBs && db != l.key.db {
			return
		}
		if host := q.change(l); host != 0 {
			wake(host)
		}
	})
}

// Stepped notes that the wall clock was set, and calls wake with the host of every line. After a step back callers wait
// for their slots no longer than they were promised.
func (q *Lines) Stepped(now Clock, wake func(host uintptr)) {
	q.each(func(l *line) {
		l.step(now)
		l.changed = true
		q.rouse(l, wake)
	})
}

// HasMoved has the callers in turn leave that are now in a line.
func (q *Lines) HasMoved(id ID) {
	if l := q.line(id); l != nil {
		l.turnsAway = q.arrivals
	}
}

// SendAllAway has all callers leave that are now in line, and calls wake with the host of every line.
func (q *Lines) SendAllAway(wake func(host uintptr)) {
	q.each(func(l *line) {
		l.turnsAway, l.allAway = q.arrivals, q.arrivals
		q.rouse(l, wake)
	})
}

// rouse has a line looked at, also one that is to be looked at anyway.
func (q *Lines) rouse(l *line, wake func(host uintptr)) {
	q.lookSoon(l)
	wake(l.host)
}

// HoldUp notes that nothing can be written for a line now: that step was not done.
func (q *Lines) HoldUp(id ID) {
	l := q.line(id)
	l.changed, l.someLeft = true, l.left > 0
	if !l.isHeld {
		l.isHeld = true
		q.held = append(q.held, id)
	}
}

// Held returns the host of a line that is held up, or 0.
func (q *Lines) Held() (host uintptr) {
	for len(q.held) > 0 {
		if l := q.line(q.held[len(q.held)-1]); l != nil {
			return l.host
		}
		q.held = q.held[:len(q.held)-1]
	}
	return 0
}

// Release calls wake with the host of each line that was held up.
func (q *Lines) Release(wake func(host uintptr)) {
	for _, id := range q.held {
		if l := q.line(id); l != nil {
			l.isHeld = false
			if host := q.wake(l); host != 0 {
				wake(host)
			}
		}
	}
	q.held = q.held[:0]
}

// Next returns what to do next for a line. The host asks until it is told to sleep or to close the line. Next asks for
// at most decisions decisions.
func (q *Lines) Next(id ID, now Clock, decisions int) Step {
	l := q.line(id)
	if l == nil {
		return Step{Kind: Close}
	}
	q.putInHand(l)
	step := Step{Line: l.id, LineHost: l.host}
	if e, kind := l.nextAway(); e != nil {
		return q.part(step, kind, e, now)
	}
	if l.someLeft && !l.isHeld {
		l.someLeft = false
		step.Kind = GiveBack
		return step
	}
	if e := q.due(l, now.WallNs); e != nil {
		return q.part(step, Answer, e, now)
	}
	if e := l.mayMove(now, q.LookEachNs); e != nil && decisions > 0 {
		l.changed, l.lookNs, l.lookedNs = false, math.MaxInt64, now.MonoNs
		return step.of(Decide, e, now)
	} else if e == nil && l.isOver(now) && decisions > 0 {
		e := l.deadlines
		l.deadlines = withdraw(l.deadlines, e)
		return step.of(TimeOut, e, now)
	}
	l.awake = false
	if l.reserved.first == nil && l.inTurn == 0 {
		q.close(l)
		step.Kind = Close
		return step
	}
	step.Ns = q.sleepNs(l, now)
	q.sleepUntil(l, later(now.MonoNs, step.Ns))
	return step
}

// nextAway is the next caller to send away, or nil, and how.
func (l *line) nextAway() (*entry, StepKind) {
	for e := l.reserved.first; e != nil && e.order < l.allAway; e = e.next {
		if !e.left {
			return e, SendAway
		}
	}
	for r := l.highest; r != nil && l.turnsAway > 0; r = r.lower {
		for _, head := range r.heads {
			for g := head; g != nil; g = g.next {
				if e := g.callers.first; e.order < l.allAway {
					return e, SendAway
				} else if e.order < l.turnsAway {
					return e, Moved
				}
			}
		}
	}
	l.turnsAway = 0
	return nil, Sleep
}

// part is a step of a caller that leaves its line.
func (q *Lines) part(step Step, kind StepKind, e *entry, now Clock) Step {
	step = step.of(kind, e, now)
	switch {
	case !e.isReserved:
		q.leaveTurn(e)
	case kind == Answer:
		delete(q.byCaller, e.caller)
		q.free(e)
	default:
		q.leaveReserved(e)
	}
	return step
}

func (step Step) of(kind StepKind, e *entry, now Clock) Step {
	step.Kind, step.Entry, step.Host, step.Ns = kind, e.id, e.host, max(now.MonoNs-e.enteredNs, 0)
	step.Slots = e.line.slots
	return step
}

func (l *line) isOver(now Clock) bool {
	return l.deadlines != nil && l.deadlines.deadlineNs <= now.MonoNs
}

// mayMove returns the first in turn if it is to be decided now. That is also so before somebody's time is over: a slot
// may have become free since the line was looked at.
func (l *line) mayMove(now Clock, eachNs int64) *entry {
	e := l.first()
	switch {
	case e == nil || l.isHeld:
		return nil
	case l.changed, l.lookNs <= now.WallNs, eachNs > 0 && now.MonoNs-l.lookedNs >= eachNs:
		return e
	case l.isOver(now) && l.lookedNs < l.deadlines.deadlineNs:
		return e
	}
	return nil
}

// sleepNs is how long the line may sleep.
func (q *Lines) sleepNs(l *line, now Clock) int64 {
	ns := int64(math.MaxInt64)
	if l.someLeft && !l.isHeld {
		return 0
	}
	if l.reserved.first != nil {
		ns = l.reserved.first.slotNs - now.WallNs
	}
	if l.inTurn > 0 && !l.isHeld {
		if l.changed {
			return 0
		}
		ns = min(ns, l.lookNs-now.WallNs)
		if q.LookEachNs > 0 {
			ns = min(ns, l.lookedNs+q.LookEachNs-now.MonoNs)
		}
	}
	if l.deadlines != nil {
		ns = min(ns, l.deadlines.deadlineNs-now.MonoNs)
	}
	return max(ns, 0)
}

// change notes that something may let in the first in turn, and wakes the line.
func (q *Lines) change(l *line) (wake uintptr) {
	if l.inTurn == 0 {
		return 0
	}
	l.changed = true
	return q.wake(l)
}

// wake returns the host of a line that does not know yet that there is something to do, or 0.
func (q *Lines) wake(l *line) (host uintptr) {
	if l.awake || l.soon || l.host == 0 {
		return 0
	}
	q.lookSoon(l)
	return l.host
}

// later is an instant that ns after another one, or the last that there is.
func later(atNs, ns int64) int64 {
	if ns > math.MaxInt64-atNs {
		return math.MaxInt64
	}
	return atNs + ns
}

// key is the name of a key in a database.
type key struct {
	db   int
	name string
}

// text is a string of the same memory.
func text(name []byte) string { return unsafe.String(unsafe.SliceData(name), len(name)) }

func (q *Lines) find(db int, name []byte) *line {
	if l := q.latestLine; l != nil && l.key.db == db && l.key.name == string(name) { // a call looks before it enters the line
		return l
	}
	l := q.byName[key{db, text(name)}]
	q.latestLine = l
	return l
}

// open returns the line of a key, which it makes if there is none.
func (q *Lines) open(db int, name []byte) *line {
	if q.byName == nil {
		q.byName, q.byCaller, q.byGroup = make(map[key]*line), make(map[uintptr]*entry), make(map[groupKey]*group)
	}
	l := q.find(db, name)
	if l == nil {
		l = q.newLine()
		l.key = key{db, text(name)}
		q.byName[l.key] = l
	}
	return l
}

func (q *Lines) newLine() *line {
	n := len(q.spareLines)
	if n == 0 {
		l := &line{id: nextGeneration | ID(len(q.lines))}
		q.lines = append(q.lines, l)
		return l
	}
	l := q.spareLines[n-1]
	q.spareLines = q.spareLines[:n-1]
	return l
}

// close forgets a line. Its handle is no longer valid.
func (q *Lines) close(l *line) {
	delete(q.byName, l.key)
	q.latestLine = nil
	q.forget(l)
	*l = line{id: l.id + nextGeneration}
	q.spareLines = append(q.spareLines, l)
}

func (q *Lines) line(id ID) *line {
	if i := id.place(); i < len(q.lines) && q.lines[i].id == id {
		return q.lines[i]
	}
	return nil
}

func (q *Lines) entry(id ID) *entry {
	if i := id.place(); i < len(q.entries) && q.entries[i].id == id {
		return q.entries[i]
	}
	return nil
}

func (q *Lines) newEntry(l *line) *entry {
	var e *entry
	if n := len(q.spare); n > 0 {
		e = q.spare[n-1]
		q.spare = q.spare[:n-1]
	} else {
		e = &entry{id: nextGeneration | ID(len(q.entries))}
		q.entries = append(q.entries, e)
	}
	e.line, e.order, e.isReserved = l, q.arrivals, false
	q.arrivals++
	return e
}

// free makes room for another entry.
func (q *Lines) free(e *entry) {
	e.id += nextGeneration
	e.line, e.caller, e.host = nil, 0, 0
	q.spare = append(q.spare, e)
}
