package operating_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/older"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// A server whose module API has no maps gets each reply as it is in RESP2, whatever the protocol: names and values in
// turns.
func TestRepliesWithoutMapsAreNamesAndValuesInTurns(t *testing.T) {
	t.Parallel()
	lacking, plain := older.Start(t, []string{"ReplyWithMap"}).Raw(), kit.StartCheckBuild(t).Raw()
	kit.Do(t, lacking, "CONFIG SET throttle.top 10")
	kit.Do(t, plain, "CONFIG SET throttle.top 10")
	for _, protocol := range []string{"2", "3"} {
		kit.Do(t, lacking, "HELLO %s", protocol)
		for _, call := range []string{
			"FLUSHALL", "CL.LIMIT k RATE 1/1d", "CL.LIMIT k RATE 1/1d", "CL.MLIMIT 2 k other RATE 1/1d", "CL.TOP",
			"CL.LEASE l SLOTS 2 TTL 1h ID a", "CL.LEASE l SLOTS 2 TTL 2h ID b", "CL.LEASES l",
		} {
			assert.Equal(t, shapeOf(kit.Do(t, plain, "%s", call)), shapeOf(kit.Do(t, lacking, "%s", call)), "%s in RESP%s", call, protocol)
		}
	}
}

// shapeOf is a reply without its numbers.
func shapeOf(v resp.Value) (all []any) {
	all = []any{v.Kind, v.Text}
	if v.Kind == resp.Integer {
		return all[:1]
	}
	for _, e := range v.Elems {
		all = append(all, shapeOf(e))
	}
	return all
}

// A server from Redis 7.2 on, or Valkey, tells the module the instant at which the command began, in microseconds.
func TestTheServersReadingOfTheClockIsTheModules(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*server.Server{"as it is": kit.StartCheckBuild(t), "the other way": older.Start(t, []string{"CachedMicroseconds"})} {
		c := s.Raw()
		replies, from, to := kit.Timed(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID a", "ZSCORE k a", "CL.THROTTLE rate 0 1 1h", "GET rate")
		require.False(t, replies[0].IsError(), "%s: %v", name, replies[0])
		lapses := int64(kit.Number(t, replies[1].Text)) * int64(time.Millisecond)
		for _, at := range []int64{lapses, kit.TATIn(t, replies[3])} {
			assert.GreaterOrEqual(t, at, from+int64(time.Hour), name)
			assert.LessOrEqual(t, at, to+int64(time.Hour)+int64(time.Millisecond), name)
		}
	}
}
