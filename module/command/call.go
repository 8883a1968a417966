// Package command holds the commands of the module: it parses a call's arguments,
// decides, and says what to write and what to answer. It is pure Go without clock
// or I/O, does not allocate, and keeps no view of a call beyond that call.
package command

import (
	"redis-throttle/gcra"
	"redis-throttle/stack"
)

// KeyKind says what the server holds at a call's key.
type KeyKind int32

const (
	Absent KeyKind = iota
	String         // Call.Value views the string
	Other          // a list, a hash, another module's type, ...
)

// ReplyKind says which of Call's reply fields is the answer.
type ReplyKind int32

const (
	ReplyError      ReplyKind = iota // Call.Error
	ReplyWrongArity                  // the server's own sentence for it
	ReplyIntegers                    // Call.Integers, as an array
	ReplyFields                      // Call.Integers, as a map whose names the bridge knows
	ReplyLater                       // none yet: the caller waits for Call.WaitNs
)

// WriteKind says what becomes of the key.
type WriteKind int32

const (
	Keep   WriteKind = iota // nothing is written, expired, replicated or signalled
	Set                     // the key holds Call.NewValue and expires at Call.ExpireAtMs
	Delete                  // the key is gone
)

const (
	// MaxArgs is the number of arguments a call is given views of; a longer call
	// shows its true length in Call.ArgCount.
	MaxArgs = 40
	// MaxValueLen is the length in bytes of the longest value a command writes.
	MaxValueLen = stack.MaxEncodedLen
	// MaxErrorLen is the length in bytes of the longest error.
	MaxErrorLen = 255
	// MaxIntegers is the length of the longest reply.
	MaxIntegers = 9
)

// Call is one command: what the server gathered for it, and what comes of it.
// Args and Value view memory of the server, which is not to be written to.
type Call struct {
	ArgCount int      // arguments after the command's name
	Args     [][]byte // views of the first MaxArgs of them; Args[0] is the key
	NowNs    int64    // the server's clock, ns since the Unix epoch
	Kind     KeyKind
	Value    []byte
	MayBlock bool // the caller can be made to wait

	Reply    ReplyKind
	Integers []int64
	Error    []byte

	Write      WriteKind
	NewValue   []byte
	ExpireAtMs int64 // ms since the Unix epoch, a whole second

	// Of a ReplyLater: the time until the slot, the units reserved, and what was kept of the
	// limits before they were.
	WaitNs int64
	Cost   int64
	Before []gcra.State

	lastLimit   lastLimit
	lastRequest lastRequest

	stack    stack.Stack
	before   [stack.MaxLimits]gcra.State
	integers [MaxIntegers]int64
	value    [MaxValueLen]byte
	error    [MaxErrorLen]byte
}

// Run decides the call by a command. At least the key is there: the bridge answers
// calls without any argument itself.
func (c *Call) Run(index Index) {
	c.clear()
	injectFault(c.Args[0])
	decisions[index](c)
}

func (c *Call) clear() {
	c.Integers, c.Error, c.NewValue = nil, nil, nil
	c.Write = Keep
}

// Fail makes the call an error and undoes what it was going to write.
func (c *Call) Fail(text string) {
	c.Write = Keep
	c.Reply = ReplyError
	c.Error = c.error[:copy(c.error[:], text)]
}
