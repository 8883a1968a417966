// What the server is told of the commands.
package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestACommandWithMoreFieldsThanFitIsRefused(t *testing.T) {
	all := All
	defer func() { All = all }()
	assert.Panics(t, func() { register(&Command{Name: "CL.WIDE", Fields: make([]string, MaxFields+1)}) })
	All = make([]*Command, MaxCommands)
	assert.Panics(t, func() { register(&Command{Name: "CL.MORE"}) })
}
