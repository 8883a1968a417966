package command

import "strings"

// Command is one command of the module: what the server is told of it, and how it is
// decided. Each has a file of its own, which registers it.
type Command struct {
	Name       string // in capitals
	Summary    string // a sentence, for COMMAND DOCS
	Complexity string
	Since      string // version of the module
	Tips       string // for clients and proxies, as the server defines them
	Flags      string // the server's: write or readonly, fast, deny-oom, admin
	Keys       Keys
	Args       []Arg // after the name

	Decides bool // the answer's first field says limited: it is counted, notified of, and in CL.TOP
	Blocks  bool // may answer ReplyLater or ReplyInTurn
	Lines   bool // wants to know who waits in line

	OnSortedSet bool   // gets to see Call.Members
	MemberWord  string // stands before the names of members
	MaxMembers  int    // how many names may follow it
	// RoomWord stands before the number of members that there may be. While there is room in any case, the
	// score of the member that is named is not looked up (Members.Unread). Words take one value each, but COMPACT none.
	RoomWord string

	Personal bool // not in ACL category throttle: tells what a user may have no access to

	Fields []string // the names of a ReplyFields, or of one of ReplyRows, which begins with a text

	Run func(*Call)
	Row func(c *Call, index int) (text []byte, integers []int64) // of ReplyRows
}

// Keys says where a command's keys are.
type Keys int32

const (
	NoKeys      Keys = iota
	OneKey           // the first argument
	CountedKeys      // as many as the first argument says, from the second on
)

// All lists the commands, by file name. A command's place is its index for the bridge.
var All []*Command

func register(cmd *Command) *Command {
	if len(All) == MaxCommands || len(cmd.Fields) > MaxFields {
		panic("command: " + cmd.Name + " does not fit")
	}
	All = append(All, cmd)
	return cmd
}

// ReadOnly reports whether the command opens its keys for reading only.
func (cmd *Command) ReadOnly() bool { return cmd.hasFlag("readonly") }

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
	return "calls_" + strings.ToLower(strings.TrimPrefix(cmd.Name, "CL."))
}

// Categories are the server's own ACL categories that go with the flags: a server derives none
// for a module's command.
func (cmd *Command) Categories() string {
	words := []string{"write", "slow"}
	if cmd.ReadOnly() {
		words[0] = "read"
	}
	if cmd.hasFlag("fast") {
		words[1] = "fast"
	}
	if cmd.Blocks {
		words = append(words, "blocking")
	}
	if cmd.hasFlag("admin") {
		words = append(words, "admin", "dangerous")
	}
	return strings.Join(words, " ")
}

// OwnCategories are Categories and, unless the command is Personal, the module's own.
func (cmd *Command) OwnCategories() string {
	if cmd.Personal {
		return cmd.Categories()
	}
	return cmd.Categories() + " throttle"
}

// Arity is the number of words, the name included; negative when there may be more.
func (cmd *Command) Arity() int {
	least, more := wordsOf(cmd.Args)
	if more {
		return -1 - least
	}
	return 1 + least
}

// ArgType is what an argument is, as COMMAND DOCS shows it.
type ArgType int

const (
	ArgKey     ArgType = iota
	ArgString          // text
	ArgInteger         // number
	ArgToken           // the token itself
	ArgOneOf           // one of Args
	ArgBlock           // all of Args, in their order
)

// Arg is one argument.
type Arg struct {
	Name     string
	Type     ArgType
	Token    string // the word in front
	Optional bool
	Multiple bool
	Args     []Arg
}

// wordsOf is the least number of words that args take, and whether there may be more.
func wordsOf(args []Arg) (least int, more bool) {
	for _, arg := range args {
		words, mayVary := arg.words()
		more = more || mayVary || arg.Optional || arg.Multiple
		if !arg.Optional {
			least += words
		}
	}
	return least, more
}

func (arg *Arg) words() (least int, more bool) {
	switch arg.Type {
	case ArgToken:
		return 1, false
	case ArgBlock:
		least, more = wordsOf(arg.Args)
	case ArgOneOf:
		for i, one := range arg.Args {
			words, mayVary := one.words()
			if i == 0 || words < least {
				least = words
			}
			more = more || mayVary || i > 0
		}
	default:
		least = 1
	}
	if arg.Token != "" {
		least++
	}
	return least, more
}
