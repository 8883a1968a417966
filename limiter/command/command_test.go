// What the server is told of the commands.
package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatTheServerIsToldOfEachCommand(t *testing.T) {
	type told struct {
		arity             int
		flags, categories string
	}
	want := map[string]told{
		"CL.BAN":      {3, "write fast deny-oom", "write fast throttle"},
		"CL.LEASE":    {-2, "write deny-oom", "write slow blocking throttle"},
		"CL.LEASES":   {-2, "readonly", "read slow throttle"},
		"CL.LIMIT":    {-2, "write fast deny-oom", "write fast throttle"},
		"CL.MLIMIT":   {-3, "write fast deny-oom getkeys-api", "write fast throttle"},
		"CL.PEEK":     {-2, "readonly fast", "read fast throttle"},
		"CL.REFUND":   {-2, "write fast", "write fast throttle"},
		"CL.RELEASE":  {-2, "write fast", "write fast throttle"},
		"CL.RENEW":    {-2, "write fast", "write fast throttle"},
		"CL.THROTTLE": {-5, "write fast deny-oom", "write fast throttle"},
		"CL.TOP":      {-1, "readonly admin", "read slow admin dangerous"},
		"CL.WAIT":     {-2, "write deny-oom", "write slow blocking throttle"},
	}
	got := map[string]told{}
	for _, cmd := range All {
		if _, known := want[cmd.Name]; known { // the test build has more
			got[cmd.Name] = told{cmd.Arity(), cmd.ServerFlags(), cmd.OwnCategories()}
		}
	}
	assert.Equal(t, want, got)
}

func TestTheArityCountsArgumentsByPosition(t *testing.T) {
	one, optional := Arg{Type: ArgInteger}, Arg{Type: ArgInteger, Optional: true}
	for _, tt := range []struct {
		what string
		cmd  Command
		want int
	}{
		{"none", Command{}, 1},
		{"a key", Command{Keys: OneKey}, 2},
		{"several keys", Command{Keys: CountedKeys}, -3},
		{"a key and more", Command{Keys: OneKey, Args: []Arg{one, one}}, 4},
		{"an optional one", Command{Keys: OneKey, Args: []Arg{one, optional}}, -3},
		{"a word", Command{Keys: OneKey, Words: "COMPACT"}, -2},
		{"an optional word and its value", Command{Keys: OneKey, Words: "[COUNT]"}, -2},
		{"a word with several values", Command{Keys: OneKey, Words: "ID..."}, -2},
		{"words", Command{Keys: OneKey, Words: "ID TTL"}, -2},
		{"limits", Command{Keys: OneKey, Terms: "TAKE"}, -2},
	} {
		cmd := tt.cmd
		cmd.prepare()
		assert.Equal(t, tt.want, cmd.Arity(), tt.what)
	}
}

// usage writes arguments as COMMAND DOCS has them in the way of a syntax line.
func usage(args []Arg) string {
	var parts []string
	for _, arg := range args {
		text := arg.Name
		switch arg.Type {
		case ArgToken:
			text = ""
		case ArgBlock:
			text = usage(arg.Args)
		case ArgOneOf:
			var each []string
			for _, one := range arg.Args {
				each = append(each, usage([]Arg{one}))
			}
			text = "(" + strings.Join(each, " | ") + ")"
		}
		text = strings.TrimSpace(arg.Token + " " + text)
		if arg.Multiple {
			text += " ..."
		}
		if arg.Optional {
			text = "[" + text + "]"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestWhatCommandDocsShowsOfTheArguments(t *testing.T) {
	limit := func(terms string) string {
		return "(RATE count/period [BURST capacity]" + terms + " | WINDOW count/period" + terms +
			" | FIXED count/period [(FIRST | [OFFSET duration] [TZ zone])]" + terms + ") ..."
	}
	group := func(limits, slots string) string {
		return strings.TrimSuffix(limits, ") ...") + " | " + slots + ") ..."
	}
	const all = " [TAKE units] [SPARE units] [SHADOW]"
	const options = " [COST units] [UPTO] [STRICT] [FORCE] [MAXWAIT duration] [BAN duration] [COMPACT] [EACH]"
	for cmd, want := range map[*Command]string{
		Throttle: "key max_burst count_per_period period [quantity]",
		Limit:    "key " + limit(all) + options,
		MLimit: "numkeys key ... " + group(limit(all), "SLOTS slots TTL duration") + " [NEXT " + group(limit(all), "SLOTS slots TTL duration") + " ...] [ANY]" +
			strings.Replace(options, " [COMPACT]", " [ID id] [COMPACT]", 1),
		Settle: "numkeys key ... " + group(limit(" [TAKE units] [USED units] [SHADOW]"), "SLOTS") +
			" [NEXT " + group(limit(" [TAKE units] [USED units] [SHADOW]"), "SLOTS") + " ...] ID id [COMPACT] [EACH]",
		Peek:    "key " + limit(all) + " [COST units] [COMPACT] [EACH]",
		Refund:  "key " + limit(" [TAKE units] [SHADOW]") + " [COST units] [COMPACT] [EACH]",
		Wait:    "key " + limit(" [TAKE units] [SPARE units]") + " [COST units] TIMEOUT duration [GROUP group] [PRIORITY priority] [COMPACT] [EACH]",
		Ban:     "key duration",
		Lease:   "key SLOTS slots TTL duration ID id [TIMEOUT duration [GROUP group] [PRIORITY priority]] [COMPACT]",
		Renew:   "key ID id TTL duration [COMPACT]",
		Release: "key ID id ...",
		Leases:  "key [COUNT n]",
		Top:     "[count]",
	} {
		assert.Equal(t, want, usage(cmd.Args), cmd.Name)
	}
}

func TestACommandWithMoreFieldsThanFitIsRefused(t *testing.T) {
	all := All
	defer func() { All = all }()
	assert.Panics(t, func() { register(&Command{Name: "CL.WIDE", Fields: make([]string, MaxFields+1)}) })
	All = make([]*Command, MaxCommands)
	assert.Panics(t, func() { register(&Command{Name: "CL.MORE"}) })
}
