package kit

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// LeasesOf is counters of INFO throttle about leases.
func LeasesOf(s *server.Server, fields ...string) (all []string) {
	info := s.Info("throttle")
	for _, field := range fields {
		all = append(all, info["throttle_leases_"+field])
	}
	return all
}

// CPUOver is the processor time that the server's process takes while so much time
// passes, to the kernel's 10 ms.
func CPUOver(t *testing.T, s *server.Server, d time.Duration) time.Duration {
	t.Helper()
	before := s.CPUTime()
	time.Sleep(d)
	return s.CPUTime() - before
}

// Growth is by how much used_memory grows in a round, once buffers and tables have grown to their size: the median of
// several rounds, since the server makes the buffers of a connection larger or smaller now and then.
func Growth(t *testing.T, c *resp.Conn, round func()) int64 {
	t.Helper()
	var readings, grown []int64
	for range 7 {
		round()
		readings = append(readings, int64(Number(t, server.ParseInfo(Do(t, c, "INFO memory").Text)["used_memory"])))
	}
	for i := range readings[1:] {
		grown = append(grown, readings[i+1]-readings[i])
	}
	slices.Sort(grown)
	t.Logf("used_memory grows by %v", grown)
	return grown[len(grown)/2]
}

// WakeUps is how often threads gave up the processor to wait, and so how often they were woken.
func WakeUps(t *testing.T, pid int, threads map[int]string) (n int) {
	t.Helper()
	for tid := range threads {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		require.True(t, found)
		number, _, _ := strings.Cut(rest, "\n")
		switches, err := strconv.Atoi(strings.TrimSpace(number))
		require.NoError(t, err)
		n += switches
	}
	return n
}

// ResidentBytes is how much memory of the server is resident.
func ResidentBytes(t *testing.T, s *server.Server) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.Pid()))
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// Looks is how often the test build has looked whether somebody in line may be let in.
func Looks(t *testing.T, s *server.Server) int {
	t.Helper()
	return Number(t, s.Info("throttle")["throttle_looks"])
}
