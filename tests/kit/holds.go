package kit

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/spec"
	"redis-throttle/tests/server"
)

// Holds is what a key of a server holds at an instant, as a transcript says it.
func Holds(t testing.TB, s *server.Server, now time.Time, key string) string {
	t.Helper()
	value := ""
	var leases []spec.Lease
	switch s.MustDo("TYPE", key).Text {
	case "none":
		return spec.Nothing
	case "string":
		value = s.MustDo("GET", key).Text
	default:
		members := s.MustDo("ZRANGE", key, "0", "-1", "WITHSCORES").Elems
		for i := 0; i+1 < len(members); i += 2 {
			ms, err := strconv.ParseFloat(members[i+1].Text, 64)
			require.NoError(t, err)
			leases = append(leases, spec.Lease{ID: members[i].Text, LapsesMs: int64(ms)})
		}
	}
	return spec.Holding(now, value, leases, max(s.MustDo("PEXPIRETIME", key).Int, 0))
}
