// Buckets with reservations: lifts and encodings as tables. Their rules are in spec/rate.txt, and every answer is
// compared in model_test.go.
package gcra_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
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

func TestDecodeRefusesWhatIsNoBucket(t *testing.T) {
	word := func(b byte) []byte { return bytes.Repeat([]byte{b}, 8) }
	zero, one, top, longest := word(0), word(1), append(word(0)[:7], 0x80), append(word(0xff)[:7], 0x7f)
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
	for _, encoded := range [][]byte{one, word(0xff), append(word(0xff), one...), append(word(1), longest...), words(word(9), zero, one, one),
		words(word(0xff), one, word(0x7f), word(0x7f)), words(word(2), one, one, one),
		words(word(0xff), one, one, one, one, one, one, one, one, one)} {
		var s gcra.State
		require.NoError(t, s.Decode(encoded))
		assert.Equal(t, encoded, s.Append(nil))
	}
}

func words(words ...[]byte) []byte { return slices.Concat(words...) }

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
