package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// Another module may send a caller away when it hears that the caller, which CLIENT UNBLOCK sends away, was limited.
// The server goes on with that client afterwards, and must find it alive.
func TestACallerSentAwayInTheMiddleOfCLIENTUNBLOCK(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsOfAllKinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			for _, how := range []string{"CLIENT KILL ID %d", "CLIENT UNBLOCK %d", "CLIENT UNBLOCK %d ERROR"} {
				for _, gone := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, the key is gone %t", how, gone), func(t *testing.T) { sendAwayInTheMiddle(t, s, kind, how, gone) })
				}
			}
		})
	}
}

// sendAwayInTheMiddle has callers sent away by CLIENT UNBLOCK, which another module answers by a command about them.
func sendAwayInTheMiddle(t *testing.T, s *server.Server, kind kit.KindOfWait, how string, gone bool) {
	admin := s.Raw()
	kit.Do(t, admin, "DEL k")
	kit.Do(t, admin, "%s", kind.Take)
	for range 5 {
		waiting := s.Raw()
		id := kit.Do(t, waiting, "CLIENT ID").Int
		kind.WaitAs(t, s, waiting, 1)
		if gone {
			kit.Do(t, admin, "CONFIG SET maxmemory 1") // nobody is let in
			kit.Do(t, admin, "DEL k")
		}
		neighbour.Do(t, s, fmt.Sprintf(how, id))
		assert.EqualValues(t, 1, kit.Do(t, admin, "CLIENT UNBLOCK %d", id).Int)
		neighbour.Do(t, s, "")
		require.NoError(t, waiting.Close())
		kit.AwaitField(t, admin, kind.Field, 0)
		if gone {
			kit.Do(t, admin, "CONFIG SET maxmemory 0")
			kit.Do(t, admin, "%s", kind.Take)
		}
	}
	require.Eventually(t, func() bool { return s.InfoInt("clients", "blocked_clients") == 0 }, kit.Patience, kit.Tick)
}

// A caller in turn whose time is over, or that CLIENT UNBLOCK sends away, was limited on a key of its database.
// Listeners hear so, and CL.TOP counts it.
func TestACallerThatGivesUpWasLimitedInItsDatabase(t *testing.T) {
	t.Parallel()
	for name, kind := range kit.WaitsInTurn {
		for _, isUnblocked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unblocked %t", name, isUnblocked), func(t *testing.T) {
				t.Parallel()
				s := server.Start(t, server.Config("notify-keyspace-events Ed"), server.ModuleArgs("top", "10"))
				admin, waiting, listener := s.Raw(), kit.NewClient(t, s), s.Raw()
				kit.MustDoAll(t, admin, "SELECT 3", kind.Take, "SELECT 0")
				kit.Do(t, listener, "PSUBSCRIBE __keyevent@*__:*")
				kit.Do(t, waiting.Conn, "SELECT 3")
				if isUnblocked {
					kind.WaitAs(t, s, waiting.Conn, 1)
					kit.WaysToLeave["CLIENT UNBLOCK"](t, admin, waiting)
				} else {
					kit.Send(t, waiting.Conn, strings.Replace(kind.Wait, "TIMEOUT 0", "TIMEOUT 1ms", 1))
					kit.RequireLimited(t, waiting.Conn)
				}
				event := kit.ReceiveSoon(t, listener)
				require.Len(t, event.Elems, 4, "%v", event)
				assert.Equal(t, []string{"__keyevent@3__:limited", "k"}, []string{event.Elems[2].Text, event.Elems[3].Text})
				rows := kit.Do(t, admin, "CL.TOP").Elems
				require.Len(t, rows, 1)
				assert.Equal(t, "k", rows[0].Elems[1].Text)
				assert.EqualValues(t, 3, rows[0].Elems[3].Int, "the database")
				if kind.Field == "waiting" { // those that wait for leases are counted by what they are told
					assert.EqualValues(t, 1, s.InfoInt("throttle", "throttle_wait_left"))
				}
			})
		}
	}
}

// A caller that CLIENT UNBLOCK sends away is told who holds the slots, and when the first of them lapses, however many
// leases have lapsed before.
func TestACallerThatIsUnblockedIsToldWhoHoldsTheSlots(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	admin, waiting := s.Raw(), s.Raw()
	id := kit.Do(t, waiting, "CLIENT ID").Int
	for _, lapsed := range []int{0, 15, 16, 17, 40} {
		endsMs := kit.NowIn(t, admin)/int64(time.Millisecond) + 3_600_000
		zadd := fmt.Sprintf("ZADD k %d later %d last", endsMs, endsMs+1)
		for i := range lapsed {
			zadd += fmt.Sprintf(" %d lapsed%d", 1_700_000_000_000+i%3, i)
		}
		kit.MustDoAll(t, admin, "DEL k", zadd)
		kit.Send(t, waiting, "CL.LEASE k SLOTS 2 TTL 1h ID w TIMEOUT 0")
		kit.AwaitField(t, admin, "leases_waiting", 1)
		_, fromNs, toNs := kit.Timed(t, admin, fmt.Sprintf("CLIENT UNBLOCK %d", id))
		l := kit.ReceiveLease(t, waiting)
		assert.Equal(t, kit.NewLeased(1, 2, 0, l.RetryAfterMs, 0, l.WaitMs), l, "%d have lapsed", lapsed)
		assert.GreaterOrEqual(t, l.RetryAfterMs, kit.CeilMs(endsMs*int64(time.Millisecond)-toNs), "%d have lapsed", lapsed)
		assert.LessOrEqual(t, l.RetryAfterMs, kit.CeilMs(endsMs*int64(time.Millisecond)-fromNs), "%d have lapsed", lapsed)
	}
}

// Another module may unblock a caller when it hears that the caller was let in. Up to Redis 7.0 the server takes it out
// of the line's hands then.
func TestACallerUnblockedAsItIsLetInGetsItsAnswer(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"zadd", "leased"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			s := neighbour.Start(t)
			admin, waiting, other := s.Raw(), s.Raw(), s.Raw()
			kind := kit.WaitsInTurn["lease"]
			kit.Do(t, admin, "%s", kind.Take)
			id := kit.Do(t, waiting, "CLIENT ID").Int
			kind.WaitAs(t, s, waiting, 1)
			neighbour.On(t, s, event, "k", fmt.Sprintf("CLIENT UNBLOCK %d", id))
			require.EqualValues(t, 1, kit.Do(t, admin, "%s", kind.GiveBack).Int)
			assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
			assert.Equal(t, "PONG", kit.Do(t, waiting, "PING").Text, "one answer")

			// Those that wait elsewhere, or not at all, are told nothing.
			kit.Do(t, admin, "CL.RELEASE k ID w")
			kit.Do(t, admin, "%s", kind.Take)
			kind.WaitAs(t, s, waiting, 1)
			kit.Do(t, other, "CL.LEASE l SLOTS 1 TTL 1h ID a")
			otherID := kit.Do(t, other, "CLIENT ID").Int
			require.NoError(t, other.Send("CL.LEASE", "l", "SLOTS", "1", "TTL", "1h", "ID", "b", "TIMEOUT", "0"))
			require.NoError(t, other.Flush())
			kit.AwaitField(t, admin, kind.Field, 2)
			neighbour.On(t, s, event, "k", fmt.Sprintf("CLIENT UNBLOCK %d", otherID))
			require.EqualValues(t, 1, kit.Do(t, admin, "%s", kind.GiveBack).Int)
			assert.EqualValues(t, 0, kit.ReceiveLease(t, waiting).Limited)
			assert.EqualValues(t, 1, kit.ReceiveLease(t, other).Limited, "it was sent away")
		})
	}
}
