package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// Hammering a key for a while, as fast as one connection can. Each answer is judged
// by itself, and the sum by what a rate limit is for. Over any time t there are no more than
// burst + 1 + rate * t units, and no fewer except for what a full bucket could not take.
func TestHighRatesAreKept(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args            string
		maxBurst, count int64
		period          time.Duration
		quantity        int64
	}{
		{"0 2000 1", 0, 2000, time.Second, 1},
		{"6000 6000 1 20", 6000, 6000, time.Second, 20}, // a busy machine reaches a limit of hundreds of calls a second
		{"10 2000000 1 11", 10, 2_000_000, time.Second, 11},
		{"1000000 1000000 1 10000", 1_000_000, 1_000_000, time.Second, 10_000},
		{"99 1000 500ms 5", 99, 1000, 500 * time.Millisecond, 5},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			c := s.Raw()
			if s.Program.IsDev() && tc.count == 2_000_000 { // it may be too slow to be limited
				tc.args, tc.count = "10 200000 1 11", 200_000
			}
			l := limitOf(tc.maxBurst, tc.count, tc.period)
			var all []probe
			limited := false
			for begin := time.Now(); time.Since(begin) < 500*time.Millisecond || !limited; {
				require.Less(t, time.Since(begin), time.Minute, "the limit is never reached")
				for _, p := range probes(t, c, 50, "key", tc.args) {
					all = append(all, p)
					limited = limited || p.Limited == 1
				}
			}
			first := all[0]
			var admitted, denied, lost, tat int64
			for i, p := range all {
				l.judge(t, p, tc.quantity)
				if i > 0 {
					lost += max(p.to-tat, 0)
				}
				tat = max(tat, p.tatAfter)
				if p.Limited == 0 {
					admitted += tc.quantity
					most := l.capacity + tc.count*(p.to-first.from)/int64(tc.period)
					require.LessOrEqual(t, admitted, most, "more than burst + 1 + rate * t")
					continue
				}
				denied++
				least := (p.from - first.to - lost + l.tolerance) / l.emission
				require.Greater(t, admitted+tc.quantity, least-1, "denied what the rate allows")
			}
			elapsed := time.Duration(all[len(all)-1].to - first.from)
			t.Logf("%d units admitted and %d calls denied in %v", admitted, denied, elapsed)
		})
	}
}

// On a busy machine a key may expire before it is read, but none does before its TAT.
func TestAKeyThatExpiredBeforeItWasReadIsNoFault(t *testing.T) {
	l := limitOf(6000, 6000, time.Second)
	for _, tc := range []struct {
		late    time.Duration
		mayLack bool
	}{{100 * time.Microsecond, false}, {187 * time.Millisecond, true}} {
		now := time.Now().UnixNano()
		p := l.decide(0, now, 1)
		p.from, p.to, p.tatAfter = now, now+int64(tc.late), 0
		var judged fault
		func() {
			defer func() { _ = recover() }()
			l.judge(&judged, p, 1)
		}()
		require.Equal(t, tc.mayLack, !judged.found, "%v later", tc.late)
	}
}

// fault is a test that only notes that it failed.
type fault struct{ found bool }

func (f *fault) Errorf(string, ...any) { f.found = true }
func (f *fault) FailNow()              { panic("failed") }
func (f *fault) Helper()               {}

// A transaction is one instant on servers that have a clock for it, so that even two
// units a microsecond, more than calls can come, are counted exactly.
func TestTwoMillionPerSecondInOneInstant(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 2) {
		t.Skip("modules see the clock run on inside a transaction before Redis 7.2")
	}
	commands := [][]string{{"MULTI"}}
	for range 20 {
		commands = append(commands, rawCallOf("key", "10 2000000 1"))
	}
	replies, err := s.Raw().Pipeline(append(commands, []string{"EXEC"})...)
	require.NoError(t, err)
	answers := replies[len(replies)-1].Elems
	require.Len(t, answers, 20)
	for i, v := range answers {
		a, err := answerIn(v)
		require.NoError(t, err)
		want := answer{Limited: 0, Limit: 11, Remaining: 10 - int64(i), RetryAfter: -1, ResetAfter: 1}
		if i >= 11 {
			want = answer{Limited: 1, Limit: 11, Remaining: 0, RetryAfter: 1, ResetAfter: 1}
		}
		assert.Equal(t, want, a, "call %d", i+1)
	}
}

// A bandwidth limit of 1 MiB per second counted in bytes, asked for 64 KiB a time.
func TestBandwidthLimitInBytes(t *testing.T) {
	t.Parallel()
	const args = "1048575 1048576 1 65536"
	l := limitOf(1048575, 1048576, time.Second)
	c := server.Start(t).Raw()
	for attempt := range 100 {
		key := fmt.Sprint("bytes", attempt)
		ps := probes(t, c, 17, key, args)
		for _, p := range ps {
			l.judge(t, p, 65536)
		}
		if ps[16].to-ps[0].from >= 65536*l.emission {
			continue // the first 64 KiB are back already: no burst on this machine
		}
		for i, p := range ps[:16] {
			assert.EqualValues(t, 0, p.Limited, "call %d", i+1)
		}
		assert.EqualValues(t, 1, ps[16].Limited, "call 17")
		assert.EqualValues(t, 1, ps[16].RetryAfter, "62.5 ms, rounded up")

		// It waits, and is let through when its 64 KiB are back, not before.
		var again probe
		require.Eventually(t, func() bool {
			again = probes(t, c, 1, key, args)[0]
			l.judge(t, again, 65536)
			return again.Limited == 0
		}, 30*time.Second, time.Millisecond)
		assert.GreaterOrEqual(t, again.to, ps[0].from+65536*l.emission)
		return
	}
	require.Fail(t, "no burst of 17 calls within 62 ms")
}
