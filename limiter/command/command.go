package command

import (
	"strings"

	"redis-throttle/limiter/command/words"
)

// Command is one command of the module: what the server is told of it, and how it is
// decided. Each has a file of its own, which registers it.
type Command struct {
	Name       string // in capitals
	Summary    string // a sentence, for COMMAND DOCS
	Complexity string
	Since      string // version of the module
	// Later are words by the version that they came to the command with, where that is not the one in the vocabulary.
	Later map[string]string
	Tips  string // for clients and proxies, as the server defines them
	Flags string // the server's: write or readonly, fast, deny-oom, admin
	Keys  Keys
	// Args are the arguments by position behind the key or keys. register adds what stands in front of them, and the
	// words that the command takes, for COMMAND DOCS.
	Args []words.Arg
	// History is what came after Since. register works it out, for COMMAND DOCS.
	History []words.Change
	// Slots is the form of a group of SLOTS, which may stand in place of limits.
	Slots words.SlotsForm
	// Required names the words that have to be there, in the order of the syntax line. The others that the command
	// takes are the rows of the vocabulary that name it (words.Form).
	Required string

	Decides bool // the answer's first field says limited: it is counted, notified of, and in CL.TOP
	Blocks  bool // may answer ReplyLater or ReplyInTurn
	Lines   bool // wants to know who waits in line

	OnSortedSet bool // gets to see Call.Members
	SeesExpiry  bool // gets to see Key.ExpireAtMs
	OnlyNames   bool // neither reads nor writes its key, which is a name to it
	// NamesAt is the index of the argument that is the first name of a member, in the usual order; 0 without. With
	// several keys it counts back from the end: -1 is the last.
	NamesAt    int
	MaxMembers int // how many names may follow it
	// SlotsAt is the index of the argument that says how many members there may be. While a slot is free in any case,
	// the score of the member that is named is not looked up (Members.Unread).
	SlotsAt int

	AliasOf *Command // the command that this one is another name of; nil for itself

	Personal bool // not in ACL category throttle: tells what a user may have no access to

	Fields []string // the names of a ReplyFields, or of one of ReplyRows, which begins with a text
	// NestedAt is the index in Fields of the name under which a ReplyNested has its rows. Those of a row come behind
	// it.
	NestedAt int

	Run func(*Call)
	Row func(c *Call, index int) (text []byte, integers []int64) // of ReplyRows

	index  uint16 // in All, plus 1
	syntax words.Syntax
	// How many arguments there have to be, and may be; -1 where words are read one by one, so that an error can point
	// at the first that is wrong.
	least, most int
}

// Keys says where a command's keys are.
type Keys int32

const (
	NoKeys      Keys = iota
	OneKey           // the first argument
	CountedKeys      // as many as the first argument says, from the second on
)

// All lists the commands, by file name. A command's index in it is its index for the bridge.
var All []*Command

// Named returns the command with a name, whatever its case; nil if there is none.
func Named(name []byte) *Command {
	return Among(All, name)
}

func register(cmd *Command) *Command {
	if len(All) == MaxCommands || len(cmd.Fields) > MaxNames {
		panic("command: " + cmd.Name + " does not fit")
	}
	All = append(All, cmd)
	cmd.index = uint16(len(All))
	cmd.prepare()
	return cmd
}

// prepare works out what follows from the words of a command.
func (cmd *Command) prepare() {
	form := words.Form{Command: strings.TrimPrefix(cmd.Name, "CL."), Required: cmd.Required, Slots: cmd.Slots, Groups: cmd.Keys == CountedKeys}
	cmd.syntax = words.Compile(form)
	cmd.findNames()
	front := append(keyArgs(cmd.Keys), cmd.Args...)
	cmd.least, cmd.most = cmd.syntax.CountArgs(front)
	cmd.Args = append(front, cmd.syntax.Args()...)
	cmd.History = cmd.syntax.History(cmd.Since, front, cmd.Later)
}

// findNames finds where ids and the number of slots stand in the usual order.
func (cmd *Command) findNames() {
	idsAt, slotsAt := cmd.syntax.Places()
	switch {
	case cmd.Keys != CountedKeys && idsAt > 0:
		cmd.NamesAt, cmd.SlotsAt = idsAt, slotsAt
	case cmd.Keys == CountedKeys && cmd.MaxMembers > 0:
		cmd.NamesAt = -1
	}
}

// ReadOnly reports whether the command opens its keys for reading only.
func (cmd *Command) ReadOnly() bool { return cmd.hasFlag("readonly") }

// RunsOverMaxmemory reports whether the command writes, and the server does not refuse it while it is over maxmemory.
// The bridge then refuses calls that would add a key or make one longer.
func (cmd *Command) RunsOverMaxmemory() bool { return cmd.hasFlag("write") && !cmd.hasFlag("deny-oom") }

// ViewedArgs is how many of its arguments a call is given views of.
func (cmd *Command) ViewedArgs() int {
	if cmd.Keys == CountedKeys {
		return MaxArgsOfKeys
	}
	return MaxArgs
}

// ServerFlags are the flags that the command is registered with.
func (cmd *Command) ServerFlags() string {
	if cmd.Keys == CountedKeys {
		return cmd.Flags + " getkeys-api" // the command itself tells where its keys are
	}
	return cmd.Flags
}

func (cmd *Command) hasFlag(flag string) bool {
	return strings.Contains(" "+cmd.Flags+" ", " "+flag+" ")
}

// Counter is the field of INFO that counts the command's calls.
func (cmd *Command) Counter() string {
	if cmd.AliasOf != nil {
		return cmd.AliasOf.Counter()
	}
	return "calls_" + strings.ToLower(strings.TrimPrefix(cmd.Name, "CL."))
}

// Categories are the server's own ACL categories that go with the flags: a server derives none
// for a module's command.
func (cmd *Command) Categories() string {
	names := []string{"write", "slow"}
	if cmd.ReadOnly() {
		names[0] = "read"
	}
	if cmd.hasFlag("fast") {
		names[1] = "fast"
	}
	if cmd.Blocks {
		names = append(names, "blocking")
	}
	if cmd.hasFlag("admin") {
		names = append(names, "admin", "dangerous")
	}
	return strings.Join(names, " ")
}

// OwnCategories are Categories and, unless the command is Personal, the module's own.
func (cmd *Command) OwnCategories() string {
	if cmd.Personal {
		return cmd.Categories()
	}
	return cmd.Categories() + " throttle"
}

// Arity is the number of arguments, the name included; negative when there may be more. The server refuses calls with
// fewer. Words do not count: of one that is missing the command itself says which.
func (cmd *Command) Arity() int {
	if cmd.least == cmd.most {
		return 1 + cmd.least
	}
	return -1 - cmd.least
}

// keyArgs are the arguments in front of all others.
func keyArgs(keys Keys) []words.Arg {
	switch keys {
	case OneKey:
		return []words.Arg{{Name: "key", Type: words.ArgKey}}
	case CountedKeys:
		return []words.Arg{{Name: "numkeys", Type: words.ArgInteger}, {Name: "key", Type: words.ArgKey, Multiple: true}}
	}
	return nil
}

// Words are what the command may be told behind its key or keys, as plain data.
func (cmd *Command) Words() words.Table { return cmd.syntax.Table() }

// ArgCounts are how many arguments there have to be, the key or what counts keys included, and how many there may be;
// -1 for any number.
func (cmd *Command) ArgCounts() (least, most int) { return cmd.least, cmd.most }
