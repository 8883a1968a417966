package commands_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/server"
)

// What CL.DENIED counts is about a key, and nothing happens to the key, not even to how the server keeps it. It is no
// warmer either: one that is denied all day may still be evicted.
func TestDeniedLeavesItsKeyAsItIs(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "OBJECT FREQ")
	s := server.Start(t, server.Config("maxmemory-policy allkeys-lfu", "lfu-log-factor 0"))
	s.MustDo("CONFIG", "SET", "throttle.top", "10")
	s.MustDo("SET", "k", "12345")
	was := s.MustDo("OBJECT", "FREQ", "k").Int
	for range 50 {
		assert.EqualValues(t, 1, s.MustDo("CL.DENIED", "k", "1").Int)
	}
	assert.Equal(t, was, s.MustDo("OBJECT", "FREQ", "k").Int)
	assert.Equal(t, "int", s.MustDo("OBJECT", "ENCODING", "k").Text)
	s.MustDo("SADD", "set", "a")
	assert.EqualValues(t, 1, s.MustDo("CL.DENIED", "set", "1").Int, "whatever it holds")
}
