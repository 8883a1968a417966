package durability

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// What is only in memory is gone with it, and a bucket nobody knows of is full.
func TestUnitsTakenAfterTheLastSnapshotComeBack(t *testing.T) {
	begin(t)
	s := server.Start(t)
	s.MustDo(hourly.call("before", 5)...)
	s.MustDo("SAVE")
	s.MustDo(hourly.call("before", 7)...)
	s.MustDo(hourly.call("after", 7)...)
	s.Kill()
	s.Restart()
	assert.Equal(t, hourly.capacity-5, remaining(t, s, hourly, "before"))
	assert.Equal(t, hourly.capacity, remaining(t, s, hourly, "after"))
}

// Over maxmemory, with no key to evict, CL.THROTTLE takes nothing and tells nothing,
// not even with a quantity of 0. CL.PEEK still looks, and CL.REFUND gives back.
func TestFullMemoryRefusesWhatTakes(t *testing.T) {
	begin(t)
	s := server.Start(t, server.Config("maxmemory-policy noeviction"))
	s.MustDo(hourly.call("key", 5)...)
	s.MustDo("CONFIG", "SET", "maxmemory", "1")
	for _, quantity := range []int64{0, 1} {
		v := s.Do(hourly.call("key", quantity)...)
		assert.True(t, strings.HasPrefix(v.Text, "OOM "), "%v", v)
	}
	for _, command := range []string{"CL.PEEK", "CL.REFUND"} {
		v := s.MustDo(command, "key", "RATE", "1/h", "BURST", strconv.FormatInt(hourly.capacity, 10))
		_, err := allowedIn(v)
		require.NoError(t, err)
	}
	s.MustDo("CONFIG", "SET", "maxmemory", "0")
	assert.Equal(t, hourly.capacity-4, remaining(t, s, hourly, "key"))
}

// A limiter's keys expire, so every policy but noeviction may evict them, and an
// evicted key is a full bucket. volatile-ttl takes those that are nearest to full.
func TestEvictedKeyIsAFullBucket(t *testing.T) {
	begin(t)
	s := server.Start(t, server.Config("maxmemory-policy volatile-ttl", "maxmemory-samples 10"))
	const keys = 5000
	c := s.Raw()
	var calls [][]string
	for i := range keys {
		calls = append(calls, hourly.call(fmt.Sprint("nearly full:", i), 1), hourly.call(fmt.Sprint("nearly empty:", i), 99_999))
	}
	_, err := c.Pipeline(calls...)
	require.NoError(t, err)
	used := s.InfoInt("memory", "used_memory")
	s.MustDo("CONFIG", "SET", "maxmemory", strconv.FormatInt(used-used/10, 10))
	require.Eventually(t, func() bool {
		return s.InfoInt("memory", "used_memory") < used-used/10 && s.InfoInt("stats", "evicted_keys") > 100
	}, time.Minute, 5*time.Millisecond)
	s.MustDo("CONFIG", "SET", "maxmemory", "0")

	var nearlyFull, nearlyEmpty int
	state := topology.Read(t, s)
	for i := range keys {
		if _, ok := state[fmt.Sprint("nearly full:", i)]; !ok {
			if nearlyFull++; nearlyFull == 1 {
				assert.Equal(t, hourly.capacity, remaining(t, s, hourly, fmt.Sprint("nearly full:", i)))
			}
		}
		if _, ok := state[fmt.Sprint("nearly empty:", i)]; !ok {
			nearlyEmpty++
		}
	}
	t.Logf("evicted by volatile-ttl: %d buckets that were nearly full, %d that were nearly empty", nearlyFull, nearlyEmpty)
	assert.Less(t, nearlyEmpty, nearlyFull/10)
}

// A new build is moved to the place of the old one, which the server goes on using
// until it restarts. Buckets stay.
func TestModuleIsUpgradedByARestart(t *testing.T) {
	begin(t)
	built, err := server.ModulePath()
	require.NoError(t, err)
	b, err := os.ReadFile(built)
	require.NoError(t, err)
	dir := t.TempDir()
	installed, next := filepath.Join(dir, "throttle.so"), filepath.Join(dir, "throttle.so.new")
	for _, path := range []string{installed, next} {
		require.NoError(t, os.WriteFile(path, b, 0o755))
	}
	s := server.Start(t, server.Module(installed), server.AppendOnly("always"))
	s.MustDo(hourly.call("key", 5)...)
	require.NoError(t, os.Rename(next, installed))
	s.MustDo(hourly.call("key", 5)...)
	s.Restart()
	assert.Equal(t, hourly.capacity-10, remaining(t, s, hourly, "key"))
}

// What is stored is an instant by the clock of the server that decided. On a server
// whose clock is behind, the bucket is emptier by the rate times the difference; on one
// whose clock is ahead it is fuller, and full at most.
func TestClocksThatDifferMoveABucketByTheirDifference(t *testing.T) {
	begin(t)
	s := server.Start(t)
	const taken = 5
	for _, tc := range []struct {
		hoursAhead int64 // the clock of the server that decided, of this one's
		want       int64 // units taken, as this server sees it
	}{
		{0, 5}, {3, 8}, {-3, 2}, {-5, 0}, {-1000, 0}, {99_990, 99_995}, {99_996, 100_000}, {150_000, 100_000},
	} {
		now := serverTime(t, s)
		s.MustDo("SET", "key", strconv.FormatInt(now+(taken+tc.hoursAhead)*int64(hourly.emission), 10))
		assert.Equal(t, hourly.capacity-tc.want, remaining(t, s, hourly, "key"), "a clock %d hours ahead", tc.hoursAhead)
	}
}
