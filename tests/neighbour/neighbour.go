// Package neighbour is a second module for a server under test, in C: it answers every
// notification with a command of the test's choice, so that one command runs in the
// middle of another.
package neighbour

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

//go:embed testdata/neighbour.c
var source []byte

// Start runs a server that holds the neighbour and throttle's test build.
func Start(t testing.TB, opts ...server.Option) *server.Server {
	t.Helper()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	return server.Start(t, append(opts, server.Module(path), Beside(t))...)
}

// StartEarlier runs a server that has loaded the neighbour before throttle's test build.
func StartEarlier(t testing.TB, opts ...server.Option) *server.Server {
	t.Helper()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	return server.Start(t, append(opts, server.WithoutModule(), Beside(t), server.Config("loadmodule "+path))...)
}

// Beside adds the neighbour to a server that holds whatever else.
func Beside(t testing.TB) server.Option {
	t.Helper()
	return server.Config("loadmodule " + sharedlib.Build(t, "neighbour", source))
}

// Do makes the server's neighbour run a command at each notification from now on, or none
// when words is empty.
func Do(t testing.TB, s *server.Server, words string) {
	t.Helper()
	s.MustDo(append([]string{"NEIGHBOUR.DO"}, strings.Fields(words)...)...)
}

// On makes the server's neighbour run a command at one event of one key only.
func On(t testing.TB, s *server.Server, event, key, words string) {
	t.Helper()
	s.MustDo(append([]string{"NEIGHBOUR.ON", event, key}, strings.Fields(words)...)...)
}

// Seen is how often the command ran since Do. That it failed fails the test.
func Seen(t testing.TB, s *server.Server) (times int64) {
	t.Helper()
	v := s.MustDo("NEIGHBOUR.SEEN")
	assert.Empty(t, v.Elems[1].Text, "the neighbour's command failed")
	return v.Elems[0].Int
}
