package embedded_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

func TestAKeyWithoutAnExpiryStaysSoUnderABan(t *testing.T) {
	h, s := newStoredHost()
	h.do("CL.LIMIT k RATE 1/h")
	key := s.keys["0k"]
	key.ExpireAtMs = 0
	s.keys["0k"] = key
	assert.NotNil(t, h.get("k"), "it never expires")
	assert.EqualValues(t, 60_000, h.do("CL.BAN k 1m").Integers[0])
	assert.Zero(t, s.keys["0k"].ExpireAtMs)
}

func TestACallerWithoutAGroupWaitsInTheGroupWithoutAName(t *testing.T) {
	h := newHost()
	h.do("CL.LEASE jobs SLOTS 1 TTL 10s ID a")
	h.blocked(t, "CL.LEASE jobs SLOTS 1 TTL 1s ID b TIMEOUT 0")
	assert.Equal(t, []embedded.Row{{"", []int64{0, 1, 1}}}, h.do("CL.LEASES jobs").Groups)
}

func TestNextIsWhenTheFirstOfAllLinesHasSomethingToDo(t *testing.T) {
	h := newHost()
	next := func() time.Duration {
		ns, ok := h.Next()
		require.True(t, ok)
		return time.Unix(0, ns).Sub(start)
	}
	h.do("CL.LEASE late SLOTS 1 TTL 10s ID a")
	h.do("CL.LEASE soon SLOTS 1 TTL 3s ID a")
	h.blocked(t, "CL.LEASE late SLOTS 1 TTL 10s ID b TIMEOUT 0 COMPACT")
	assert.Equal(t, 10*time.Second, next())
	h.blocked(t, "CL.LEASE soon SLOTS 1 TTL 10s ID b TIMEOUT 0 COMPACT")
	assert.Equal(t, 3*time.Second, next())
	h.blocked(t, "CL.LEASE late SLOTS 1 TTL 10s ID c TIMEOUT 20s COMPACT")
	assert.Equal(t, 3*time.Second, next())
	h.blocked(t, "CL.LEASE late SLOTS 1 TTL 10s ID d TIMEOUT 1s COMPACT")
	assert.Equal(t, time.Second, next())
}

// A caller that is decided anew goes by the slots that a call told last. One that fails tells none.
func TestACallThatFailsTellsTheLineNothing(t *testing.T) {
	h := newHost()
	h.do("CL.LEASE jobs SLOTS 2 TTL 1h ID a")
	h.do("CL.LEASE jobs SLOTS 2 TTL 1h ID b")
	c := h.blocked(t, "CL.LEASE jobs SLOTS 1 TTL 1h ID c TIMEOUT 0 COMPACT")
	h.blocked(t, "CL.LEASE jobs SLOTS 2 TTL 1h ID d TIMEOUT 0 COMPACT")
	assert.Empty(t, h.passes(0))
	assert.Equal(t, command.ReplyError, h.do("CL.LEASE jobs SLOTS x TTL 1h ID e").Kind)
	h.do("CL.RELEASE jobs ID a")
	answers := h.Wake(h.now.UnixNano())
	require.Len(t, answers, 1)
	assert.Equal(t, c, answers[0].Waiter)
}

// A caller whose own arrival corrected the state is looked at again at once, also in a line that has a timer.
func TestACallerThatChangedTheKeyIsLookedAtAtOnce(t *testing.T) {
	h := newHost()
	h.do("CL.LIMIT k WINDOW 1/1h")
	h.do("CL.LIMIT k RATE 1/10s BURST 1")
	h.blocked(t, "CL.WAIT k RATE 1/10s BURST 1 TIMEOUT 0 COMPACT")
	h.now = h.now.Add(-2 * time.Hour)
	assert.Empty(t, h.passes(0))
	h.blocked(t, "CL.WAIT k WINDOW 1/1h TIMEOUT 0 COMPACT")
	ns, ok := h.Next()
	require.True(t, ok)
	assert.Equal(t, h.now.UnixNano(), ns)
}
