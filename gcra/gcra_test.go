// What tests of this package share, and the ends of time. The rules themselves are in spec/rate.txt and
// spec/throttle.txt.
package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
)

// start is when examples begin.
var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// bucket is what a caller of the package keeps: a limit and one stored number.
type bucket struct {
	limit gcra.Limit
	tat   uint64
}

// take is TakeTo with a return value.
func take(limit gcra.Limit, tat uint64, nowNs, quantity int64) (d gcra.Decision) {
	limit.TakeTo(&d, tat, nowNs, quantity)
	return d
}

// tolerance is the time in which an empty bucket of this limit fills, in ns; emission the one in which a
// unit comes back.
func tolerance(limit gcra.Limit) int64 {
	return math.MaxInt64 - (&gcra.Bucket{Limit: limit}).LongestWait()
}

func emission(limit gcra.Limit) int64 { return tolerance(limit) / limit.Capacity() }

func resetAfter(b *gcra.Bucket, nowNs int64) int64 {
	_, _, ns, _ := b.Standing(nowNs)
	return ns
}

func nextAfter(b *gcra.Bucket, nowNs int64) int64 {
	_, _, _, ns := b.Standing(nowNs)
	return ns
}

func (b *bucket) take(nowNs, quantity int64) gcra.Decision {
	d := take(b.limit, b.tat, nowNs, quantity)
	if d.Changed {
		b.tat = d.TAT
	}
	return d
}

// throttle is a limit in the words of CL.THROTTLE: max_burst, count, period in seconds.
func throttle(t testing.TB, maxBurst, count, seconds int64) gcra.Limit {
	t.Helper()
	limit, err := gcra.New(maxBurst+1, count, seconds, time.Second)
	require.NoError(t, err)
	return limit
}
