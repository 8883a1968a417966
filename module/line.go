package module

/*
#include "line.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/line"
	"redis-throttle/limiter/stack"
)

// lines are the callers that wait. The bridge knows a caller by the server's handle of the blocked client.
var lines line.Lines

// turn is how much of the lines' work one turn of the event loop has room for: some hundred microseconds.
var turn = line.TurnOf(C.DECISIONS_IN_A_TURN)

// hostOf and callerOf turn back into pointers what they are: C's memory, which package line knows as numbers.
func hostOf(l uintptr) *C.throttleLine     { return *(**C.throttleLine)(unsafe.Pointer(&l)) }
func callerOf(c uintptr) *C.throttleCaller { return *(**C.throttleCaller)(unsafe.Pointer(&c)) }

func nameAt(bytes *C.char, length C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(bytes)), int(length))
}

func clock(wallNs, monotonicNs C.int64_t) line.Clock {
	return line.Clock{WallNs: int64(wallNs), MonoNs: int64(monotonicNs)}
}

// reserve puts the caller of the call in hand, which answered ReplyLater, into the line of its
// key. It belongs to the decision: what the bridge does next may call other modules, and
// they may call a command of this one.
func reserve(c *C.throttleCall) {
	c.entry = C.uint64_t(lines.Reserve(int(c.db), current.Args[0], line.Reservation{
		Stack: current.Stack(), Before: current.Before, Cost: current.Cost, NowNs: current.NowNs, WaitNs: current.WaitNs,
	}))
}

// throttleEnter lets a caller that the server has blocked wait in line.
//
//export throttleEnter
func throttleEnter(c *C.throttleCall, handle C.uintptr_t, caller *C.throttleCaller, wallNs, monotonicNs, lookEachNs C.int64_t, step *C.throttleStep) {
	defer recoverAndLog()
	now, host := clock(wallNs, monotonicNs), uintptr(unsafe.Pointer(caller))
	lines.LookEachNs = int64(lookEachNs)
	if c.reply == C.REPLY_LATER {
		fill(step, lines.EnterReserved(line.ID(c.entry), uintptr(handle), host, now))
		return
	}
	args := (*command.In)(unsafe.Pointer(&c.argCount)).Args
	at := line.Place{Priority: int64(c.priority), Weight: int64(c.weight)}
	if c.groupAt > 0 {
		at.Group = args[c.groupAt]
	}
	fill(step, lines.EnterTurn(int(c.db), args[0], uintptr(handle), host, line.Turn{
		Place: at, Slots: int64(c.keys.toldSlots), LookNs: int64(c.lookNs), TimeoutNs: int64(c.timeoutMs) * C.MS_NS, Changed: c.keys.effect != C.EFFECT_KEEP,
	}, now))
}

func fill(to *C.throttleStep, step line.Step) {
	to.kind = C.int32_t(step.Kind)
	to.lineID, to.entry = C.uint64_t(step.Line), C.uint64_t(step.Entry)
	to.line, to.caller = hostOf(step.LineHost), callerOf(step.Host)
	to.ns, to.slots = C.int64_t(step.Ns), C.int64_t(step.Slots)
}

// throttleOwnLine tells what the bridge keeps of a new line, with the name of its key.
//
//export throttleOwnLine
func throttleOwnLine(id C.uint64_t, host *C.throttleLine, bytes *C.char, length C.size_t) {
	lines.Own(line.ID(id), uintptr(unsafe.Pointer(host)), nameAt(bytes, length))
}

// throttleNextStep says what to do next for any line, in a turn of the event loop that may have just begun.
//
//export throttleNextStep
func throttleNextStep(begins C.int, wallNs, monotonicNs C.int64_t, step *C.throttleStep) {
	step.kind, step.ns = C.STEP_SLEEP, C.PAUSE_AFTER_PANIC_NS
	defer recoverAndLog()
	if begins != 0 {
		lines.Begin(turn)
	}
	fill(step, lines.NextOfAll(clock(wallNs, monotonicNs)))
}

//export throttleStands
func throttleStands(entry C.uint64_t) C.int { return boolean(lines.Stands(line.ID(entry))) }

// throttleIsFirst says whether a caller in turn is still the first.
//
//export throttleIsFirst
func throttleIsFirst(entry C.uint64_t) C.int { return boolean(lines.IsFirst(line.ID(entry))) }

//export throttleWaitsOn
func throttleWaitsOn(entry C.uint64_t, lookNs, wallNs C.int64_t) {
	lines.WaitsOn(line.ID(entry), int64(lookNs), clock(wallNs, 0))
}

//export throttleLetIn
func throttleLetIn(entry C.uint64_t) { lines.LetIn(line.ID(entry)) }

//export throttleDismiss
func throttleDismiss(entry C.uint64_t) { lines.Dismiss(line.ID(entry)) }

//export throttleHasMoved
func throttleHasMoved(id C.uint64_t) { lines.HasMoved(line.ID(id)) }

//export throttleHoldUp
func throttleHoldUp(id C.uint64_t) { lines.HoldUp(line.ID(id)) }

//export throttleHeldLine
func throttleHeldLine() *C.throttleLine { return hostOf(lines.Held()) }

// throttleTellLines tells all lines, or those of a database, what has happened, and whether one of them is to be looked
// at.
//
//export throttleTellLines
func throttleTellLines(event, db C.int, wallNs, monotonicNs C.int64_t) C.int {
	isWoken := false
	wake := func(uintptr) { isWoken = true }
	switch event {
	case C.LINES_RELEASED:
		lines.Release(wake)
	case C.LINES_CHANGED:
		lines.AllChanged(int(db), wake)
	case C.LINES_STEPPED:
		lines.Stepped(clock(wallNs, monotonicNs), wake)
	case C.LINES_SENT_AWAY:
		lines.SendAllAway(wake)
	}
	return boolean(isWoken)
}

// throttleChanged notes that a key was changed, and tells whether its line is to be looked at.
//
//export throttleChanged
func throttleChanged(db C.int, bytes *C.char, length C.size_t) C.int {
	return boolean(lines.Changed(int(db), nameAt(bytes, length)) != 0)
}

// throttleFindCaller finds a caller that waits, by its handle.
//
//export throttleFindCaller
func throttleFindCaller(handle C.uintptr_t, monotonicNs C.int64_t, step *C.throttleStep) C.int {
	found, ok := lines.Find(uintptr(handle), clock(0, monotonicNs))
	fill(step, found)
	return boolean(ok)
}

// throttleLeave notes that a caller is gone. It returns what the bridge keeps of it, or NULL if it did not wait, and in
// isWoken whether its line is to be looked at.
//
//export throttleLeave
func throttleLeave(handle C.uintptr_t, isWoken *C.int) *C.throttleCaller {
	host, wake, _ := lines.Leave(uintptr(handle))
	*isWoken = boolean(wake != 0)
	return callerOf(host)
}

// throttleGiveBack fills in what becomes of a line's key now that some have left it.
//
//export throttleGiveBack
func throttleGiveBack(id C.uint64_t, c *C.throttleCall) {
	defer recoverToError()
	putInHand(c)
	current.GiveBack(func(value []byte, s *stack.Stack) bool { return lines.GiveBack(line.ID(id), value, s, current.NowNs) })
	isInHand = false
}

// throttleAnswer fills in the reply to a caller whose slot has come, or who was sent
// away before.
//
//export throttleAnswer
func throttleAnswer(c *C.throttleCall, granted C.int, waitedNs C.int64_t) {
	defer recoverToError()
	putInHand(c)
	current.Answer(command.ByIndex[c.command], granted != 0, int64(waitedNs))
	copyOut(c)
	isInHand = false
}

// looked are the lines that the call in hand was shown, by its keys; 0 for none. Like the call, they hold for one
// crossing.
var looked [command.MaxKeys]line.ID

// look shows the call in hand who is in turn before it, at each of its keys.
func look(c *C.throttleCall) {
	for i := range current.Keys {
		looked[i] = 0
		if keyOf(c, i).hasLine == 0 {
			continue
		}
		if v, ahead, slots := lines.Look(int(c.db), nameOf(c, i)); v.ID != 0 {
			key := &current.Keys[i]
			looked[i], key.Ahead, key.Line, key.LineSlots = v.ID, ahead, v, slots
		}
	}
}

// nameOf returns the name of a key of the call in hand.
func nameOf(c *C.throttleCall, index int) []byte {
	if command.ByIndex[c.command].Keys == command.CountedKeys {
		index++
	}
	return current.Args[index]
}

// tell passes on to the lines how many slots the call in hand has told.
func tell(c *C.throttleCall) {
	if current.Reply == command.ReplyElsewhere {
		return
	}
	for i := range current.Keys {
		if looked[i] != 0 {
			keyOf(c, i).wake = hostOf(lines.Tell(looked[i], current.Keys[i].ToldSlots))
		}
	}
}

func boolean(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// recoverAndLog ends a panic where there is nobody to answer; the caller returns what
// means nothing to do.
func recoverAndLog() {
	if cause := recover(); cause != nil {
		C.stats.errorsInternal++
		log(nil, "warning", fmt.Sprintf("internal error of a line: panic: %v", cause))
	}
}

// What crosses for a line, as package command's in boundary.go.
var (
	_ = same[line.Sleep-C.STEP_SLEEP]
	_ = same[line.Close-C.STEP_CLOSE]
	_ = same[line.Answer-C.STEP_ANSWER]
	_ = same[line.SendAway-C.STEP_SEND_AWAY]
	_ = same[line.Moved-C.STEP_MOVED]
	_ = same[line.GiveBack-C.STEP_GIVE_BACK]
	_ = same[line.Decide-C.STEP_DECIDE]
	_ = same[line.TimeOut-C.STEP_TIME_OUT]
	_ = same[command.NoSlots-C.NO_SLOTS]
	_ = same[line.AllDBs-C.ALL_DBS]
)
