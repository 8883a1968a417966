package kit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Patience is how long a test waits for an answer that should come at once. A line looks at itself once in
// five minutes whatever happens, so an answer within this time was not left to that.
const Patience = 30 * time.Second

// Tick is how often a test looks whether a condition holds.
const Tick = 5 * time.Millisecond

// AwaitField returns when a counter of INFO throttle has a value.
func AwaitField(t *testing.T, c *resp.Conn, field string, want int) {
	t.Helper()
	var have string
	require.Eventually(t, func() bool {
		have = server.ParseInfo(Do(t, c, "INFO throttle").Text)["throttle_"+field]
		return have == fmt.Sprint(want)
	}, 60*time.Second, 2*time.Millisecond, "%s", field)
}

// AwaitWaiting returns when so many callers of CL.WAIT wait. It does not sleep in between: a test may be about to miss
// a slot.
func AwaitWaiting(t *testing.T, c *resp.Conn, n int) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; {
		waiting := server.ParseInfo(Do(t, c, "INFO throttle").Text)["throttle_waiting"]
		if waiting == fmt.Sprint(n) {
			return
		}
		require.True(t, time.Now().Before(deadline), "%s wait instead of %d", waiting, n)
	}
}

// StartWaiting sends a call on a connection of its own and does not wait for the answer.
func StartWaiting(t *testing.T, s *server.Server, call string) *resp.Conn {
	t.Helper()
	c := s.Raw()
	Send(t, c, call)
	return c
}

// Line is callers of CL.WAIT on one key, one unit at a time, each on a connection of its
// own. Caller i has the slot at spacing x (ahead + i) after an instant from..to.
type Line struct {
	T        *testing.T
	s        *server.Server
	Admin    *resp.Conn
	Conns    []*resp.Conn
	IDs      []int64 // the server's, of the connections
	Spacing  time.Duration
	ahead    int
	from, To int64 // ns since the epoch

	waitedBefore, leftBefore int64 // what the server had counted, of lines that took too long
}

// Counted is how many callers of the line waited and were let in, and how many left.
func (l *Line) Counted() (waited, left int64) {
	return l.s.InfoInt("throttle", "throttle_waited") - l.waitedBefore, l.s.InfoInt("throttle", "throttle_wait_left") - l.leftBefore
}

// Limit is the limit that they wait for.
func (l *Line) Limit() string {
	return fmt.Sprintf("RATE 1/%dms BURST 1", l.Spacing.Milliseconds())
}

// Slot is caller i's, seen from the first call.
func (l *Line) Slot(i int) time.Duration { return time.Duration(l.ahead+i) * l.Spacing }

// AwaitWaiting returns when so many callers wait.
func (l *Line) AwaitWaiting(n int) {
	l.T.Helper()
	AwaitWaiting(l.T, l.Admin, n)
}

// Receive is caller i's answer, and when it was here by the clock that the server goes by.
func (l *Line) Receive(i int) (v resp.Value, atNs int64) {
	l.T.Helper()
	v, err := l.Conns[i].Receive()
	require.NoError(l.T, err, "caller %d", i)
	return v, time.Now().UnixNano() + int64(ClockSkew)
}

// RequireServed receives caller i's answer, which must not come before place's slot.
func (l *Line) RequireServed(i, place int) (lateness time.Duration) {
	l.T.Helper()
	v, at := l.Receive(i)
	a, err := StandingIn(v)
	require.NoError(l.T, err, "caller %d", i)
	assert.Equal(l.T, []int64{0, 1, -1}, []int64{a.Limited, a.Granted, a.RetryAfterMs}, "caller %d", i)
	assert.GreaterOrEqual(l.T, at, l.from+int64(l.Slot(place)), "caller %d came before its slot", i)
	return time.Duration(at - l.To - int64(l.Slot(place)))
}

// Order is who was let go on, in turn.
func (l *Line) Order(n int) (numbers []string) {
	l.T.Helper()
	require.Eventually(l.T, func() bool { return Do(l.T, l.Admin, "LLEN order").Int == int64(n) }, 60*time.Second, 5*time.Millisecond)
	for _, v := range Do(l.T, l.Admin, "LRANGE order 0 -1").Elems {
		numbers = append(numbers, v.Text)
	}
	return numbers
}

// StandInLine reserves the next slots of a key called "key", so that callers have time to
// arrive, and makes callers wait behind them in the order of their numbers. Each has
// "RPUSH order <its number>" behind its call, so that the list tells the order in which the
// server let them go on.
func StandInLine(t *testing.T, s *server.Server, callers int, spacing time.Duration, ahead int) *Line {
	t.Helper()
	for ; ; ahead *= 2 {
		l := &Line{T: t, s: s, Admin: s.Raw(), Spacing: spacing, ahead: ahead}
		if l.stand(callers) {
			return l
		}
		t.Logf("on this machine it took longer than %d slots until all had arrived; again, behind twice as many", ahead)
		for _, c := range l.Conns {
			require.NoError(t, c.Close())
		}
		l.AwaitWaiting(0)
		Do(t, l.Admin, "DEL key order")
	}
}

// stand is standInLine, and returns whether all callers had arrived before the slot of the first.
func (l *Line) stand(callers int) (all bool) {
	t, s := l.T, l.s
	t.Helper()
	for range callers {
		c := s.Raw()
		l.Conns = append(l.Conns, c)
		l.IDs = append(l.IDs, Do(t, c, "CLIENT ID").Int)
	}
	l.waitedBefore, l.leftBefore = l.Counted()
	arrived := s.InfoInt("throttle", "throttle_calls_wait")
	limit := l.Limit()
	first, from, to := Timed(t, l.Admin, "CL.LIMIT key "+limit+" MAXWAIT 1d")
	l.from, l.To = from, to
	require.False(t, first[0].IsError(), "%v", first[0])
	for range l.ahead - 1 {
		require.EqualValues(t, 0, Ask(t, l.Admin, "CL.LIMIT key %s MAXWAIT 1d", limit).Limited)
	}
	for i, c := range l.Conns {
		require.NoError(t, c.Send(strings.Fields("CL.WAIT key "+limit+" TIMEOUT 1d")...))
		require.NoError(t, c.Send("RPUSH", "order", fmt.Sprint(i)))
		require.NoError(t, c.Flush())
		AwaitField(t, l.Admin, "calls_wait", int(arrived)+i+1)
	}
	return NowIn(t, l.Admin) < l.from+int64(l.Slot(0))
}

// WaitForLease sends a call of CL.LEASE and returns when its caller is number n in line.
func WaitForLease(t *testing.T, s *server.Server, n int, call string, args ...any) *resp.Conn {
	t.Helper()
	c := StartWaiting(t, s, fmt.Sprintf(call, args...))
	AwaitField(t, s.Raw(), "leases_waiting", n)
	return c
}

// ReceiveLease is the answer to a caller of CL.LEASE in line.
func ReceiveLease(t *testing.T, c *resp.Conn) Leased {
	t.Helper()
	v, err := c.Receive()
	require.NoError(t, err)
	l, err := LeasedIn(v)
	require.NoError(t, err)
	return l
}

// StillWaits fails when an answer to c is there; a round trip on another connection is past every
// turn of the event loop in which it might have been written.
func StillWaits(t *testing.T, c *resp.Conn) {
	t.Helper()
	v, err := c.ReceiveWithin(20 * time.Millisecond)
	require.Error(t, err, "%v", v)
}

// ReceiveSoon is the answer to a caller in line, which must come long before the line looks at itself.
func ReceiveSoon(t *testing.T, c *resp.Conn) resp.Value {
	t.Helper()
	v, err := c.ReceiveWithin(Patience)
	require.NoError(t, err, "the caller is still in line")
	return v
}

// RequireAdmitted receives the answer to a caller in line that is let in.
func RequireAdmitted(t *testing.T, c *resp.Conn) {
	t.Helper()
	v := ReceiveSoon(t, c)
	require.False(t, v.IsError(), "%v", v)
	require.Equal(t, "limited", v.Elems[0].Text)
	require.EqualValues(t, 0, v.Elems[1].Int, "%v", v)
}

// KindOfWait is one way to wait for the key k. It names the call that takes the only unit, the one that then waits for
// it, and the call that gives it back. The field of INFO counts the callers that wait.
type KindOfWait struct{ Take, Wait, GiveBack, Field string }

// WaitAs sends the call of a kind of wait on its own connection and returns when it is number n in line.
func (k KindOfWait) WaitAs(t *testing.T, s *server.Server, c *resp.Conn, n int) {
	t.Helper()
	Send(t, c, k.Wait)
	AwaitField(t, s.Raw(), k.Field, n)
}

// Begin takes the only unit and makes a caller wait for it.
func (k KindOfWait) Begin(t *testing.T, s *server.Server) (waiting *resp.Conn) {
	t.Helper()
	v := Do(t, s.Raw(), "%s", k.Take)
	require.False(t, v.IsError(), "%v", v)
	assert.EqualValues(t, 0, v.Elems[1].Int)
	waiting = s.Raw()
	k.WaitAs(t, s, waiting, 1)
	return waiting
}

// GoesOn requires that a caller who waits is let in when the unit is given back.
func (k KindOfWait) GoesOn(t *testing.T, s *server.Server) {
	t.Helper()
	waiting := k.Begin(t, s)
	Do(t, s.Raw(), "%s", k.GiveBack)
	RequireAdmitted(t, waiting)
	require.NoError(t, waiting.Close())
}

// WaitsInTurn reserve nothing: they are decided anew when it is their turn.
var WaitsInTurn = map[string]KindOfWait{
	"lease":  {"CL.LEASE k SLOTS 1 TTL 1h ID holder", "CL.LEASE k SLOTS 1 TTL 1h ID w TIMEOUT 0", "CL.RELEASE k ID holder", "leases_waiting"},
	"window": {"CL.LIMIT k WINDOW 1/1h", "CL.WAIT k WINDOW 1/1h TIMEOUT 0", "CL.REFUND k WINDOW 1/1h", "waiting"},
	"fixed":  {"CL.LIMIT k FIXED 1/365d", "CL.WAIT k FIXED 1/365d TIMEOUT 0", "CL.REFUND k FIXED 1/365d", "waiting"},
}

// WaitsOfAllKinds adds the callers that have a slot when they begin to wait.
func WaitsOfAllKinds() map[string]KindOfWait {
	all := map[string]KindOfWait{"rate": {"CL.LIMIT k RATE 1/1h BURST 1", "CL.WAIT k RATE 1/1h BURST 1 TIMEOUT 0", "", "waiting"}}
	for name, kind := range WaitsInTurn {
		all[name] = kind
	}
	return all
}

// PlaceOf returns the words that say where a caller stands.
func PlaceOf(x naive.Turn) (words string) {
	if x.Group != "" {
		words = " GROUP " + x.Group
	}
	if x.Weight != 0 {
		words += fmt.Sprint(" WEIGHT ", x.Weight)
	}
	if x.Priority != 0 {
		words += fmt.Sprint(" PRIORITY ", x.Priority)
	}
	return words
}

// Client is a connection and what the server calls it.
type Client struct {
	Conn *resp.Conn
	ID   int64
}

// WaysToLeave are how a caller can be made to leave its line before its time. Each receives the answer that the caller
// then gets.
var WaysToLeave = map[string]func(t *testing.T, admin *resp.Conn, c Client){
	"disconnect":     func(t *testing.T, _ *resp.Conn, c Client) { assert.NoError(t, c.Conn.Close()) },
	"reset":          func(t *testing.T, _ *resp.Conn, c Client) { assert.NoError(t, c.Conn.Reset()) },
	"CLIENT KILL":    func(t *testing.T, admin *resp.Conn, c Client) { sendAway(t, admin, c, "KILL ID %d") },
	"CLIENT UNBLOCK": func(t *testing.T, admin *resp.Conn, c Client) { RequireLimited(t, sendAway(t, admin, c, "UNBLOCK %d")) },
	"CLIENT UNBLOCK TIMEOUT": func(t *testing.T, admin *resp.Conn, c Client) {
		RequireLimited(t, sendAway(t, admin, c, "UNBLOCK %d TIMEOUT"))
	},
	"CLIENT UNBLOCK ERROR": func(t *testing.T, admin *resp.Conn, c Client) {
		v := ReceiveSoon(t, sendAway(t, admin, c, "UNBLOCK %d ERROR"))
		assert.True(t, strings.HasPrefix(v.Text, "UNBLOCKED "), "%v", v)
	},
}

func sendAway(t *testing.T, admin *resp.Conn, c Client, how string) *resp.Conn {
	t.Helper()
	assert.EqualValues(t, 1, Do(t, admin, "CLIENT "+how, c.ID).Int)
	return c.Conn
}

// RequireLimited receives the answer to a caller that is limited in its line.
func RequireLimited(t *testing.T, c *resp.Conn) {
	t.Helper()
	v := ReceiveSoon(t, c)
	require.False(t, v.IsError(), "%v", v)
	require.EqualValues(t, 1, v.Elems[1].Int, "%v", v)
}

// NewClient is a new connection to a server.
func NewClient(t *testing.T, s *server.Server) Client {
	t.Helper()
	c := s.Raw()
	return Client{c, Do(t, c, "CLIENT ID").Int}
}
