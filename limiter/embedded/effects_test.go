package embedded_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

func TestCallsWithTooFewArgumentsOrWrongNumbersOfKeysAreRefused(t *testing.T) {
	h := newHost()
	const badNumKeys, tooFew = "ERR numkeys must be an integer from 1 to 8", "ERR numkeys is greater than the number of keys given"
	for line, want := range map[string]string{
		"CL.LIMIT":                                     "ERR wrong number of arguments for 'cl.limit' command",
		"CL.BAN k 1s 2":                                "ERR wrong number of arguments for 'cl.ban' command",
		"CL.MLIMIT x a RATE 5/s":                       badNumKeys,
		"CL.MLIMIT 0 a RATE 5/s":                       badNumKeys,
		"CL.MLIMIT -1 a RATE 5/s":                      badNumKeys,
		"CL.MLIMIT 9 a b c d e f g h i RATE 5/s":       badNumKeys,
		"CL.MLIMIT 3 a b":                              tooFew,
		"CL.MLIMIT 2 a b":                              "ERR syntax error: there must be a limit after the keys",
		"CL.MLIMIT 1 a RATE 5/s COMPACT":               "[0 1 5 4 -1 200 200 1 0 0 1]",
		"CL.MLIMIT 8 1 2 3 4 5 6 7 8 RATE 5/s COMPACT": "[0 1 5 4 -1 200 200 1 0 0 1]",
	} {
		assert.Equal(t, want, show(h.do(line)), line)
	}
}

func TestRepliesWithEachHaveARowForEachLimit(t *testing.T) {
	h := newHost()
	want := [][command.EachFields]int64{{0, 5, 4, -1, 200}, {0, 3, 2, -1, 1000}}
	for _, words := range []string{"", " COMPACT"} {
		assert.Equal(t, want, h.do("CL.LIMIT k RATE 5/s WINDOW 3/1s EACH"+words).Each, words)
		assert.Nil(t, h.do("CL.PEEK k RATE 5/s"+words).Each, words)
		h.Delete(0, "k")
	}
}

func TestAKeyKeepsTheLaterExpiryWhereItMust(t *testing.T) {
	h := newHost()
	in := func(key string) time.Duration {
		return time.UnixMilli(h.get(key).ExpireAtMs).Sub(start).Round(time.Second)
	}
	h.do("CL.LIMIT k RATE 1/h BURST 3 COST 2")
	assert.Equal(t, 2*time.Hour, in("k"))
	h.do("CL.BAN k 1m")
	assert.Equal(t, 2*time.Hour, in("k"), "the state behind a ban")
	h.do("CL.BAN k 5h")
	assert.Equal(t, 5*time.Hour, in("k"))
	h.do("CL.BAN other 1m")
	assert.Equal(t, time.Minute, in("other"))
	h.do("CL.LIMIT third RATE 1/h BURST 3 COST 2")
	h.do("CL.REFUND third RATE 1/h BURST 3")
	assert.Equal(t, time.Hour, in("third"), "units that are given back end it earlier")
}

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

func TestALapsedLeaseIsTakenAgainAndOthersAreRemoved(t *testing.T) {
	h := newHost()
	for _, lease := range []string{"TTL 1s ID a", "TTL 1s ID c", "TTL 1m ID b"} {
		h.do("CL.LEASE jobs SLOTS 3 " + lease)
	}
	h.now = start.Add(2 * time.Second)
	assert.Zero(t, h.do("CL.LEASE jobs SLOTS 3 TTL 1m ID a").Integers[0])
	at := func(d time.Duration) float64 { return float64(start.Add(d).UnixMilli()) }
	assert.Equal(t, []embedded.Lease{{ID: "b", Score: at(time.Minute)}, {ID: "a", Score: at(62 * time.Second)}}, h.get("jobs").Leases)
}

// An admission says when the next lease lapses, and the last: its own and those of others, of which lapsed ones do not count.
func TestAnAdmissionSeesTheLeasesOfOthers(t *testing.T) {
	h := newHost()
	for _, lease := range []string{"TTL 1s ID lapsed", "TTL 11s ID one", "TTL 16s ID two", "TTL 21s ID three"} {
		h.do("CL.LEASE jobs SLOTS 9 " + lease)
	}
	h.now = start.Add(time.Second)
	assert.Equal(t, "[0 1 5 1 -1 20000 10000 1 0 0 1]", show(h.do("CL.MLIMIT 1 jobs SLOTS 5 TTL 12s ID me COMPACT")))
	assert.Equal(t, "[0 1 5 1 -1 30000 12000 1 0 0 1]", show(h.do("CL.MLIMIT 1 jobs SLOTS 5 TTL 30s ID one COMPACT")))
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
