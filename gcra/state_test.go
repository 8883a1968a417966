// Buckets with reservations: the rules as tables, every answer compared with a token
// bucket in exact rational arithmetic, and the promise over any interval.
package gcra_test

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
)

// perSecond is a limit of count units a second with bursts up to capacity.
func perSecond(t require.TestingT, count, capacity int64) gcra.Limit {
	limit, err := gcra.New(capacity, count, 1, time.Second)
	require.NoError(t, err)
	return limit
}

// reserve charges quantity units as soon as they come, and returns when that is.
func reserve(limit gcra.Limit, s *gcra.State, nowNs, quantity int64) (waitNs int64) {
	waitNs = limit.RetryAfter(s, nowNs, quantity)
	limit.Charge(s, nowNs, quantity, waitNs)
	return waitNs
}

// reserved is a bucket of which so many units were taken at once, one by one.
func reserved(limit gcra.Limit, units int) gcra.State {
	var s gcra.State
	for range units {
		reserve(limit, &s, start, 1)
	}
	return s
}

func TestReservationsComeOneEmissionIntervalApart(t *testing.T) {
	limit := perSecond(t, 10, 3)
	var s gcra.State
	for i := range int64(100) {
		want := max(i-2, 0) * 1e8
		require.Equal(t, want, reserve(limit, &s, start, 1), i)
	}
	assert.Equal(t, int64(100e8), limit.ResetAfter(&s, start))
	assert.Equal(t, int64(98e8), limit.RetryAfter(&s, start, 1))
	assert.Equal(t, int64(99e8), limit.RetryAfter(&s, start, 2))
	assert.Zero(t, limit.Available(&s, start+98e8-1))
	assert.Equal(t, int64(1), limit.Available(&s, start+98e8))
	assert.Equal(t, int64(3), limit.Available(&s, start+100e8))
}

func TestAReservationOfSeveralUnitsWaitsForAllOfThem(t *testing.T) {
	limit := perSecond(t, 10, 5)
	var s gcra.State
	assert.Zero(t, reserve(limit, &s, start, 4))
	assert.Equal(t, int64(2e8), reserve(limit, &s, start, 3))
	assert.Equal(t, int64(7e8), reserve(limit, &s, start, 5))
	assert.Equal(t, gcra.Never, limit.RetryAfter(&s, start, 6))
	assert.Zero(t, limit.RetryAfter(&s, start, 0))
}

func TestAChargeThatWaitsLongerThanItHasToCountsAsOfThen(t *testing.T) {
	const s = int64(1e9)
	for _, tt := range []struct {
		rule                   string
		backlog, wait, resetIn int64
	}{
		{"full when the request comes through", 0, 3 * s, 4 * s},
		{"full before the request comes through", 1 * s, 3 * s, 4 * s},
		{"full at that instant", 3 * s, 3 * s, 4 * s},
		{"not full by then", 4 * s, 3 * s, 5 * s},
		{"not at all", 4 * s, 0, 5 * s},
	} {
		limit := perSecond(t, 1, 5)
		var bucket gcra.State
		limit.SetBacklog(&bucket, start, tt.backlog)
		limit.Charge(&bucket, start, 1, tt.wait)
		assert.Equal(t, tt.resetIn, limit.ResetAfter(&bucket, start), tt.rule)
		assert.True(t, bucket.Plain(), tt.rule)
	}
}

func TestAForceOfNothingLeavesTheStateAsItIs(t *testing.T) {
	const s = int64(1e9)
	limit := perSecond(t, 1, 5)
	var bucket gcra.State
	limit.Charge(&bucket, start, 1, 3*s) // a lift, which no longer counts when its slot has come
	before := bucket
	assert.Zero(t, limit.Force(&bucket, start+3*s, 0))
	assert.Equal(t, before, bucket)
}

func TestNextAfter(t *testing.T) {
	limit := perSecond(t, 10, 3)
	for _, tt := range []struct {
		state         string
		backlog, want int64
	}{
		{"full", 0, 0},
		{"a nanosecond short of full", 1, 1},
		{"one unit taken", 1e8, 1e8},
		{"one unit and a nanosecond taken", 1e8 + 1, 1},
		{"empty", 3e8, 1e8},
		{"one reservation", 4e8, 2e8},
		{"seven reservations and a part", 10e8 + 5, 8e8 + 5},
	} {
		var s gcra.State
		limit.SetBacklog(&s, start, tt.backlog)
		assert.Equal(t, tt.want, limit.NextAfter(&s, start), tt.state)
	}
}

func TestChargeDenied(t *testing.T) {
	limit := perSecond(t, 10, 3)
	for _, tt := range []struct {
		rule                    string
		backlog, quantity, left int64
		took                    bool
	}{
		{"what is there is taken", 1e8, 3, 3e8, true},
		{"parts of a unit, too", 2e8 + 5, 1, 3e8, true},
		{"no more than asked for", 0, 2, 2e8, true},
		{"all of it for a request beyond the capacity", 0, 4, 3e8, true},
		{"all of it for the largest request", 1e8, math.MaxInt64, 3e8, true},
		{"nothing for a request of nothing", 1e8, 0, 1e8, false},
		{"nothing of an empty bucket", 3e8, 1, 3e8, false},
		{"reservations stay where they are", 9e8, 3, 9e8, false},
		{"reservations stay, also of a request beyond the capacity", 9e8, 4, 9e8, false},
	} {
		var s gcra.State
		limit.SetBacklog(&s, start, tt.backlog)
		assert.Equal(t, tt.took, limit.ChargeDenied(&s, start, tt.quantity), tt.rule)
		assert.Equal(t, tt.left, limit.ResetAfter(&s, start), tt.rule)
	}
}

func TestRefund(t *testing.T) {
	limit := perSecond(t, 10, 3)
	for _, tt := range []struct {
		rule                           string
		backlog, quantity, given, left int64
	}{
		{"what was taken comes back", 2e8, 1, 1, 1e8},
		{"never above full", 2e8, 5, 2, 0},
		{"a part of a unit counts as one", 1e8 + 1, 2, 2, 0},
		{"a part of a unit is all there is", 1, 1, 1, 0},
		{"a full bucket lacks nothing", 0, 3, 0, 0},
		{"reservations move up", 9e8, 2, 2, 7e8},
		{"more than is representable in ns", 9e8, math.MaxInt64, 9, 0},
		{"nothing", 2e8, 0, 0, 2e8},
	} {
		var s gcra.State
		limit.SetBacklog(&s, start, tt.backlog)
		assert.Equal(t, tt.given, limit.Refund(&s, start, tt.quantity), tt.rule)
		assert.Equal(t, tt.left, limit.ResetAfter(&s, start), tt.rule)
		if tt.left == 0 {
			assert.Equal(t, gcra.State{}, s, tt.rule)
		}
	}
}

// Another limit makes two requests wait, for 2 and 5 s, beyond what this one asks for.
func TestARefundUndoesWhatAReservationLifted(t *testing.T) {
	const s = int64(1e9)
	limit := perSecond(t, 10, 30)
	lifted := func() (b gcra.State) {
		limit.Charge(&b, start, 10, 0)
		limit.Charge(&b, start, 5, 2*s)
		limit.Charge(&b, start, 4, 2*s) // needs no lift: it comes after those before
		limit.Charge(&b, start, 3, 5*s)
		return b
	}
	require.Equal(t, 5*s+3e8, (&limit).ResetAfter(ptr(lifted()), start))
	for _, tt := range []struct {
		rule               string
		afterNs            int64
		refunds            []int64
		given, left, again int64 // again: after a refund of one more unit
	}{
		{"the last reservation and its lift", 0, []int64{3}, 3, 2*s + 9e8, 2*s + 8e8},
		{"in parts: the lift goes with its last unit", 0, []int64{1, 1}, 1, 5*s + 1e8, 2*s + 9e8},
		{"the last parts", 0, []int64{1, 1, 1}, 1, 2*s + 9e8, 2*s + 8e8},
		{"one unit more is one of those before", 0, []int64{4}, 4, 2*s + 8e8, 2*s + 7e8},
		{"two reservations on one lift, the last of them", 0, []int64{7}, 7, 2*s + 5e8, 2*s + 4e8},
		{"all that was lifted", 0, []int64{12}, 12, 1 * s, 9e8},
		{"all but one of what was lifted", 0, []int64{11}, 11, 2*s + 1e8, 1 * s},
		{"everything", 0, []int64{22}, 22, 0, 0},
		{"more than everything", 0, []int64{1000}, 22, 0, 0},
		{"nothing", 0, []int64{0}, 0, 5*s + 3e8, 5*s + 2e8},
		{"while the first lift goes by", 15 * s / 10, []int64{11}, 11, 6e8, 0},
		{"everything, while the first lift goes by", 15 * s / 10, []int64{22}, 12, 0, 0},
		{"after the first slot, as far as units are missing", 22 * s / 10, []int64{22}, 10, 0, 0},
		{"after the first slot, the last reservation", 22 * s / 10, []int64{3}, 3, 7e8, 6e8},
		{"after the last slot", 51 * s / 10, []int64{1}, 1, 1e8, 0},
	} {
		b, given := lifted(), int64(0)
		for _, units := range tt.refunds {
			given = limit.Refund(&b, start+tt.afterNs, units)
		}
		assert.Equal(t, tt.given, given, tt.rule)
		assert.Equal(t, tt.left, limit.ResetAfter(&b, start+tt.afterNs), tt.rule)
		limit.Refund(&b, start+tt.afterNs, 1)
		assert.Equal(t, tt.again, limit.ResetAfter(&b, start+tt.afterNs), tt.rule)
	}
}

func ptr(s gcra.State) *gcra.State { return &s }

func TestFourLiftsAreUndoneOneByOneAndTheOldestTogether(t *testing.T) {
	const s = int64(1e9)
	limit := perSecond(t, 1, 3)
	var b gcra.State
	var before []gcra.State
	for i := range int64(6) {
		before = append(before, b)
		limit.Charge(&b, start, 1, (i+1)*10*s)
	}
	assert.LessOrEqual(t, len(b.Append(nil)), gcra.MaxEncodedLen)
	for i, want := range []int64{51, 41, 31, 30, 29, 0} {
		limit.Refund(&b, start, 1)
		assert.Equal(t, want*s, limit.ResetAfter(&b, start), "%d refunded", i+1)
		if i < 3 {
			assert.Equal(t, before[5-i].TAT, b.TAT, "what was stored")
		}
	}
	assert.Equal(t, gcra.State{}, b)
}

func TestSettleCorrectsATATOutOfReach(t *testing.T) {
	limit := perSecond(t, 10, 3)
	queued := reserved(limit, 10) // seven of them wait, the last for 0.7 s

	for _, tt := range []struct {
		state     string
		s         gcra.State
		now, left int64
		corrected bool
	}{
		{"never used", gcra.State{}, start, 0, false},
		{"full a while ago", gcra.State{TAT: uint64(start)}, start + 1, 0, false},
		{"full now", gcra.State{TAT: uint64(start)}, start, 0, false},
		{"empty", gcra.State{TAT: uint64(start) + 3e8}, start, 3e8, false},
		{"beyond empty", gcra.State{TAT: uint64(start) + 3e8 + 1}, start, 3e8, true},
		{"the farthest TAT", gcra.State{TAT: math.MaxUint64}, start, 3e8, true},
		{"reservations", queued, start, 10e8, false},
		{"reservations, later", queued, start + 9e8, 1e8, false},
		{"reservations, a nanosecond earlier", queued, start - 1, 10e8, true},
		{"reservations, an hour earlier", queued, start - 3600e9, 10e8, true},
	} {
		s := tt.s
		assert.Equal(t, tt.corrected, limit.Settle(&s, tt.now), tt.state)
		assert.Equal(t, tt.left, limit.ResetAfter(&s, tt.now), tt.state)
		if tt.left == 0 {
			assert.Equal(t, gcra.State{}, s, tt.state)
		} else {
			assert.Equal(t, uint64(tt.now+tt.left), s.TAT, tt.state)
		}
	}
}

func TestTheEncodingOfABucketByteByByte(t *testing.T) {
	const at = int64(0x0102030405060708)
	limit, err := gcra.New(1, 1, 0x1000, time.Nanosecond)
	require.NoError(t, err)
	for _, tt := range []struct {
		state   string
		backlog int64
		want    []byte
	}{
		{"full", 0, nil},
		{"empty", 0x1000, []byte{0x08, 0x17, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01}},
		{"a reservation", 0x1000 + 0x0a0b, []byte{
			0x13, 0x21, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, // TAT
			0x0b, 0x0a, 0, 0, 0, 0, 0, 0}}, // wait of the last in ns
	} {
		var s, back gcra.State
		limit.SetBacklog(&s, at, tt.backlog)
		assert.Equal(t, append([]byte("before"), tt.want...), s.Append([]byte("before")), tt.state)
		assert.LessOrEqual(t, len(tt.want), gcra.MaxEncodedLen)
		require.NoError(t, back.Decode(tt.want), tt.state)
		assert.Equal(t, s, back, tt.state)
	}
}

func TestTheEncodingOfALiftByteByByte(t *testing.T) {
	const at = int64(0x0102030405060708)
	limit, err := gcra.New(2, 1, 0x1000, time.Nanosecond)
	require.NoError(t, err)
	var s, back gcra.State
	limit.Charge(&s, at, 1, 0)
	limit.Charge(&s, at, 1, 0x1234)
	want := []byte{
		0x3c, 0x29, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, // TAT
		0x34, 0x02, 0, 0, 0, 0, 0, 0, // queue
		0x34, 0x02, 0, 0, 0, 0, 0, 0, // from when it would have been full to the slot
		0x00, 0x10, 0, 0, 0, 0, 0, 0, // charged at the slot
	}
	assert.Equal(t, want, s.Append(nil))
	require.NoError(t, back.Decode(want))
	assert.Equal(t, s, back)

	// The same bucket seen later: nothing is queued any more.
	limit.Refund(&s, at+0x800, 0)
	clear(want[8:16])
	assert.Equal(t, want, s.Append(nil))
	limit.Refund(&s, at+0x1234, 0)
	assert.Equal(t, want[:8], s.Append(nil), "the slot has come")
}

func TestDecodeRefusesWhatIsNoBucket(t *testing.T) {
	word := func(b byte) []byte { return bytes.Repeat([]byte{b}, 8) }
	zero, one, top := word(0), word(1), append(word(0)[:7], 0x80)
	for _, tt := range []struct {
		what    string
		encoded []byte
	}{
		{"one byte", one[:1]},
		{"seven bytes", one[:7]},
		{"nine bytes", append(word(1), 1)},
		{"15 bytes", append(word(1), one[:7]...)},
		{"17 bytes", append(word(1), append(word(1), 1)...)},
		{"a TAT of 0, which is written as nothing", zero},
		{"a TAT of 0 with a queue", append(word(0), one...)},
		{"a queue of 0, which is not written", append(word(1), zero...)},
		{"a queue of 2^63", append(word(1), top...)},
		{"24 bytes", append(word(1), append(word(1), word(1)...)...)},
		{"a lift of nothing", words(word(9), zero, zero, one)},
		{"a lift for nothing", words(word(9), zero, one, zero)},
		{"a lift from before the epoch", words(word(1), zero, word(1), one)},
		{"lifts from before the epoch", words(word(0xff), zero, word(0x7f), word(0x7f), one, word(0x01))},
		{"half a lift", words(word(9), zero, one)},
		{"five lifts", words(word(0xff), zero, one, one, one, one, one, one, one, one, one, one)},
	} {
		s := gcra.State{TAT: 5}
		assert.Equal(t, gcra.ErrEncoding, s.Decode(tt.encoded), tt.what)
		assert.Equal(t, gcra.State{}, s, tt.what)
	}
	for _, encoded := range [][]byte{one, word(0xff), append(word(0xff), one...), words(word(9), zero, one, one),
		words(word(0xff), one, word(0x7f), word(0x7f)), words(word(2), one, one, one),
		words(word(0xff), one, one, one, one, one, one, one, one, one)} {
		var s gcra.State
		require.NoError(t, s.Decode(encoded))
		assert.Equal(t, encoded, s.Append(nil))
	}
}

func words(words ...[]byte) []byte { return slices.Concat(words...) }

// Tolerance and wait may each come near 2^63 ns. The code that charges keeps their sum below.
func TestStateNearTheEndsOfTime(t *testing.T) {
	const widest = math.MaxInt64
	slow, err := gcra.New(1, 1, widest, 1) // one unit in 292 years
	require.NoError(t, err)
	wide, err := gcra.New(widest, 1, 1, 1) // 2^63-1 units, one a nanosecond
	require.NoError(t, err)
	fast, err := gcra.New(1, 1, 1, 1) // one unit, one a nanosecond
	require.NoError(t, err)

	t.Run("the largest backlog at the latest instant", func(t *testing.T) {
		var s gcra.State
		slow.Charge(&s, widest, 1, 0)
		assert.Equal(t, uint64(2*widest), s.TAT)
		assert.Equal(t, int64(widest), slow.RetryAfter(&s, widest, 1))
		assert.Equal(t, int64(widest), slow.NextAfter(&s, widest))
		assert.Equal(t, int64(1), slow.Refund(&s, widest, widest))
		assert.Equal(t, gcra.State{}, s)
	})
	t.Run("as many units as there are numbers", func(t *testing.T) {
		var s gcra.State
		wide.Charge(&s, start, widest, 0)
		assert.Zero(t, wide.Available(&s, start))
		assert.Equal(t, int64(widest), wide.RetryAfter(&s, start, widest))
		assert.Equal(t, int64(1), wide.RetryAfter(&s, start, 1))
		assert.False(t, wide.ChargeDenied(&s, start, widest))
		assert.Equal(t, int64(widest), wide.Refund(&s, start, widest))
		assert.True(t, wide.ChargeDenied(&s, start, widest))
	})
	t.Run("the longest wait", func(t *testing.T) {
		var s gcra.State
		fast.Charge(&s, widest, 1, widest-1)
		assert.Equal(t, uint64(2*widest), s.TAT)
		assert.Equal(t, int64(widest), fast.RetryAfter(&s, widest, 1))
		assert.Equal(t, int64(widest), fast.NextAfter(&s, widest))
		assert.Equal(t, int64(1), fast.Refund(&s, widest, 1))
		assert.Equal(t, gcra.State{}, s, "with its unit, the wait is undone")
	})
	t.Run("a long queue on a limit that becomes slow", func(t *testing.T) {
		var s gcra.State
		fast.Charge(&s, widest, 1, widest-1)
		assert.False(t, slow.Settle(&s, widest))
		assert.Equal(t, int64(widest), slow.RetryAfter(&s, widest, 1))
		assert.True(t, slow.Settle(&s, 0), "an instant 2^64 ns ahead")
		assert.Equal(t, uint64(widest), s.TAT)
	})
}

// queueModel is the token bucket of model_test.go whose level may also be negative: units
// that are promised for later. What is promised no further than when it was last written
// is no error.
type queueModel struct {
	*model
	promisedNs *big.Rat
	// What was charged, the oldest first, in ns of putting back: each begins with the time from
	// when the bucket would have been full to when the request comes, if there is any.
	charges []charge
}

type charge struct{ idleNs, chargedNs *big.Rat }

var maxNs = integer(math.MaxInt64)

func newQueueModel(p params) *queueModel {
	return &queueModel{model: newModel(p), promisedNs: new(big.Rat)}
}

// at returns a copy in which now is nowNs, and whether that had to be corrected.
func (m *queueModel) settled(nowNs int64) (at *queueModel, corrected bool) {
	now := integer(nowNs)
	level := new(big.Rat).Sub(now, m.at)
	level.Quo(level, m.emission).Add(level, m.level)
	if level.Cmp(m.capacity) > 0 {
		level.Set(m.capacity)
	}
	// Below this, a bucket takes longer than what was promised, or 2^63 ns, to fill.
	lowest := new(big.Rat).Sub(m.timeFor(m.capacity), maxNs)
	if promised := new(big.Rat).Neg(m.promisedNs); promised.Cmp(lowest) > 0 {
		lowest = promised
	}
	if lowest.Quo(lowest, m.emission).Cmp(level) > 0 {
		level, corrected = lowest, true
	}
	at = &queueModel{&model{capacity: m.capacity, emission: m.emission, level: level, at: now}, m.promisedNs, nil}
	if !corrected {
		at.charges = m.stillIdle(nowNs)
	}
	return at, corrected
}

// stillIdle is the charges from the first on whose request is still to come.
func (m *queueModel) stillIdle(nowNs int64) []charge {
	for i := range m.charges {
		begins := m.fullAt()
		for _, c := range m.charges[i:] {
			begins.Sub(begins, c.chargedNs).Sub(begins, c.idleNs)
		}
		if begins.Add(begins, m.charges[i].idleNs).Cmp(integer(nowNs)) > 0 {
			return slices.Clone(m.charges[i:])
		}
	}
	return nil
}

// note adds a charge. Without idle time it is one with that before; of five the first two
// become one.
func (m *queueModel) note(idleNs, chargedNs *big.Rat) {
	last := len(m.charges) - 1
	switch {
	case idleNs.Sign() > 0 && chargedNs.Sign() > 0:
		m.charges = append(m.charges, charge{idleNs, chargedNs})
	case last >= 0:
		both := new(big.Rat).Add(idleNs, chargedNs)
		m.charges[last] = charge{m.charges[last].idleNs, both.Add(both, m.charges[last].chargedNs)}
	}
	if len(m.charges) > 4 {
		a, b := m.charges[0], m.charges[1]
		m.charges = slices.Replace(m.charges, 0, 2,
			charge{new(big.Rat).Add(a.idleNs, b.idleNs), new(big.Rat).Add(a.chargedNs, b.chargedNs)})
	}
}

// write keeps the level and instant of what settled returned.
func (m *queueModel) write(at *queueModel) {
	m.level, m.at, m.promisedNs, m.charges = at.level, at.at, new(big.Rat), at.charges
	if at.level.Sign() < 0 {
		m.promisedNs.Neg(at.timeFor(at.level))
	}
	if m.level.Cmp(m.capacity) == 0 {
		m.at = new(big.Rat) // full, whatever the clock says next
		m.charges = nil
	}
}

func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

func ceil(r *big.Rat) *big.Int {
	n := floor(new(big.Rat).Neg(r))
	return n.Neg(n)
}

func (m *queueModel) available() int64 { return max(floor(m.level).Int64(), 0) }

// until is the time in ns until the level is units, 0 when it is now.
func (m *queueModel) until(units *big.Rat) int64 {
	return max(whole(m.timeFor(new(big.Rat).Sub(units, m.level))), 0)
}

func (m *queueModel) retryAfter(quantity int64) int64 {
	switch asked := integer(quantity); {
	case asked.Cmp(m.capacity) > 0:
		return gcra.Never
	case quantity == 0:
		return 0
	default:
		return m.until(asked)
	}
}

func (m *queueModel) nextAfter() int64 {
	if m.level.Cmp(m.capacity) == 0 {
		return 0
	}
	return m.until(integer(m.available() + 1))
}

func (m *queueModel) charge(nowNs, quantity, waitNs int64) {
	now, _ := m.settled(nowNs)
	then := new(big.Rat).Quo(integer(waitNs), m.emission)
	level := new(big.Rat).Add(now.level, then)
	if level.Cmp(m.capacity) > 0 {
		level.Set(m.capacity)
	}
	idle := new(big.Rat).Add(now.level, then)
	if idle.Sub(idle, m.capacity).Sign() < 0 {
		idle = new(big.Rat)
	}
	now.note(m.timeFor(idle), m.timeFor(integer(quantity)))
	now.level = level.Sub(level, integer(quantity)).Sub(level, then)
	m.write(now)
}

func (m *queueModel) chargeDenied(nowNs, quantity int64) bool {
	now, _ := m.settled(nowNs)
	if now.level.Sign() <= 0 || quantity == 0 {
		return false
	}
	took := integer(quantity)
	if took.Cmp(now.level) > 0 {
		took = now.level
	}
	now.note(new(big.Rat), m.timeFor(took))
	now.level = new(big.Rat).Sub(now.level, took)
	m.write(now)
	return true
}

// refund gives back what was charged last first, and with all of a charge its idle time.
func (m *queueModel) refund(nowNs, quantity int64) int64 {
	now, _ := m.settled(nowNs)
	backlog := m.timeFor(new(big.Rat).Sub(m.capacity, now.level))
	left, back := m.timeFor(integer(quantity)), new(big.Rat)
	take := func(from *big.Rat) {
		ns := slices.MinFunc([]*big.Rat{from, left, backlog}, (*big.Rat).Cmp)
		left, backlog, back = new(big.Rat).Sub(left, ns), new(big.Rat).Sub(backlog, ns), new(big.Rat).Add(back, ns)
	}
	for i := len(now.charges) - 1; i >= 0; i-- {
		was := back
		take(now.charges[i].chargedNs)
		rest := new(big.Rat).Sub(now.charges[i].chargedNs, new(big.Rat).Sub(back, was))
		if rest.Sign() > 0 {
			now.charges[i].chargedNs = rest
			break
		}
		if backlog.Sub(backlog, now.charges[i].idleNs).Sign() < 0 {
			backlog = new(big.Rat) // some of it has gone by
		}
		now.charges = now.charges[:i]
	}
	take(backlog)
	now.level = new(big.Rat).Sub(m.capacity, backlog.Quo(backlog, m.emission))
	m.write(now)
	return ceil(back.Quo(back, m.emission)).Int64()
}

func (m *queueModel) settle(nowNs int64) bool {
	now, corrected := m.settled(nowNs)
	if corrected || now.level.Cmp(m.capacity) == 0 {
		m.write(now)
	}
	return corrected
}

// queuePair is a state and its model, asked the same.
type queuePair struct {
	t     require.TestingT
	limit gcra.Limit
	state gcra.State
	model *queueModel
}

func (p *queuePair) same(want, got any, what string, nowNs, quantity int64) {
	if want != got {
		require.Equal(p.t, want, got, "%s of %+v, %+v at %d, quantity %d", what, p.limit, p.state, nowNs, quantity)
	}
}

// reload stores the state and reads it back, as every command does, and compares it.
func (p *queuePair) reload(nowNs int64) {
	encoded := p.state.Append(make([]byte, 0, gcra.MaxEncodedLen))
	p.state = gcra.State{TAT: 5}
	if err := p.state.Decode(encoded); err != nil {
		require.NoError(p.t, err)
	}
	tat, full := p.state.TAT, p.model.fullAt()
	if tat == 0 {
		full.Sub(full, p.model.at) // the state keeps no instant of a full bucket
	}
	p.same(full.RatString(), new(big.Int).SetUint64(tat).String(), "TAT", nowNs, 0)
	p.same(p.model.promisedNs.Sign() == 0, p.state.Plain(), "plain", nowNs, 0)
	words := 0
	if tat > 0 {
		words = 1
	}
	if n := len(p.model.charges); n > 0 || !p.state.Plain() {
		words += 1 + 2*n
	}
	p.same(8*words, len(encoded), "bytes", nowNs, 0)
}

// compare checks all answers, and returns them in the form of a Decision.
func (p *queuePair) compare(nowNs, quantity int64) gcra.Decision {
	m, _ := p.model.settled(nowNs)
	d := gcra.Decision{
		Remaining:  p.limit.Available(&p.state, nowNs),
		RetryAfter: p.limit.RetryAfter(&p.state, nowNs, quantity),
		ResetAfter: p.limit.ResetAfter(&p.state, nowNs),
	}
	p.same(m.available(), d.Remaining, "available", nowNs, quantity)
	p.same(m.retryAfter(quantity), d.RetryAfter, "retry after", nowNs, quantity)
	p.same(m.until(m.capacity), d.ResetAfter, "reset after", nowNs, quantity)
	p.same(m.nextAfter(), p.limit.NextAfter(&p.state, nowNs), "next after", nowNs, quantity)
	return d
}

// queueSeen counts what a run came across, so that it cannot pass by avoiding the cases.
type queueSeen struct {
	steps, reservations, idle, denied, refunds, undone, many, corrected, queued, full int
}

func (p *queuePair) step(pick chance.Draw, nowNs, quantity int64, last gcra.Decision, lifts bool, seen *queueSeen) {
	if last.ResetAfter == 0 {
		seen.full++
	}
	if last.ResetAfter > p.limit.BurstTolerance() {
		seen.queued++
	}
	switch pick("operation", 1, 8) {
	case 1, 2, 3, 8:
		longest := math.MaxInt64 - p.limit.BurstTolerance()
		wait := last.RetryAfter
		if wait == gcra.Never || wait > longest {
			break
		}
		if lifts || pick("another limit waits longer", 1, 4) == 1 {
			wait = pick("wait", wait, min(longest, add(last.ResetAfter, p.limit.BurstTolerance())))
			seen.idle++
		}
		seen.reservations++
		p.limit.Charge(&p.state, nowNs, quantity, wait)
		p.model.charge(nowNs, quantity, wait)
		if len(p.model.charges) == 4 {
			seen.many++
		}
	case 4:
		seen.denied++
		p.same(p.model.chargeDenied(nowNs, quantity), p.limit.ChargeDenied(&p.state, nowNs, quantity), "charged denied", nowNs, quantity)
	case 5, 7:
		seen.refunds++
		if n := len(p.model.charges); n > 0 && pick("a refund of the last charge", 0, 1) == 1 {
			quantity = ceil(new(big.Rat).Quo(p.model.charges[n-1].chargedNs, p.model.emission)).Int64()
			seen.undone++
		}
		p.same(p.model.refund(nowNs, quantity), p.limit.Refund(&p.state, nowNs, quantity), "refunded", nowNs, quantity)
	case 6:
		corrected := p.limit.Settle(&p.state, nowNs)
		if corrected {
			seen.corrected++
		}
		p.same(p.model.settle(nowNs), corrected, "corrected", nowNs, quantity)
	}
}

func followQueue(t require.TestingT, pick chance.Draw, drawParams func(chance.Draw) params, nowNs int64, steps int, seen *queueSeen) {
	params := drawParams(pick)
	p := &queuePair{t: t, limit: params.limit(t), model: newQueueModel(params)}
	tr := traffic{pick: pick, limit: p.limit, nowNs: nowNs}
	lifts := pick("one lift after another", 1, 2) == 1
	for range steps {
		if pick("change the limit", 0, 31) == 31 {
			params = drawParams(pick)
			p.limit = params.limit(t)
			p.model.changeLimit(params)
			tr.limit = p.limit
		}
		was := tr.nowNs
		now, quantity := tr.next()
		if lifts && pick("time goes by", 1, 8) > 1 {
			now, tr.nowNs = was, was
		}
		tr.last = p.compare(now, quantity)
		p.step(pick, now, quantity, tr.last, lifts, seen)
		p.reload(now)
		seen.steps++
	}
}

func TestEveryAnswerOfAStateEqualsTheModel(t *testing.T) {
	pick := drawFromSeed(t)
	steps := size.Of(10_000, 100_000)
	for _, drawParams := range []func(chance.Draw) params{drawRealistic, drawExtreme} {
		var seen queueSeen
		for seen.steps < steps {
			followQueue(t, pick, drawParams, pick("now", 0, math.MaxInt64), 50, &seen)
		}
		t.Logf("%+v", seen)
		for _, n := range []int{seen.reservations, seen.idle, seen.denied, seen.refunds, seen.undone, seen.many, seen.corrected, seen.queued, seen.full} {
			require.Greater(t, n, seen.steps/500)
		}
	}
}

func TestEveryAnswerOfAStateEqualsTheModelShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		followQueue(t, chance.FromRapid(t), drawEither(t), rapid.Int64Range(0, math.MaxInt64).Draw(t, "now"), 10, &queueSeen{})
	})
}

// admission is units let through for an instant.
type admission struct{ at, units int64 }

// askQueue sends callers that reserve and callers that do not to one bucket. It returns what they were let through for, in the time of a watch that
// runs on when the limiter's clock is set back.
func askQueue(t require.TestingT, pick chance.Draw, drawParams func(chance.Draw) params, setBacks bool, steps int) (params, []admission) {
	p := drawParams(pick)
	limit := p.limit(t)
	longest := math.MaxInt64 - limit.BurstTolerance()
	var s gcra.State
	var log []admission
	tr := traffic{pick: pick, limit: limit, nowNs: start, forwards: true}
	behind := int64(0)
	for range steps {
		trueNow, quantity := tr.next()
		quantity = min(quantity, limit.Capacity())
		if setBacks && pick("set back", 1, 8) == 1 {
			behind += pick("set back by", 0, min(limit.BurstTolerance(), trueNow-behind))
		}
		now := trueNow - behind
		corrected := limit.Settle(&s, now)
		require.True(t, setBacks || !corrected)
		tr.last = gcra.Decision{RetryAfter: limit.RetryAfter(&s, now, quantity), ResetAfter: limit.ResetAfter(&s, now)}
		wait := tr.last.RetryAfter
		switch kind := pick("caller", 1, 3); {
		case kind <= 2 && wait > 0 || wait > longest || wait > math.MaxInt64-trueNow:
			continue
		default:
			limit.Charge(&s, now, quantity, wait)
		}
		if quantity > 0 {
			log = append(log, admission{trueNow + wait, quantity})
		}
	}
	return p, log
}

// requirePromise fails if an interval holds more units than the rate allows.
func requirePromise(t require.TestingT, p params, log []admission) {
	slices.SortFunc(log, func(a, b admission) int { return int(min(max(a.at-b.at, -1), 1)) })
	count := newLedger(p)
	for _, a := range log {
		if !count.admit(a.at, a.units) {
			require.Fail(t, "more units than capacity + rate x time", "%+v: %+v", p, log)
		}
	}
}

func TestNoIntervalHoldsMoreUnitsThanTheRateWhoeverReserves(t *testing.T) {
	pick := drawFromSeed(t)
	buckets := size.Of(100, 1000)
	for _, setBacks := range []bool{false, true} {
		admissions := 0
		for i := range buckets {
			drawParams := drawRealistic
			if i%2 == 0 {
				drawParams = drawExtreme
			}
			p, log := askQueue(t, pick, drawParams, setBacks, 300)
			requirePromise(t, p, log)
			admissions += len(log)
		}
		require.Greater(t, admissions, buckets*300/20)
	}
}

func TestNoIntervalHoldsMoreUnitsThanTheRateWhoeverReservesShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, log := askQueue(t, chance.FromRapid(t), drawEither(t), rapid.Bool().Draw(t, "set backs"), 30)
		requirePromise(t, p, log)
	})
}

// Whatever a key holds, a caller who is denied once gets through after at most the burst
// tolerance and the reservations that were made.
func TestADeniedCallHealsAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := chance.FromRapid(t)
		limit := drawEither(t)(pick).limit(t)
		longest := math.MaxInt64 - limit.BurstTolerance()
		queue := pick("queue", 0, longest)
		var s gcra.State
		limit.SetBacklog(&s, start, limit.BurstTolerance()+queue)
		s.TAT = rapid.Uint64Min(1).Draw(t, "tat")

		nowNs := pick("now", 0, math.MaxInt64-longest)
		limit.Settle(&s, nowNs)
		wait := limit.RetryAfter(&s, nowNs, limit.Capacity())
		require.LessOrEqual(t, wait, limit.BurstTolerance()+queue)
		if wait <= longest {
			require.Equal(t, limit.Capacity(), limit.Available(&s, nowNs+wait))
		}
	})
}

func TestARefundUndoesACharge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := chance.FromRapid(t)
		limit := drawRealistic(pick).limit(t)
		var s gcra.State
		limit.SetBacklog(&s, start, pick("backlog", 0, min(math.MaxInt64-limit.BurstTolerance(), add(limit.BurstTolerance(), limit.BurstTolerance()))))
		before := s.Append(nil)
		quantity := pick("quantity", 0, limit.Capacity())
		reserve(limit, &s, start, quantity)
		require.Equal(t, quantity, limit.Refund(&s, start, quantity))
		require.Equal(t, before, s.Append(nil))
	})
}

func TestAStateAllocatesNothing(t *testing.T) {
	limit := perSecond(t, 10, 3)
	s := reserved(limit, 10)
	buffer := make([]byte, 0, gcra.MaxEncodedLen)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		limit.Settle(&s, start)
		reserve(limit, &s, start, 1)
		limit.ChargeDenied(&s, start, 1)
		limit.Refund(&s, start, 1)
		sink.Remaining = limit.Available(&s, start) + limit.NextAfter(&s, start) + limit.ResetAfter(&s, start)
		assert.NoError(t, s.Decode(s.Append(buffer)))
	}))
}
