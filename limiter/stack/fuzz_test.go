// Arbitrary bytes in a key: refused, or read as exactly what they say; never a panic, and
// every answer within its range.
package stack_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/stack"
)

func FuzzDecode(f *testing.F) {
	for _, specs := range [][]spec{
		{rate(5, second, 5)},
		{rate(5, second, 5), rate(100, minute, 100)},
		{window(100, minute)},
		{fixed(30, minute)},
		{rate(5, second, 5), window(100, minute), fixed(30, minute)},
		{window(100, minute), window(100, minute)},
	} {
		k := key{t: f}
		for i := range int64(70) {
			k.take(limits(f, specs...), stack.Request{Cost: 1, MaxWaitNs: minute}, start+i*second/100)
		}
		f.Add(k.value, start, int64(1), int64(0), uint8(0))
		f.Add(k.value, start+hour, int64(1), int64(0), uint8(1))
		f.Add(k.value, int64(0), int64(math.MaxInt64), int64(math.MaxInt64), uint8(2))
	}
	f.Add([]byte("18446744073709551615"), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), uint8(0))
	f.Add(unhex(f, "01 01 01 ffffffffffffff7f 1000 ffffffffffffffff ffffffffffffff7f"), int64(0), int64(1), int64(math.MaxInt64), uint8(0))
	f.Add(unhex(f, "01 02 01 00ca9a3b00000000 5000 ffffffffffffffff 0000000000000000"+strings.Repeat(" 0100000000000000", 8)+
		" 01 00ca9a3b00000000 0000"), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), uint8(0))
	f.Add(unhex(f, "01 02 01 00ca9a3b00000000 3000 0000000000000001 0000000000000000 0000000000000000 0000000000000001"+
		" 01 00ca9a3b00000000 0000"), start, int64(3), int64(second), uint8(0))
	f.Add(unhex(f, "01 01 03 ffffffffffffff7f 0a00 00 ffffffffffffffff7f"), int64(5), int64(7), int64(0), uint8(3))
	for _, options := range []uint8{4, 8, 16 + 64, 56 + 128, 8 + 64 + 4, 255} {
		f.Add(unhex(f, "01 01 03 ffffffffffffff7f 0a00 00 ffffffffffffffff7f"), int64(5), int64(math.MaxInt64), int64(0), options)
		f.Add([]byte("18446744073709551615"), int64(math.MaxInt64), int64(math.MaxInt64), int64(0), options)
	}
	f.Add([]byte{1}, int64(1), int64(1), int64(0), uint8(0))
	for _, found := range []struct { // by the fuzzer
		value                   string
		nowNs, count, maxWaitNs int64
		options                 uint8
	}{
		{"\x01\x01\x0300000000\n\x00\x00\xff\xff\xff\xff00000", 5, 7, 0, 3},
		{"100000000000000000", math.MaxInt64 - 66, 3, math.MaxInt64, 0},
		{"\x01\x01000000000\x00\x00", 1700000040000000000, 1, 0, 0},
		{"10", -38, -45, 0, 0},
		{"10A00000000000000000", math.MaxInt64, 1, math.MaxInt64, 0},
		{"0", -3, 1, -73, 0},
		{"\x01\x03\x01000000000\x00000000000000000000000000000000000000000000000000", 0, math.MaxInt64 - 56, math.MaxInt64 - 159, 0},
		{"\x01\x03\x0100000000\x10\x00000000000000000\xf0", 1700000040000000000, -18, 0, 0},
		{"\x01\x03\x0200000000\x02\x0000", -31, math.MaxInt64, math.MaxInt64, 75},
		{"1", 0, 57, 12, 83},
		{"1A000000000000000000", math.MaxInt64, 1, math.MaxInt64 - 66, 27},
		{"\x01\x01\x010000000000", 1700003639999999966, 1, 20, 1},
	} {
		f.Add([]byte(found.value), found.nowNs, found.count, found.maxWaitNs, found.options)
	}

	f.Fuzz(func(t *testing.T, value []byte, nowNs, count, maxWaitNs int64, options uint8) {
		var s stack.Stack
		if !requireRefusedOrExact(t, &s, value) {
			return
		}
		if nowNs < 0 || count < 1 || maxWaitNs < 0 {
			return
		}
		r := stack.Request{
			Cost:      count,
			UpTo:      options&1 != 0,
			Strict:    options&2 != 0,
			Force:     options&4 != 0,
			MaxWaitNs: maxWaitNs,
		}
		if r.Force {
			r.MaxWaitNs = 0
		}
		exercise(t, resized(t, count, value, options), value, nowNs, r)
	})
}

// resized is the stack that value describes, of other counts and, by the options, under terms.
func resized(t require.TestingT, count int64, value []byte, options uint8) (s *stack.Stack) {
	s = &stack.Stack{}
	for i, as := range describes(value) {
		if options>>(i%3)&8 != 0 {
			as.terms = stack.Terms{Shadow: options&64 != 0, HasTake: options&1 == 0 && options&128 != 0, Take: count / 2, Spare: count / 3}
		}
		as.count, as.capacity = count, count
		if _, err := stack.NewRate(count, as.periodNs, time.Nanosecond, count); err != nil {
			as.count, as.capacity = min(count, as.periodNs), 1
		}
		s.Add(as.limit(t))
	}
	return s
}

// exercise checks the range of every answer, and that what a write leaves can be read.
func exercise(t *testing.T, s *stack.Stack, value []byte, nowNs int64, r stack.Request) {
	if !s.RatesOnly() {
		r.MaxWaitNs = 0
	}
	for _, decide := range []func(*stack.Stack) stack.Result{
		func(s *stack.Stack) stack.Result { return s.Take(r, nowNs) },
		func(s *stack.Stack) stack.Result { return s.Take(stack.Request{Cost: 1}, nowNs) },
		func(s *stack.Stack) stack.Result { return s.Peek(r.Cost, nowNs) },
		func(s *stack.Stack) stack.Result { return s.Refund(r.Cost, nowNs) },
	} {
		var after stack.Stack
		after.Load(s.Limits(nil))
		require.NoError(t, after.Decode(value))
		result := decide(&after)
		require.True(t, !result.Limited || result.Granted == 0 || r.Force, "%+v", result)
		requireInRange(t, after.Len(), result)
		if !result.Changed || after.ExpireAt(nowNs) <= uint64(nowNs) {
			continue
		}
		written := after.Append(nil)
		require.LessOrEqual(t, len(written), stack.MaxEncodedLen)
		var read stack.Stack
		read.Load(s.Limits(nil))
		require.NoError(t, read.Decode(written))
		require.True(t, bytes.Equal(written, read.Append(nil)))
		require.Equal(t, after.Peek(1, nowNs), read.Peek(1, nowNs), "%x", written)
	}
}

func requireInRange(t require.TestingT, n int, r stack.Result) {
	require.True(t, r.Rule >= 0 && r.Rule < n, "%+v", r)
	require.Positive(t, r.Limit)
	require.True(t, r.Remaining >= 0 && r.Remaining <= r.Limit, "%+v", r)
	require.True(t, r.RetryAfterNs == stack.Never || r.RetryAfterNs > 0 && r.Limited, "%+v", r)
	require.True(t, r.NextAfterNs >= 0 && r.NextAfterNs <= r.ResetAfterNs, "%+v", r)
	require.Equal(t, r.ResetAfterNs == 0, r.NextAfterNs == 0, "%+v", r)
	require.GreaterOrEqual(t, r.WaitNs, int64(0))
	require.True(t, !r.Limited || r.WaitNs == 0, "%+v", r)
	require.True(t, r.Shadow >= 0 && r.Shadow <= n, "%+v", r)
}
