package neighbours_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// changing are commands of the server that change key b, each with the event that it sends and what the key holds
// before. The server may use the value again after the event.
var changing = []struct{ event, before, command string }{
	{"incrby", "SET b 17", "INCR b"}, {"incrby", "SET b 17", "DECRBY b 2"}, {"incrby", "SET b 1700000000000000000", "INCRBY b 5"},
	{"incrby", "SET b 1700000000000000000", "DECR b"}, {"incrby", "SETRANGE b 0 17", "INCR b"},
	{"incrbyfloat", "SET b 17", "INCRBYFLOAT b 1.5"}, {"incrbyfloat", "SET b 1.5", "INCRBYFLOAT b 1.5"},
	{"incrbyfloat", "SET b 1700000000000000000", "INCRBYFLOAT b 5"}, {"incrbyfloat", "SET b 17", "INCRBYFLOAT b 1e60"},
	{"incrby", "SET b 17", "EVAL return(redis.call('INCR','b')) 0"}, {"incrbyfloat", "SET b 17", "EVAL return(redis.call('INCRBYFLOAT','b','1.5')) 0"},
	{"append", "SET b 17", "APPEND b 5"}, {"append", "SET b text", "APPEND b text"}, {"setrange", "SET b 17", "SETRANGE b 0 5"}, {"setbit", "SET b 17", "SETBIT b 6 1"},
	{"setbit", "SET b 17", "BITFIELD b SET u8 0 65"},
	{"set", "SET b 17", "SET b 5"}, {"set", "SET b 17", "SET b 5 KEEPTTL"}, {"set", "SET b 17", "SET b 5 GET"}, {"set", "SET b 17", "GETSET b 5"},
	{"set", "SET b 17", "MSET a 1 b 5"}, {"set", "SET b 17", "SETEX b 100 5"}, {"expire", "SET b 17", "SET b 5 PX 100000"}, {"expire", "SET b 17", "GETEX b EX 100"},
	{"expire", "SET b 17", "EXPIRE b 100"}, {"expire", "SET b 17", "PEXPIREAT b 2100000000000"}, {"persist", "SET b 17", "PERSIST b"}, {"persist", "SET b 17", "GETEX b PERSIST"},
	{"del", "SET b 17", "DEL b"}, {"del", "SET b 17", "GETDEL b"}, {"del", "SET b 17", "UNLINK b"}, {"rename_from", "SET b 17", "RENAME b c"}, {"rename_to", "SET b 17", "RENAME digits b"},
	{"copy_to", "SET b 17", "COPY digits b REPLACE"}, {"set", "SET b 17", "BITOP OR b digits digits"}, {"pfadd", "PFADD b x", "PFADD b y"}, {"pfadd", "PFADD b x", "PFMERGE b b"},
	{"sortstore", "SET b 17", "SORT list STORE b"}, {"zadd", "ZADD b 9e12 x", "ZADD b 9e12 y"}, {"zincr", "ZADD b 9e12 x", "ZINCRBY b 5 x"}, {"zrem", "ZADD b 9e12 x 9e12 y", "ZREM b x"},
	{"zremrangebyscore", "ZADD b 9e12 x 9e12 y", "ZREMRANGEBYSCORE b 9e12 9e12"}, {"zpopmin", "ZADD b 9e12 x 9e12 y", "ZPOPMIN b"}, {"zunionstore", "ZADD b 9e12 x", "ZUNIONSTORE b 1 leases"},
	{"lpush", "LPUSH b x", "LPUSH b y"}, {"hset", "HSET b f x", "HSET b f y"}, {"hincrby", "HSET b f 17", "HINCRBY b f 1"}, {"hincrbyfloat", "HSET b f 17", "HINCRBYFLOAT b f 1.5"},
	{"sadd", "SADD b x", "SADD b y"}, {"xadd", "XADD b 1-1 f x", "XADD b 2-1 f y"}, {"restore", "SET b 17", "RESTORE b 100000"},
}

// keeping are calls of ours that change none of those values: they ask, they are limited, or the value is none of a
// limiter.
var keeping = []string{
	"CL.PEEK b RATE 5/h", "CL.PEEK b WINDOW 5/h FIXED 7/1d COMPACT", "CL.LEASES b", "CL.INSPECT b", "CL.LIMIT b RATE 5/h COST 100", "CL.LIMIT b WINDOW 9/1d FIXED 7/1d COST 100",
	"CL.THROTTLE b 5 5 60 100", "CL.LEASE b SLOTS 0 TTL 1d ID z", "CL.RELEASE b ID none", "CL.RENEW b ID none TTL 1d", "CL.SETTLE 1 b SLOTS ID none",
	"CL.MLIMIT 2 b other RATE 5/h COST 100", "CL.MLIMIT 2 other b WINDOW 9/1d FIXED 7/1d COST 100", "CL.MLIMIT 2 b other FIXED 7/1d COST 100 NEXT RATE 5/h",
	"CL.WAIT b RATE 5/h COST 100 TIMEOUT 0", "CL.WAIT b FIXED 7/1d COST 100 TIMEOUT 0",
}

// A call of ours that another module makes when it hears of a command replaces nothing that the command uses again
// afterwards, whether or not the key has an expiry. The answer and the key are what they are without it.
func TestCallsWhileTheServerChangesAKey(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := neighbour.Start(t, opts...)
		if !s.Program.AtLeast(7, 0) {
			t.Skip("commands of Redis 7.0")
		}
		c := s.Raw()
		kit.Do(t, c, "SET digits 5")
		dump := kit.Do(t, c, "DUMP digits").Text
		for _, change := range changing {
			for _, expiry := range []string{"PERSIST b", "PEXPIREAT b 2000000000000"} {
				if change.event == "persist" && expiry == "PERSIST b" {
					continue // there is nothing to take away
				}
				changed := func(call string) (answer, made []string) {
					kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "SET digits 5", "RPUSH list 1 2", "ZADD leases 9e12 z", change.before, expiry)
					words := strings.Fields(change.command)
					if words[0] == "RESTORE" {
						words = append(words, dump, "REPLACE")
					}
					if call != "" {
						kit.Do(t, c, "NEIGHBOUR.ON %s b %s", change.event, call)
					}
					v, err := c.Do(words...)
					require.NoError(t, err, "%s in %s", call, change.command)
					require.False(t, v.IsError(), "%s in %s: %v", call, change.command, v)
					if call != "" {
						require.Positive(t, kit.Do(t, c, "NEIGHBOUR.SEEN").Elems[0].Int, "%s in %s", call, change.command)
					}
					kit.Do(t, c, "NEIGHBOUR.DO")
					return []string{v.String()}, dumpOf(t, c, "b", "c")
				}
				answer, made := changed("")
				for _, call := range keeping {
					gotAnswer, gotMade := changed(call)
					assert.Equal(t, answer, gotAnswer, "%s in %s, %s", call, change.command, expiry)
					if change.event != "del" && change.event != "rename_from" { // the key is gone by then: a call adds it
						assert.Equal(t, made, gotMade, "%s in %s, %s", call, change.command, expiry)
					}
				}
			}
		}
	})
}
