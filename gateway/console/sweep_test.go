package console

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of more bans than the page keeps, those that last longest stay, whichever came first. What is left out is said.
func TestTheLongestBansStay(t *testing.T) {
	s, states := newSweep(), map[string]*Inspect{}
	see := func(i int) {
		name := fmt.Sprintf("user:%03d", i)
		states[name] = &Inspect{NowMs: 1, Banned: int64(1000 + i)}
		s.note(name, states[name])
	}
	for i := range mostFound {
		see(i)
	}
	assert.False(t, s.listBans(states).AtLeast)
	for i := range 50 {
		see(mostFound + i)
	}
	see(0)
	found := s.listBans(states)
	require.Len(t, found.Rows, mostListed)
	assert.Equal(t, "user:149", found.Rows[0].Key.Text)
	assert.Equal(t, mostFound-mostListed, found.More)
	assert.True(t, found.AtLeast)
	assert.NotContains(t, s.bans.sizes, "user:049")
	assert.Contains(t, s.bans.sizes, "user:050")

	s.bans.roundEnds()
	assert.True(t, s.listBans(states).AtLeast, "the last round left some out")
	for i := range mostFound {
		s.note(fmt.Sprintf("user:%03d", i), &Inspect{NowMs: 1})
	}
	s.bans.roundEnds()
	found = s.listBans(states)
	assert.Equal(t, 50-mostListed, found.More)
	assert.False(t, found.AtLeast)
}
