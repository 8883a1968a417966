// Buckets with reservations: lifts and encodings as tables, and the promise over any interval. Their rules are in spec/rate.txt, and every
// answer is compared in model_test.go.
package gcra_test

import (
	"bytes"
	"math"
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
func reserve(b *gcra.Bucket, nowNs, quantity int64) (waitNs int64) {
	waitNs = b.RetryAfter(nowNs, quantity)
	b.Charge(nowNs, quantity, waitNs)
	return waitNs
}

// reserved is a bucket of which so many units were taken at once, one by one.
func reserved(limit gcra.Limit, units int) gcra.Bucket {
	s := gcra.Bucket{Limit: limit}
	for range units {
		reserve(&s, start, 1)
	}
	return s
}

func TestAForceOfNothingLeavesTheStateAsItIs(t *testing.T) {
	const s = int64(1e9)
	limit := perSecond(t, 1, 5)
	bucket := gcra.Bucket{Limit: limit}
	bucket.Charge(start, 1, 3*s) // a lift, which no longer counts when its slot has come
	before := bucket
	assert.Zero(t, bucket.Force(start+3*s, 0))
	assert.Equal(t, before, bucket)
}

func TestFourLiftsAreUndoneOneByOneAndTheOldestTogether(t *testing.T) {
	const s = int64(1e9)
	limit := perSecond(t, 1, 3)
	b := gcra.Bucket{Limit: limit}
	var before []gcra.State
	for i := range int64(6) {
		before = append(before, b.State)
		b.Charge(start, 1, (i+1)*10*s)
	}
	assert.LessOrEqual(t, len(b.Append(nil)), gcra.MaxEncodedLen)
	for i, want := range []int64{51, 41, 31, 30, 29, 0} {
		b.Refund(start, 1)
		assert.Equal(t, want*s, resetAfter(&b, start), "%d refunded", i+1)
		if i < 3 {
			assert.Equal(t, before[5-i].TAT, b.TAT, "what was stored")
		}
	}
	assert.Equal(t, gcra.State{}, b.State)
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
		s, back := gcra.Bucket{Limit: limit}, gcra.Bucket{Limit: limit}
		setBacklog(&s, at, tt.backlog)
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
	s, back := gcra.Bucket{Limit: limit}, gcra.Bucket{Limit: limit}
	s.Charge(at, 1, 0)
	s.Charge(at, 1, 0x1234)
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
	s.Refund(at+0x800, 0)
	clear(want[8:16])
	assert.Equal(t, want, s.Append(nil))
	s.Refund(at+0x1234, 0)
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

// admission is units let through for an instant.
type admission struct{ at, units int64 }

// Tolerance and wait may each come near 2^63 ns. The code that charges keeps their sum below.
func TestALongQueueOnALimitThatBecomesSlow(t *testing.T) {
	const widest = math.MaxInt64
	slow, err := gcra.New(1, 1, widest, 1) // one unit in 292 years
	require.NoError(t, err)
	fast, err := gcra.New(1, 1, 1, 1) // one unit, one a nanosecond
	require.NoError(t, err)
	s := gcra.Bucket{Limit: fast}
	s.Charge(widest, 1, widest-1)
	s.Limit = slow
	assert.False(t, s.BringTo(widest))
	assert.Equal(t, int64(widest), s.RetryAfter(widest, 1))
	assert.True(t, s.BringTo(0), "an instant 2^64 ns ahead")
	assert.Equal(t, uint64(widest), s.TAT)
}

// askQueue sends callers that reserve and callers that do not to one bucket. It returns what they were let through for, in the time of a watch that
// runs on when the limiter's clock is set back.
func askQueue(t require.TestingT, pick chance.Draw, drawParams func(chance.Draw) params, setBacks bool, steps int) (params, []admission) {
	p := drawParams(pick)
	limit := p.limit(t)
	longest := math.MaxInt64 - tolerance(limit)
	s := gcra.Bucket{Limit: limit}
	var log []admission
	tr := traffic{pick: pick, limit: limit, nowNs: start, forwards: true}
	behind := int64(0)
	for range steps {
		trueNow, quantity := tr.next()
		quantity = min(quantity, limit.Capacity())
		if setBacks && pick("set back", 1, 8) == 1 {
			behind += pick("set back by", 0, min(tolerance(limit), trueNow-behind))
		}
		now := trueNow - behind
		corrected := s.BringTo(now)
		require.True(t, setBacks || !corrected)
		tr.last = gcra.Decision{RetryAfter: s.RetryAfter(now, quantity), ResetAfter: resetAfter(&s, now)}
		wait := tr.last.RetryAfter
		switch kind := pick("caller", 1, 3); {
		case kind <= 2 && wait > 0 || wait > longest || wait > math.MaxInt64-trueNow:
			continue
		default:
			s.Charge(now, quantity, wait)
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

func TestAStateAllocatesNothing(t *testing.T) {
	limit := perSecond(t, 10, 3)
	s := reserved(limit, 10)
	buffer := make([]byte, 0, gcra.MaxEncodedLen)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		s.BringTo(start)
		reserve(&s, start, 1)
		s.ChargeDenied(start, 1, 0)
		s.Refund(start, 1)
		sink.Remaining = s.Available(start) + nextAfter(&s, start) + resetAfter(&s, start)
		assert.NoError(t, s.Decode(s.Append(buffer)))
	}))
}
