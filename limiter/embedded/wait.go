package embedded

import (
	"cmp"
	"math"
	"slices"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/line"
	"redis-throttle/limiter/stack"
)

// Waiter is the handle of a caller that waits, never 0 and never used twice.
type Waiter uint64

// Answer is the reply to a caller that has waited.
type Answer struct {
	Waiter Waiter
	Reply  Reply
}

// waiting is what a Host keeps of its callers that wait. Package line knows who is next, and asks for one step after
// the other.
type waiting struct {
	lines   line.Lines
	callers map[Waiter]*caller
	timers  map[uintptr]*timer
	last    uintptr // handle that was given out
	// wallNs is the clock as it was told last, and monoNs the time that has passed since somebody waits. A clock that
	// is set back sets only the first one back.
	wallNs, monoNs int64
}

type caller struct {
	waiter     Waiter
	cmd        *command.Command
	call       Call
	isReserved bool
}

// timer is what a Host keeps of a line: when to ask for its next step, by monoNs.
type timer struct {
	handle uintptr
	line   line.ID
	name   name
	wakeNs int64
}

// pass notes what time it is.
func (w *waiting) pass(nowNs int64) line.Clock {
	switch step := nowNs - w.wallNs; {
	case w.callers == nil:
		w.callers, w.timers = map[Waiter]*caller{}, map[uintptr]*timer{}
	case step < 0:
		w.lines.Stepped(line.Clock{WallNs: nowNs, MonoNs: w.monoNs}, w.wake)
	case len(w.timers) == 0:
		w.monoNs = 0 // nobody counts from an earlier instant, and clocks that are set to and fro never reach the last one
	default:
		w.monoNs = later(w.monoNs, step)
	}
	w.wallNs = nowNs
	return line.Clock{WallNs: nowNs, MonoNs: w.monoNs}
}

// wake has a line asked for its next step now. No line has the handle 0.
func (w *waiting) wake(handle uintptr) {
	if t := w.timers[handle]; t != nil {
		t.wakeNs = math.MinInt64
	}
}

// changed notes that a key was changed.
func (w *waiting) changed(n name) { w.wake(w.lines.Changed(n.db, []byte(n.key))) }

// enter lets the caller of a call that was decided wait: c answers ReplyLater or ReplyInTurn.
func (w *waiting) enter(c *command.Call, call *Call, cmd *command.Command, n name, now line.Clock) Waiter {
	w.last++
	one := &caller{waiter: Waiter(w.last), cmd: cmd, call: *call, isReserved: c.Reply == command.ReplyLater}
	one.call.Words = make([][]byte, len(call.Words))
	for i, word := range call.Words {
		one.call.Words[i] = slices.Clone(word)
	}
	w.callers[one.waiter] = one
	handle, key := uintptr(one.waiter), []byte(n.key)
	var step line.Step
	if one.isReserved {
		entry := w.lines.Reserve(n.db, key, line.Reservation{Stack: c.Stack(), Before: c.Before, Cost: c.Cost, NowNs: c.NowNs, WaitNs: c.WaitNs})
		step = w.lines.EnterReserved(entry, handle, handle, now)
	} else {
		turn := line.Turn{Slots: c.First.ToldSlots, LookNs: c.LookNs, TimeoutNs: c.TimeoutMs * nsPerMs, Changed: c.First.Effect != command.Keep}
		turn.Priority, turn.Weight = c.Priority, c.Weight
		if c.GroupAt > 0 {
			turn.Group = c.Args[c.GroupAt]
		}
		step = w.lines.EnterTurn(n.db, key, handle, handle, turn, now)
	}
	t := w.timers[step.LineHost]
	if t == nil {
		w.last++
		t = &timer{handle: w.last, line: step.Line, name: n}
		w.timers[t.handle] = t
		w.lines.Own(t.line, t.handle, key)
	}
	if step.Ns >= 0 {
		t.wakeNs = later(now.MonoNs, step.Ns)
	}
	return one.waiter
}

// due returns the line whose time has come first, or nil.
func (w *waiting) due() *timer {
	if first := w.earliest(); first != nil && first.wakeNs <= w.monoNs {
		return first
	}
	return nil
}

func (w *waiting) earliest() (first *timer) {
	for _, t := range w.timers {
		if first == nil || cmp.Or(cmp.Compare(t.wakeNs, first.wakeNs), cmp.Compare(t.handle, first.handle)) < 0 {
			first = t
		}
	}
	return first
}

// Next returns when Wake has something to do next, in ns since the Unix epoch, if nothing happens before. ok is false
// if nobody waits for an instant.
func (h *Host) Next() (ns int64, ok bool) {
	first := h.waiting.earliest()
	if first == nil || first.wakeNs == math.MaxInt64 {
		return 0, false
	}
	return later(h.wallNs, max(first.wakeNs, h.monoNs)-h.monoNs), true
}

// Wake answers the callers whose time has come by nowNs, in the order in which a server answers them. Call it after
// every Do, Delete and Unblock that may let somebody in, and at the instants that Next tells.
func (h *Host) Wake(nowNs int64) (answers []Answer) {
	now := h.pass(nowNs)
	for t := h.due(); t != nil; t = h.due() {
		step := h.lines.Next(t.line, now, math.MaxInt)
		switch step.Kind {
		case line.Sleep:
			t.wakeNs = later(now.MonoNs, step.Ns)
		case line.Close:
			delete(h.timers, t.handle)
		case line.GiveBack:
			h.giveBack(t, now)
		case line.Answer:
			h.stats.allowed++
			h.countEnd(Waiter(step.Host), true)
			reply := h.standing(Waiter(step.Host), t.name, true, step.Ns)
			answers = append(answers, h.answer(Waiter(step.Host), reply))
		case line.Decide:
			if reply, ok := h.decideFirst(step, t.name, now); ok {
				answers = append(answers, h.answer(Waiter(step.Host), reply))
			}
		case line.TimeOut:
			reply := h.turnedAway(Waiter(step.Host), t.name, step)
			h.lines.Dismiss(step.Entry)
			h.countEnd(Waiter(step.Host), false)
			answers = append(answers, h.answer(Waiter(step.Host), reply))
		}
	}
	return answers
}

// answer forgets a caller that has left its line, and is its answer.
func (h *Host) answer(id Waiter, reply Reply) Answer {
	delete(h.callers, id)
	reply.Integers, reply.Each = slices.Clone(reply.Integers), slices.Clone(reply.Each)
	return Answer{id, reply}
}

// decideFirst decides the first in turn. ok is false if it waits on.
func (h *Host) decideFirst(step line.Step, n name, now line.Clock) (r Reply, ok bool) {
	one := h.callers[Waiter(step.Host)]
	call := one.call
	call.NowNs, call.turn = h.wallNs, turnOf(command.AtFront, step)
	key := h.key(n)
	c := h.runner.Run(one.cmd, &call, key)
	switch {
	case c.Reply == command.ReplyInTurn:
		h.lines.WaitsOn(step.Entry, c.LookNs, now)
	case c.Tally == command.Allowed:
		h.lines.LetIn(step.Entry)
	default:
		h.lines.Dismiss(step.Entry)
	}
	if c.Reply != command.ReplyInTurn {
		h.stats.countDecision(c)
		h.countEnd(Waiter(step.Host), c.Tally == command.Allowed)
	}
	h.storeKey(n, key, c.First.Effect)
	return reply(c, one.cmd, []*Key{key}), c.Reply != command.ReplyInTurn
}

// turnOf is where the caller of a step stands in the line of its only key.
func turnOf(at command.Turn, step line.Step) turn {
	t := turn{turn: at, waitedNs: step.Ns}
	t.lines[0].slots = step.Slots
	return t
}

// turnedAway is what a caller in turn is told that has to go.
func (h *Host) turnedAway(id Waiter, n name, step line.Step) Reply {
	one := h.callers[id]
	call := one.call
	call.NowNs, call.MayBlock, call.turn = h.wallNs, false, turnOf(command.Leaving, step)
	key := h.key(n)
	c := h.runner.Run(one.cmd, &call, key)
	h.storeKey(n, key, c.First.Effect)
	h.stats.countDecision(c)
	return reply(c, one.cmd, []*Key{key})
}

// standing is what a caller is told whose slot has come, if granted, or that leaves before.
func (h *Host) standing(id Waiter, n name, granted bool, waitedNs int64) Reply {
	one := h.callers[id]
	call, key := one.call, h.key(n)
	call.NowNs = h.wallNs
	c := h.runner.show(one.cmd, &call, key)
	c.Answer(one.cmd, granted, waitedNs)
	return reply(c, one.cmd, []*Key{key})
}

// giveBack writes the key of a line without the slots of callers that have left.
func (h *Host) giveBack(t *timer, now line.Clock) {
	key := h.key(t.name)
	c := h.runner.show(command.Wait, &Call{NowNs: h.wallNs, DB: t.name.db, Words: [][]byte{[]byte(command.Wait.Name), []byte(t.name.key)}}, key)
	c.GiveBack(func(value []byte, s *stack.Stack) bool { return h.lines.GiveBack(t.line, value, s, now.WallNs) })
	h.runner.Apply(key)
	h.storeKey(t.name, key, c.First.Effect)
}

// Unblock sends a caller away, as CLIENT UNBLOCK does, and returns what it is told; ok is false if it does not wait.
func (h *Host) Unblock(nowNs int64, id Waiter) (r Reply, ok bool) {
	now := h.pass(nowNs)
	step, ok := h.lines.Find(uintptr(id), now)
	if !ok {
		return r, false
	}
	n := h.timers[step.LineHost].name
	if h.callers[id].isReserved {
		r = h.standing(id, n, false, 0)
	} else {
		r = h.turnedAway(id, n, step)
	}
	h.Disconnect(nowNs, id)
	r.Integers, r.Each = slices.Clone(r.Integers), slices.Clone(r.Each)
	return r, true
}

// Disconnect forgets a caller that has gone.
func (h *Host) Disconnect(nowNs int64, id Waiter) {
	h.pass(nowNs)
	_, toWake, _ := h.lines.Leave(uintptr(id))
	h.wake(toWake)
	if h.callers[id] != nil {
		h.countEnd(id, false)
	}
	delete(h.callers, id)
}

// countEnd counts a caller of CL.WAIT that leaves its line, with or without its units. Those of leases are counted by
// what they are told.
func (h *Host) countEnd(id Waiter, hasUnits bool) {
	switch {
	case h.callers[id].cmd.OnSortedSet:
	case hasUnits:
		h.stats.waited++
	default:
		h.stats.waitLeft++
	}
}

// later is an instant that ns after another one, or the last that there is.
func later(atNs, ns int64) int64 {
	if ns > math.MaxInt64-atNs {
		return math.MaxInt64
	}
	return atNs + ns
}
