// Package migrating proves docs/migrating.md with a real redis-cell: each step of the move, the way
// back, and every difference in the replies. REDIS_CELL_SO is the path of its library, built from the source
// of a release. Without it these tests are skipped:
//
//	REDIS_CELL_SO=/path/to/libredis_cell.so go test -v ./tests/migrating
package migrating

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// patience bounds every wait for servers to agree. It is never waited out.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("REDIS_CELL_SO") == "" {
		fmt.Println("tests/migrating: REDIS_CELL_SO is not set, so nothing here is compared with redis-cell")
	}
	os.Exit(m.Run())
}

// begin lets a test run beside others, and skips it without redis-cell. The option it returns loads
// redis-cell in place of this module.
func begin(t *testing.T) server.Option {
	t.Helper()
	path := os.Getenv("REDIS_CELL_SO")
	if path == "" {
		t.Skip("REDIS_CELL_SO is not set: it is the path of redis-cell's library, libredis_cell.so")
	}
	t.Parallel()
	return server.Module(path)
}

// startUnder starts a server with redis-cell under a clock that the test sets. It skips the test where redis-cell does
// not go by that: Valkey, from 8.1 on, loads modules so that they find the C library's own functions first.
func startUnder(t *testing.T, wall *clock.Clock, nowNs int64, cell server.Option, opts ...server.Option) *server.Server {
	t.Helper()
	s := wall.Start(append([]server.Option{cell}, opts...)...)
	throttle(t, s, "clock", "0 1 1")
	tat, ok := tatOf(t, s.MustDo("GET", "clock"))
	if !ok || tat != uint64(nowNs+int64(time.Second)) {
		t.Skip("redis-cell goes by the kernel's clock on this server, not by the test's")
	}
	s.MustDo("DEL", "clock")
	return s
}

// ours loads this module where redis-cell was loaded before.
func ours(t *testing.T) server.Option {
	t.Helper()
	path, err := server.ModulePath()
	require.NoError(t, err)
	return server.Module(path)
}

// daily is 16 units, one more a day: what is left does not change while a test runs.
const daily = "15 1 86400"

// throttle sends CL.THROTTLE and returns the five integers.
func throttle(t *testing.T, s *server.Server, key, args string) []int64 {
	t.Helper()
	v := s.MustDo(call(key, args)...)
	ints, err := v.Ints()
	require.NoError(t, err)
	require.Len(t, ints, 5)
	return ints
}

// remaining is how many units a key of the daily limit has left. Asking takes none.
func remaining(t *testing.T, s *server.Server, key string) int64 {
	t.Helper()
	return throttle(t, s, key, daily+" 0")[2]
}

func call(key, args string) []string {
	return append([]string{"CL.THROTTLE", key}, strings.Fields(args)...)
}

// tatOf is the number that a key holds, and whether there is such a key.
func tatOf(t *testing.T, v resp.Value) (tat uint64, ok bool) {
	t.Helper()
	if v.IsNull {
		return 0, false
	}
	tat, err := strconv.ParseUint(v.Text, 10, 64)
	require.NoError(t, err, "%v is no theoretical arrival time", v)
	return tat, true
}
