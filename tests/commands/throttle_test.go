package commands_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A run depends on the clock as well, so one that was saved would repeat nothing.
func init() { _ = flag.Set("rapid.nofailfile", "true") }

// Random limits and random calls, each judged by the oracle. Keys live on between
// runs, so that limits also meet a TAT which another limit left behind.
func TestEveryAnswerIsWhatTheLimitDemands(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	rapid.Check(t, func(r *rapid.T) {
		// The spread is even over the orders of magnitude, where uniform draws would
		// only ever be large.
		magnitude := func(label string, high int) int64 {
			digits := rapid.IntRange(0, high).Draw(r, label+" digits")
			n := int64(rapid.IntRange(0, 9).Draw(r, label))
			for range digits {
				n *= 10
			}
			return n
		}
		maxBurst := magnitude("max_burst", 5)
		count := magnitude("count", 5) + 1
		period := time.Duration(magnitude("period", 7)+1) * time.Millisecond
		if int64(period) < count || int64(period)/count > 1<<62/(maxBurst+1) {
			r.Skip("more than 10^9 per second, or too many years for the oracle")
		}
		l := kit.LimitOf(maxBurst, count, period)
		key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "key")
		for range rapid.IntRange(1, 5).Draw(r, "rounds") {
			quantity := rapid.OneOf(rapid.Int64Range(0, 2), rapid.Int64Range(0, maxBurst+2)).Draw(r, "quantity")
			calls := rapid.IntRange(1, 20).Draw(r, "calls")
			args := strings.Join([]string{fmt.Sprint(maxBurst), fmt.Sprint(count),
				fmt.Sprintf("%dms", period.Milliseconds()), fmt.Sprint(quantity)}, " ")
			for _, p := range kit.Probes(r, c, calls, key, args) {
				l.Judge(r, p, quantity)
			}
		}
	})
}
