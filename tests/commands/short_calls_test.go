package commands_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Calls that name a member, with as many words behind it as they may have. Key k holds leases, r a limit.
var namingMembers = []string{
	"CL.MLIMIT 2 k r SLOTS 9 TTL 1d NEXT RATE 9/1d ID a COST 1 STRICT COMPACT EACH",
	"CL.MLIMIT 2 r k RATE 9/1d NEXT SLOTS 9 TTL 1d ID a MAXWAIT 1h COST 0 EACH COMPACT",
	"CL.SETTLE 2 k r SLOTS NEXT RATE 9/1d TAKE 1 USED 1 ID a EACH COMPACT",
	"CL.SETTLE 1 k SLOTS ID b COMPACT EACH",
	"CL.LEASE k ID a TTL 1d SLOTS 9 TIMEOUT 1s GROUP g PRIORITY 1 COMPACT",
	"CL.LEASE k COMPACT TIMEOUT 1s TTL 1d SLOTS 9 ID a",
	"CL.RENEW k ID a TTL 1d COMPACT",
	"CL.RENEW k COMPACT TTL 1d ID a",
	"CL.RELEASE k ID b c d e f",
	"CL.LEASES k COUNT 5",
	"CL.INSPECT k",
}

// The module looks for a member where the latest call of the command named it. A call that ends before that place, or
// has another number of keys, gets its own reply.
func TestShortCallsAfterLongOnes(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		s := startMany(t, opts...)
		c, fresh := s.Raw(), startMany(t, opts...).Raw()
		prepare := []string{"FLUSHALL", "CL.LEASE k SLOTS 9 TTL 1d ID a", "CL.LIMIT r RATE 9/1d"}
		for _, long := range namingMembers {
			for _, other := range namingMembers {
				words := strings.Fields(other)
				for n := 1; n < len(words); n++ {
					kit.MustDoAll(t, c, prepare...)
					kit.Do(t, c, "%s", long)
					kit.MustDoAll(t, c, prepare...)
					v, err := c.Do(words[:n]...)
					require.NoError(t, err, "%v after %s", words[:n], long)
					kit.MustDoAll(t, fresh, prepare...)
					want, err := fresh.Do(words[:n]...)
					require.NoError(t, err)
					assert.Equal(t, want.IsError(), v.IsError(), "%v after %s: %v", words[:n], long, v)
					if v.IsError() {
						assert.Equal(t, want, v, "%v after %s", words[:n], long)
					}
				}
			}
		}
	})
}

// A key that is given twice is refused, whatever it holds.
func TestAKeyGivenTwiceIsRefusedWhateverItHolds(t *testing.T) {
	t.Parallel()
	kit.OnSanitizedToo(t, func(t *testing.T, opts ...server.Option) {
		c := startMany(t, opts...).Raw()
		for _, holds := range []string{
			"DEL k", "SET k 5", "SET k text", "SET k " + strings.Repeat("1", 99), "CL.LIMIT k RATE 9/1d", "CL.LIMIT k FIXED 9/1d", "CL.LEASE k SLOTS 9 TTL 1d ID a", "ZADD k 5 x",
			"LPUSH k x", "HSET k f x",
		} {
			for _, call := range []string{
				"CL.MLIMIT 2 k k RATE 9/1d", "CL.MLIMIT 3 k r k SLOTS 9 TTL 1d ID a", "CL.MLIMIT 3 r k k RATE 9/1d NEXT RATE 9/1d NEXT SLOTS 9 TTL 1d ID a",
				"CL.SETTLE 2 k k SLOTS ID a", "CL.SETTLE 3 k r k SLOTS NEXT RATE 9/1d TAKE 1 USED 2 NEXT RATE 9/1d TAKE 1 USED 2 ID a",
			} {
				kit.MustDoAll(t, c, "FLUSHALL", holds)
				before := kit.Do(t, c, "DUMP k")
				for range 9 {
					assert.Contains(t, kit.Do(t, c, "%s", call).Text, "each key can be given once", "%s, %s", holds, call)
				}
				assert.Equal(t, before, kit.Do(t, c, "DUMP k"), "%s, %s", holds, call)
			}
		}
	})
}
