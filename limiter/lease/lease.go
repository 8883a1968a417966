// Package lease decides how many may hold a slot at once. A lease is a slot held under an id until
// an instant: it ends when it is released, or by itself. The package decides about the leases of
// one key as of one instant. It is exact, has no clock and no I/O, and does not allocate.
//
// A lease lapses at a whole millisecond. At that instant it is over, for its holder and for
// everybody else, whether or not anybody calls then.
package lease

import "math"

const nsPerMs = 1_000_000

// MaxTTLNs is the longest time that a lease may last, 100 years.
const MaxTTLNs = 100 * 365 * 24 * 3600 * 1_000_000_000

// The instants at which a lease may lapse, in ms since the Unix epoch. A set of other numbers was
// not written by a lease: one with seconds, microseconds or scores of a game, for instance. An instant
// in September 2001 is the first that has 13 digits. The last is FurthestMs from now, twice MaxTTLNs, so that a
// clock that is set back leaves all leases valid.
const (
	earliestMs = 1_000_000_000_000
	FurthestMs = 2 * MaxTTLNs / nsPerMs
)

// Unknown stands for a number of slots that the call does not tell.
const Unknown = -1

// Never stands for a time after which a retry would succeed, when there is none.
const Never = -1

// Instant reads the score of a member as the instant in ms at which a lease lapses. ok is false
// when it is none: a fraction, infinite, or before or after any lease.
func Instant(score float64, nowNs int64) (ms int64, ok bool) {
	nowMs := nowNs / nsPerMs
	earliest := int64(earliestMs)
	if nowMs < earliest { // a clock that was never set
		earliest = 1
	}
	if !(score >= float64(earliest) && score <= float64(nowMs+FurthestMs)) || score != math.Trunc(score) {
		return 0, false
	}
	return int64(score), true
}

// Lapsed reports whether a lease that lapses at the instant ms is over at nowNs.
func Lapsed(ms, nowNs int64) bool { return ms <= nowNs/nsPerMs }

// Leases describes the leases of one key, as of NowNs.
type Leases struct {
	NowNs int64 // ns since the Unix epoch
	Held  int64 // how many have not lapsed
	// NextMs is the instant at which the first of them lapses; 0 when there is none.
	NextMs int64
	// OwnMs is the instant at which the caller's own lapses or lapsed; 0 when it has none.
	OwnMs int64
	// NextOtherMs and LastOtherMs are the instants at which the first of the others lapses, and the last; 0 when there
	// is none. They are for Until alone.
	NextOtherMs, LastOtherMs int64
	// Ahead is the number of callers that wait for a slot and get one before the caller. None of them is overtaken.
	// Behind is the number of those that get one after it.
	Ahead, Behind int64
}

// Result is what becomes of a call.
type Result struct {
	Limited bool
	// Renewed says that the caller held its slot before.
	Renewed bool
	// Slots is how many there are, and Remaining how many nobody holds or waits for after the call;
	// both are Unknown of a renewal.
	Slots, Remaining int64
	// RetryAfterNs is the time until the first lease lapses if nobody releases; Never when the
	// call is not limited, or when no retry helps.
	RetryAfterNs int64
	// LapsesAtMs is the instant at which the lease lapses, and LeaseMs the time until then,
	// rounded down; 0 when the call is limited.
	LapsesAtMs, LeaseMs int64
}

// Take takes one of slots leases for ttlNs, or renews the caller's own. A caller that renews is
// never limited: also when there are fewer slots than before, nobody is evicted.
func (l Leases) Take(slots, ttlNs int64) Result {
	free := l.free(slots)
	if l.Holds() {
		return l.grant(Result{Renewed: true, Slots: slots, Remaining: max(free-l.Behind, 0)}, ttlNs)
	}
	if free > 0 {
		return l.grant(Result{Slots: slots, Remaining: max(free-1-l.Behind, 0)}, ttlNs)
	}
	return l.Limited(slots)
}

// Limited is the result of a call that is not let in. If slots remain all the same, it may retry at
// once. If nobody holds a slot and the callers in line need all, they are about to get them: it may
// retry soon. Without slots no wait helps.
func (l Leases) Limited(slots int64) Result {
	r := Result{Limited: true, Slots: slots, Remaining: l.free(slots)}
	switch {
	case slots == 0:
		r.RetryAfterNs = Never
	case r.Remaining == 0 && l.NextMs == 0:
		r.RetryAfterNs = nsPerMs
	case r.Remaining == 0:
		r.RetryAfterNs = l.UntilNextNs()
	}
	return r
}

// Renew prolongs the caller's lease: it lasts for ttlNs from now. One that has lapsed stays lapsed, since
// its slot may be somebody else's.
func (l Leases) Renew(ttlNs int64) Result {
	if l.Holds() {
		return l.grant(Result{Renewed: true, Slots: Unknown, Remaining: Unknown}, ttlNs)
	}
	return Result{Limited: true, Slots: Unknown, Remaining: Unknown, RetryAfterNs: Never}
}

// UntilNextNs is the time until the first lease lapses; 0 when there is none.
func (l Leases) UntilNextNs() int64 { return max(l.NextMs*nsPerMs-l.NowNs, 0) }

// Until tells, after a call with result r, the time until the next lease lapses and until all have lapsed, if nobody
// renews or releases any; 0 when there is none.
func (l Leases) Until(r Result) (nextNs, allNs int64) {
	ownMs := r.LapsesAtMs
	if r.Limited && l.Holds() {
		ownMs = l.OwnMs
	}
	nextMs, lastMs := l.NextOtherMs, max(l.LastOtherMs, ownMs)
	if nextMs == 0 || ownMs > 0 && ownMs < nextMs {
		nextMs = ownMs
	}
	return max(nextMs*nsPerMs-l.NowNs, 0), max(lastMs*nsPerMs-l.NowNs, 0)
}

// Holds reports whether the caller has a lease that has not lapsed.
func (l Leases) Holds() bool { return l.OwnMs > 0 && !Lapsed(l.OwnMs, l.NowNs) }

// free returns how many of slots nobody holds or gets before the caller.
func (l Leases) free(slots int64) int64 { return max(slots-l.Held-l.Ahead, 0) }

// grant completes r by when the lease lapses: never before ttlNs are over.
func (l Leases) grant(r Result, ttlNs int64) Result {
	r.RetryAfterNs = Never
	r.LapsesAtMs = (l.NowNs + ttlNs + nsPerMs - 1) / nsPerMs
	r.LeaseMs = (r.LapsesAtMs*nsPerMs - l.NowNs) / nsPerMs
	return r
}
