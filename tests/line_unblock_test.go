package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// Another module may send a caller away when it hears that the caller, which CLIENT UNBLOCK sends away, was limited.
// The server goes on with that client afterwards, and must find it alive.
func TestACallerSentAwayInTheMiddleOfCLIENTUNBLOCK(t *testing.T) {
	t.Parallel()
	for name, kind := range waitsOfAllKinds() {
		for _, how := range []string{"CLIENT KILL ID %d", "CLIENT UNBLOCK %d", "CLIENT UNBLOCK %d ERROR"} {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, the key is gone %t", name, how, gone), func(t *testing.T) {
					t.Parallel()
					s := neighbour.Start(t)
					admin := s.Raw()
					do(t, admin, "%s", kind.take)
					for range 5 {
						waiting := s.Raw()
						id := do(t, waiting, "CLIENT ID").Int
						kind.waitAs(t, s, waiting, 1)
						if gone {
							do(t, admin, "CONFIG SET maxmemory 1") // nobody is let in
							do(t, admin, "DEL k")
						}
						neighbour.Do(t, s, fmt.Sprintf(how, id))
						assert.EqualValues(t, 1, do(t, admin, "CLIENT UNBLOCK %d", id).Int)
						neighbour.Do(t, s, "")
						require.NoError(t, waiting.Close())
						awaitField(t, admin, kind.field, 0)
						if gone {
							do(t, admin, "CONFIG SET maxmemory 0")
							do(t, admin, "%s", kind.take)
						}
					}
					require.Eventually(t, func() bool { return s.InfoInt("clients", "blocked_clients") == 0 }, patience, tick)
				})
			}
		}
	}
}

// A caller in turn that CLIENT UNBLOCK sends away was limited, and listeners hear so.
func TestACallerThatIsUnblockedWasLimited(t *testing.T) {
	t.Parallel()
	for name, kind := range waitsInTurn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Config("notify-keyspace-events Ed"))
			admin, waiting, listener := s.Raw(), s.Raw(), s.Raw()
			do(t, admin, "SELECT 3")
			do(t, admin, "%s", kind.take)
			do(t, waiting, "SELECT 3")
			id := do(t, waiting, "CLIENT ID").Int
			kind.waitAs(t, s, waiting, 1)
			do(t, listener, "PSUBSCRIBE __keyevent@*__:*")
			do(t, admin, "SELECT 0")
			require.EqualValues(t, 1, do(t, admin, "CLIENT UNBLOCK %d", id).Int)
			receiveSoon(t, waiting)
			event := receiveSoon(t, listener)
			require.Len(t, event.Elems, 4, "%v", event)
			assert.Equal(t, []string{"__keyevent@3__:limited", "k"}, []string{event.Elems[2].Text, event.Elems[3].Text})
		})
	}
}

// A caller that CLIENT UNBLOCK sends away is told who holds the slots, and when the first of them lapses, however many leases have lapsed before.
func TestACallerThatIsUnblockedIsToldWhoHoldsTheSlots(t *testing.T) {
	t.Parallel()
	s := startCheckBuild(t)
	admin, waiting := s.Raw(), s.Raw()
	id := do(t, waiting, "CLIENT ID").Int
	for _, lapsed := range []int{0, 15, 16, 17, 40} {
		endsMs := nowIn(t, admin)/int64(time.Millisecond) + 3_600_000
		zadd := fmt.Sprintf("ZADD k %d later %d last", endsMs, endsMs+1)
		for i := range lapsed {
			zadd += fmt.Sprintf(" %d lapsed%d", 1_700_000_000_000+i%3, i)
		}
		mustDoAll(t, admin, "DEL k", zadd)
		send(t, waiting, "CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0")
		awaitField(t, admin, "leases_waiting", 1)
		_, fromNs, toNs := timed(t, admin, fmt.Sprintf("CLIENT UNBLOCK %d", id))
		l := receiveLease(t, waiting)
		assert.Equal(t, leased{1, 2, 0, l.RetryAfterMs, 0, l.WaitMs}, l, "%d have lapsed", lapsed)
		assert.GreaterOrEqual(t, l.RetryAfterMs, ceilMs(endsMs*int64(time.Millisecond)-toNs), "%d have lapsed", lapsed)
		assert.LessOrEqual(t, l.RetryAfterMs, ceilMs(endsMs*int64(time.Millisecond)-fromNs), "%d have lapsed", lapsed)
	}
}

// Another module may unblock a caller when it hears that the caller was let in. Up to Redis 7.0 the server takes it out of the line's hands then.
func TestACallerUnblockedAsItIsLetInGetsItsAnswer(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"zadd", "leased"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin, waiting, other := s.Raw(), s.Raw(), s.Raw()
			kind := waitsInTurn["lease"]
			do(t, admin, "%s", kind.take)
			id := do(t, waiting, "CLIENT ID").Int
			kind.waitAs(t, s, waiting, 1)
			neighbour.On(t, s, event, "k", fmt.Sprintf("CLIENT UNBLOCK %d", id))
			require.EqualValues(t, 1, do(t, admin, "%s", kind.giveBack).Int)
			assert.EqualValues(t, 0, receiveLease(t, waiting).Limited)
			assert.Equal(t, "PONG", do(t, waiting, "PING").Text, "one answer")

			// Those that wait elsewhere, or not at all, are told nothing.
			do(t, admin, "CL.RELEASE k ID w")
			do(t, admin, "%s", kind.take)
			kind.waitAs(t, s, waiting, 1)
			do(t, other, "CL.LEASE l SLOTS 1 TTL 1h ID a")
			otherID := do(t, other, "CLIENT ID").Int
			require.NoError(t, other.Send("CL.LEASE", "l", "SLOTS", "1", "TTL", "1h", "ID", "b", "TIMEOUT", "0"))
			require.NoError(t, other.Flush())
			awaitField(t, admin, kind.field, 2)
			neighbour.On(t, s, event, "k", fmt.Sprintf("CLIENT UNBLOCK %d", otherID))
			require.EqualValues(t, 1, do(t, admin, "%s", kind.giveBack).Int)
			assert.EqualValues(t, 0, receiveLease(t, waiting).Limited)
			assert.EqualValues(t, 1, receiveLease(t, other).Limited, "it was sent away")
		})
	}
}
