package process_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"redis-throttle/tests/server"
)

// enoughAddressSpace is what docs/operating.md says to leave to the module under
// LimitAS= or ulimit -v, beside what the server itself may need.
const enoughAddressSpace = 2 << 30

// Go's runtime reserves address space for what it may come to use, and glibc's malloc
// reserves more for each thread. Printed are the figures that the documentation quotes.
func TestModuleIsLoadedWithTwoGigabytesOfAddressSpace(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	alone := addressSpace(t, s, "VmSize")
	limitAddressSpace(t, s, alone+enoughAddressSpace)
	module, err := server.ModulePath()
	require.NoError(t, err)
	s.MustDo("MODULE", "LOAD", module)

	// Everything that makes the module or the server take more: callers, blocked callers,
	// CL.TOP, a snapshot.
	if s.Program.AtLeast(7, 0) {
		s.MustDo("CONFIG", "SET", "throttle.top", "100000")
	}
	var wg sync.WaitGroup
	for i := range 50 {
		c := s.Raw()
		wg.Go(func() {
			for n := range 100 {
				v, err := c.Do("CL.WAIT", fmt.Sprint("key", i, ":", n%10), "RATE", "10000/s", "BURST", "1", "TIMEOUT", "1d")
				if !assert.NoError(t, err) || !assert.False(t, v.IsError(), "%v", v) {
					return
				}
			}
		})
	}
	wg.Wait()
	s.MustDo("SAVE")
	s.MustDo("BGSAVE")
	require.Eventually(t, func() bool { return s.InfoInt("persistence", "rdb_bgsave_in_progress") == 0 }, 60*time.Second, 5*time.Millisecond)
	assert.Equal(t, "ok", s.Info("persistence")["rdb_last_bgsave_status"])

	peak := addressSpace(t, s, "VmPeak")
	t.Logf("address space on %s: %d MiB without the module, %d MiB more with it; resident memory: %d MiB",
		s.Program, alone>>20, (peak-alone)>>20, addressSpace(t, s, "VmRSS")>>20)
	assert.Less(t, peak-alone, uint64(enoughAddressSpace))
}

// What is documented of less: the server ends, whose commands nobody has even loaded yet.
func TestTooLittleAddressSpaceEndsTheServer(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	limitAddressSpace(t, s, addressSpace(t, s, "VmSize")+512<<20)
	module, err := server.ModulePath()
	require.NoError(t, err)
	s.ExpectCrash()
	_, err = s.Raw().Do("MODULE", "LOAD", module)
	assert.Error(t, err, "the connection breaks")
	assert.False(t, s.AwaitEnd().Success())
}

// addressSpace is a figure of /proc/PID/status, in bytes.
func addressSpace(t *testing.T, s *server.Server, name string) uint64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^` + name + `:\s*(\d+) kB$`).FindSubmatch(status)
	require.NotNil(t, m, "%s in:\n%s", name, status)
	kib, err := strconv.ParseUint(string(m[1]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}

// limitAddressSpace does to a server that runs what ulimit -v does before it starts.
func limitAddressSpace(t *testing.T, s *server.Server, bytes uint64) {
	t.Helper()
	require.NoError(t, unix.Prlimit(s.Pid(), unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes}, nil))
}
