package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/embedded"
)

// blocked makes a call that has to wait.
func (h *host) blocked(t *testing.T, line string) embedded.Waiter {
	t.Helper()
	r := h.doBlocking(line)
	require.NotZero(t, r.Waiter, "%s answers %s", line, show(r))
	return r.Waiter
}

// passes lets time pass from one instant at which something is due to the next, as a server with timers does, and
// returns the answers in their order.
func (h *host) passes(d time.Duration) (answers []string) {
	for until := h.now.Add(d); ; {
		for _, a := range h.Wake(h.now.UnixNano()) {
			answers = append(answers, fmt.Sprintf("%d@%v %s", a.Waiter, h.now.Sub(start), show(a.Reply)))
		}
		if h.now.Equal(until) {
			return answers
		}
		next, ok := h.Next()
		if h.now = until; ok && next < until.UnixNano() {
			h.now = time.Unix(0, next)
		}
	}
}

func TestReservedSlotsAreAnsweredWhenTheyCome(t *testing.T) {
	h := newHost()
	h.do("CL.LIMIT k RATE 1/s BURST 1")
	a := h.blocked(t, "CL.WAIT k RATE 1/s BURST 1 TIMEOUT 0 COMPACT")
	b := h.blocked(t, "CL.WAIT k RATE 1/s BURST 1 TIMEOUT 0 COMPACT")
	c := h.blocked(t, "CL.WAIT k RATE 1/s BURST 1 TIMEOUT 0 COMPACT")
	left, ok := h.Unblock(h.now.UnixNano(), b)
	require.True(t, ok)
	assert.Equal(t, int64(1), left.Integers[0], "a caller that is sent away is limited")
	answers := h.passes(time.Minute)
	require.Len(t, answers, 2, "%v", answers)
	assert.Contains(t, answers[0], fmt.Sprintf("%d@1s [0 ", a))
	assert.Contains(t, answers[1], fmt.Sprintf("%d@2s [0 ", c), "it moves up")
	_, ok = h.Unblock(h.now.UnixNano(), b)
	assert.False(t, ok)
}

func TestCallersForAWindowTakeTurns(t *testing.T) {
	h := newHost()
	h.do("CL.LIMIT k WINDOW 10/1h COST 8")
	first := h.blocked(t, "CL.WAIT k WINDOW 10/1h COST 5 TIMEOUT 0 COMPACT")
	second := h.blocked(t, "CL.WAIT k WINDOW 10/1h COST 1 TIMEOUT 0 COMPACT")
	assert.Empty(t, h.passes(time.Minute), "nobody overtakes")
	h.Disconnect(h.now.UnixNano(), first)
	answers := h.passes(0)
	require.Len(t, answers, 1)
	assert.Contains(t, answers[0], fmt.Sprintf("%d@1m0s [0 ", second))
	third := h.blocked(t, "CL.WAIT k WINDOW 10/1h COST 2 TIMEOUT 0 COMPACT")
	h.Delete(0, "k")
	answers = h.passes(0)
	require.Len(t, answers, 1)
	assert.Contains(t, answers[0], fmt.Sprintf("%d@1m0s [0 ", third), "what others do to the key wakes its line")
	_, ok := h.Next()
	assert.False(t, ok, "an empty line leaves nothing behind")
}

func TestAClockThatIsSetBackProlongsNoTimeout(t *testing.T) {
	h := newHost()
	h.do("CL.LEASE jobs SLOTS 1 TTL 1h ID a")
	h.blocked(t, "CL.LEASE jobs SLOTS 1 TTL 1s ID b TIMEOUT 2s COMPACT")
	h.passes(time.Second)
	h.now = h.now.Add(-time.Minute)
	assert.Empty(t, h.passes(999*time.Millisecond))
	assert.Len(t, h.passes(time.Millisecond), 1)
}

func TestALineThatIsToBeLookedAtIsDueNow(t *testing.T) {
	h := newHost()
	h.do("CL.LEASE jobs SLOTS 1 TTL 1h ID a")
	h.passes(time.Minute)
	h.blocked(t, "CL.LEASE jobs SLOTS 1 TTL 1s ID b TIMEOUT 0 COMPACT")
	h.Wake(h.now.UnixNano())
	h.passes(time.Minute)
	h.do("CL.RELEASE jobs ID a")
	next, ok := h.Next()
	assert.True(t, ok)
	assert.Equal(t, h.now.UnixNano(), next)
}

// In all, the clock is set forward by more than an int64 can hold in ns.
func TestAClockThatIsSetToAndFroForCenturiesStillWakesCallers(t *testing.T) {
	h := newHost()
	for range 4 {
		h.now = start.AddDate(100, 0, 0)
		h.do("CL.PEEK k FIXED 1/1d")
		h.now = start
		h.do("CL.PEEK k FIXED 1/1d")
	}
	h.do("CL.LIMIT k FIXED 1/1d")
	h.blocked(t, "CL.WAIT k FIXED 1/1d TIMEOUT 0")
	assert.Len(t, h.passes(48*time.Hour), 1)
}

// Beyond MaxWaiting a call is answered at once, and reserves nothing. A caller that leaves makes room.
func TestBeyondMaxWaitingCallersAreTurnedAway(t *testing.T) {
	h := newHost()
	h.MaxWaiting = 1
	h.do("CL.LIMIT k RATE 1/h BURST 1")
	first := h.blocked(t, "CL.WAIT k RATE 1/h BURST 1 TIMEOUT 0")
	h.do("CL.LEASE jobs SLOTS 1 TTL 1h ID a")
	before := h.get("k").Value
	for _, call := range []string{"CL.WAIT k RATE 1/h BURST 1 TIMEOUT 0", "CL.LEASE jobs SLOTS 1 TTL 1h ID b TIMEOUT 0"} {
		r := h.doBlocking(call)
		assert.Zero(t, r.Waiter, call)
		assert.Equal(t, int64(1), r.Integers[0], call)
	}
	assert.Equal(t, before, h.get("k").Value)
	assert.Equal(t, int64(2), stat(h, "turned_away"))
	assert.Equal(t, int64(1), stat(h, "max_waiting"))
	h.Disconnect(h.now.UnixNano(), first)
	second := h.blocked(t, "CL.LEASE jobs SLOTS 1 TTL 1h ID b TIMEOUT 0 COMPACT")
	h.do("CL.RELEASE jobs ID a")
	assert.Equal(t, []string{fmt.Sprintf("%d@0s [0 1 0 -1 3600000 0]", second)}, h.passes(0), "a caller at the front is decided as ever")
}
