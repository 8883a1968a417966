package neighbours_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// onNewKeysWithAReplica runs a test on a server that holds another module, which hears of keys that are added, and has
// a replica.
func onNewKeysWithAReplica(t *testing.T, f func(t *testing.T, s, replica *server.Server)) {
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := neighbour.Start(t, opts...)
		if !s.Program.AtLeast(7, 0) {
			t.Skip("event new")
		}
		replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
		require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, 5*time.Millisecond)
		f(t, s, replica)
	})
}

// Whatever another module writes to the keys of a call while the call adds one of them, replicas see all writes in the
// same order, and the call has stored what it answers.
func TestReplicasSeeTheWritesInTheMiddleOfACallInOrder(t *testing.T) {
	t.Parallel()
	onNewKeysWithAReplica(t, func(t *testing.T, s, replica *server.Server) {
		c := s.Raw()
		ms := kit.NowIn(t, c) / int64(time.Millisecond)
		for _, call := range []string{
			"CL.MLIMIT 3 a b c RATE 1/1d BURST 9", "CL.MLIMIT 3 a b c FIXED 9/1d", "CL.MLIMIT 3 a b c SLOTS 9 TTL 1d ID y",
			"CL.MLIMIT 3 a b c RATE 1/1d BURST 9 NEXT SLOTS 9 TTL 1d ID y NEXT RATE 1/1d BURST 9",
			"CL.MLIMIT 3 a b c SLOTS 9 TTL 1d NEXT RATE 1/1d BURST 9 NEXT SLOTS 9 TTL 1d ID y",
		} {
			if strings.Contains(call, "NEXT") {
				call = strings.Replace(call, " ID y", "", 1) + " ID y"
			}
			for _, write := range []string{
				"SET b text", "SET b 5", "SET b 5 PX 100000", "SET c text", "MSET b 1 c 2", "INCR b", "APPEND b x", "SETRANGE c 2 7", "LPUSH b x", "HSET c f x", "ZADD b 5 x",
				fmt.Sprintf("ZADD b %d x", ms+200_000_000), fmt.Sprintf("ZADD b %d y", ms+200_000_000), fmt.Sprintf("SET b 5 PXAT %d", ms-1), "PERSIST b", "DEL b",
			} {
				t.Run(call+", "+write, func(t *testing.T) {
					kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "NEIGHBOUR.ON new a "+write)
					v := kit.Do(t, c, "%s", call)
					require.True(t, kit.IsLetThrough(v), "%v", v)
					require.EqualValues(t, 1, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int)
					kit.Do(t, c, "NEIGHBOUR.DO")
					kit.RequireReplica(t, s, replica, "a", "b", "c")
					groups := strings.Split(strings.TrimPrefix(call, "CL.MLIMIT 3 a b c "), " NEXT ")
					for i, key := range []string{"a", "b", "c"} {
						group := groups[i%len(groups)]
						if strings.HasPrefix(group, "SLOTS") {
							assert.NotEmpty(t, kit.Do(t, c, "ZSCORE %s y", key).Text, key)
							continue
						}
						v := kit.Do(t, c, "CL.PEEK %s %s COMPACT", key, strings.TrimSuffix(group, " ID y"))
						assert.Less(t, v.Elems[3].Int, int64(9), "%s: %v", key, v)
					}
				})
			}
		}
	})
}

// Another module may write to a key in the moment in which a call adds it. What it wrote stays, without an expiry,
// which the server takes away after the event, and replicas hold the same.
func TestAKeyWrittenToWhileItIsAddedKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	onNewKeysWithAReplica(t, func(t *testing.T, s, replica *server.Server) {
		if !s.Program.IsValkey() && s.Program.AtLeast(8, 2) {
			t.Skip("the server reads a key that it added again after the event, also if that was replaced (dbAddInternal of Redis 8.6.3)")
		}
		c := s.Raw()
		for _, call := range []string{"CL.LIMIT a RATE 1/1d BURST 9", "CL.LIMIT a FIXED 9/1d", "CL.MLIMIT 2 b a RATE 1/1d BURST 9"} {
			for _, write := range []string{"SET a 5", "SET a 1700000000000000000", "SET a text PX 100000000", "APPEND a x", "COPY list a REPLACE", "ZUNIONSTORE a 1 set"} {
				kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "RPUSH list x", "ZADD set 1 x", "NEIGHBOUR.ON new a "+write)
				require.True(t, kit.IsLetThrough(kit.Do(t, c, "%s", call)), "%s, %s", call, write)
				require.EqualValues(t, 1, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int, "%s, %s", call, write)
				kit.Do(t, c, "NEIGHBOUR.DO")
				kit.RequireReplica(t, s, replica, "a", "b")
				assert.EqualValues(t, -1, kit.Do(t, c, "PTTL a").Int, "%s, %s", call, write)
			}
		}
	})
}

// heardWait is a caller in line of whose key another module hears while it waits. 300ms are as long as the machine
// needs.
type heardWait struct {
	holds, waits, event string
	then                []string
	isHeard             bool // on every server, if the other module listens in time
}

var heardWaits = map[string]heardWait{
	"the last lease lapses":      {"CL.LEASE k SLOTS 1 TTL 300ms ID h", "CL.LEASE k SLOTS 1 TTL 1m ID w TIMEOUT 1m", "expired", nil, true},
	"a slot comes without a key": {"CL.LIMIT k RATE 1/300ms BURST 1", "CL.WAIT k RATE 1/300ms BURST 1 TIMEOUT 1m", "keymiss", []string{"DEL k"}, false},
	"a window is over":           {"CL.LIMIT k WINDOW 1/300ms", "CL.WAIT k WINDOW 1/300ms TIMEOUT 1m", "expired", nil, false},
	"its time is over, no key":   {"CL.LEASE k SLOTS 1 TTL 1h ID h", "CL.LEASE k SLOTS 1 TTL 1m ID w TIMEOUT 300ms", "limited", nil, true},
	"the server takes no write":  {"CL.LEASE k SLOTS 1 TTL 300ms ID h", "CL.LEASE k SLOTS 1 TTL 1m ID w TIMEOUT 600ms", "keymiss", []string{"CONFIG SET maxmemory 1"}, false},
}

// begin has a caller wait on connection w, and another module make a call when it hears of the caller's key.
func (wait heardWait) begin(t *testing.T, s *server.Server, c, w *resp.Conn, call string) {
	t.Helper()
	isWaiting := func() bool {
		info := s.Info("throttle")
		return info["throttle_waiting"] == "1" || info["throttle_leases_waiting"] == "1"
	}
	for ms := 300; ; ms *= 2 { // on a busy machine the call may come when there is room already
		in := strings.NewReplacer("300ms", fmt.Sprint(ms, "ms"), "600ms", fmt.Sprint(2*ms, "ms"))
		kit.Do(t, c, "%s", in.Replace(wait.holds))
		calls := s.InfoInt("throttle", "throttle_calls")
		kit.Send(t, w, in.Replace(wait.waits))
		kit.AwaitField(t, c, "calls", int(calls)+1)
		if isWaiting() {
			break
		}
		_, err := w.ReceiveWithin(60 * time.Second)
		require.NoError(t, err)
		kit.Do(t, c, "FLUSHALL")
	}
	neighbour.On(t, s, wait.event, "k", call)
	kit.MustDoAll(t, c, wait.then...)
}

// To look at a line the module has the server run commands that change nothing. What another module writes when it
// hears that a key has expired in one of these, or is not there, reaches replicas like any other write.
func TestReplicasSeeWhatANeighbourWritesWhileALineIsLookedAt(t *testing.T) {
	t.Parallel()
	onNewKeysWithAReplica(t, func(t *testing.T, s, replica *server.Server) {
		c := s.Raw()
		kit.Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
		for name, wait := range heardWaits {
			t.Run(name, func(t *testing.T) {
				for tries, isOver := 0, false; !isOver; tries++ {
					require.Less(t, tries, 10, "the caller is gone each time before the other module listens")
					kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL")
					w := s.Raw()
					wait.begin(t, s, c, w, "INCR heard")
					_, err := w.ReceiveWithin(60 * time.Second)
					require.NoError(t, err)
					isOver = !wait.isHeard || neighbour.Seen(t, s) > 0
					kit.MustDoAll(t, c, "NEIGHBOUR.DO", "CONFIG SET maxmemory 0")
					kit.RequireReplica(t, s, replica, "heard")
				}
			})
		}
	})
}

// A caller that another module wants to cut off when it hears that the caller's key has expired or is missing is
// answered or cut off, and the server lives.
func TestACallerIsCutOffWhenItsKeyIsLookedAt(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		for name, wait := range heardWaits {
			for _, how := range []string{"CLIENT KILL ID %d", "CLIENT UNBLOCK %d", "CLIENT UNBLOCK %d ERROR"} {
				t.Run(name+", "+how, func(t *testing.T) {
					s := neighbour.Start(t, opts...)
					c, w := s.Raw(), s.Raw()
					kit.Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
					id := kit.Do(t, w, "CLIENT ID").Int
					wait.begin(t, s, c, w, fmt.Sprintf(how, id))
					v, err := w.ReceiveWithin(60 * time.Second)
					if err == nil {
						assert.Contains(t, []resp.Kind{resp.Array, resp.Error}, v.Kind)
						assert.Equal(t, "PONG", kit.Do(t, w, "PING").Text, "one answer")
					} else {
						assert.Contains(t, how, "KILL")
					}
					neighbour.Do(t, s, "")
					kit.Do(t, c, "CONFIG SET maxmemory 0")
					kit.AwaitField(t, c, "waiting", 0)
					kit.AwaitField(t, c, "leases_waiting", 0)
				})
			}
		}
	})
}

// The same while the lapsed leases of its key are counted, by a command of the server's before which another module may
// run. For a caller that the server is about to answer they are counted without it.
func TestACallerIsCutOffWhileLapsedLeasesAreCounted(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		for name, tt := range map[string]struct {
			timeout time.Duration
			then    string
			ran     int64 // how often the other module ran
		}{
			"something changes":     {time.Minute, "ZADD k 2100000000000 other", 1},
			"its time is over":      {300 * time.Millisecond, "PING", 1},
			"it is to wait no more": {time.Minute, "CLIENT UNBLOCK %s", 0},
			"it is to fail":         {time.Minute, "CLIENT UNBLOCK %s ERROR", 0},
		} {
			for _, how := range []string{"CLIENT KILL ID ", "CLIENT UNBLOCK "} {
				t.Run(name+", "+how, func(t *testing.T) {
					s := neighbour.Start(t, opts...)
					c, w := s.Raw(), s.Raw()
					id := fmt.Sprint(kit.Do(t, w, "CLIENT ID").Int)
					kit.Do(t, c, "ZADD k 2100000000000 held")
					for i := range 40 {
						kit.Do(t, c, "ZADD k 1700000000000 lapsed%d", i)
					}
					for timeout := tt.timeout; ; timeout *= 2 { // on a busy machine its time is over sooner
						calls := s.InfoInt("throttle", "throttle_calls")
						require.NoError(t, w.Send(strings.Fields(fmt.Sprintf("CL.LEASE k SLOTS 1 TTL 1m ID w TIMEOUT %dms", timeout.Milliseconds()))...))
						require.NoError(t, w.Flush())
						kit.AwaitField(t, c, "calls", int(calls)+1)
						kit.Do(t, c, "NEIGHBOUR.BEFORE ZCOUNT %s", how+id)
						kit.Do(t, c, "%s", strings.ReplaceAll(tt.then, "%s", id))
						kit.AwaitField(t, c, "leases_waiting", 0)
						_, err := w.ReceiveWithin(60 * time.Second)
						ran := s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int
						if ran < tt.ran && timeout < time.Minute {
							kit.Do(t, c, "NEIGHBOUR.DO")
							continue
						}
						assert.Equal(t, tt.ran, ran)
						assert.Equal(t, tt.ran > 0 && strings.Contains(how, "KILL"), err != nil, "%v", err)
						break
					}
				})
			}
		}
	})
}
