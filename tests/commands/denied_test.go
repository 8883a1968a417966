package commands_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/server"
)

// What CL.DENIED counts is about a key, and nothing happens to the key, not even to how the server keeps it.
func TestDeniedLeavesItsKeyAsItIs(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "OBJECT ENCODING")
	s := server.Start(t)
	s.MustDo("CONFIG", "SET", "throttle.top", "10")
	s.MustDo("SET", "n", "12345")
	assert.EqualValues(t, 1, s.MustDo("CL.DENIED", "n", "1").Int)
	assert.Equal(t, "int", s.MustDo("OBJECT", "ENCODING", "n").Text)
}
