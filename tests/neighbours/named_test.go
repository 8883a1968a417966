package neighbours_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// workOfOthers are calls of the modules that Redis 8 is delivered with, on keys of their own and on such of ours.
var workOfOthers = []string{
	"JSON.SET j%[1]d $ {\"a\":%[2]d}", "JSON.NUMINCRBY j%[1]d $.a %[2]d", "TS.ADD t%[1]d * %[2]d",
	"BF.ADD b%[1]d %[2]d", "HSET h%[1]d word w%[2]d", "FT.SEARCH words w%[2]d", "RENAME q%[1]d q%[1]dx", "COPY q%[1]d j%[2]d", "DEL h%[1]d q%[1]d", "PEXPIRE h%[1]d %[2]d",
}

// quotaCalls take a unit of what everybody shares, from a client, in a script and in a transaction, and of other keys,
// which expire soon.
var quotaCalls = []string{
	"CL.LIMIT quota FIXED 10000000/y COMPACT", "MULTI",
	"EVAL return(redis.call('CL.LIMIT','quota','FIXED','10000000/y','COMPACT')) 0",
	"CL.LIMIT q%[1]d RATE 5/10ms", "CL.LEASE l%[1]d SLOTS 3 TTL 5ms ID %[2]d",
}

// Beside the modules that THROTTLE_NEIGHBOURS names, while they work: what is granted is charged, and replicas and
// files hold the same.
func TestBesideNamedModulesAtWork(t *testing.T) {
	t.Parallel()
	if os.Getenv("THROTTLE_NEIGHBOURS") == "" {
		t.Skip("THROTTLE_NEIGHBOURS names no modules")
	}
	s := server.Start(t, server.AppendOnly("everysec"))
	replica := server.Start(t, server.ReplicaOf(s))
	topology.AwaitReplicas(t, s, replica)
	s.Do("FT.CREATE", "words", "ON", "HASH", "PREFIX", "1", "h", "SCHEMA", "word", "TEXT")
	s.Do("FT.CREATE", "documents", "ON", "JSON", "PREFIX", "1", "j", "SCHEMA", "$.a", "AS", "a", "NUMERIC")

	var granted, worked atomic.Int64
	command := func(random *rand.Rand) []string {
		list := workOfOthers
		if random.IntN(2) == 0 {
			list = quotaCalls
		}
		call := list[random.IntN(len(list))]
		if strings.Contains(call, "%") {
			call = fmt.Sprintf(call, random.IntN(20), random.IntN(100))
		}
		return strings.Fields(call)
	}
	load := &kit.Load{}
	for worker := range 4 {
		c, random := s.Raw(), rand.New(rand.NewPCG(uint64(worker), 1))
		load.Wg.Go(func() {
			for !load.Stopped.Load() {
				words := command(random)
				calls := [][]string{words}
				if words[0] == "MULTI" {
					calls = [][]string{words, strings.Fields(quotaCalls[0]), {"EXEC"}}
				}
				replies, err := c.Pipeline(calls...)
				if !assert.NoError(t, err, words) {
					return
				}
				v := replies[len(replies)-1]
				if len(calls) == 3 {
					v = v.Elems[0]
				}
				switch {
				case strings.Contains(strings.Join(calls[len(calls)/2], " "), "quota"):
					if !assert.Len(t, v.Elems, 10, "%q: %v", words, v) {
						return
					}
					granted.Add(1 - v.Elems[0].Int)
				case !v.IsError() && !strings.HasPrefix(words[0], "CL."):
					worked.Add(1)
				}
				load.Calls.Add(1)
			}
		})
	}
	t.Cleanup(load.Stop)
	load.Await(t, 20_000)
	load.Stop()
	t.Logf("%d granted beside %d calls of others", granted.Load(), worked.Load())

	charged := func(s *server.Server) int64 {
		return 10_000_000 - s.MustDo(strings.Fields("CL.PEEK quota FIXED 10000000/y COMPACT")...).Elems[3].Int
	}
	topology.AwaitReplicas(t, s, replica)
	assert.Equal(t, granted.Load(), charged(s))
	kit.RequireReplica(t, s, replica, "quota")
	s.Stop()
	s.Restart()
	require.Eventually(t, func() bool { v := s.Do("PING"); return v.Kind != resp.Error }, kit.Patience, kit.Tick)
	assert.Equal(t, granted.Load(), charged(s), "after the file was read")
}
