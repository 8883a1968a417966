package lease

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

const (
	ms    = nsPerMs
	s     = 1000 * ms
	nowMs = 1_700_000_000_000
	nowNs = nowMs * ms
)

// What a caller is told is in spec/leases.txt and spec/lines.txt. These are what no transcript gets to.
func TestTake(t *testing.T) {
	for _, test := range []struct {
		name       string
		leases     Leases
		slots, ttl int64
		want       Result
	}{
		{"nobody holds a slot, and others are about to", Leases{NowNs: nowNs, Ahead: 2}, 2, s, Result{Limited: true, Slots: 2, RetryAfterNs: ms}},
		{"it lasts at least as long as it was asked for", Leases{NowNs: nowNs + 1}, 1, ms,
			Result{Slots: 1, RetryAfterNs: Never, LapsesAtMs: nowMs + 2, LeaseMs: 1}},
		{"more slots than can be counted", Leases{NowNs: nowNs, Held: 3, Ahead: 2}, math.MaxInt64, MaxTTLNs,
			Result{Slots: math.MaxInt64, Remaining: math.MaxInt64 - 6, RetryAfterNs: Never, LapsesAtMs: nowMs + MaxTTLNs/ms, LeaseMs: MaxTTLNs / ms}},
	} {
		assert.Equal(t, test.want, test.leases.Take(test.slots, test.ttl), test.name)
	}
}

func TestOnlyInstantsAreRead(t *testing.T) {
	last := float64(nowMs + FurthestMs)
	for _, score := range []float64{earliestMs, nowMs, nowMs + 1, last} {
		got, ok := Instant(score, nowNs)
		assert.True(t, ok, score)
		assert.Equal(t, int64(score), got)
	}
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1_700_000_000, earliestMs - 1, nowMs + 0.5, last + 1, 1.7e15, 1e300} {
		_, ok := Instant(score, nowNs)
		assert.False(t, ok, score)
	}
	_, ok := Instant(5000, 4000*ms)
	assert.True(t, ok, "a clock that was never set")
	_, ok = Instant(0, 4000*ms)
	assert.False(t, ok)
	_, ok = Instant(5000, earliestMs*ms-1)
	assert.True(t, ok, "the last instant of a clock that was never set")
	_, ok = Instant(5000, earliestMs*ms)
	assert.False(t, ok, "the first of one that was")
}

func TestNobodyHoldsALeaseBefore1970(t *testing.T) {
	assert.True(t, Leases{NowNs: -5 * ms}.Renew(s).Limited)
}

func TestADecisionDoesNotAllocate(t *testing.T) {
	l := Leases{NowNs: nowNs, Held: 1}
	var r Result
	assert.Zero(t, testing.AllocsPerRun(100, func() { r = l.Take(3, s) }))
	assert.Equal(t, int64(1), r.Remaining)
}
