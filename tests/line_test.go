package tests

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// kindOfWait is one way to wait for the key k. It names the call that takes the only unit, the one that then waits for
// it, and the call that gives it back. The field of INFO counts the callers that wait.
type kindOfWait struct{ take, wait, giveBack, field string }

// waitsInTurn reserve nothing: they are decided anew when it is their turn.
var waitsInTurn = map[string]kindOfWait{
	"lease":  {"CL.LEASE k SLOTS 1 TTL 1h ID holder", "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0", "CL.RELEASE k ID holder", "leases_waiting"},
	"window": {"CL.LIMIT k WINDOW 1/1h", "CL.WAIT k WINDOW 1/1h TIMEOUT 0", "CL.REFUND k WINDOW 1/1h", "waiting"},
	"fixed":  {"CL.LIMIT k FIXED 1/365d", "CL.WAIT k FIXED 1/365d TIMEOUT 0", "CL.REFUND k FIXED 1/365d", "waiting"},
}

// waitsOfAllKinds adds the callers that have a slot when they begin to wait.
func waitsOfAllKinds() map[string]kindOfWait {
	all := map[string]kindOfWait{"rate": {"CL.LIMIT k RATE 1/1h BURST 1", "CL.WAIT k RATE 1/1h BURST 1 TIMEOUT 0", "", "waiting"}}
	for name, kind := range waitsInTurn {
		all[name] = kind
	}
	return all
}

// patience is how long a test waits for an answer that should come at once. A line looks at itself once in
// five minutes whatever happens, so an answer within this time was not left to that.
const patience = 30 * time.Second

// tick is how often a test looks whether a condition holds.
const tick = 5 * time.Millisecond

// receiveSoon is the answer to a caller in line, which must come long before the line looks at itself.
func receiveSoon(t *testing.T, c *resp.Conn) resp.Value {
	t.Helper()
	v, err := c.ReceiveWithin(patience)
	require.NoError(t, err, "the caller is still in line")
	return v
}

// requireAdmitted receives the answer to a caller in line that is let in.
func requireAdmitted(t *testing.T, c *resp.Conn) {
	t.Helper()
	v := receiveSoon(t, c)
	require.False(t, v.IsError(), "%v", v)
	require.Equal(t, "limited", v.Elems[0].Text)
	require.EqualValues(t, 0, v.Elems[1].Int, "%v", v)
}

// waitAs sends the call of a kind of wait on its own connection and returns when it is number n in line.
func (k kindOfWait) waitAs(t *testing.T, s *server.Server, c *resp.Conn, n int) {
	t.Helper()
	require.NoError(t, c.Send(strings.Fields(k.wait)...))
	require.NoError(t, c.Flush())
	awaitField(t, s.Raw(), k.field, n)
}

// begin takes the only unit and makes a caller wait for it.
func (k kindOfWait) begin(t *testing.T, s *server.Server) (waiting *resp.Conn) {
	t.Helper()
	v := do(t, s.Raw(), "%s", k.take)
	require.False(t, v.IsError(), "%v", v)
	assert.EqualValues(t, 0, v.Elems[1].Int)
	waiting = s.Raw()
	k.waitAs(t, s, waiting, 1)
	return waiting
}
