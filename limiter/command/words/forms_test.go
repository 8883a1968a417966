package words_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
)

// The vocabulary names commands that there are, and the other tests of this folder are about them.
func TestTheFormsAreThoseOfTheCommands(t *testing.T) {
	var got []words.Form
	for _, cmd := range command.All {
		form := words.Form{Command: strings.TrimPrefix(cmd.Name, "CL."), Required: cmd.Required, Slots: cmd.Slots, Groups: cmd.Keys == command.CountedKeys}
		if form.Required != "" || slices.Contains(words.CommandsOfRows(), form.Command) {
			got = append(got, form)
		}
	}
	assert.Equal(t, words.Forms, got)
	for _, name := range words.CommandsOfRows() {
		assert.NotNil(t, command.Named([]byte("CL."+name)), name)
	}
}
