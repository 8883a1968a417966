// What the server is told of the commands.
package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAServerIsToldHowManyArgumentsThereAreAndWhoFindsTheKeys(t *testing.T) {
	assert.Equal(t, 3, Ban.Arity(), "the name, a key and a duration")
	assert.Equal(t, -2, Limit.Arity(), "at least a key")
	assert.Equal(t, "write fast deny-oom", Limit.ServerFlags())
	assert.Equal(t, "write fast deny-oom getkeys-api", MLimit.ServerFlags())
}

func TestACommandWithMoreFieldsThanFitIsRefused(t *testing.T) {
	all := All
	defer func() { All = all }()
	assert.Panics(t, func() { register(&Command{Name: "CL.WIDE", Fields: make([]string, MaxNames+1)}) })
	All = make([]*Command, MaxCommands)
	assert.Panics(t, func() { register(&Command{Name: "CL.MORE"}) })
}
