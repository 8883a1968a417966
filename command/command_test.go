// What the server is told of the commands.
package command

import (
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
		"CL.LEASE":    {-8, "write deny-oom", "write slow blocking throttle"},
		"CL.LEASES":   {-2, "readonly", "read slow throttle"},
		"CL.LIMIT":    {-4, "write fast deny-oom", "write fast throttle"},
		"CL.MLIMIT":   {-5, "write fast deny-oom getkeys-api", "write fast throttle"},
		"CL.PEEK":     {-4, "readonly fast", "read fast throttle"},
		"CL.REFUND":   {-4, "write fast", "write fast throttle"},
		"CL.RELEASE":  {-4, "write fast", "write fast throttle"},
		"CL.RENEW":    {-6, "write fast", "write fast throttle"},
		"CL.THROTTLE": {-5, "write fast deny-oom", "write fast throttle"},
		"CL.TOP":      {-1, "readonly admin", "read slow admin dangerous"},
		"CL.WAIT":     {-6, "write deny-oom", "write slow blocking throttle"},
	}
	got := map[string]told{}
	for _, cmd := range All {
		if _, known := want[cmd.Name]; known { // the test build has more
			got[cmd.Name] = told{cmd.Arity(), cmd.ServerFlags(), cmd.OwnCategories()}
		}
	}
	assert.Equal(t, want, got)
}

func TestTheArityFollowsFromTheArguments(t *testing.T) {
	key := Arg{Type: ArgKey}
	word, value := Arg{Type: ArgToken, Token: "ANY"}, Arg{Type: ArgInteger, Token: "COST"}
	optional := Arg{Type: ArgInteger, Optional: true}
	block := func(args ...Arg) Arg { return Arg{Type: ArgBlock, Args: args} }
	oneOf := func(args ...Arg) Arg { return Arg{Type: ArgOneOf, Args: args} }
	for _, tt := range []struct {
		what string
		args []Arg
		want int
	}{
		{"none", nil, 1},
		{"a key", []Arg{key}, 2},
		{"a word", []Arg{word}, 2},
		{"a word and its value", []Arg{value}, 3},
		{"several keys", []Arg{{Type: ArgKey, Multiple: true}}, -2},
		{"an optional one", []Arg{key, optional}, -2},
		{"an optional one in front", []Arg{optional, key}, -2},
		{"a block", []Arg{block(key, word)}, 3},
		{"a block behind a word", []Arg{{Type: ArgBlock, Token: "NEXT", Args: []Arg{key, key}}}, 4},
		{"a block that varies", []Arg{block(key, optional)}, -2},
		{"a block that varies in front", []Arg{block(key, optional), key}, -3},
		{"one of one", []Arg{oneOf(value)}, 3},
		{"one of one that varies", []Arg{oneOf(block(key, optional))}, -2},
		{"one of several, the shortest first", []Arg{oneOf(word, value)}, -2},
		{"one of several, the shortest last", []Arg{oneOf(value, word)}, -2},
	} {
		assert.Equal(t, tt.want, (&Command{Args: tt.args}).Arity(), tt.what)
	}
}

func TestACommandWithMoreFieldsThanFitIsRefused(t *testing.T) {
	all := All
	defer func() { All = all }()
	assert.Panics(t, func() { register(&Command{Name: "CL.WIDE", Fields: make([]string, MaxFields+1)}) })
	All = make([]*Command, MaxCommands)
	assert.Panics(t, func() { register(&Command{Name: "CL.MORE"}) })
}
