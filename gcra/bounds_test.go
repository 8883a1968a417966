// Each bound where one more or one less would show, and what other packages use.
package gcra_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gcra"
)

// tenEach is a limit of 5 units with 10 ns each.
func tenEach(t *testing.T) gcra.Limit {
	l, err := gcra.New(5, 1, 10, 1)
	require.NoError(t, err)
	return l
}

// with returns a bucket of tenEach that is full in so many ns from start, and may be queued.
func with(t *testing.T, backlog, queue int64) *gcra.Bucket {
	s := &gcra.Bucket{Limit: tenEach(t)}
	if backlog == 0 {
		return s
	}
	encoded := binary.LittleEndian.AppendUint64(nil, uint64(start+backlog))
	if queue > 0 {
		encoded = binary.LittleEndian.AppendUint64(encoded, uint64(queue))
	}
	require.NoError(t, s.Decode(encoded))
	return s
}

// Up to the last nanosecond of 63 bits Force takes all; then what fits, a part of a unit included.
func TestForceFillsUpTo63Bits(t *testing.T) {
	l := tenEach(t)
	for _, tt := range []struct{ room, quantity, took, backlog int64 }{
		{100, 3, 3, 30}, {30, 3, 3, 30}, {29, 3, 3, 29}, {30, 4, 3, 30}, {21, 4, 3, 21}, {20, 2, 2, 20}, {19, 1, 1, 10}, {9, 1, 1, 9}, {0, 1, 0, 0}, {100, 0, 0, 0},
	} {
		queue := math.MaxInt64 - tt.room - tolerance(l)
		s := with(t, math.MaxInt64-tt.room, queue)
		assert.Equal(t, tt.took, s.Force(start, tt.quantity), "%+v", tt)
		assert.Equal(t, math.MaxInt64-tt.room+tt.backlog, s.FullIn(start), "%+v", tt)
	}
	s := gcra.Bucket{Limit: l}
	assert.Equal(t, int64(7), s.Force(start, 7))
	assert.Equal(t, int64(70), s.FullIn(start), "a debt")
}

func TestTheLongestQueueIsAState(t *testing.T) {
	encoded := binary.LittleEndian.AppendUint64(nil, uint64(start))
	var s gcra.State
	assert.NoError(t, s.Decode(binary.LittleEndian.AppendUint64(encoded, math.MaxInt64)))
	assert.ErrorIs(t, s.Decode(binary.LittleEndian.AppendUint64(encoded, math.MaxInt64+1)), gcra.ErrEncoding)
}

// A state with a lift, whose TAT has gone by, is one that was never used, also for a call that does not bring it to now.
func TestALiftThatHasGoneByIsForgotten(t *testing.T) {
	l := tenEach(t)
	lifted := func() *gcra.Bucket {
		s := &gcra.Bucket{Limit: l}
		s.Charge(start, 2, 30) // idle for 30 ns, then 20 ns
		require.Equal(t, int64(50), s.FullIn(start))
		return s
	}
	for _, later := range []int64{start + 50, start + 51, start + 1000} {
		s := lifted()
		assert.Zero(t, s.Refund(later, 1))
		assert.Zero(t, s.State)
		s = lifted()
		s.Charge(later, 1, 0)
		assert.Equal(t, int64(10), s.FullIn(later))
		assert.Len(t, s.Append(nil), 8, "without the lift")
		s = lifted()
		s.Force(later, 1)
		assert.Len(t, s.Append(nil), 8, "without the lift")
		s = lifted()
		s.ChargeDenied(later, 1, 0)
		assert.Len(t, s.Append(nil), 8, "without the lift")
	}
	s := lifted()
	assert.Equal(t, int64(2), s.Refund(start+29, 2))
	assert.Zero(t, s.State, "the lift goes with the last unit that was charged since")
	s = lifted()
	assert.Equal(t, int64(2), s.Refund(start+30, 2))
	assert.Zero(t, s.State, "its slot has come")
}
