package commands_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A key holds the theoretical arrival time in ns since the epoch, as decimal digits,
// and lives until that time rounded up to a whole second.
func TestValueIsTheTATAndExpiryItsSecondRoundedUp(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	for _, args := range []string{"15 30 60 1", "15 30 60 7", "0 1 1d", "99 100000 60 3", "0 1 500ms", "0 1000000000 1"} {
		from := time.Now().Add(-kit.ClockSkew).UnixNano()
		_, err := c.Do(kit.RawCallOf(args, args)...)
		to := time.Now().Add(kit.ClockSkew).UnixNano()
		require.NoError(t, err)
		replies, err := c.Pipeline([]string{"GET", args}, []string{"PTTL", args})
		require.NoError(t, err)
		known := time.Now().UnixNano()
		if replies[0].IsNull || replies[1].Int == -2 {
			// A bucket that is full within the second is full by now.
			assert.Contains(t, []string{"0 1 500ms", "0 1000000000 1"}, args)
			continue
		}
		added := map[string]time.Duration{"15 30 60 1": 2 * time.Second, "15 30 60 7": 14 * time.Second,
			"0 1 1d": 24 * time.Hour, "99 100000 60 3": 1800 * time.Microsecond,
			"0 1 500ms": 500 * time.Millisecond, "0 1000000000 1": 1}[args]
		tat := kit.TATIn(t, replies[0])
		assert.GreaterOrEqual(t, tat, from+int64(added), args)
		assert.LessOrEqual(t, tat, to+int64(added), args)
		assert.Equal(t, strconv.FormatInt(tat, 10), replies[0].Text, "plain decimal digits")

		// The expiry lies between TAT and a second later, whatever the server's version.
		ttl := time.Duration(replies[1].Int) * time.Millisecond
		assert.GreaterOrEqual(t, known+int64(ttl), tat-int64(time.Millisecond), args)
		assert.Less(t, from+int64(ttl), tat+int64(time.Second)+int64(time.Millisecond), args)
		if s.Program.AtLeast(7, 0) {
			v, err := c.Do("PEXPIRETIME", args)
			require.NoError(t, err)
			if v.Int != -2 { // expired since
				assert.Equal(t, kit.CeilSeconds(tat)*1000, v.Int, args)
			}
		}
	}
}

func TestKeyIsGoneWhenItsBucketIsFullAgain(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	p := kit.Probes(t, s.Raw(), 1, "key", "0 1 100ms")[0]
	require.Eventually(t, func() bool { return s.Do("EXISTS", "key").Int == 0 }, 20*time.Second, 5*time.Millisecond)
	assert.GreaterOrEqual(t, time.Now().UnixNano(), p.TATAfter, "not before")
}

func TestLimitedCallsAndPeeksLeaveNoTrace(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	peeked := w.Traces(t, "new")
	for range 100 {
		w.Call(t, kit.RawCallOf("new", "15 1 1d 0")...)
		w.Call(t, kit.RawCallOf("new", "15 1 1d 17")...)
	}
	assert.Equal(t, peeked, w.Traces(t, "new"), "an absent key stays absent")

	untouched := w.Traces(t, "key")
	w.Call(t, kit.RawCallOf("key", "15 1 1d 16")...)
	before := w.Traces(t, "key")
	for range 100 {
		for _, quantity := range []string{"0", "1", "16", "17", "9223372036854775807"} {
			w.Call(t, append([]string{"CL.THROTTLE", "key", "15", "1", "1d"}, quantity)...)
		}
	}
	assert.Equal(t, before, w.Traces(t, "key"))

	// The same eyes see an allowed call: they are not blind.
	assert.NotEqual(t, untouched.Dump, before.Dump)
	assert.NotEqual(t, untouched.Changes, before.Changes)
	assert.NotEqual(t, untouched.Offset, before.Offset)
	assert.NotEqual(t, untouched.AOFBytes, before.AOFBytes)
	assert.Len(t, w.Stream.Drain(), 1, "one call changed something, and one command was replicated")
}

// The server may keep one object for many keys, as it does for small numbers.
func TestOtherKeysWithTheSameValueKeepIt(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	past := "1700000000000000000"
	for _, value := range []string{"5", "9999", past} {
		s.MustDo("MSET", "key", value, "same", value)
		s.MustDo("COPY", "key", "copy", "REPLACE")
		p := kit.Probes(t, s.Raw(), 1, "key", "15 30 60 1")[0]
		assert.Equal(t, kit.NewAnswer(0, 16, 15, -1, 2), p.Answer, "a TAT in the past is a full bucket")
		kit.LimitOf(15, 30, time.Minute).Judge(t, p, 1)
		assert.Equal(t, value, s.MustDo("GET", "same").Text)
		assert.Equal(t, value, s.MustDo("GET", "copy").Text)
		s.MustDo("SET", "new", value)
		assert.Equal(t, value, s.MustDo("GET", "new").Text)
	}
}

func TestWatchFailsOnAnAllowedCallOnly(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	watcher, caller := s.Raw(), s.Raw()
	for _, tc := range []struct {
		args      string
		unchanged bool
	}{
		{"1 1 1d 1", false}, // the key appears
		{"1 1 1d 0", true},
		{"1 1 1d 1", false},
		{"1 1 1d 1", true}, // limited by now
		{"1 1 1d 0", true},
		{"1 1 1d 9", true},
		{"x 1 1d 1", true},
	} {
		_, err := watcher.Do("WATCH", "key")
		require.NoError(t, err)
		_, err = caller.Do(kit.RawCallOf("key", tc.args)...)
		require.NoError(t, err)
		replies, err := watcher.Pipeline([]string{"MULTI"}, []string{"PING"}, []string{"EXEC"})
		require.NoError(t, err)
		assert.Equal(t, tc.unchanged, !replies[2].IsNull, "%s: EXEC answers %v", tc.args, replies[2])
	}
}

// Of every kind of call: those that change the state of a key, delete it, or change who holds a lease.
func TestWatchFailsOnEveryCallThatChangesItsKey(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	watcher, caller := s.Raw(), s.Raw()
	for _, tc := range []struct {
		before, call string
		touched      bool
	}{
		{"", "CL.LIMIT key RATE 2/1h", true},
		{"", "CL.PEEK key RATE 2/1h", false},
		{"CL.LIMIT key FIXED 9/365d COST 2", "CL.REFUND key FIXED 9/365d", true},
		{"CL.LIMIT key RATE 2/1h", "CL.REFUND key RATE 2/1h", true}, // deletes the key
		{"", "CL.REFUND key RATE 2/1h", false},
		{"", "CL.BAN key 1h", true},
		{"CL.LIMIT key RATE 2/1h", "CL.BAN key 1h", true},
		{"CL.BAN key 1h", "CL.BAN key 0", true}, // deletes the key
		{"", "CL.BAN key 0", false},
		{"", "CL.LEASE key SLOTS 1 TTL 1h ID a", true},
		{"CL.LEASE key SLOTS 1 TTL 1h ID a", "CL.LEASE key SLOTS 1 TTL 1h ID b", false},
		{"CL.LEASE key SLOTS 1 TTL 1h ID a", "CL.LEASE key SLOTS 1 TTL 1h ID a", true},
		{"CL.LEASE key SLOTS 1 TTL 1h ID a", "CL.RENEW key ID a TTL 2h", true},
		{"CL.LEASE key SLOTS 1 TTL 1h ID a", "CL.RENEW key ID b TTL 2h", false},
		{"CL.LEASE key SLOTS 1 TTL 1h ID a", "CL.RELEASE key ID a", true}, // deletes the key
		{"CL.LEASE key SLOTS 1 TTL 1h ID a", "CL.RELEASE key ID b", false},
		{"CL.LEASE key SLOTS 1 TTL 1h ID a", "CL.LEASES key", false},
	} {
		kit.Do(t, caller, "DEL key")
		if tc.before != "" {
			require.False(t, kit.Do(t, caller, "%s", tc.before).IsError(), tc.before)
		}
		kit.Do(t, watcher, "WATCH key")
		require.False(t, kit.Do(t, caller, "%s", tc.call).IsError(), tc.call)
		kit.Do(t, watcher, "MULTI")
		kit.Do(t, watcher, "PING")
		assert.Equal(t, tc.touched, kit.Do(t, watcher, "EXEC").IsNull, "%s after %q", tc.call, tc.before)
	}
}

// A cache in the client holds the key; the server tells it when it no longer does.
func TestClientSideCacheIsInvalidatedByAnAllowedCallOnly(t *testing.T) {
	server.NeedsServer(t, "invalidations that name the key")
	t.Parallel()
	s := server.Start(t)
	cache, caller := s.Raw(), s.Raw()
	_, err := cache.Pipeline([]string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"})
	require.NoError(t, err)
	for i, tc := range []struct {
		args        string
		invalidated bool
	}{
		{"1 1 1d 1", true},
		{"1 1 1d 0", false},
		{"1 1 1d 1", true},
		{"1 1 1d 1", false},
		{"1 1 1d 0", false},
		{"1 1 1d 9", false},
		{"x 1 1d 1", false},
	} {
		_, err := cache.Do("GET", "key") // what was read is tracked, once
		require.NoError(t, err)
		_, err = caller.Do(kit.RawCallOf("key", tc.args)...)
		require.NoError(t, err)
		// A message comes before the reply to what is asked after the call.
		v, err := cache.Do("ECHO", fmt.Sprint(i))
		require.NoError(t, err)
		if tc.invalidated {
			assert.Equal(t, `>["invalidate" *["key"]]`, v.String(), tc.args)
			v, err = cache.Receive()
			require.NoError(t, err)
		}
		assert.Equal(t, strconv.Quote(fmt.Sprint(i)), v.String(), tc.args)
	}
}

// The server's own events for what changed, and one for a call that was limited.
func TestKeyspaceNotificationsTellOfChangesAndLimitedCalls(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config("notify-keyspace-events KA"))
	listener := s.Raw()
	_, err := listener.Do("SUBSCRIBE", "__keyspace@0__:key", "end")
	require.NoError(t, err)
	_, err = listener.Receive() // of the second channel
	require.NoError(t, err)
	for _, args := range []string{"1 1 1d 2", "1 1 1d 1", "1 1 1d 0", "x 1 1d"} {
		s.Do(kit.RawCallOf("key", args)...)
	}
	s.MustDo("PUBLISH", "end", "end")
	var events []string
	for {
		v, err := listener.Receive()
		require.NoError(t, err)
		event := v.Elems[2].Text
		if event == "end" {
			break
		}
		events = append(events, event)
	}
	assert.Equal(t, []string{"set", "expire", "limited"}, events)
}

// A caller that leaves its line is limited later than it called, and the event comes from the database of its key.
func TestTheEventOfACallerThatLeavesIsOfItsDatabase(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config("notify-keyspace-events KA"))
	for name, kind := range kit.WaitsInTurn {
		kit.Do(t, s.Raw(), "FLUSHALL")
		caller, listener := s.Raw(), s.Raw()
		kit.Do(t, caller, "SELECT 3")
		kit.Do(t, caller, "%s", kind.Take)
		id := kit.Do(t, caller, "CLIENT ID").Int
		kit.Do(t, listener, "PSUBSCRIBE __keyspace@*__:k")
		kind.WaitAs(t, s, caller, 1)
		kit.Do(t, s.Raw(), "CLIENT UNBLOCK %d", id)
		var event resp.Value
		for event.Text != "limited" {
			v, err := listener.Receive()
			require.NoError(t, err, name)
			event = v.Elems[3]
			assert.Equal(t, "__keyspace@3__:k", v.Elems[2].Text, "%s: %s", name, event.Text)
		}
		require.NoError(t, listener.Close())
	}
}
