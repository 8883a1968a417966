package commands_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
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
			l := kit.LimitOf(tc.maxBurst, tc.count, tc.period)
			var all []kit.Probe
			limited := false
			for begin := time.Now(); time.Since(begin) < 500*time.Millisecond || !limited; {
				require.Less(t, time.Since(begin), time.Minute, "the limit is never reached")
				for _, p := range kit.Probes(t, c, 50, "key", tc.args) {
					all = append(all, p)
					limited = limited || p.Limited == 1
				}
			}
			first := all[0]
			var admitted, denied, lost, tat int64
			for i, p := range all {
				l.Judge(t, p, tc.quantity)
				if i > 0 {
					lost += max(p.To-tat, 0)
				}
				tat = max(tat, p.TATAfter)
				if p.Limited == 0 {
					admitted += tc.quantity
					most := l.Capacity + tc.count*(p.To-first.From)/int64(tc.period)
					require.LessOrEqual(t, admitted, most, "more than burst + 1 + rate * t")
					continue
				}
				denied++
				least := (p.From - first.To - lost + l.Tolerance) / l.Emission
				require.Greater(t, admitted+tc.quantity, least-1, "denied what the rate allows")
			}
			elapsed := time.Duration(all[len(all)-1].To - first.From)
			t.Logf("%d units admitted and %d calls denied in %v", admitted, denied, elapsed)
		})
	}
}

// On a busy machine a key may expire before it is read, but none does before its TAT.
func TestAKeyThatExpiredBeforeItWasReadIsNoFault(t *testing.T) {
	l := kit.LimitOf(6000, 6000, time.Second)
	for _, tc := range []struct {
		late    time.Duration
		mayLack bool
	}{{100 * time.Microsecond, false}, {187 * time.Millisecond, true}} {
		now := time.Now().UnixNano()
		p := l.Decide(0, now, 1)
		p.From, p.To, p.TATAfter = now, now+int64(tc.late), 0
		var judged fault
		func() {
			defer func() { _ = recover() }()
			l.Judge(&judged, p, 1)
		}()
		require.Equal(t, tc.mayLack, !judged.found, "%v later", tc.late)
	}
}

// fault is a test that only notes that it failed.
type fault struct{ found bool }

func (f *fault) Errorf(string, ...any) { f.found = true }
func (f *fault) FailNow()              { panic("failed") }
func (f *fault) Helper()               {}
