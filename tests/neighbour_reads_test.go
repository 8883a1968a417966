package tests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
)

// Opening a key that has expired tells another module of its end, which may write to any key then. The call is answered as if the key had
// never been there.
func TestExpiredKeysAreAbsentBesideANeighbour(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("DEBUG keeps expired keys since Redis 7.0")
	}
	c := s.Raw()
	do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
	for _, call := range writtenInto {
		if strings.Contains(call, "FIXED") {
			continue // the end of its window comes nearer
		}
		do(t, c, "FLUSHALL")
		want := do(t, c, "%s", call)
		for _, state := range []string{"b has expired", "both have expired"} {
			for _, write := range []string{"", "NEIGHBOUR.ON expired b SET elsewhere x"} {
				do(t, c, "NEIGHBOUR.DO")
				mustDoAll(t, c, append([]string{"FLUSHALL"}, keyStates[state]...)...)
				if state == "b has expired" {
					do(t, c, "DEL a")
				}
				if write != "" {
					do(t, c, "%s", write)
				}
				assert.Equal(t, want, do(t, c, "%s", call), "%s, %s, %q", call, state, write)
			}
		}
	}
}

// While the server adds a key, a call of another module sees what it will hold, or that it is of the wrong type.
func TestACallReadsAKeyThatIsBeingAdded(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("event new")
	}
	c := s.Raw()
	const peek = "CL.PEEK b RATE 5/h COMPACT"
	const script = "local r = redis.pcall('CL.PEEK', 'b', 'RATE', '5/h', 'COMPACT') redis.call('SET', 'seen', r.err or r[2])"
	for _, command := range slices.Concat(adding, []string{"COPY limit b"}) {
		if strings.HasPrefix(command, "EVAL") || strings.HasPrefix(command, "SETRANGE") {
			continue // no server runs a script within a script, and the range is written after the event
		}
		mustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "SET digits 5", "SET bucket 1700000000000000000 PX 100000000", "ZADD leases 1700000000000 a", "CL.LIMIT limit RATE 5/h COST 2")
		_, err := c.Do("NEIGHBOUR.ON", "new", "b", "EVAL", script, "0")
		require.NoError(t, err)
		do(t, c, "%s", command)
		do(t, c, "NEIGHBOUR.DO")
		want := do(t, c, peek)
		if !want.IsError() {
			want = want.Elems[1]
		}
		assert.Equal(t, strings.TrimPrefix(want.String(), "(error) "), do(t, c, "GET seen").Text, command)
	}
}
