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
		{100, 3, 3, 30}, {30, 3, 3, 30}, {29, 3, 3, 29}, {30, 4, 3, 30}, {21, 4, 3, 21}, {20, 2, 2, 20}, {19, 1, 1, 10}, {9, 1, 1, 9}, {0, 1, 0, 0},
		{100, 0, 0, 0},
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
