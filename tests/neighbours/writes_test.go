package neighbours_test

import (
	"fmt"
	"slices"
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

// What another module may do to a key, with the server's own commands, when it is notified in the middle of a command
// of ours.
var neighbourWrites = []string{
	"DEL a", "DEL b", "UNLINK a b", "FLUSHALL", "SET a text", "SET b text", "SET b text PX 100000", "SET b 5 PX 100000", "SET b 5", "LPUSH b x",
	"ZADD b 5 x", "ZADD b 9e12 x", "HSET b f x", "RENAME a b", "RENAME b c", "COPY a b REPLACE", "PEXPIRE b 100000", "PERSIST b", "APPEND b x",
	"SETRANGE a 2 7", "PEXPIRE a -1", "CL.BAN b 1h", "CL.LEASE b SLOTS 1 TTL 1h ID x", "CL.MLIMIT 2 b a RATE 1/1d BURST 9",
}

// Commands of ours.
var writtenInto = []string{
	"CL.LIMIT b RATE 1/1d BURST 9", "CL.LIMIT b WINDOW 9/1d FIXED 7/1d", "CL.THROTTLE b 9 1 1d", "CL.MLIMIT 2 a b RATE 1/1d BURST 9", "CL.MLIMIT 2 b a RATE 1/1d BURST 9",
	"CL.MLIMIT 4 a b c d RATE 1/1d BURST 9", "CL.MLIMIT 2 a b RATE 1/1d BURST 9 ANY", "CL.BAN b 1h", "CL.BAN b 0", "CL.REFUND b RATE 1/1d BURST 9",
	"CL.WAIT b RATE 1/1d BURST 9 TIMEOUT 0", "CL.WAIT b FIXED 9/1d TIMEOUT 0", "CL.PEEK b RATE 1/1d", "CL.LEASE b SLOTS 9 TTL 1d ID y", "CL.RENEW b ID a TTL 1d", "CL.RELEASE b ID a",
	"CL.LEASES b", "CL.INSPECT b",
	"CL.MLIMIT 2 a b RATE 1/1d BURST 9 NEXT SLOTS 9 TTL 1d ID y", "CL.MLIMIT 2 b a SLOTS 9 TTL 1d NEXT RATE 1/1d BURST 9 ID a", "CL.MLIMIT 4 d b c a SLOTS 9 TTL 1d ID z",
	"CL.SETTLE 2 a b RATE 1/1d BURST 9 TAKE 1 USED 3 NEXT SLOTS ID a", "CL.SETTLE 1 b SLOTS ID a",
}

// What shows that a call which answers that it took something has stored it.
var storedBy = map[string]struct {
	question string
	is       func(v resp.Value) bool
}{
	"CL.LIMIT b RATE 1/1d BURST 9":   {"CL.PEEK b RATE 1/1d BURST 9 COMPACT", func(v resp.Value) bool { return len(v.Elems) > 3 && v.Elems[3].Int < 9 }},
	"CL.THROTTLE b 9 1 1d":           {"CL.THROTTLE b 9 1 1d 0", func(v resp.Value) bool { return len(v.Elems) > 2 && v.Elems[2].Int < 10 }},
	"CL.LEASE b SLOTS 9 TTL 1d ID y": {"ZSCORE b y", func(v resp.Value) bool { return v.Text != "" }},
}

// keyStates are the commands that make keys a and b. Some leave keys that have expired. After DEBUG
// SET-ACTIVE-EXPIRE 0 the server removes these only when it looks them up.
var keyStates = map[string][]string{
	"absent":              {},
	"there":               {"CL.LIMIT a RATE 1/1d BURST 9", "CL.LIMIT b RATE 1/1d BURST 9"},
	"leases":              {"CL.LEASE b SLOTS 9 TTL 1d ID a"},
	"a is there":          {"CL.LIMIT a RATE 1/1d BURST 9"},
	"b has expired":       {"CL.LIMIT a RATE 1/1d BURST 9", "CL.LIMIT b RATE 1/1d BURST 9", "PEXPIRE b 10", "DEBUG SLEEP 0.012"},
	"both have expired":   {"CL.LIMIT a RATE 1/1d BURST 9", "CL.LIMIT b RATE 1/1d BURST 9", "PEXPIRE a 10", "PEXPIRE b 10", "DEBUG SLEEP 0.012"},
	"leases have expired": {"CL.LIMIT a RATE 1/1d BURST 9", "CL.LEASE b SLOTS 9 TTL 1d ID a", "PEXPIRE b 10", "DEBUG SLEEP 0.012"},
}

// Whatever another module writes when it is notified in the middle of a command of ours, the server lives, and a call
// that answers that it took something has stored it.
func TestANeighbourWritesInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		_, c := kit.StartKeepingExpired(t, opts...)
		ran := int64(0)
		for state, commands := range keyStates {
			events := strings.Fields("set expire del zadd zrem limited keymiss leased released")
			if strings.Contains(state, "expired") {
				events = []string{"expired"}
			}
			for _, write := range neighbourWrites {
				for _, event := range events {
					for _, call := range writtenInto {
						var words [][]string
						for _, command := range slices.Concat([]string{"NEIGHBOUR.DO", "FLUSHALL"}, commands, []string{"NEIGHBOUR.ON " + event + " b " + write, call, "NEIGHBOUR.SEEN"}) {
							words = append(words, strings.Fields(command))
						}
						replies, err := c.Pipeline(words...)
						require.NoError(t, err, "%s, %s on %s: %s", state, write, event, call)
						v := replies[len(replies)-2]
						ran += replies[len(replies)-1].Elems[0].Int
						if stored, known := storedBy[call]; known && event == "expired" && kit.IsLetThrough(v) {
							assert.True(t, stored.is(kit.Do(t, c, "%s", stored.question)), "%s, %s: %s has stored nothing", state, write, call)
						}
					}
				}
			}
		}
		assert.Greater(t, ran, int64(1000))
	})
}

// A set of more lapsed leases than a call looks at is counted by a command of the server's, before which another module
// may run. The call is decided by what the keys hold afterwards.
func TestANeighbourWritesWhileLapsedLeasesAreCounted(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := neighbour.Start(t, opts...)
		c := s.Raw()
		in := time.Now().Add(time.Hour).UnixMilli()
		prepare := func() {
			kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "CL.LIMIT a RATE 1/1d BURST 9", fmt.Sprintf("ZADD b %d held%s", in, lapsedMembers(0, 20)), fmt.Sprintf("PEXPIREAT b %d", in))
		}
		for _, call := range append([]string{"CL.LEASE b SLOTS 2 TTL 1h ID y", "CL.MLIMIT 2 a b RATE 1/1d BURST 9 NEXT SLOTS 2 TTL 1h ID y"}, writtenInto...) {
			for _, write := range append([]string{fmt.Sprintf("ZADD b %d other", in), "ZADD b 1700000000000 later" + lapsedMembers(0, 27)}, neighbourWrites...) {
				prepare()
				kit.Do(t, c, "NEIGHBOUR.BEFORE ZCOUNT %s", write)
				v := kit.Do(t, c, "%s", call)
				ran := s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int
				kit.Do(t, c, "NEIGHBOUR.DO")
				if ran == 0 {
					continue // the call counts nothing
				}
				held := kit.Do(t, c, "ZCOUNT b %d +inf", in-60_000)
				if strings.Contains(call, "SLOTS 2") && kit.IsLetThrough(v) {
					assert.LessOrEqual(t, held.Int, int64(2), "%s, after %s", call, write)
				}
				if strings.Contains(write, " other") && strings.Contains(call, "SLOTS 2") {
					assert.False(t, kit.IsLetThrough(v), "%s, after %s: two hold the slots", call, write)
				}
			}
		}
	})
}

// Another key of the call may expire meanwhile, and another module write to the set when it hears of that. What was
// counted before is no longer true then.
func TestANeighbourWritesAfterLapsedLeasesWereCounted(t *testing.T) {
	t.Parallel()
	_, c := kit.StartKeepingExpired(t)
	kit.Do(t, c, "SET a x PXAT 1")
	if kit.Do(t, c, "DBSIZE").Int == 0 {
		t.Skip("the server keeps no key that has expired when it is written (Valkey 9.1)")
	}
	in := kit.NowIn(t, c)/int64(time.Millisecond) + 3_600_000
	for write, limited := range map[string]int64{
		"ZADD b" + lapsedMembers(20, 25):     0,
		fmt.Sprintf("ZADD b %d other", in):   1,
		fmt.Sprintf("ZADD b %d lapsed1", in): 1,
		"ZREM b lapsed1 lapsed2":             0,
	} {
		kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", fmt.Sprintf("ZADD b %d held%s", in, lapsedMembers(0, 20)), fmt.Sprintf("PEXPIREAT b %d", in))
		const script = "redis.call('SET', 'a', 'x', 'PXAT', '1') redis.call('NEIGHBOUR.ON', 'expired', 'a', unpack(ARGV))"
		_, err := c.Do(append([]string{"NEIGHBOUR.BEFORE", "ZCOUNT", "EVAL", script, "0"}, strings.Fields(write)...)...)
		require.NoError(t, err)
		v := kit.Do(t, c, "CL.MLIMIT 2 a b RATE 1/1d BURST 9 NEXT SLOTS 2 TTL 1h ID y COMPACT")
		assert.EqualValues(t, 1, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int, write)
		kit.Do(t, c, "NEIGHBOUR.DO")
		require.NotEmpty(t, v.Elems, "%v", v)
		assert.Equal(t, limited, v.Elems[0].Int, "%s: %v", write, v)
	}
}

// Commands of the server that add key b. The server is not done with the key when it tells of it.
var adding = []string{
	"SET b 5", "SET b 1700000000000000000", "SET b text", "SET b " + strings.Repeat("1", 50), "SET b 5 PX 100000", "SETEX b 100 5", "MSET b 5 c 5", "SETNX b 5", "GETSET b 5",
	"APPEND b 5", "SETRANGE b 0 5", "SETBIT b 7 1", "INCR b", "INCRBYFLOAT b 1.5", "PFADD b x", "COPY digits b", "COPY bucket b", "RENAME digits b", "RENAME bucket b",
	"BITOP NOT b digits", "BITOP OR b bucket bucket", "ZADD b 5 x", "ZADD b 9e12 x", "ZUNIONSTORE b 1 leases", "COPY leases b", "RENAME leases b", "LPUSH b x", "HSET b f x",
	"EVAL return(redis.call('SET','b','5')) 0", "EVAL return(redis.call('APPEND','b','5')) 0",
}

// Those of them that add a key which has its expiry when Redis 8.6 tells of it. Nothing shows then that the key is new,
// so that a call changes it.
var addingWithExpiry = []string{"COPY bucket b", "RENAME bucket b", "RESTORE b 100000"}

// A command of ours that another module runs while the server adds a key reads it, and changes nothing: the server uses
// the value again afterwards. In the end the key holds what the server's command made.
func TestCallsWhileTheServerAddsAKey(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := neighbour.Start(t, opts...)
		if !s.Program.AtLeast(7, 0) {
			t.Skip("event new")
		}
		c := s.Raw()
		formats := []string{"!v"}
		if s.Program.AtLeast(7, 2) {
			formats = append(formats, "!Kv") // may block, as those of a client
		}
		prepare := func() {
			kit.Do(t, c, "NEIGHBOUR.DO")
			kit.MustDoAll(t, c, "FLUSHALL", "SET digits 5", "SET bucket 1700000000000000000 PX 100000000", "ZADD leases 1700000000000 a")
		}
		prepare()
		dump := kit.Do(t, c, "DUMP bucket").Text
		for _, command := range append(adding, "RESTORE b 0", "RESTORE b 100000") {
			if s.Program.AddsWithExpiry() && slices.Contains(addingWithExpiry, command) {
				continue
			}
			words := strings.Fields(command)
			if words[0] == "RESTORE" {
				words = append(words, dump)
			}
			add := func(nested string) (made resp.Value) {
				prepare()
				if nested != "" {
					kit.Do(t, c, "NEIGHBOUR.ON new b %s", nested)
				}
				v, err := c.Do(words...)
				require.NoError(t, err, "%s in %s", nested, command)
				require.False(t, v.IsError(), "%s in %s: %v", nested, command, v)
				seen := kit.Do(t, c, "NEIGHBOUR.SEEN")
				kit.Do(t, c, "NEIGHBOUR.DO")
				if nested != "" {
					require.EqualValues(t, 1, seen.Elems[0].Int, "%s in %s", nested, command)
				}
				return kit.Do(t, c, "DUMP b")
			}
			want := add("")
			for _, format := range formats {
				kit.Do(t, c, "NEIGHBOUR.FORMAT %s", format)
				for _, nested := range writtenInto {
					assert.Equal(t, want, add(nested), "%s in %s, called by %s", nested, command, format)
				}
			}
		}
	})
}
