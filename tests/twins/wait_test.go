package twins_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/embedded"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Random callers wait for leases and windows, on a server whose clock stands still between steps and without a server.
// After each call the same callers have the same answers, to the byte, and as many wait.
func TestTheEmbeddedHostLetsInWhomAServerLetsIn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).UnixNano()
	w := &waitingTwin{Rand: chance.New(t), t: t, twin: twin{nowNs: at}, clock: clock.New(t, at), waiting: map[embedded.Waiter]*kit.Client{}}
	w.server = w.clock.Start()
	w.admin = w.server.Raw()
	kit.Do(t, w.admin, "DEBUG SET-ACTIVE-EXPIRE 0")
	seasons := size.Of(20, 200)
	for season := range seasons {
		w.key, w.isPlain = fmt.Sprint("k", season), season/2%3 == 0
		for range 40 {
			w.step()
		}
		for len(w.waiting) > 0 {
			w.sendAway()
			w.receive()
		}
	}
	w.requireStats(t, w.server)
	t.Logf("%d waited, %d were let in, %d were sent away, %d left", w.waited, w.letIn, w.sentAway, w.left)
	require.NotZero(t, min(w.waited, w.letIn, w.sentAway, w.left))
}

// waitingTwin is a server and the embedded host, and the clients that wait on both.
type waitingTwin struct {
	*rand.Rand
	twin
	t       *testing.T
	clock   *clock.Clock
	server  *server.Server
	admin   *resp.Conn
	idle    []*kit.Client
	waiting map[embedded.Waiter]*kit.Client
	key     string // of this season
	isPlain bool   // without groups and priorities

	waited, letIn, sentAway, left int
}

// step makes a call, sends somebody away or lets time pass. At most one key has a line at a time: while the clock
// stands still, a server runs only one timer of a module.
func (w *waitingTwin) step() {
	lines := []string{
		"CL.LEASE %s SLOTS 1 TTL 3s ID a TIMEOUT 0", "CL.LEASE %s SLOTS 2 TTL 9s ID b TIMEOUT 0", "CL.LEASE %s SLOTS 2 TTL 20s ID c TIMEOUT 0 COMPACT",
		"CL.LEASE %s SLOTS 3 TTL 1s ID d TIMEOUT 0", "CL.RELEASE %s ID a c", "CL.RELEASE %s ID b d", "CL.RENEW %s ID a TTL 1s", "DEL %s",
	}
	if w.isWindow() {
		lines = []string{
			"CL.WAIT %s WINDOW 5/10s COST 1 TIMEOUT 0 COMPACT", "CL.WAIT %s WINDOW 5/10s COST 4 TIMEOUT 0 COMPACT", "CL.WAIT %s FIXED 5/10s COST 2 TIMEOUT 0 COMPACT EACH",
			"CL.WAIT %s WINDOW 5/10s FIXED 9/20s COST 5 TIMEOUT 0 EACH COMPACT", "CL.LIMIT %s WINDOW 5/10s COMPACT", "CL.REFUND %s WINDOW 5/10s COST 2 COMPACT", "CL.BAN %s 2s", "DEL %s",
		}
	}
	switch i := w.IntN(12); {
	case i < 4:
		w.ask(fmt.Sprintf(lines[i], w.key) + w.place())
	case i < 8:
		w.both(fmt.Sprintf(lines[i], w.key))
	case i == 8:
		w.sendAway()
	case i < 11:
		w.ask(fmt.Sprintf(lines[w.IntN(4)], w.key) + w.place())
	default:
		w.nowNs += w.Int64N(int64(4*time.Second)) / 1000 * 1000
		w.clock.Set(w.nowNs)
	}
	w.receive()
	if !w.isWindow() {
		w.both("CL.LEASES " + w.key)
	}
}

// place is where a caller stands in line. Every third season there are no groups and no priorities.
func (w *waitingTwin) place() (words string) {
	if w.isPlain {
		return ""
	}
	if w.IntN(3) > 0 {
		words += fmt.Sprintf(" GROUP %c", 'a'+w.IntN(3))
		if w.IntN(2) == 0 {
			words += fmt.Sprint(" WEIGHT ", 1+w.IntN(4))
		}
	}
	if w.IntN(3) == 0 {
		words += fmt.Sprint(" PRIORITY ", w.IntN(3)-1)
	}
	return words
}

// isWindow reports whether the callers of this season wait for windows.
func (w *waitingTwin) isWindow() bool { return w.key[len(w.key)-1]%2 == 0 }

// both makes a call on both.
func (w *waitingTwin) both(line string) {
	w.t.Helper()
	own, other := w.Do(strings.Fields(line)...), kit.Do(w.t, w.admin, "%s", line)
	require.True(w.t, alike(own, other), "%d %s\nserver   %v\nembedded %v", w.nowNs, line, other, own)
}

// ask makes a call that may have to wait.
func (w *waitingTwin) ask(line string) {
	w.t.Helper()
	call := embedded.Call{NowNs: w.nowNs, MayBlock: true}
	for _, word := range strings.Fields(line) {
		call.Words = append(call.Words, []byte(word))
	}
	r := w.host.Do(call)
	c := w.client()
	if r.Waiter == 0 {
		own, other := valueOf(r), kit.Do(w.t, c.Conn, "%s", line)
		require.True(w.t, alike(own, other), "%d %s\nserver   %v\nembedded %v", w.nowNs, line, other, own)
		w.idle = append(w.idle, c)
		return
	}
	w.waited++
	w.waiting[r.Waiter] = c
	require.NoError(w.t, c.Conn.Send(strings.Fields(line)...))
	require.NoError(w.t, c.Conn.Flush())
}

func (w *waitingTwin) client() *kit.Client {
	if n := len(w.idle); n > 0 {
		c := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return c
	}
	conn := w.server.Raw()
	return &kit.Client{Conn: conn, ID: kit.Do(w.t, conn, "CLIENT ID").Int}
}

// awaitAllWaiting waits until as many callers wait on the server as without it.
func (w *waitingTwin) awaitAllWaiting() {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		info := w.server.Info("throttle")
		return len(w.waiting) == kit.Number(w.t, info["throttle_waiting"])+kit.Number(w.t, info["throttle_leases_waiting"])
	}, 60*time.Second, time.Millisecond)
}

// sendAway unblocks one of those that wait, or cuts its connection.
func (w *waitingTwin) sendAway() {
	if len(w.waiting) == 0 {
		return
	}
	all := slices.Sorted(maps.Keys(w.waiting))
	id := all[w.IntN(len(all))]
	c := w.waiting[id]
	delete(w.waiting, id)
	if w.IntN(2) == 0 {
		w.left++
		w.host.Disconnect(w.nowNs, id)
		require.NoError(w.t, c.Conn.Close())
		return
	}
	w.sentAway++
	r, ok := w.host.Unblock(w.nowNs, id)
	require.True(w.t, ok)
	require.EqualValues(w.t, 1, kit.Do(w.t, w.admin, "CLIENT UNBLOCK %d", c.ID).Int)
	w.compare(c, r)
}

// receive has both let in whom they can.
func (w *waitingTwin) receive() {
	w.t.Helper()
	for _, a := range w.host.Wake(w.nowNs) {
		w.letIn++
		c := w.waiting[a.Waiter]
		delete(w.waiting, a.Waiter)
		w.compare(c, a.Reply)
	}
	w.awaitAllWaiting()
}

func (w *waitingTwin) compare(c *kit.Client, r embedded.Reply) {
	w.t.Helper()
	other, err := c.Conn.Receive()
	require.NoError(w.t, err)
	own := valueOf(r)
	require.Equal(w.t, withoutWait(other), withoutWait(own), "at %d", w.nowNs)
	w.idle = append(w.idle, c)
}

// withoutWait is a reply without how long its caller waited: on the server by a clock that the test does not set.
func withoutWait(v resp.Value) string {
	at := len(v.Elems) - 1                                    // of CL.LEASE
	if len(v.Elems) == 10 || v.Elems[at].Kind == resp.Array { // of CL.WAIT, with or without EACH
		at = 8
	}
	v.Elems[at] = integer(0)
	return v.String()
}
