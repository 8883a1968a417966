// The rules of a limit, as tables of calls under a fake clock.
package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
)

// start is the fake clock's reading at the top of every table.
var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixNano()

const never = time.Duration(gcra.Never)

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

// setBacklog makes the bucket one that is full in backlog ns from nowNs.
func setBacklog(b *gcra.Bucket, nowNs, backlog int64) {
	b.Restore(gcra.State{TAT: uint64(nowNs) + uint64(backlog)}, nowNs)
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

// answer is a Decision without its TAT, in durations.
type answer struct {
	Allowed, Changed  bool
	Remaining         int64
	RetryAfter, Reset time.Duration
}

func allowed(remaining int64, reset time.Duration) answer {
	return answer{true, true, remaining, never, reset}
}

func peeked(remaining int64, reset time.Duration) answer {
	return answer{true, false, remaining, never, reset}
}

func denied(remaining int64, retry, reset time.Duration) answer {
	return answer{false, false, remaining, retry, reset}
}

func deniedAndCorrected(retry, reset time.Duration) answer {
	return answer{false, true, 0, retry, reset}
}

// call is one row: at that long after start, a quantity is asked for that many
// times; the last answer is want, and the ones before have the same Allowed.
type call struct {
	at       time.Duration
	times    int
	quantity int64
	want     answer
}

func (b *bucket) run(t *testing.T, calls []call) {
	t.Helper()
	for i, c := range calls {
		nowNs := start + int64(c.at)
		for n := 1; n <= c.times; n++ {
			d := b.take(nowNs, c.quantity)
			require.Equal(t, c.want.Allowed, d.Allowed, "row %d, call %d of %d", i, n, c.times)
			if d.Changed {
				require.Equal(t, uint64(nowNs+d.ResetAfter), d.TAT, "row %d: TAT is the instant of the reset", i)
			}
			if n == c.times {
				require.Equal(t, c.want, answer{d.Allowed, d.Changed, d.Remaining,
					time.Duration(d.RetryAfter), time.Duration(d.ResetAfter)}, "row %d", i)
			}
		}
	}
}

func TestTake(t *testing.T) {
	const (
		ns = time.Nanosecond
		us = time.Microsecond
		ms = time.Millisecond
		s  = time.Second
	)
	for _, tt := range []struct {
		rule                     string
		maxBurst, count, seconds int64
		calls                    []call
	}{
		{"redis-cell's example: 16 at once, then one every 2 s", 15, 30, 60, []call{
			{0, 1, 1, allowed(15, 2*s)},
			{0, 15, 1, allowed(0, 32*s)},
			{0, 1, 1, denied(0, 2*s, 32*s)},
			{2*s - ns, 1, 1, denied(0, ns, 30*s+ns)},
			{2 * s, 1, 1, allowed(0, 32*s)},
			{34 * s, 1, 0, peeked(16, 0)},
		}},
		{"a bucket never holds more than its capacity, however long it rests", 2, 1, 1, []call{
			{0, 3, 1, allowed(0, 3*s)},
			{1000000 * s, 3, 1, allowed(0, 3*s)},
			{1000000 * s, 1, 1, denied(0, 1*s, 3*s)},
		}},
		{"a quantity is charged whole or not at all", 9, 1, 1, []call{
			{0, 1, 7, allowed(3, 7*s)},
			{0, 1, 4, denied(3, 1*s, 7*s)},
			{0, 1, 3, allowed(0, 10*s)},
		}},
		{"a quantity of 0 peeks: it is always allowed and changes nothing", 1, 1, 1, []call{
			{0, 3, 0, peeked(2, 0)},
			{0, 2, 1, allowed(0, 2*s)},
			{0, 3, 0, peeked(0, 2*s)},
			{0, 1, 1, denied(0, 1*s, 2*s)},
		}},
		{"more than a full bucket holds can never be allowed", 4, 1, 1, []call{
			{0, 1, 6, denied(5, never, 0)},
			{0, 1, math.MaxInt64, denied(5, never, 0)},
			{0, 1, 5, allowed(0, 5*s)},
			{0, 1, 6, denied(0, never, 5*s)},
		}},
		{"a denied call costs nothing, however often it is repeated", 0, 1, 1, []call{
			{0, 1, 1, allowed(0, 1*s)},
			{500 * ms, 1000, 1, denied(0, 500*ms, 500*ms)},
			{1 * s, 1, 1, allowed(0, 1*s)},
		}},
		{"remaining counts whole units only", 1, 1, 1, []call{
			{0, 2, 1, allowed(0, 2*s)},
			{1*s - ns, 1, 0, peeked(0, 1*s+ns)},
			{1 * s, 1, 0, peeked(1, 1*s)},
			{2*s - ns, 1, 0, peeked(1, ns)},
			{2 * s, 1, 0, peeked(2, 0)},
		}},
		{"high rate, no burst: 2000/s", 0, 2000, 1, []call{
			{0, 1, 1, allowed(0, 500*us)},
			{0, 1, 1, denied(0, 500*us, 500*us)},
			{500*us - ns, 1, 1, denied(0, ns, ns)},
			{500 * us, 1, 1, allowed(0, 500*us)},
		}},
		{"high rate, wide burst: 6000/s, one every 166,667 ns", 6000, 6000, 1, []call{
			{0, 1, 1, allowed(6000, 166667*ns)},
			{0, 6000, 1, allowed(0, 6001*166667*ns)},
			{0, 1, 1, denied(0, 166667*ns, 6001*166667*ns)},
			{166667 * ns, 1, 1, allowed(0, 6001*166667*ns)},
		}},
		{"higher rate, narrow burst: 2,000,000/s, one every 500 ns", 10, 2000000, 1, []call{
			{0, 11, 1, allowed(0, 5500*ns)},
			{0, 1, 1, denied(0, 500*ns, 5500*ns)},
			{499 * ns, 1, 1, denied(0, ns, 5001*ns)},
			{500 * ns, 1, 1, allowed(0, 5500*ns)},
			{6 * us, 1, 0, peeked(11, 0)},
		}},
		{"the highest rate: one every nanosecond", 0, 1000000000, 1, []call{
			{0, 1, 1, allowed(0, ns)},
			{0, 1, 1, denied(0, ns, ns)},
			{ns, 1, 1, allowed(0, ns)},
		}},
		{"bandwidth, 1 MiB/s in packets of 64 KiB: 16, then one every 65536 x 954 ns", 1048575, 1048576, 1, []call{
			{0, 1, 65536, allowed(15*65536, 65536*954*ns)},
			{0, 15, 65536, allowed(0, 1048576*954*ns)},
			{0, 1, 65536, denied(0, 65536*954*ns, 1048576*954*ns)},
			{65536*954*ns - ns, 1, 65536, denied(65535, ns, 983040*954*ns+ns)},
			{65536 * 954 * ns, 1, 65536, allowed(0, 1048576*954*ns)},
		}},
		{"a clock that goes back finds fewer units, and no fewer than none", 1, 1, 1, []call{
			{10 * s, 1, 1, allowed(1, 1*s)},
			{9 * s, 1, 1, denied(0, 1*s, 2*s)},
			{8 * s, 1, 0, peeked(0, 2*s)},
		}},
		{"a clock set back heals: the first denied call starts the refill", 1, 1, 1, []call{
			{3600 * s, 1, 1, allowed(1, 1*s)},
			{0, 1, 0, peeked(0, 2*s)},
			{0, 1, 1, deniedAndCorrected(1*s, 2*s)},
			{0, 1, 1, denied(0, 1*s, 2*s)},
			{1 * s, 1, 1, allowed(0, 2*s)},
			{4 * s, 1, 0, peeked(2, 0)},
		}},
		{"a request beyond the capacity heals too", 1, 1, 1, []call{
			{3600 * s, 1, 1, allowed(1, 1*s)},
			{0, 1, 3, deniedAndCorrected(never, 2*s)},
			{2 * s, 1, 0, peeked(2, 0)},
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			b := &bucket{limit: throttle(t, tt.maxBurst, tt.count, tt.seconds)}
			b.run(t, tt.calls)
		})
	}
}

func TestRaisingTheRateLocksNobodyOut(t *testing.T) {
	b := &bucket{limit: throttle(t, 0, 1, 3600)}
	b.run(t, []call{{0, 1, 1, allowed(0, time.Hour)}})

	b.limit = throttle(t, 1, 1, 1)
	b.run(t, []call{
		{0, 1, 0, peeked(0, 2*time.Second)},
		{0, 1, 1, deniedAndCorrected(time.Second, 2*time.Second)},
		{time.Second, 1, 1, allowed(0, 2*time.Second)},
	})
}

func TestLoweringTheRateKeepsTheTimeUntilFull(t *testing.T) {
	b := &bucket{limit: throttle(t, 9, 10, 1)}
	b.run(t, []call{{0, 10, 1, allowed(0, time.Second)}})

	b.limit = throttle(t, 9, 1, 1)
	b.run(t, []call{{0, 1, 0, peeked(9, time.Second)}})
}

func TestRaisingTheBurstAddsRoomAtOnce(t *testing.T) {
	b := &bucket{limit: throttle(t, 0, 1, 1)}
	b.run(t, []call{{0, 1, 1, allowed(0, time.Second)}})

	b.limit = throttle(t, 4, 1, 1)
	b.run(t, []call{{0, 1, 0, peeked(4, time.Second)}})
}

func TestATATOneNanosecondOutOfReachIsCorrected(t *testing.T) {
	limit := throttle(t, 1, 1, 1)
	reach := uint64(start + tolerance(limit))

	d := take(limit, reach, start, 1)
	assert.False(t, d.Changed, "the burst tolerance itself is an empty bucket")

	corrected := take(limit, reach+1, start, 1)
	assert.True(t, corrected.Changed)
	assert.Equal(t, reach, corrected.TAT)
	assert.Equal(t, d.RetryAfter, corrected.RetryAfter)
}

func TestTheFarthestTAT(t *testing.T) {
	limit := throttle(t, 0, 1, 1)
	for _, nowNs := range []int64{0, start, math.MaxInt64} {
		assert.Equal(t, gcra.Decision{Changed: true, TAT: uint64(nowNs) + 1e9, RetryAfter: 1e9, ResetAfter: 1e9},
			take(limit, math.MaxUint64, nowNs, 1))
	}
}

// now and the tolerance are below 2^63 each; their sum needs the 64th bit.
func TestATATBeyond63Bits(t *testing.T) {
	const widest = math.MaxInt64
	limit, err := gcra.New(1, 1, widest, 1)
	require.NoError(t, err)
	b := &bucket{limit: limit}

	require.Equal(t, gcra.Decision{Allowed: true, Changed: true, TAT: 2 * widest, RetryAfter: gcra.Never, ResetAfter: widest},
		b.take(widest, 1))
	d := b.take(widest, 1)
	assert.False(t, d.Allowed)
	assert.False(t, d.Changed)
	assert.Equal(t, int64(widest), d.RetryAfter)
}

func TestANewBucketIsFullAtTheEpoch(t *testing.T) {
	b := &bucket{limit: throttle(t, 0, 1, 1)}
	assert.True(t, b.take(0, 1).Allowed)
	assert.False(t, b.take(0, 1).Allowed)
}

func TestOnlyABucketThatHoldsThemHasUnits(t *testing.T) {
	limit := throttle(t, 9, 2, 1)
	for _, tt := range []struct {
		quantity, backlog int64
		fits              bool
	}{
		{0, 0, true},
		{1, 5e8, true},
		{10, 50e8, true},
		{11, 0, false},
		{math.MaxInt64, 0, false},
	} {
		d := take(limit, 0, start, tt.quantity)
		assert.Equal(t, tt.fits, d.Allowed, "quantity %d", tt.quantity)
		assert.Equal(t, tt.backlog, d.ResetAfter, "quantity %d", tt.quantity)
	}
}

func TestTheBacklogOfATAT(t *testing.T) {
	limit := throttle(t, 1, 1, 1)
	for _, tt := range []struct {
		state     string
		tat       uint64
		want      int64
		corrected bool
	}{
		{"never used", 0, 0, false},
		{"full a while ago", uint64(start) - 1, 0, false},
		{"full now", uint64(start), 0, false},
		{"full soon", uint64(start) + 1, 1, false},
		{"empty", uint64(start) + 2e9, 2e9, false},
		{"out of reach", uint64(start) + 2e9 + 1, 2e9, true},
	} {
		assert.Equal(t, tt.want, take(limit, tt.tat, start, 0).ResetAfter, tt.state)
		assert.Equal(t, tt.corrected, take(limit, tt.tat, start, 3).Changed, tt.state)
	}
}
