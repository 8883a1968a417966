package module

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"redis-throttle/queue"
	"redis-throttle/stack"
)

// lines are the callers of CL.WAIT that wait, by key. The bridge knows a caller by the
// server's handle of the blocked client, and a line by its place.
var lines queue.Lines

// enter puts the caller of the call in hand, which answered ReplyLater, into the line of its
// key. It belongs to the decision: what the bridge does next may call other modules, and
// they may call a command of this one. Until the server has blocked the client there is no
// handle to know it by, so the caller goes by the address of its call.
func enter(c *C.throttleCall) {
	line := lines.Enter(int(c.db), current.Args[0], uintptr(unsafe.Pointer(c)), current.Stack(), current.Cost, current.Before,
		current.NowNs, current.WaitNs)
	c.line = C.int32_t(line.Index)
}

// throttleBlocked gives a caller in line the handle by which it is known from now on.
//
//export throttleBlocked
func throttleBlocked(c *C.throttleCall, caller C.uintptr_t) {
	defer recoverAndLog()
	lines.Rename(uintptr(unsafe.Pointer(c)), uintptr(caller))
}

// throttleLeave notes that caller is gone. It returns its line, or -1 when it did not wait.
//
//export throttleLeave
func throttleLeave(caller C.uintptr_t) (index C.int) {
	index = -1
	defer recoverAndLog()
	if line := lines.Leave(uintptr(caller)); line != nil {
		index = C.int(line.Index)
	}
	return index
}

// throttleOwner is where the bridge notes what it keeps of a line: 0 for a new one.
//
//export throttleOwner
func throttleOwner(line C.int) C.uintptr_t { return C.uintptr_t(lines.At(int(line)).Owner) }

//export throttleSetOwner
func throttleSetOwner(line C.int, owner C.uintptr_t) { lines.At(int(line)).Owner = uintptr(owner) }

// throttleSomebodyLeft reports whether there is something to give back in line.
//
//export throttleSomebodyLeft
func throttleSomebodyLeft(line C.int) C.int {
	if lines.At(int(line)).SomebodyLeft() {
		return 1
	}
	return 0
}

// throttleGiveBack fills in what becomes of a line's key now that some have left it.
//
//export throttleGiveBack
func throttleGiveBack(line C.int, c *C.throttleCall) {
	defer recoverToError(c)
	gathered(c)
	current.GiveBack(func(value []byte, s *stack.Stack) bool {
		return lines.GiveBack(lines.At(int(line)), value, s, current.NowNs)
	})
	outcome(c)
}

// throttleDue takes the next caller out of line whose slot has come, or returns 0.
//
//export throttleDue
func throttleDue(line C.int, nowNs C.int64_t, waitedNs *C.int64_t) C.uintptr_t {
	defer recoverAndLog()
	caller, waited, ok := lines.Due(lines.At(int(line)), int64(nowNs))
	if !ok {
		return 0
	}
	*waitedNs = C.int64_t(waited)
	return C.uintptr_t(caller)
}

// throttleNext returns the instant at which line has to be looked at next, or -1 when
// nobody is left in it and it is no more.
//
//export throttleNext
func throttleNext(line C.int) (nextNs C.int64_t) {
	nextNs = math.MaxInt64
	defer recoverAndLog()
	ns, ok := lines.NextNs(lines.At(int(line)))
	if !ok {
		return -1
	}
	return C.int64_t(ns)
}

// throttleAnswer fills in the reply to a caller whose slot has come, or who was sent
// away before.
//
//export throttleAnswer
func throttleAnswer(c *C.throttleCall, granted C.int, waitedNs C.int64_t) {
	defer recoverToError(c)
	gathered(c)
	current.Answer(granted != 0, int64(waitedNs))
	outcome(c)
}

// recoverAndLog ends a panic where there is nobody to answer; the caller returns what
// means nothing to do.
func recoverAndLog() {
	if cause := recover(); cause != nil {
		C.stats.errorsInternal++
		log(nil, "warning", fmt.Sprintf("internal error in CL.WAIT: panic: %v", cause))
	}
}
