package module

/*
#include "run.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/stack"
)

// The call in hand. The server runs commands one at a time, and a decision does not call back
// into it, so one is enough. It holds for one crossing: whatever C does between two of them may
// end in another module, which may call a command of this one.
var (
	current  command.Call
	held     *C.throttleCall // the call that current points into, maybe of before
	isInHand bool            // while held is decided, for recoverToError
	members  [command.MaxKeys]command.Members
	past     command.Past
	many     command.Many
	topKeys  command.TopKeys
)

// forget drops what earlier calls were read as.
func forget() {
	current, past, many, held = command.Call{}, command.Past{}, command.Many{}, nil
	connect()
}

// connect gives the call in hand what lasts from call to call.
func connect() {
	current.Past, current.Many, current.Top = &past, &many, &topKeys
}

func init() {
	connect()
	if b := *(*[]byte)(unsafe.Pointer(&C.throttleView{length: 1, capacity: 2})); unsafe.SliceData(b) != nil || len(b) != 1 || cap(b) != 2 {
		panic("module: a throttleView is no []byte")
	}
}

// What Go reads and writes where C keeps it lies alike in both; otherwise this does not compile.
const (
	inAt  = unsafe.Offsetof(callC.argCount)
	outAt = unsafe.Offsetof(callC.reply)
)

var (
	inGo  command.In
	outGo command.Outcome
	keyGo command.Key
	callC C.throttleCall
	keyC  C.throttleKey

	_ = same[unsafe.Offsetof(inGo.ArgCount)-(unsafe.Offsetof(callC.argCount)-inAt)]
	_ = same[unsafe.Offsetof(inGo.Args)-(unsafe.Offsetof(callC.args)-inAt)]
	_ = same[unsafe.Offsetof(inGo.NowNs)-(unsafe.Offsetof(callC.nowNs)-inAt)]
	_ = same[unsafe.Offsetof(inGo.DB)-(unsafe.Offsetof(callC.db)-inAt)]
	_ = same[unsafe.Offsetof(inGo.Turn)-(unsafe.Offsetof(callC.turn)-inAt)]
	_ = same[unsafe.Offsetof(inGo.MayBlock)-(unsafe.Offsetof(callC.mayBlock)-inAt)]
	_ = same[unsafe.Offsetof(inGo.IsFull)-(unsafe.Offsetof(callC.isFull)-inAt)]
	_ = same[unsafe.Offsetof(inGo.WaitedNs)-(unsafe.Offsetof(callC.waitedNs)-inAt)]
	_ = same[unsafe.Sizeof(inGo)-(outAt-inAt)]
	_ = same[unsafe.Offsetof(outGo.Tally)-(unsafe.Offsetof(callC.tally)-outAt)]
	_ = same[unsafe.Offsetof(outGo.TallyKey)-(unsafe.Offsetof(callC.tallyKey)-outAt)]
	_ = same[unsafe.Offsetof(outGo.Integers)-(unsafe.Offsetof(callC.integers)-outAt)]
	_ = same[unsafe.Offsetof(outGo.RowCount)-(unsafe.Offsetof(callC.rowCount)-outAt)]
	_ = same[unsafe.Offsetof(outGo.Refunded)-(unsafe.Offsetof(callC.refunded)-outAt)]
	_ = same[unsafe.Offsetof(outGo.LookNs)-(unsafe.Offsetof(callC.lookNs)-outAt)]
	_ = same[unsafe.Offsetof(outGo.TimeoutMs)-(unsafe.Offsetof(callC.timeoutMs)-outAt)]
	_ = same[unsafe.Offsetof(outGo.Priority)-(unsafe.Offsetof(callC.priority)-outAt)]
	_ = same[unsafe.Offsetof(outGo.Weight)-(unsafe.Offsetof(callC.weight)-outAt)]
	_ = same[unsafe.Offsetof(outGo.GroupAt)-(unsafe.Offsetof(callC.groupAt)-outAt)]
	_ = same[unsafe.Offsetof(outGo.Shadowed)-(unsafe.Offsetof(callC.shadowed)-outAt)]
	_ = same[unsafe.Offsetof(outGo.TurnedAway)-(unsafe.Offsetof(callC.turnedAway)-outAt)]
	_ = same[unsafe.Sizeof(outGo)-(unsafe.Offsetof(callC.entry)-outAt)]
	_ = same[unsafe.Offsetof(keyGo.Kind)-unsafe.Offsetof(keyC.kind)]
	_ = same[unsafe.Offsetof(keyGo.Effect)-unsafe.Offsetof(keyC.effect)]
	_ = same[unsafe.Offsetof(keyGo.ExpireNoEarlier)-unsafe.Offsetof(keyC.expireNoEarlier)]
	_ = same[unsafe.Offsetof(keyGo.Value)-unsafe.Offsetof(keyC.value)]
	_ = same[unsafe.Offsetof(keyGo.NewValue)-unsafe.Offsetof(keyC.newValue)]
	_ = same[unsafe.Offsetof(keyGo.ExpireAtMs)-unsafe.Offsetof(keyC.expireAtMs)]
	_ = same[unsafe.Offsetof(keyGo.ExpireSlackMs)-unsafe.Offsetof(keyC.expireSlackMs)]
	_ = same[unsafe.Offsetof(keyGo.Room)-unsafe.Offsetof(keyC.room)]
	_ = same[unsafe.Offsetof(keyGo.Members)-unsafe.Offsetof(keyC.seen)]
	_ = same[unsafe.Offsetof(keyGo.Ahead)-unsafe.Offsetof(keyC.ahead)]
	_ = same[unsafe.Offsetof(keyGo.Line)-unsafe.Offsetof(keyC.line)]
	_ = same[unsafe.Offsetof(keyGo.LineSlots)-unsafe.Offsetof(keyC.lineSlots)]
	_ = same[unsafe.Offsetof(keyGo.ToldSlots)-unsafe.Offsetof(keyC.toldSlots)]
	_ = same[unsafe.Offsetof(keyGo.Host)-unsafe.Offsetof(keyC.name)]
	_ = same[unsafe.Sizeof(keyGo)-unsafe.Sizeof(keyC)]
	_ = same[unsafe.Offsetof(callC.keyCapacity)-unsafe.Offsetof(callC.keys)-2*unsafe.Sizeof(callC.keyCount)]
)

// C and package command count alike; otherwise this does not compile.
var (
	same = [1]struct{}{}
	_    = same[command.MaxArgs-C.MAX_ARGS]
	_    = same[command.MaxValueLen-C.MAX_VALUE_LEN]
	_    = same[command.MaxErrorLen-C.MAX_ERROR_LEN]
	_    = same[command.MaxFields-C.MAX_FIELDS]
	_    = same[command.MaxNames-C.MAX_NAMES]
	_    = same[command.MaxTextLen-C.MAX_TEXT_LEN]
	_    = same[command.EachFields-C.EACH_FIELDS]
	_    = same[stack.MaxLimits-C.MAX_LIMITS]
	_    = same[command.MaxKeys-C.MAX_KEYS]
	_    = same[command.MaxLowest-C.MAX_LOWEST]
	_    = same[command.MaxArgsOfKeys-C.MAX_ARGS_OF_KEYS]
	_    = same[command.FurthestMs-C.FURTHEST_MS]
	_    = same[command.MaxCommands-C.MAX_COMMANDS]
	_    = same[command.Absent-C.KEY_ABSENT]
	_    = same[command.String-C.KEY_STRING]
	_    = same[command.SortedSet-C.KEY_SORTED_SET]
	_    = same[command.Other-C.KEY_OTHER]
	_    = same[command.ReplyError-C.REPLY_ERROR]
	_    = same[command.ReplyWrongArity-C.REPLY_WRONG_ARITY]
	_    = same[command.ReplyInteger-C.REPLY_INTEGER]
	_    = same[command.ReplyIntegers-C.REPLY_INTEGERS]
	_    = same[command.ReplyFields-C.REPLY_FIELDS]
	_    = same[command.ReplyIntegersEach-C.REPLY_INTEGERS_EACH]
	_    = same[command.ReplyFieldsEach-C.REPLY_FIELDS_EACH]
	_    = same[command.ReplyRows-C.REPLY_ROWS]
	_    = same[command.ReplyLater-C.REPLY_LATER]
	_    = same[command.ReplyInTurn-C.REPLY_IN_TURN]
	_    = same[command.ReplyLeases-C.REPLY_LEASES]
	_    = same[command.ReplyElsewhere-C.REPLY_ELSEWHERE]
	_    = same[command.ReplyNested-C.REPLY_NESTED]
	_    = same[command.Keep-C.EFFECT_KEEP]
	_    = same[command.Set-C.EFFECT_SET]
	_    = same[command.Delete-C.EFFECT_DELETE]
	_    = same[command.ChangeMembers-C.EFFECT_MEMBERS]
	_    = same[command.NoEvent-C.EVENT_NONE]
	_    = same[command.Leased-C.EVENT_LEASED]
	_    = same[command.Renewed-C.EVENT_RENEWED]
	_    = same[command.Released-C.EVENT_RELEASED]
	_    = same[command.NotLeased-C.EVENT_NOT_LEASED]
	_    = same[command.Arriving-C.TURN_ARRIVING]
	_    = same[command.AtFront-C.TURN_AT_FRONT]
	_    = same[command.Leaving-C.TURN_LEAVING]
	_    = same[command.NoSlots-C.NO_SLOTS]
	_    = same[command.NoTally-C.TALLY_NONE]
	_    = same[command.Allowed-C.TALLY_ALLOWED]
	_    = same[command.Limited-C.TALLY_LIMITED]
	_    = same[command.Settled-C.TALLY_SETTLED]
	_    = same[command.NotSettled-C.TALLY_NOT_SETTLED]
	_    = same[command.NoKeys-C.KEYS_NONE]
	_    = same[command.OneKey-C.KEYS_ONE]
	_    = same[command.CountedKeys-C.KEYS_COUNTED]
	_    = same[unsafe.Sizeof([]byte{})-C.sizeof_throttleView]
)

// throttleCross is the one crossing of a command: it decides what C gathered, in place. What every call runs stands
// right behind it, because the linker keeps the order of a file: so it takes fewer lines of the processor's cache.
//
//export throttleCross
func throttleCross(c *C.throttleCall) {
	defer recoverToError()
	growStack()
	putInHand(c)
	cmd := command.ByIndex[c.command]
	if cmd.Lines || c.seesMembers != 0 {
		crossWithMore(c, cmd)
	} else {
		current.Run(cmd)
	}
	copyOut(c)
	isInHand = false
}

// growStack makes sure that Go's stack has 32 KB to spare for this call. The
// server installs handlers (SIGTERM, the watchdog) that run on whatever stack the
// signal finds, and Go's begin at a few KB.
//
//go:noinline
func growStack() {
	if never {
		var space [32 << 10]byte
		use(&space)
	}
}

// recoverToError makes a panic of ours the client's error and the log's line; the
// keys stay as they were, and the server lives.
func recoverToError() {
	if isInHand {
		endWith(recover())
	}
}

var never bool

//go:noinline
func use(*[32 << 10]byte) {}

// endWith answers the call in hand with an error, if there is a cause. It is apart from recoverToError, which every
// call runs.
//
//go:noinline
func endWith(cause any) {
	c := held
	isInHand = false
	if cause == nil {
		return
	}
	c.panicked = 1
	c.reply = C.REPLY_ERROR
	c.tally = C.TALLY_NONE
	c.shadowed, c.turnedAway = false, false
	c.refunded = 0
	for i := range int(c.keyCount) {
		key := keyOf(c, i)
		key.effect, key.wake = C.EFFECT_KEEP, nil
		if c.seesMembers != 0 {
			key.members.event, key.members.released, key.members.found = C.EVENT_NONE, 0, 0
		}
	}
	setError(c, fmt.Appendf(nil, "ERR internal error in module throttle, nothing was changed: panic: %v", cause))
}

// crossWithMore decides a call that sees members or lines.
//
//go:noinline
func crossWithMore(c *C.throttleCall, cmd *command.Command) {
	if c.seesMembers != 0 {
		showMembers(c)
	}
	// A call on sorted sets that sees no members has no line either.
	mayHaveLines := cmd.Lines && (c.seesMembers != 0 || !cmd.OnSortedSet)
	if mayHaveLines {
		look(c)
	}
	current.Run(cmd)
	if c.seesMembers != 0 {
		copyOutMembers(c)
	}
	if mayHaveLines {
		tell(c)
	}
	if current.Reply == command.ReplyLater {
		reserve(c)
	}
}

// throttleRowAt shows row index of the reply to the call in hand.
//
//export throttleRowAt
func throttleRowAt(index C.int, row *C.throttleRow) {
	defer recoverAndLog()
	*row = C.throttleRow{}
	text, integers := current.Row(int(index))
	row.length = C.int32_t(copy(bytesOf(row.text[:]), text))
	for i, n := range integers {
		row.integers[i] = C.int64_t(n)
	}
}

// putInHand makes a call that C gathered the call in hand. Nothing is copied but what is seen of sorted sets.
func putInHand(c *C.throttleCall) {
	c.panicked = 0
	isInHand = true
	if held != c || len(current.Keys) != int(c.keyCount) || unsafe.Pointer(unsafe.SliceData(current.Keys)) != unsafe.Pointer(c.keys) {
		hold(c)
	}
}

// hold makes current point into a call. Most calls lie where the one before lay, on the server's stack.
//
//go:noinline
func hold(c *C.throttleCall) {
	held = c
	current.In = (*command.In)(unsafe.Pointer(&c.argCount))
	current.Outcome = (*command.Outcome)(unsafe.Pointer(&c.reply))
	current.First = (*command.Key)(unsafe.Pointer(c.keys))
	current.Keys = *(*[]command.Key)(unsafe.Pointer(&c.keys))
}

func showMembers(c *C.throttleCall) {
	for i := range current.Keys {
		current.Keys[i].Members = gatheredMembers(&members[i], keyOf(c, i).members)
	}
}

func copyOutMembers(c *C.throttleCall) {
	for i := range current.Keys {
		appliedMembers(keyOf(c, i).members, &members[i])
	}
}

// keyOf is a key of a call as C knows it.
func keyOf(c *C.throttleCall, i int) *C.throttleKey {
	return (*C.throttleKey)(unsafe.Add(unsafe.Pointer(c.keys), i*C.sizeof_throttleKey))
}

func gatheredMembers(members *command.Members, from *C.throttleMembers) *command.Members {
	members.Reset(int64(from.count), int64(from.lapsed), int(from.lowestCount), int(from.namedCount))
	members.NamesAt, members.SlotsAt = int(from.namesAt), int(from.slotsAt)
	members.Next, members.Beyond, members.Unread = float64(from.next), from.isBeyond != 0, from.isUnread != 0
	for i := range members.Lowest {
		members.Lowest[i] = float64(from.lowestScores[i])
	}
	for i := range members.Named {
		members.Named[i] = float64(from.scores[i])
	}
	members.NextOther, members.LastOther = float64(from.nextOther), float64(from.lastOther)
	return members
}

func appliedMembers(to *C.throttleMembers, members *command.Members) {
	to.namesAt, to.slotsAt = C.int32_t(members.NamesAt), C.int32_t(members.SlotsAt)
	to.event, to.released, to.found = C.int32_t(members.Event), C.int64_t(members.Released), C.int64_t(members.Found)
	to.removeLowest = C.int32_t(members.RemoveLowest)
	to.add, to.addScore = 0, C.double(members.AddScore)
	if members.Add {
		to.add = 1
	}
	to.eventIfThere, to.fieldIfThere, to.integerIfThere = C.int32_t(members.IfThere.Event), C.int32_t(members.IfThere.Field), C.int64_t(members.IfThere.Integer)
	for i, remove := range members.Remove {
		to.remove[i] = 0
		if remove {
			to.remove[i] = 1
		}
	}
}

// copyOut copies to C what the next call in hand would overwrite: that may come, nested, before C has applied
// everything.
func copyOut(c *C.throttleCall) {
	switch current.Reply {
	case command.ReplyError, command.ReplyIntegersEach, command.ReplyFieldsEach:
		copyOutMore(c)
	}
}

//go:noinline
func copyOutMore(c *C.throttleCall) {
	if current.Reply == command.ReplyError {
		setError(c, current.Error)
		return
	}
	appliedEach(c, current.Each)
}

// appliedEach copies what each limit says to the frame of the call.
func appliedEach(c *C.throttleCall, each [][command.EachFields]int64) {
	room := (*C.throttleSingle)(unsafe.Pointer(c)).each[:]
	if command.ByIndex[c.command].Keys == command.CountedKeys {
		room = (*C.throttleMany)(unsafe.Pointer(c)).each[:]
	}
	for i := range each {
		for j, n := range each[i] {
			room[i][j] = C.int64_t(n)
		}
	}
	c.eachCount = C.int32_t(len(each))
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
