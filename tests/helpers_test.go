// Package tests holds what the module promises, tried on a real server. Each file
// is one part of the promise; package server runs the servers. This file has what several of them use.
package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Half of a test's time here is waiting.
func TestMain(m *testing.M) {
	size.AtOnce(5)
	os.Exit(m.Run())
}

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	require.TestingT
	Helper()
}

// startCheckBuild starts a server with the module's test build, in which a key that
// begins with fault:panic makes the decision panic.
func startCheckBuild(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	return server.Start(t, append(opts, server.Module(path))...)
}

// onSanitizedToo runs a test on the server under test and on one that was built with AddressSanitizer, which ends at the first use
// of freed memory. THROTTLE_ASAN_SERVER is its path.
func onSanitizedToo(t *testing.T, f func(t *testing.T, opts ...server.Option)) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		f(t)
	})
	t.Run("sanitized", func(t *testing.T) {
		t.Parallel()
		path := os.Getenv("THROTTLE_ASAN_SERVER")
		if path == "" {
			t.Skip("THROTTLE_ASAN_SERVER names no server that was built with AddressSanitizer")
		}
		program, err := server.FindProgram(path)
		require.NoError(t, err)
		f(t, server.Run(program))
	})
}

// do sends a command given as one types it.
func do(t tester, c *resp.Conn, command string, args ...any) resp.Value {
	t.Helper()
	text := fmt.Sprintf(command, args...)
	v, err := c.Do(strings.Fields(text)...)
	require.NoError(t, err, text)
	return v
}

// mustDoAll sends commands that must not fail.
func mustDoAll(t *testing.T, c *resp.Conn, commands ...string) {
	t.Helper()
	for _, command := range commands {
		v := do(t, c, "%s", command)
		require.False(t, v.IsError(), "%s answers %v", command, v)
	}
}

// textsOf is the texts of an array.
func textsOf(v resp.Value) (texts []string) {
	for _, e := range v.Elems {
		texts = append(texts, fmt.Sprint(e.Text))
	}
	return texts
}

// pairs reads a map, or its RESP2 form.
func pairs(v resp.Value) map[string]resp.Value {
	fields := map[string]resp.Value{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		fields[v.Elems[i].Text] = v.Elems[i+1]
	}
	return fields
}

// standing is the reply of CL.LIMIT, CL.PEEK, CL.REFUND and CL.WAIT.
type standing struct {
	Limited      int64 // 0 allowed, 1 limited
	Rule         int64 // 1-based: the limit that decided
	Limit        int64
	Remaining    int64
	RetryAfterMs int64 // -1 for allowed and for never
	ResetAfterMs int64
	NextAfterMs  int64
	Granted      int64 // units charged
	WaitMs       int64
	Shadow       int64 // 1-based: the first shadow limit that would have limited
}

var standingNames = []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms",
	"next_after_ms", "granted", "wait_ms", "shadow"}

// standingIn reads a reply: ten pairs, a map in RESP3 and flat in RESP2, always in
// the same order.
func standingIn(v resp.Value) (standing, error) {
	if (v.Kind != resp.Map && v.Kind != resp.Array) || len(v.Elems) != 2*len(standingNames) {
		return standing{}, fmt.Errorf("%v is no reply of ten pairs", v)
	}
	n := make([]int64, len(standingNames))
	for i, name := range standingNames {
		key, value := v.Elems[2*i], v.Elems[2*i+1]
		if key.Kind != resp.BulkString || key.Text != name || value.Kind != resp.Integer {
			return standing{}, fmt.Errorf("pair %d of %v is not %s and an integer", i, v, name)
		}
		n[i] = value.Int
	}
	return standing{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9]}, nil
}

// ask sends a command given as one types it, and reads its fields.
func ask(t tester, c *resp.Conn, command string, args ...any) standing {
	t.Helper()
	v := do(t, c, command, args...)
	a, err := standingIn(v)
	require.NoError(t, err, command)
	return a
}

// answer is CL.THROTTLE's reply, with names.
type answer struct {
	Limited    int64 // 0 allowed, 1 limited
	Limit      int64
	Remaining  int64
	RetryAfter int64 // seconds, -1 for allowed and for never
	ResetAfter int64 // seconds
}

func answerOf(integers []int64) (answer, error) {
	if len(integers) != 5 {
		return answer{}, fmt.Errorf("%d integers in %v, want 5", len(integers), integers)
	}
	return answer{integers[0], integers[1], integers[2], integers[3], integers[4]}, nil
}

// answerIn is the answer in a reply read on a raw connection.
func answerIn(v resp.Value) (answer, error) {
	integers, err := v.Ints()
	if err != nil {
		return answer{}, err
	}
	return answerOf(integers)
}

func rawCallOf(key, args string) []string {
	return append([]string{"CL.THROTTLE", key}, strings.Fields(args)...)
}

func callOf(key, args string) []any {
	var call []any
	for _, word := range rawCallOf(key, args) {
		call = append(call, word)
	}
	return call
}

// throttle sends CL.THROTTLE with the arguments given as one text, as one would type
// them: "15 30 60 1".
func throttle(ctx context.Context, c redis.UniversalClient, key, args string) (answer, error) {
	integers, err := c.Do(ctx, callOf(key, args)...).Int64Slice()
	if err != nil {
		return answer{}, err
	}
	return answerOf(integers)
}

var firstOf16 = answer{Limited: 0, Limit: 16, Remaining: 15, RetryAfter: -1, ResetAfter: 2}

// leased is an answer of CL.LEASE or CL.RENEW.
type leased struct{ Limited, Limit, Remaining, RetryAfterMs, LeaseMs, WaitMs int64 }

var leaseNames = []string{"limited", "limit", "remaining", "retry_after_ms", "lease_ms", "wait_ms"}

func leasedIn(v resp.Value) (l leased, err error) {
	if v.IsError() {
		return l, fmt.Errorf("%s", v.Text)
	}
	if len(v.Elems) != 2*len(leaseNames) {
		return l, fmt.Errorf("%d elements in %v", len(v.Elems), v)
	}
	for i, to := range []*int64{&l.Limited, &l.Limit, &l.Remaining, &l.RetryAfterMs, &l.LeaseMs, &l.WaitMs} {
		if v.Elems[2*i].Text != leaseNames[i] {
			return l, fmt.Errorf("%v is not %s", v.Elems[2*i], leaseNames[i])
		}
		*to = v.Elems[2*i+1].Int
	}
	return l, nil
}

// askLease is the answer of CL.LEASE or CL.RENEW.
func askLease(t tester, c *resp.Conn, command string, args ...any) leased {
	t.Helper()
	l, err := leasedIn(do(t, c, command, args...))
	require.NoError(t, err, command)
	return l
}

// leasesOf is counters of INFO throttle about leases.
func leasesOf(s *server.Server, fields ...string) (all []string) {
	info := s.Info("throttle")
	for _, field := range fields {
		all = append(all, info["throttle_leases_"+field])
	}
	return all
}

// nowIn is the server's clock in ns since the epoch.
func nowIn(t tester, c *resp.Conn) int64 {
	t.Helper()
	return timeIn(t, do(t, c, "TIME"))
}

// timeIn reads a reply of TIME, in ns.
func timeIn(t tester, v resp.Value) int64 {
	t.Helper()
	require.Len(t, v.Elems, 2, "TIME answers %v", v)
	seconds, err := strconv.ParseInt(v.Elems[0].Text, 10, 64)
	require.NoError(t, err)
	micros, err := strconv.ParseInt(v.Elems[1].Text, 10, 64)
	require.NoError(t, err)
	return seconds*int64(time.Second) + micros*int64(time.Microsecond)
}

// timed is commands in one pipeline, and the server's clock before and after them.
func timed(t tester, c *resp.Conn, commands ...string) (replies []resp.Value, from, to int64) {
	t.Helper()
	words := [][]string{{"TIME"}}
	for _, command := range commands {
		words = append(words, strings.Fields(command))
	}
	replies, err := c.Pipeline(append(words, []string{"TIME"})...)
	require.NoError(t, err)
	n := len(replies)
	return replies[1 : n-1], timeIn(t, replies[0]) - int64(clockSkew), timeIn(t, replies[n-1]) + 999 + int64(clockSkew)
}

// ceilMs is a length of time in ns as a reply shows it.
func ceilMs(ns int64) int64 { return (ns + int64(time.Millisecond) - 1) / int64(time.Millisecond) }

// startWithSteps starts a server whose wall clock runs, and returns what makes it step.
func startWithSteps(t *testing.T, opts ...server.Option) (s *server.Server, stepBy func(time.Duration)) {
	t.Helper()
	s, c := startWithClock(t, opts...)
	return s, func(d time.Duration) { c.SetAhead(0, int64(d)) }
}

// startWithClock is startWithSteps, with all that can be done to the clock.
func startWithClock(t *testing.T, opts ...server.Option) (*server.Server, *clock.Clock) {
	t.Helper()
	path, err := server.CheckModulePath()
	require.NoError(t, err)
	c := clock.Running(t)
	return c.Start(append(opts, server.Module(path))...), c
}

// cpuOver is the processor time that the server's process takes while so much time
// passes, to the kernel's 10 ms.
func cpuOver(t *testing.T, s *server.Server, d time.Duration) time.Duration {
	t.Helper()
	before := s.CPUTime()
	time.Sleep(d)
	return s.CPUTime() - before
}

// throttleModules are the rows of MODULE LIST called throttle. Servers list modules of
// their own beside it.
func throttleModules(s *server.Server) (rows []map[string]resp.Value) {
	for _, module := range s.MustDo("MODULE", "LIST").Elems {
		row := pairs(module)
		if row["name"].Text == "throttle" {
			rows = append(rows, row)
		}
	}
	return rows
}

// requireReplica waits for a replica without the module to have the same bytes and expiries.
func requireReplica(t *testing.T, master, replica *server.Server, keys ...string) {
	t.Helper()
	state := func(s *server.Server) (all []string) {
		for _, key := range keys {
			all = append(all, key, s.Do("DUMP", key).String(), s.Do("PEXPIRETIME", key).String())
		}
		return all
	}
	want := state(master)
	require.Eventually(t, func() bool { return assert.ObjectsAreEqual(want, state(replica)) }, 60*time.Second, 5*time.Millisecond, "%v", want)
}

// linkIsUp says whether a replica has its master.
func linkIsUp(s *server.Server) bool { return s.Info("replication")["master_link_status"] == "up" }

// events are the keyspace events on one connection until the marker that is published
// after them.
type events struct {
	c *resp.Conn
	s *server.Server
}

// drain returns the events so far, each as event and key.
func (e events) drain(t *testing.T) (all []string) {
	t.Helper()
	e.s.MustDo("PUBLISH", "marker", "")
	for {
		v, err := e.c.Receive()
		require.NoError(t, err)
		require.Len(t, v.Elems, 4, "%v", v)
		channel, key := v.Elems[2].Text, v.Elems[3].Text
		if channel == "marker" {
			return all
		}
		all = append(all, strings.TrimPrefix(channel, "__keyevent@0__:")+" "+key)
	}
}

func listenToEvents(t *testing.T, s *server.Server) events {
	t.Helper()
	c := s.Raw()
	require.NoError(t, c.Send("PSUBSCRIBE", "__keyevent@0__:*", "marker"))
	require.NoError(t, c.Flush())
	for range 2 {
		_, err := c.Receive()
		require.NoError(t, err)
	}
	return events{c, s}
}

// watched is a server on which every kind of write shows: what an append-only file,
// a replica and a snapshot would have to be told.
type watched struct {
	*server.Server
	conn   *resp.Conn
	stream *server.Stream
}

func (w watched) traces(t testing.TB, key string) traces {
	t.Helper()
	expiry := "PEXPIRETIME"
	if !w.Program.AtLeast(7, 0) {
		expiry = "EXISTS" // the change counter has to do for the expiry
	}
	r, err := w.conn.Pipeline([]string{"DBSIZE"}, []string{"DUMP", key}, []string{expiry, key},
		[]string{"INFO", "persistence"}, []string{"INFO", "replication"})
	require.NoError(t, err)
	persistence, replication := server.ParseInfo(r[3].Text), server.ParseInfo(r[4].Text)
	return traces{
		fmt.Sprint(r[0]), fmt.Sprint(r[1]), fmt.Sprint(r[2]),
		persistence["rdb_changes_since_last_save"], replication["master_repl_offset"], persistence["aof_current_size"],
	}
}

// do sends one command on the connection that stays open.
func (w watched) do(t testing.TB, args ...string) resp.Value {
	t.Helper()
	v, err := w.conn.Do(args...)
	require.NoError(t, err)
	return v
}

func startWatched(t *testing.T, opts ...server.Option) watched {
	t.Helper()
	opts = append(opts, server.AppendOnly("always"),
		// The link's own PINGs move the replication offset as well.
		server.Config("repl-ping-replica-period 3600"))
	s := server.Start(t, opts...)
	return watched{s, s.Raw(), s.Stream()}
}

// traces is everything a write to a key leaves behind.
type traces struct {
	Keys, Dump, Expiry        string
	Changes, Offset, AOFBytes string
}

// load is traffic that goes on while a test does something to the server.
type load struct {
	calls   atomic.Int64
	stopped atomic.Bool
	wg      sync.WaitGroup
}

// stop returns when the last reply is in.
func (l *load) stop() {
	l.stopped.Store(true)
	l.wg.Wait()
}

func (l *load) await(t *testing.T, calls int64) {
	t.Helper()
	for goal := l.calls.Load() + calls; l.calls.Load() < goal; time.Sleep(time.Millisecond) {
		require.False(t, t.Failed())
	}
}

// startLoad keeps four connections busy with the commands that command makes. accept
// says whether a reply to one is fine; nil accepts whatever is no error.
func startLoad(t *testing.T, s *server.Server, command func(*rand.Rand) []string, accept func(command []string, v resp.Value) bool) *load {
	t.Helper()
	if accept == nil {
		accept = func(_ []string, v resp.Value) bool { return !v.IsError() }
	}
	l := &load{}
	for worker := range 4 {
		c := s.Raw()
		random := rand.New(rand.NewPCG(uint64(worker), 0))
		l.wg.Go(func() { assert.NoError(t, l.keepBusy(t, c, random, command, accept), "under load") })
	}
	t.Cleanup(l.stop)
	return l
}

// keepBusy returns when the load is stopped or a reply is not fine, and the error that ended the connection before.
func (l *load) keepBusy(t *testing.T, c *resp.Conn, random *rand.Rand, command func(*rand.Rand) []string, accept func(command []string, v resp.Value) bool) error {
	for !l.stopped.Load() {
		commands := make([][]string, 20)
		for i := range commands {
			commands[i] = command(random)
		}
		replies, err := c.Pipeline(commands...)
		if err != nil {
			return err
		}
		for i, v := range replies {
			if !accept(commands[i], v) {
				assert.Fail(t, "under load", "%q answers %v", commands[i], v)
				return nil
			}
		}
		l.calls.Add(int64(len(commands)))
	}
	return nil
}

// loadCommand is mostly CL.THROTTLE on one of 1000 keys. The limits are slow, so that no
// key expires while a test compares.
func loadCommand(random *rand.Rand) []string {
	if random.IntN(5) == 0 {
		return otherCommand(random)
	}
	return []string{"CL.THROTTLE", fmt.Sprint("key", random.IntN(1000)), "99", "100",
		[]string{"1d", "10h"}[random.IntN(2)], fmt.Sprint(random.IntN(4))}
}

// otherCommand is one of the server's own.
func otherCommand(random *rand.Rand) []string {
	key := fmt.Sprint("key", random.IntN(1000))
	if random.IntN(2) == 0 {
		return []string{"GET", key}
	}
	return []string{"SET", "other" + key, key}
}

// patience is how long a test waits for an answer that should come at once. A line looks at itself once in
// five minutes whatever happens, so an answer within this time was not left to that.
const patience = 30 * time.Second

// tick is how often a test looks whether a condition holds.
const tick = 5 * time.Millisecond

// awaitField returns when a counter of INFO throttle has a value.
func awaitField(t *testing.T, c *resp.Conn, field string, want int) {
	t.Helper()
	var have string
	require.Eventually(t, func() bool {
		have = server.ParseInfo(do(t, c, "INFO throttle").Text)["throttle_"+field]
		return have == fmt.Sprint(want)
	}, 60*time.Second, 2*time.Millisecond, "%s", field)
}

// awaitWaiting returns when so many callers of CL.WAIT wait. It does not sleep in between: a test may be about to miss a slot.
func awaitWaiting(t *testing.T, c *resp.Conn, n int) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; {
		waiting := server.ParseInfo(do(t, c, "INFO throttle").Text)["throttle_waiting"]
		if waiting == fmt.Sprint(n) {
			return
		}
		require.True(t, time.Now().Before(deadline), "%s wait instead of %d", waiting, n)
	}
}

// startWaiting sends a call on a connection of its own and does not wait for the answer.
func startWaiting(t *testing.T, s *server.Server, call string) *resp.Conn {
	t.Helper()
	c := s.Raw()
	send(t, c, call)
	return c
}

// send sends a call whose reply may come later.
func send(t *testing.T, c *resp.Conn, call string) {
	t.Helper()
	require.NoError(t, c.Send(strings.Fields(call)...))
	require.NoError(t, c.Flush())
}

// line is callers of CL.WAIT on one key, one unit at a time, each on a connection of its
// own. Caller i has the slot at spacing x (ahead + i) after an instant from..to.
type line struct {
	t        *testing.T
	s        *server.Server
	admin    *resp.Conn
	conns    []*resp.Conn
	ids      []int64 // the server's, of the connections
	spacing  time.Duration
	ahead    int
	from, to int64 // ns since the epoch

	waitedBefore, leftBefore int64 // what the server had counted, of lines that took too long
}

// counted is how many callers of the line waited and were let in, and how many left.
func (l *line) counted() (waited, left int64) {
	return l.s.InfoInt("throttle", "throttle_waited") - l.waitedBefore, l.s.InfoInt("throttle", "throttle_wait_left") - l.leftBefore
}

// requireMovedUp receives caller i's answer, which must come between the slot of place
// and the one that it would have had.
func (l *line) requireMovedUp(i, place int) {
	l.t.Helper()
	late := l.requireServed(i, place)
	assert.Less(l.t, late, l.slot(i)-l.slot(place), "caller %d was served when its old slot came", i)
}

func (l *line) limit() string {
	return fmt.Sprintf("RATE 1/%dms BURST 1", l.spacing.Milliseconds())
}

// slot is caller i's, seen from the first call.
func (l *line) slot(i int) time.Duration { return time.Duration(l.ahead+i) * l.spacing }

// awaitWaiting returns when so many callers wait.
func (l *line) awaitWaiting(n int) {
	l.t.Helper()
	awaitWaiting(l.t, l.admin, n)
}

// receive is caller i's answer, and when it was here by the clock that the server goes by.
func (l *line) receive(i int) (v resp.Value, atNs int64) {
	l.t.Helper()
	v, err := l.conns[i].Receive()
	require.NoError(l.t, err, "caller %d", i)
	return v, time.Now().UnixNano() + int64(clockSkew)
}

// requireServed receives caller i's answer, which must not come before place's slot.
func (l *line) requireServed(i, place int) (lateness time.Duration) {
	l.t.Helper()
	v, at := l.receive(i)
	a, err := standingIn(v)
	require.NoError(l.t, err, "caller %d", i)
	assert.Equal(l.t, []int64{0, 1, -1}, []int64{a.Limited, a.Granted, a.RetryAfterMs}, "caller %d", i)
	assert.GreaterOrEqual(l.t, at, l.from+int64(l.slot(place)), "caller %d came before its slot", i)
	return time.Duration(at - l.to - int64(l.slot(place)))
}

// order is who was let go on, in turn.
func (l *line) order(n int) (numbers []string) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return do(l.t, l.admin, "LLEN order").Int == int64(n) }, 60*time.Second, 5*time.Millisecond)
	for _, v := range do(l.t, l.admin, "LRANGE order 0 -1").Elems {
		numbers = append(numbers, v.Text)
	}
	return numbers
}

// standInLine reserves the next slots of a key called "key", so that callers have time to
// arrive, and makes callers wait behind them in the order of their numbers. Each has
// "RPUSH order <its number>" behind its call, so that the list tells the order in which the
// server let them go on.
func standInLine(t *testing.T, s *server.Server, callers int, spacing time.Duration, ahead int) *line {
	t.Helper()
	for ; ; ahead *= 2 {
		l := &line{t: t, s: s, admin: s.Raw(), spacing: spacing, ahead: ahead}
		if l.stand(callers) {
			return l
		}
		t.Logf("on this machine it took longer than %d slots until all had arrived; again, behind twice as many", ahead)
		for _, c := range l.conns {
			require.NoError(t, c.Close())
		}
		l.awaitWaiting(0)
		do(t, l.admin, "DEL key order")
	}
}

// stand is standInLine, and returns whether all callers had arrived before the slot of the first.
func (l *line) stand(callers int) (all bool) {
	t, s := l.t, l.s
	t.Helper()
	for range callers {
		c := s.Raw()
		l.conns = append(l.conns, c)
		l.ids = append(l.ids, do(t, c, "CLIENT ID").Int)
	}
	l.waitedBefore, l.leftBefore = l.counted()
	arrived := s.InfoInt("throttle", "throttle_calls_wait")
	limit := l.limit()
	first, from, to := timed(t, l.admin, "CL.LIMIT key "+limit+" MAXWAIT 1d")
	l.from, l.to = from, to
	require.False(t, first[0].IsError(), "%v", first[0])
	for range l.ahead - 1 {
		require.EqualValues(t, 0, ask(t, l.admin, "CL.LIMIT key %s MAXWAIT 1d", limit).Limited)
	}
	for i, c := range l.conns {
		require.NoError(t, c.Send(strings.Fields("CL.WAIT key "+limit+" TIMEOUT 1d")...))
		require.NoError(t, c.Send("RPUSH", "order", fmt.Sprint(i)))
		require.NoError(t, c.Flush())
		awaitField(t, l.admin, "calls_wait", int(arrived)+i+1)
	}
	return nowIn(t, l.admin) < l.from+int64(l.slot(0))
}

// waitForLease sends a call of CL.LEASE and returns when its caller is number n in line.
func waitForLease(t *testing.T, s *server.Server, n int, call string, args ...any) *resp.Conn {
	t.Helper()
	c := startWaiting(t, s, fmt.Sprintf(call, args...))
	awaitField(t, s.Raw(), "leases_waiting", n)
	return c
}

// receiveLease is the answer to a caller of CL.LEASE in line.
func receiveLease(t *testing.T, c *resp.Conn) leased {
	t.Helper()
	v, err := c.Receive()
	require.NoError(t, err)
	l, err := leasedIn(v)
	require.NoError(t, err)
	return l
}

// stillWaits fails when an answer to c is there; a round trip on another connection is past every
// turn of the event loop in which it might have been written.
func stillWaits(t *testing.T, c *resp.Conn) {
	t.Helper()
	v, err := c.ReceiveWithin(20 * time.Millisecond)
	require.Error(t, err, "%v", v)
}

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

// kindOfWait is one way to wait for the key k. It names the call that takes the only unit, the one that then waits for
// it, and the call that gives it back. The field of INFO counts the callers that wait.
type kindOfWait struct{ take, wait, giveBack, field string }

// waitAs sends the call of a kind of wait on its own connection and returns when it is number n in line.
func (k kindOfWait) waitAs(t *testing.T, s *server.Server, c *resp.Conn, n int) {
	t.Helper()
	send(t, c, k.wait)
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

// goesOn requires that a caller who waits is let in when the unit is given back.
func (k kindOfWait) goesOn(t *testing.T, s *server.Server) {
	t.Helper()
	waiting := k.begin(t, s)
	do(t, s.Raw(), "%s", k.giveBack)
	requireAdmitted(t, waiting)
	require.NoError(t, waiting.Close())
}

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
