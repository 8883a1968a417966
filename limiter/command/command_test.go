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

func TestACommandWithMoreFieldsThanFitIsRefused(t *testing.T) {
	all := All
	defer func() { All = all }()
	assert.Panics(t, func() { register(&Command{Name: "CL.WIDE", Fields: make([]string, MaxFields+1)}) })
	All = make([]*Command, MaxCommands)
	assert.Panics(t, func() { register(&Command{Name: "CL.MORE"}) })
}
