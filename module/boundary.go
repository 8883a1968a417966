package module

/*
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"redis-throttle/module/command"
	"redis-throttle/top"
)

// The call in hand, and its views of the arguments. The server runs commands one at
// a time, and a decision does not call back into it, so one of each is enough. They hold
// for one crossing: whatever C does between two of them may end in another module, which
// may call a command of this one.
var (
	current command.Call
	views   [command.MaxArgs][]byte
)

// C and package command count alike; otherwise this does not compile.
var (
	same = [1]struct{}{}
	_    = same[command.MaxArgs-C.MAX_ARGS]
	_    = same[command.MaxValueLen-C.MAX_VALUE_LEN]
	_    = same[command.MaxErrorLen-C.MAX_ERROR_LEN]
	_    = same[command.MaxIntegers-C.MAX_INTEGERS]
	_    = same[command.Absent-C.KEY_ABSENT]
	_    = same[command.String-C.KEY_STRING]
	_    = same[command.Other-C.KEY_OTHER]
	_    = same[command.ReplyError-C.REPLY_ERROR]
	_    = same[command.ReplyWrongArity-C.REPLY_WRONG_ARITY]
	_    = same[command.ReplyIntegers-C.REPLY_INTEGERS]
	_    = same[command.ReplyFields-C.REPLY_FIELDS]
	_    = same[command.ReplyLater-C.REPLY_LATER]
	_    = same[command.Keep-C.WRITE_KEEP]
	_    = same[command.Set-C.WRITE_SET]
	_    = same[command.Delete-C.WRITE_DELETE]
	_    = same[command.Throttle-C.COMMAND_THROTTLE]
	_    = same[command.Limit-C.COMMAND_LIMIT]
	_    = same[command.Peek-C.COMMAND_PEEK]
	_    = same[command.Refund-C.COMMAND_REFUND]
	_    = same[command.Wait-C.COMMAND_WAIT]
	_    = same[top.MaxKeyLen-C.MAX_TOP_NAME_LEN]
)

// throttleDecide is the one crossing of a command: it reads what C gathered and
// fills in the outcome.
//
//export throttleDecide
func throttleDecide(c *C.throttleCall) {
	defer recoverToError(c)
	growStack()
	gathered(c)
	current.Run(command.Index(c.command))
	outcome(c)
	if current.Reply == command.ReplyLater {
		enter(c)
	}
	if topKeys.Len() > 0 {
		countTop(c)
	}
}

// growStack sees to it that the stack which Go runs this call on has 32 KB to spare. The
// server installs handlers (SIGTERM, the watchdog) that run on whatever stack the
// signal finds, and Go's begin at a few KB.
//
//go:noinline
func growStack() {
	if never {
		var space [32 << 10]byte
		keep(&space)
	}
}

var never bool

//go:noinline
func keep(*[32 << 10]byte) {}

// gathered shows the call to package command. Nothing is copied.
func gathered(c *C.throttleCall) {
	viewed := min(int(c.argCount), len(views))
	for i := range viewed {
		views[i] = view(c.args[i])
	}
	current.ArgCount = int(c.argCount)
	current.Args = views[:viewed]
	current.MayBlock = c.mayBlock != 0
	current.NowNs = int64(c.nowNs)
	current.Kind = command.KeyKind(c.keyKind)
	if current.Kind == command.String {
		current.Value = view(c.value)
	}
}

func view(v C.throttleView) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v.bytes)), int(v.length))
}

func outcome(c *C.throttleCall) {
	c.panicked = 0
	c.reply = C.int32_t(current.Reply)
	c.write = C.int32_t(current.Write)
	if current.Write == command.Set {
		c.expireAtMs = C.int64_t(current.ExpireAtMs)
		c.valueLength = C.int64_t(copy(bytesOf(c.newValue[:]), current.NewValue))
	}
	switch current.Reply {
	case command.ReplyIntegers, command.ReplyFields:
		c.integerCount = C.int32_t(len(current.Integers))
		for i, n := range current.Integers {
			c.integers[i] = C.int64_t(n)
		}
	case command.ReplyError:
		setError(c, current.Error)
	}
}

// setError makes text a C string on one line: a line break would end the reply.
func setError(c *C.throttleCall, text []byte) {
	buffer := bytesOf(c.error[:])
	n := copy(buffer[:len(buffer)-1], text)
	buffer[n] = 0
	for i, b := range buffer[:n] {
		if b < ' ' || b > '~' {
			buffer[i] = '?'
		}
	}
}

func bytesOf(chars []C.char) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(chars))), len(chars))
}

// recoverToError makes a panic of ours the client's error and the log's line; the
// key stays as it was, and the server lives.
func recoverToError(c *C.throttleCall) {
	cause := recover()
	if cause == nil {
		return
	}
	c.panicked = 1
	c.reply = C.REPLY_ERROR
	c.write = C.WRITE_KEEP
	setError(c, fmt.Appendf(nil, "ERR internal error in module throttle, nothing was changed: panic: %v", cause))
}
