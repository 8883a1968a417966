package neighbours_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// standAlone makes a caller wait for a lease, the only one, and returns its connection and the server's id of it.
func standAlone(t *testing.T, s *server.Server, admin *resp.Conn, call string) (c *resp.Conn, id int64) {
	t.Helper()
	c = s.Raw()
	id = kit.Do(t, c, "CLIENT ID").Int
	require.NoError(t, c.Send(strings.Fields(call)...))
	require.NoError(t, c.Flush())
	kit.AwaitField(t, admin, "leases_waiting", 1)
	return c, id
}

// Callers that still wait see what another module changes when it hears that a caller has given up.
func TestALeaseThatIsReleasedWhenSomebodyGivesUpWakes(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	first := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID first TIMEOUT 0")
	neighbour.Do(t, s, "CL.RELEASE k ID holder")
	assert.EqualValues(t, 1, kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID second TIMEOUT 20ms").Limited)
	v, err := first.ReceiveWithin(30 * time.Second)
	require.NoError(t, err)
	l, err := kit.LeasedIn(v)
	require.NoError(t, err)
	assert.EqualValues(t, 0, l.Limited)
}

// A caller that another module sends away when it hears that its time is over leaves nothing behind, in line or in
// memory, and has one answer at most.
func TestACallerSentAwayWhenItGivesUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for how, answers := range map[string]bool{"CLIENT KILL ID %d": false, "CLIENT UNBLOCK %d": true} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			c := s.Raw()
			kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
			round := func() int64 {
				t.Helper()
				for i := range 20 {
					leaver := s.Raw()
					neighbour.Do(t, s, fmt.Sprintf(how, kit.Do(t, leaver, "CLIENT ID").Int))
					replies, err := leaver.Pipeline(strings.Fields(fmt.Sprintf("CL.LEASE k SLOTS 1 TTL 1h ID %0500d TIMEOUT 10ms", i)), []string{"PING"})
					if answers {
						require.NoError(t, err)
						l, err := kit.LeasedIn(replies[0])
						require.NoError(t, err)
						assert.EqualValues(t, 1, l.Limited)
						assert.Equal(t, "PONG", replies[1].Text)
					} else {
						require.Error(t, err, "it was cut off")
					}
					require.NoError(t, leaver.Close())
					require.Positive(t, s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int)
					neighbour.Do(t, s, "")
					kit.AwaitField(t, c, "leases_waiting", 0)
				}
				require.Eventually(t, func() bool { return s.InfoInt("clients", "connected_clients") == 2 }, 60*time.Second, 2*time.Millisecond)
				return s.InfoInt("memory", "used_memory")
			}
			round()
			before := round()
			after := round()
			assert.Less(t, after-before, int64(4<<10), "used_memory")
			assert.EqualValues(t, 1, kit.Do(t, c, "ZCARD k").Int)
			waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
			kit.Do(t, c, "CL.RELEASE k ID holder")
			assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
		})
	}
}

// A caller that another module cuts off when the server looks for its key in vain, at the end of its time, is gone.
func TestACallerCutOffWhenItsKeyIsGoneIsNotCounted(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("an older server would let the caller in")
	}
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	leaver, id := standAlone(t, s, c, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 3s")
	kit.Do(t, c, "CONFIG SET maxmemory 1") // nobody is let in
	kit.Do(t, c, "DEL k")
	kit.AwaitField(t, c, "leases_waiting", 1)
	neighbour.Do(t, s, fmt.Sprintf("CLIENT KILL ID %d", id))
	_, err := leaver.Receive()
	require.Error(t, err, "it was cut off")
	neighbour.Do(t, s, "")
	kit.AwaitField(t, c, "leases_waiting", 0)
	assert.Equal(t, []string{"1", "0"}, kit.LeasesOf(s, "granted", "limited"))
	kit.Do(t, c, "CONFIG SET maxmemory 0")
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID a")
	waiting := kit.WaitForLease(t, s, 1, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
	kit.Do(t, c, "CL.RELEASE k ID a")
	assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
}

// A call on a key outlives the line that it found there.
func TestTheLineOfAKeyIsCutOffInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	c := s.Raw()
	kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID holder")
	waiting, id := standAlone(t, s, c, "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0")
	neighbour.Do(t, s, fmt.Sprintf("CLIENT KILL ID %d", id))
	assert.EqualValues(t, 1, kit.AskLease(t, c, "CL.LEASE k SLOTS 2 TTL 1h ID late").Limited, "it counted the caller that waited")
	_, err := waiting.Receive()
	require.Error(t, err, "it was cut off")
	neighbour.Do(t, s, "")
	kit.AwaitField(t, c, "leases_waiting", 0)
	assert.EqualValues(t, 0, kit.AskLease(t, c, "CL.LEASE k SLOTS 2 TTL 1h ID late").Limited)
}
