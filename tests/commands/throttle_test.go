package commands_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// The server's own INCRBY says what a number is.
func TestNumbersAreWrittenAsForTheServersOwnCommands(t *testing.T) {
	server.NeedsServer(t, `numbers such as "01" that it refuses`)
	t.Parallel()
	s := server.Start(t)
	taken := 0
	for _, word := range []string{"0", "1", "10", "100", "01", "00", "+1", "+0", "-0", "-01", "1.0", "1e1", " 1", "1 ", "", "+", "-", "--1", "0x1",
		"9223372036854775807", "9223372036854775808", "+9223372036854775807", "09223372036854775807"} {
		s.MustDo("SET", "number", "0")
		isNumber := !s.Do("INCRBY", "number", word).IsError()
		if isNumber {
			taken++
		}
		for _, call := range [][]string{
			{"CL.THROTTLE", "key:throttle", "15", "30", "60", word},
			{"CL.LIMIT", "key:limit", "RATE", "5/s", "COST", word},
			{"CL.WAIT", "key:wait", "RATE", "5/s", "COST", word, "TIMEOUT", "1ms"},
		} {
			assert.Equal(t, isNumber, !s.Do(call...).IsError(), "%q in %s", word, call[0])
		}
	}
	assert.Equal(t, 5, taken)
}

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
