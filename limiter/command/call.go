// Package command holds the commands of the module: it reads a call's arguments (package words),
// decides, and says what to write and what to answer. It is pure Go without clock
// or I/O, does not allocate, and keeps no view of a call beyond that call.
package command

import (
	"redis-throttle/gcra"
	"redis-throttle/limiter/command/past"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/line"
	"redis-throttle/limiter/stack"
	"redis-throttle/limiter/top"
)

// KeyKind says what the server holds at a call's key.
type KeyKind int32

const (
	Absent    KeyKind = iota
	String            // Key.Value views the string
	SortedSet         // of a command OnSortedSet; Key.Members views it
	Other             // a list, a hash, another module's type, ...
)

// ReplyKind says which of Call's reply fields is the answer.
type ReplyKind int32

const (
	ReplyError        ReplyKind = iota // Call.Error
	ReplyWrongArity                    // the server's own sentence for it
	ReplyInteger                       // Call.Integers[0]
	ReplyIntegers                      // Call.Integers, as an array
	ReplyFields                        // Call.Integers, as a map whose names are the command's
	ReplyIntegersEach                  // ReplyIntegers, then each of Call.Each as an array
	ReplyFieldsEach                    // ReplyFields, with an array of Call.Each under the name EachField
	ReplyRows                          // Call.RowCount rows, each a map
	ReplyLater                         // none yet: the caller waits for Call.WaitNs
	ReplyInTurn                        // none yet: the caller waits in line, see Call.Turn
	ReplyLeases                        // Call.Integers and the members that have not lapsed, as many as Integers says
	ReplyElsewhere                     // none yet: the words of Key.Members stand elsewhere, or it has to be read; gather again and ask again
	ReplyNested                        // row 0 of Call.RowCount, as a map, in which the others stand under the name at Command.NestedAt
)

// Effect says what becomes of a key.
type Effect int32

const (
	Keep          Effect = iota // nothing is written, expired, replicated or signalled
	Set                         // the key holds Key.NewValue and expires at Key.ExpireAtMs
	Delete                      // the key is gone
	ChangeMembers               // the sorted set changes as Key.Members says
)

// Turn says where a caller stands who may wait in line. Nothing is reserved for it there: its call is
// decided again whenever it is first in line and something may have changed.
type Turn int32

const (
	Arriving Turn = iota // while Call.Ahead others are in line
	AtFront              // it is its turn
	Leaving              // it is sent away
)

// Tally says how a decision counts.
type Tally int32

const (
	NoTally Tally = iota
	Allowed
	Limited
	Settled    // CL.SETTLE ended an admission
	NotSettled // CL.SETTLE found none: it was settled before, or has lapsed
)

const (
	// MaxArgs is the number of arguments a call is given views of; a longer call
	// shows its true length in Call.ArgCount.
	MaxArgs = past.MaxWords
	// MaxKeys is the number of keys that one call can have.
	MaxKeys = words.MaxKeys
	// NoSlots stands for a number of slots that nobody told.
	NoSlots = -1
	// MaxLowest is the number of lapsed members that a call gets to see.
	MaxLowest = 16
	// MaxArgsOfKeys is MaxArgs of a command with several keys.
	MaxArgsOfKeys = 800
	// MaxCommands is the number of commands that there can be.
	MaxCommands = 32
	// MaxValueLen is the length in bytes of the longest value a command writes.
	MaxValueLen = banLen + stack.MaxEncodedLen
	// MaxErrorLen is the length in bytes of the longest error.
	MaxErrorLen = words.MaxErrorLen
	// MaxFields is the number of integers in the longest reply.
	MaxFields = 11
	// MaxNames is the number of names in the longest reply, those of its rows included.
	MaxNames = 16
	// EachFields is the number of integers that a reply shows of each limit.
	EachFields = 5
	// MaxTextLen is the length in bytes of the longest text in a reply of rows.
	MaxTextLen = top.MaxKeyLen
)

// Key is one key of a call: what the server holds there, and what becomes of it. The bridge keeps it in C's memory,
// laid out alike (throttleKey).
type Key struct {
	Kind   KeyKind
	Effect Effect
	// ExpireNoEarlier leaves a later expiry of the key as it is, and a key without one.
	ExpireNoEarlier bool
	Value           []byte // of a String; a view of the server's memory, which is not to be written to
	NewValue        []byte // in Room if that is large enough
	ExpireAtMs      int64  // ms since the Unix epoch, a whole second; 0 leaves the key's as it is. If the command SeesExpiry, it begins as the key's, 0 for never
	ExpireSlackMs   int64  // a key that is there and expires up to so much later than ExpireAtMs keeps its expiry, and any other gets the latest of these
	Room            []byte // of no length, for NewValue; MaxValueLen bytes are always enough

	// Members are what a command OnSortedSet sees of the key, and what becomes of them.
	Members *Members
	// For a command with Lines: how many callers wait in line for the key, and the slots that the latest caller told
	// the line, NoSlots if none did. Line says in which order they stand. It counts only if there are some; if it is
	// zero, all of them come before this call. ToldSlots is LineSlots as of this call.
	Ahead     int64
	Line      line.View
	LineSlots int64
	ToldSlots int64

	banUntil int64 // in ns since the Unix epoch, 0 without a ban
	behind   int64 // how many bytes of Value are a ban, over or not; the rest is the state

	Host [HostWords]uintptr // the bridge's own
}

// HostWords is the room in a Key for what the bridge keeps of it, in words.
const HostWords = 5

// Past is what the words of earlier calls were read as.
type Past = past.Calls

// Call is one command: what the server gathered for it, its keys, and what comes of it.
type Call struct {
	*In

	// The keys, each with what it holds and what becomes of it.
	First *Key  // the only key, or the first
	Keys  []Key // all of them

	Out

	// What lasts from call to call. It belongs to the code that runs the commands.
	Past *Past    // remembers what words were read as; nil to read the words of each call again
	Many *Many    // room for the limits of several keys; made when a call needs it and it is nil
	Top  *TopKeys // counts the keys that are limited, by shadows too; nil to count none

	scratch
}

// In is what the server gathered for a call, keys aside. Args view memory of the server, which is not to be written to.
// The bridge keeps it in C's memory, laid out alike (throttleCall).
type In struct {
	ArgCount int      // arguments after the command's name
	Args     [][]byte // views of the first MaxArgs of them
	NowNs    int64    // the server's clock, ns since the Unix epoch
	DB       int

	// Where the caller stands and how long it has waited, for a command with Lines.
	Turn     Turn
	MayBlock bool // the caller can be made to wait
	IsFull   bool // as many callers wait as may, so one that MayBlock and arrives is turned away instead
	WaitedNs int64
}

// Out is what comes of a call, keys aside.
type Out struct {
	*Outcome // made when a call needs it and it is nil

	Each  [][EachFields]int64 // of ReplyIntegersEach and ReplyFieldsEach: what each limit says
	Error []byte

	// For a ReplyLater: the time until the slot, the units reserved, and what was kept of the
	// limits before they were.
	WaitNs int64
	Cost   int64
	Before []gcra.State
}

// Outcome is what the bridge needs to know of every call. It keeps it in C's memory, laid out alike (throttleCall).
type Outcome struct {
	Reply    ReplyKind
	Tally    Tally
	TallyKey int // the index of the key that Tally and Shadowed are about
	Integers []int64
	RowCount int   // of ReplyRows: Command.Row gives them
	Refunded int64 // units given back

	// For a ReplyInTurn.
	LookNs    int64 // when to decide again if nothing happens before
	TimeoutMs int64 // for how long the caller waits at most; 0 for as long as it takes
	Priority  int64
	Weight    int64 // of its group; 0 for 1
	GroupAt   int   // the index in Args of the name of its group; 0 for none

	Shadowed   bool // let through, though a shadow would have limited it
	TurnedAway bool // limited at once because of IsFull, where the caller would have waited

	integers [MaxFields]int64 // where Integers are
}

// scratch is what a command works with. Nothing in it outlives the call.
type scratch struct {
	cmd      *Command
	compact  bool   // the reply is the integers alone
	each     bool   // and what each limit says
	limiting uint64 // of a call with each: the limits that alone would not let it through, a bit for each
	request  words.Request
	parser   words.Parser
	shadow   int // of the answer that is described
	stack    stack.Stack
	error    [MaxErrorLen]byte
	before   [stack.MaxLimits]gcra.State
	groups   line.Groups                                  // of CL.LEASES, those that are not replied yet
	perLimit [MaxKeys * stack.MaxLimits][EachFields]int64 // room for Each
	limit    past.Limit                                   // of CL.THROTTLE, if it is not remembered
	stored   inspection                                   // the rows of CL.INSPECT
}

// Run decides the call by a command. Its keys are there: the bridge answers calls without
// them itself.
func (c *Call) Run(cmd *Command) {
	c.begin(cmd)
	c.injectFault()
	if c.ArgCount < cmd.least || cmd.most >= 0 && c.ArgCount > cmd.most {
		c.Reply = ReplyWrongArity
		return
	}
	cmd.Run(c)
	if cmd.Decides && c.Reply >= ReplyIntegers && c.Reply <= ReplyFieldsEach {
		c.tally(c.Integers[0] != 0)
		if c.shadow > 0 && c.Tally == Allowed {
			c.tallyShadow()
		}
	}
}

// begin is behind Run, which calls it for every key: the linker keeps the order of a file.
func (k *Key) begin() {
	k.keep()
	k.ToldSlots = k.LineSlots
	k.banUntil, k.behind = 0, 0
	if k.Kind == String && len(k.Value) >= banLen && k.Value[0] == banMark {
		k.openBan()
	}
}

func (c *Call) tally(limited bool) {
	if !limited {
		c.Tally = Allowed
		return
	}
	c.Tally = Limited
	if !c.Top.isOff() {
		c.countTop()
	}
}

//go:noinline
func (c *Call) countTop() { c.Top.limited.Hit(c.DB, c.name(c.TallyKey), c.NowNs) }

// tallyShadow counts a call that a shadow would have limited, for the key of that shadow.
//
//go:noinline
func (c *Call) tallyShadow() {
	c.Shadowed = true
	if !c.Top.isOff() {
		c.Top.shadowed.Hit(c.DB, c.name(c.TallyKey), c.NowNs)
	}
}

// name returns the name of a key.
func (c *Call) name(index int) []byte {
	if c.cmd.Keys == CountedKeys {
		return c.Args[1+index]
	}
	return c.Args[0]
}

// Row is row index of a ReplyRows.
func (c *Call) Row(index int) (text []byte, integers []int64) { return c.cmd.Row(c, index) }

// begin makes the call one of a command that has not been decided, and looks for bans in the values of its keys.
func (c *Call) begin(cmd *Command) {
	if c.cmd != cmd {
		c.turnTo(cmd)
	}
	o := c.Outcome
	o.Tally, o.TallyKey, o.Refunded = NoTally, 0, 0
	o.Shadowed, o.TurnedAway = false, false
	if o.Integers != nil {
		o.dropIntegers()
	}
	c.Error = c.Error[:0]
	c.shadow = 0
	if k := c.First; k != nil { // the first of Keys, too
		k.begin()
	}
	if len(c.Keys) > 1 {
		c.beginOthers()
	}
}

// What most calls go without is apart, so that they touch less code: also every pointer that is written, because Go
// asks its collector.

//go:noinline
func (c *Call) turnTo(cmd *Command) {
	c.cmd = cmd
	if c.Outcome == nil {
		c.Outcome = new(Outcome)
	}
}

//go:noinline
func (o *Outcome) dropIntegers() { o.Integers = nil }

//go:noinline
func (c *Call) beginOthers() {
	for i := 1; i < len(c.Keys); i++ {
		c.Keys[i].begin()
	}
}

// keep leaves all keys as they are.
func (c *Call) keep() {
	if c.First != nil { // the first of Keys, too
		c.First.keep()
	}
	for i := 1; i < len(c.Keys); i++ {
		c.Keys[i].keep()
	}
}

func (k *Key) keep() {
	k.Effect, k.NewValue, k.ExpireNoEarlier = Keep, nil, false
	if k.Members != nil {
		k.Members.changeNothing()
	}
}

// Fail makes the call an error and undoes what it was going to write.
func (c *Call) Fail(text string) { c.fail(append(c.error[:0], text...)) }

// refuse makes the call an error and undoes what it was going to write.
func (c *Call) refuse(err *words.SyntaxError) { c.fail(err.AppendTo(c.error[:0])) }

func (c *Call) fail(text []byte) {
	c.keep()
	c.Integers = nil
	c.Reply = ReplyError
	c.Error = text
}
