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

// CL.THROTTLE on a key in which CL.LIMIT has reserved.
func TestTakeQueuedLetsReservationsGoFirst(t *testing.T) {
	const ms = int64(time.Millisecond)
	limit := perSecond(t, 10, 3)
	reservedUntil := uint64(start + 1000*ms) // 0.3 s of tolerance, the last in 0.7 s
	for _, tt := range []struct {
		rule          string
		now, quantity int64
		want          gcra.Decision
	}{
		{"behind the last of them", start, 1,
			gcra.Decision{RetryAfter: 800 * ms, ResetAfter: 1000 * ms}},
		{"more units wait longer", start, 3,
			gcra.Decision{RetryAfter: 1000 * ms, ResetAfter: 1000 * ms}},
		{"more than the capacity never comes", start, 4,
			gcra.Decision{RetryAfter: gcra.Never, ResetAfter: 1000 * ms}},
		{"a peek", start, 0,
			gcra.Decision{Allowed: true, RetryAfter: gcra.Never, ResetAfter: 1000 * ms}},
		{"a nanosecond before its turn", start + 800*ms - 1, 1,
			gcra.Decision{TAT: reservedUntil, RetryAfter: 1, ResetAfter: 200*ms + 1}},
		{"its turn", start + 800*ms, 1,
			gcra.Decision{Allowed: true, Changed: true, TAT: reservedUntil + 1e8, RetryAfter: gcra.Never, ResetAfter: 300 * ms}},
		{"long after", start + 5000*ms, 1,
			gcra.Decision{Allowed: true, Changed: true, TAT: uint64(start + 5100*ms), Remaining: 2, RetryAfter: gcra.Never, ResetAfter: 100 * ms}},
		{"on a clock that was set back it is an empty bucket", start - 3600_000*ms, 1,
			gcra.Decision{Changed: true, TAT: uint64(start - 3600_000*ms + 300*ms), RetryAfter: 100 * ms, ResetAfter: 300 * ms}},
	} {
		s := reserved(limit, 10)
		assert.Equal(t, tt.want, limit.TakeQueued(&s, tt.now, tt.quantity), tt.rule)
	}
}

func TestTakeQueuedIsTakeWhereNothingIsReserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := drawFromRapid(t)
		limit := drawEither(t)(pick).limit(t)
		tat, nowNs := rapid.Uint64().Draw(t, "tat"), pick("now", 0, math.MaxInt64)
		quantity := pick("quantity", 0, math.MaxInt64)
		require.Equal(t, limit.Take(tat, nowNs, quantity), limit.TakeQueued(&gcra.State{TAT: tat}, nowNs, quantity))
	})
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
	} {
		s := gcra.State{TAT: 5}
		assert.Equal(t, gcra.ErrEncoding, s.Decode(tt.encoded), tt.what)
		assert.Equal(t, gcra.State{}, s, tt.what)
	}
	for _, encoded := range [][]byte{one, word(0xff), append(word(0xff), one...)} {
		var s gcra.State
		require.NoError(t, s.Decode(encoded))
		assert.Equal(t, encoded, s.Append(nil))
	}
}

// Tolerance and wait may each come near 2^63 ns; whoever charges keeps their sum below.
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
		assert.Equal(t, int64(widest-1), fast.ResetAfter(&s, widest))
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
}

var maxNs = integer(math.MaxInt64)

func newQueueModel(p params) *queueModel { return &queueModel{newModel(p), new(big.Rat)} }

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
	return &queueModel{&model{capacity: m.capacity, emission: m.emission, level: level, at: now}, m.promisedNs}, corrected
}

// write keeps the level and instant of what settled returned.
func (m *queueModel) write(at *queueModel) {
	m.level, m.at, m.promisedNs = at.level, at.at, new(big.Rat)
	if at.level.Sign() < 0 {
		m.promisedNs.Neg(at.timeFor(at.level))
	}
	if m.level.Cmp(m.capacity) == 0 {
		m.at = new(big.Rat) // full, whatever the clock says next
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
	now.level = level.Sub(level, integer(quantity)).Sub(level, then)
	m.write(now)
}

func (m *queueModel) chargeDenied(nowNs, quantity int64) bool {
	now, _ := m.settled(nowNs)
	if now.level.Sign() <= 0 || quantity == 0 {
		return false
	}
	if asked := integer(quantity); asked.Cmp(now.level) < 0 {
		now.level.Sub(now.level, asked)
	} else {
		now.level = new(big.Rat)
	}
	m.write(now)
	return true
}

func (m *queueModel) refund(nowNs, quantity int64) int64 {
	now, _ := m.settled(nowNs)
	missing := new(big.Rat).Sub(m.capacity, now.level)
	if integer(quantity).Cmp(missing) >= 0 {
		quantity = ceil(missing).Int64()
		now.level.Set(m.capacity)
	} else {
		now.level.Add(now.level, integer(quantity))
	}
	m.write(now)
	return quantity
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

func (p *queuePair) compareTakeQueued(nowNs, quantity int64) {
	m, corrected := p.model.settled(nowNs)
	if corrected && m.level.Sign() < 0 {
		m.level = new(big.Rat) // it leaves a plain TAT
	}
	got := p.limit.TakeQueued(&p.state, nowNs, quantity)
	wait := m.retryAfter(quantity)
	p.same(wait == 0, got.Allowed, "allowed", nowNs, quantity)
	p.same(quantity > 0 && (got.Allowed || corrected), got.Changed, "changed", nowNs, quantity)
	if got.Allowed {
		m.level.Sub(m.level, integer(quantity))
		wait = gcra.Never
	}
	p.same(wait, got.RetryAfter, "retry after of TakeQueued", nowNs, quantity)
	p.same(m.available(), got.Remaining, "remaining", nowNs, quantity)
	p.same(m.until(m.capacity), got.ResetAfter, "reset after of TakeQueued", nowNs, quantity)
	if got.Changed {
		p.same(m.fullAt().RatString(), new(big.Int).SetUint64(got.TAT).String(), "TAT of TakeQueued", nowNs, quantity)
	}
}

// queueSeen counts what a run came across, so that it cannot pass by avoiding the cases.
type queueSeen struct {
	steps, reservations, idle, denied, refunds, corrected, queued, full int
}

func (p *queuePair) step(pick draw, nowNs, quantity int64, last gcra.Decision, seen *queueSeen) {
	if last.ResetAfter == 0 {
		seen.full++
	}
	if last.ResetAfter > p.limit.BurstTolerance() {
		seen.queued++
	}
	switch pick("operation", 1, 8) {
	case 1, 2, 3:
		longest := math.MaxInt64 - p.limit.BurstTolerance()
		wait := last.RetryAfter
		if wait == gcra.Never || wait > longest {
			break
		}
		if pick("another limit waits longer", 1, 4) == 1 {
			wait = pick("wait", wait, min(longest, add(wait, p.limit.BurstTolerance())))
			seen.idle++
		}
		seen.reservations++
		p.limit.Charge(&p.state, nowNs, quantity, wait)
		p.model.charge(nowNs, quantity, wait)
	case 4:
		seen.denied++
		p.same(p.model.chargeDenied(nowNs, quantity), p.limit.ChargeDenied(&p.state, nowNs, quantity), "charged denied", nowNs, quantity)
	case 5:
		seen.refunds++
		p.same(p.model.refund(nowNs, quantity), p.limit.Refund(&p.state, nowNs, quantity), "refunded", nowNs, quantity)
	case 6:
		corrected := p.limit.Settle(&p.state, nowNs)
		if corrected {
			seen.corrected++
		}
		p.same(p.model.settle(nowNs), corrected, "corrected", nowNs, quantity)
	default:
		p.compareTakeQueued(nowNs, quantity)
	}
}

func followQueue(t require.TestingT, pick draw, drawParams func(draw) params, nowNs int64, steps int, seen *queueSeen) {
	params := drawParams(pick)
	p := &queuePair{t: t, limit: params.limit(t), model: newQueueModel(params)}
	tr := traffic{pick: pick, limit: p.limit, nowNs: nowNs}
	for range steps {
		if pick("change the limit", 0, 31) == 31 {
			params = drawParams(pick)
			p.limit = params.limit(t)
			p.model.changeLimit(params)
			tr.limit = p.limit
		}
		now, quantity := tr.next()
		tr.last = p.compare(now, quantity)
		p.step(pick, now, quantity, tr.last, seen)
		p.reload(now)
		seen.steps++
	}
}

func TestEveryAnswerOfAStateEqualsTheModel(t *testing.T) {
	pick := drawFromSeed(newRand(t))
	steps := 100_000
	if testing.Short() {
		steps = 10_000
	}
	for _, drawParams := range []func(draw) params{drawRealistic, drawExtreme} {
		var seen queueSeen
		for seen.steps < steps {
			followQueue(t, pick, drawParams, pick("now", 0, math.MaxInt64), 50, &seen)
		}
		t.Logf("%+v", seen)
		for _, n := range []int{seen.reservations, seen.idle, seen.denied, seen.refunds, seen.corrected, seen.queued, seen.full} {
			require.Greater(t, n, seen.steps/500)
		}
	}
}

func TestEveryAnswerOfAStateEqualsTheModelShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		followQueue(t, drawFromRapid(t), drawEither(t), rapid.Int64Range(0, math.MaxInt64).Draw(t, "now"), 10, &queueSeen{})
	})
}

// admission is units let through for an instant.
type admission struct{ at, units int64 }

// askQueue sends callers that reserve, callers that do not and callers of CL.THROTTLE to
// one bucket. It returns what they were let through for, in the time of a watch that
// runs on when the limiter's clock is set back.
func askQueue(t require.TestingT, pick draw, drawParams func(draw) params, setBacks bool, steps int) (params, []admission) {
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
		case kind == 1 && !setBacks:
			d := limit.TakeQueued(&s, now, quantity)
			require.Equal(t, wait == 0, d.Allowed)
			if d.Changed {
				s = gcra.State{TAT: d.TAT}
			}
			if !d.Allowed {
				continue
			}
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
	pick := drawFromSeed(newRand(t))
	buckets := 1000
	if testing.Short() {
		buckets = 100
	}
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
		p, log := askQueue(t, drawFromRapid(t), drawEither(t), rapid.Bool().Draw(t, "set backs"), 30)
		requirePromise(t, p, log)
	})
}

// Whatever a key holds, a caller who is denied once gets through after at most the burst
// tolerance and the reservations that were made.
func TestADeniedCallHealsAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := drawFromRapid(t)
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
		pick := drawFromRapid(t)
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
		sink = limit.TakeQueued(&s, start, 1)
		sink.Remaining = limit.Available(&s, start) + limit.NextAfter(&s, start) + limit.ResetAfter(&s, start)
		assert.NoError(t, s.Decode(s.Append(buffer)))
	}))
}
