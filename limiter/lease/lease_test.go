package lease

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const (
	ms    = nsPerMs
	s     = 1000 * ms
	nowMs = 1_700_000_000_000
	nowNs = nowMs * ms
)

func TestTake(t *testing.T) {
	for _, test := range []struct {
		name       string
		leases     Leases
		slots, ttl int64
		want       Result
	}{
		{"the first of two", Leases{NowNs: nowNs}, 2, 30 * s,
			Result{Slots: 2, Remaining: 1, RetryAfterNs: Never, LapsesAtMs: nowMs + 30_000, LeaseMs: 30_000}},
		{"the last of two", Leases{NowNs: nowNs, Held: 1, NextMs: nowMs + 5}, 2, s,
			Result{Slots: 2, Remaining: 0, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"one too many", Leases{NowNs: nowNs + 1, Held: 2, NextMs: nowMs + 5}, 2, s,
			Result{Limited: true, Slots: 2, RetryAfterNs: 5*ms - 1}},
		{"the holder again", Leases{NowNs: nowNs, Held: 2, NextMs: nowMs + 5, OwnMs: nowMs + 5}, 2, s,
			Result{Renewed: true, Slots: 2, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"a holder whose lease is over now", Leases{NowNs: nowNs, Held: 2, NextMs: nowMs + 5, OwnMs: nowMs}, 2, s,
			Result{Limited: true, Slots: 2, RetryAfterNs: 5 * ms}},
		{"a holder whose lease is over a moment later", Leases{NowNs: nowNs - 1, Held: 3, NextMs: nowMs, OwnMs: nowMs}, 2, s,
			Result{Renewed: true, Slots: 2, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"fewer slots than holders", Leases{NowNs: nowNs, Held: 5, NextMs: nowMs + 1}, 3, s,
			Result{Limited: true, Slots: 3, RetryAfterNs: ms}},
		{"no slots", Leases{NowNs: nowNs}, 0, s, Result{Limited: true, RetryAfterNs: Never}},
		{"no slots, though some are held", Leases{NowNs: nowNs, Held: 2, NextMs: nowMs + 9}, 0, s, Result{Limited: true, RetryAfterNs: Never}},
		{"no slots, but a lease", Leases{NowNs: nowNs, Held: 1, NextMs: nowMs + 9, OwnMs: nowMs + 9}, 0, s,
			Result{Renewed: true, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"nobody holds a slot, and others are about to", Leases{NowNs: nowNs, Ahead: 2}, 2, s, Result{Limited: true, Slots: 2, RetryAfterNs: ms}},
		{"a slot is free, and somebody waits for it", Leases{NowNs: nowNs, Held: 1, NextMs: nowMs + 9, Ahead: 1}, 2, s,
			Result{Limited: true, Slots: 2, RetryAfterNs: 9 * ms}},
		{"two are free, and one waits", Leases{NowNs: nowNs, Ahead: 1}, 2, s,
			Result{Slots: 2, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"the next slots are for those behind", Leases{NowNs: nowNs, Behind: 2}, 4, s,
			Result{Slots: 4, Remaining: 1, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"more wait behind than slots are left", Leases{NowNs: nowNs, Behind: 9}, 4, s,
			Result{Slots: 4, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"a holder, and those behind", Leases{NowNs: nowNs, Held: 1, NextMs: nowMs + 5, OwnMs: nowMs + 5, Behind: 2}, 4, s,
			Result{Renewed: true, Slots: 4, Remaining: 1, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}},
		{"it lasts at least as long as it was asked for", Leases{NowNs: nowNs + 1}, 1, 1,
			Result{Slots: 1, RetryAfterNs: Never, LapsesAtMs: nowMs + 1}},
		{"and is rounded up to a whole millisecond", Leases{NowNs: nowNs + 1}, 1, ms,
			Result{Slots: 1, RetryAfterNs: Never, LapsesAtMs: nowMs + 2, LeaseMs: 1}},
		{"more slots than can be counted", Leases{NowNs: nowNs, Held: 3, Ahead: 2}, math.MaxInt64, MaxTTLNs,
			Result{Slots: math.MaxInt64, Remaining: math.MaxInt64 - 6, RetryAfterNs: Never, LapsesAtMs: nowMs + MaxTTLNs/ms, LeaseMs: MaxTTLNs / ms}},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, test.leases.Take(test.slots, test.ttl)) })
	}
}

func TestRenew(t *testing.T) {
	granted := Result{Renewed: true, Slots: Unknown, Remaining: Unknown, RetryAfterNs: Never, LapsesAtMs: nowMs + 1000, LeaseMs: 1000}
	lost := Result{Limited: true, Slots: Unknown, Remaining: Unknown, RetryAfterNs: Never}
	assert.Equal(t, granted, Leases{NowNs: nowNs, Held: 1, OwnMs: nowMs + 1}.Renew(s))
	assert.Equal(t, granted, Leases{NowNs: nowNs, Held: 9, OwnMs: nowMs + 9000, Ahead: 3}.Renew(s), "also for less than is left")
	assert.Equal(t, lost, Leases{NowNs: nowNs}.Renew(s), "never held")
	assert.Equal(t, lost, Leases{NowNs: nowNs, OwnMs: nowMs}.Renew(s), "over at this instant")
	assert.Equal(t, lost, Leases{NowNs: nowNs, OwnMs: nowMs - 1}.Renew(s), "a lapsed lease is not revived")
}

func TestUntilTheNextAndTheLastLapse(t *testing.T) {
	granted := func(atMs int64) Result { return Result{LapsesAtMs: atMs} }
	limited := Result{Limited: true}
	for _, test := range []struct {
		name              string
		leases            Leases
		result            Result
		wantNext, wantAll int64
	}{
		{"nobody holds one", Leases{}, limited, 0, 0},
		{"only the caller", Leases{}, granted(nowMs + 5), 5 * ms, 5 * ms},
		{"the caller first", Leases{NextOtherMs: nowMs + 6, LastOtherMs: nowMs + 9}, granted(nowMs + 5), 5 * ms, 9 * ms},
		{"the caller in between", Leases{NextOtherMs: nowMs + 5, LastOtherMs: nowMs + 9}, granted(nowMs + 6), 5 * ms, 9 * ms},
		{"the caller last", Leases{NextOtherMs: nowMs + 5, LastOtherMs: nowMs + 6}, granted(nowMs + 9), 5 * ms, 9 * ms},
		{"others alone", Leases{NextOtherMs: nowMs + 5, LastOtherMs: nowMs + 9}, limited, 5 * ms, 9 * ms},
		{"the caller keeps the lease that it had", Leases{OwnMs: nowMs + 3, NextOtherMs: nowMs + 5, LastOtherMs: nowMs + 9}, limited, 3 * ms, 9 * ms},
		{"the caller's has lapsed", Leases{OwnMs: nowMs, NextOtherMs: nowMs + 5, LastOtherMs: nowMs + 9}, limited, 5 * ms, 9 * ms},
		{"a new lease takes the place of the old one", Leases{OwnMs: nowMs + 3, NextOtherMs: nowMs + 5, LastOtherMs: nowMs + 6}, granted(nowMs + 9), 5 * ms, 9 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.leases.NowNs = nowNs
			next, all := test.leases.Until(test.result)
			assert.Equal(t, []int64{test.wantNext, test.wantAll}, []int64{next, all})
			test.leases.NowNs = nowNs + 1
			next, all = test.leases.Until(test.result)
			assert.Equal(t, []int64{max(test.wantNext-1, 0), max(test.wantAll-1, 0)}, []int64{next, all}, "a moment later")
		})
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

// Replies show them, and the documentation says so.
func TestConstants(t *testing.T) {
	assert.Equal(t, 100*365*24*time.Hour, time.Duration(MaxTTLNs))
	assert.Equal(t, -1, Unknown)
	assert.Equal(t, -1, Never)
}

func TestADecisionDoesNotAllocate(t *testing.T) {
	l := Leases{NowNs: nowNs, Held: 1}
	var r Result
	assert.Zero(t, testing.AllocsPerRun(100, func() { r = l.Take(3, s) }))
	assert.Equal(t, int64(1), r.Remaining)
}
