package command

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const epochSeconds = 1_700_000_000 // an arbitrary now, in s since the epoch
const nowNs = int64(epochSeconds) * nsPerSecond

// run decides a call of CL.THROTTLE whose words are given as one line, at nowNs.
func run(value string, words string) *Call {
	c := &Call{In: &In{NowNs: nowNs}, Key: &Key{Kind: String, Value: []byte(value), Room: make([]byte, 0, MaxValueLen)}}
	if value == "" {
		c.Kind = Absent
	}
	for _, word := range strings.Fields(words) {
		c.Args = append(c.Args, []byte(word))
	}
	c.ArgCount = len(c.Args)
	c.Run(Throttle)
	return c
}

// tatIn is a stored TAT that lies so many ns after now.
func tatIn(ns int64) string { return strconv.FormatInt(nowNs+ns, 10) }

func TestThrottleAnswersFiveIntegersAndSaysWhatToStore(t *testing.T) {
	const s = nsPerSecond
	for _, test := range []struct {
		name     string
		value    string
		args     string
		want     []int64
		newValue string
		expireAt int64 // s after now
	}{
		{"times round up", tatIn(31*s + 1), "k 15 30 60", []int64{1, 16, 0, 2, 32}, "", 0},
		{"a TAT gone by is a full bucket", tatIn(-5), "k 15 30 60", []int64{0, 16, 15, -1, 2}, tatIn(2 * s), 2},
		{"a zero TAT is a full bucket", "0", "k 15 30 60", []int64{0, 16, 15, -1, 2}, tatIn(2 * s), 2},
		{"a year a unit", "", "k 0 1 365d", []int64{0, 1, 0, -1, 31536000}, tatIn(31536000 * s), 31536000},
		{"hours", "", "k 0 1 1h", []int64{0, 1, 0, -1, 3600}, tatIn(3600 * s), 3600},
		{"days", "", "k 0 1 1d", []int64{0, 1, 0, -1, 86400}, tatIn(86400 * s), 86400},
		{"half a second", "", "k 0 1 0.5", []int64{0, 1, 0, -1, 1}, tatIn(s / 2), 1},
		{"a nanosecond", "", "k 0 1 0.000001ms", []int64{0, 1, 0, -1, 1}, tatIn(1), 1},
		{"a period of more than 63 bits of nanoseconds", "", "k 0 1000000000 1000000000000.5", []int64{0, 1, 0, -1, 1001},
			tatIn(1000000000001), 1001},
		{"bytes per second", "", "k 1048575 1048576 1 65536", []int64{0, 1048576, 983040, -1, 1}, tatIn(954 * 65536), 1},
		{"10^9 per second", "", "k 0 1000000000 1", []int64{0, 1, 0, -1, 1}, tatIn(1), 1},
		{"a raised rate starts from an empty bucket", tatIn(86400 * s), "k 9 10 1", []int64{1, 10, 0, 1, 1}, tatIn(s), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := run(test.value, test.args)
			require.Equal(t, ReplyIntegers, c.Reply, string(c.Error))
			assert.Equal(t, test.want, c.Integers)
			assert.Equal(t, test.newValue, string(c.NewValue))
			if test.newValue == "" {
				assert.Equal(t, Keep, c.Effect)
				return
			}
			assert.Equal(t, Set, c.Effect)
			assert.Equal(t, (epochSeconds+test.expireAt)*1000, c.ExpireAtMs)
		})
	}
}

func TestThrottleRefusesBadArgumentsByName(t *testing.T) {
	const tooBig = "9223372036854775808"
	for _, test := range []struct{ args, want string }{
		{"k x 1 1", badMaxBurst},
		{"k 1.5 1 1", badMaxBurst},
		{"k -1 1 1", badMaxBurst},
		{"k " + tooBig + " 1 1", badMaxBurst},
		{"k 9223372036854775807 1 1", badMaxBurst},
		{"k 1 x 1", badCount},
		{"k 1 1e3 1", badCount},
		{"k 1 0 1", badCount},
		{"k 1 -5 1", badCount},
		{"k 1 " + tooBig + " 1", badCount},
		{"k 1 1 x", badPeriod},
		{"k 1 1 0", badPeriod},
		{"k 1 1 -1", badPeriod},
		{"k 1 1 0.0", badPeriod},
		{"k 1 1 -0.5", badPeriod},
		{"k 1 1 .5", badPeriod},
		{"k 1 1 5.", badPeriod},
		{"k 1 1 1.5.5", badPeriod},
		{"k 1 1 01", badPeriod},
		{"k 1 1 +1", badPeriod},
		{"k 1 1 -0", badPeriod},
		{"k 1 1 0.0000000001", badFraction},
		{"k 1 1 0.0000001ms", badFraction},
		{"k 1 1 1." + strings.Repeat("3", 40) + "d", badFraction},
		{"k 01 1 1", badMaxBurst},
		{"k +1 1 1", badMaxBurst},
		{"k -0 1 1", badMaxBurst},
		{"k 1 01 1", badCount},
		{"k 1 +1 1", badCount},
		{"k 1 1 1 01", badQuantity},
		{"k 1 1 1 +1", badQuantity},
		{"k 1 1 1 -0", badQuantity},
		{"k 1 1 s", badPeriod},
		{"k 1 1 1w", badPeriod},
		{"k 1 1 1M", badPeriod},
		{"k 1 1 " + tooBig, badPeriod},
		{"k 1 1 " + strings.Repeat("0", 100) + "1", badPeriod},
		{"k 1 1 1 x", badQuantity},
		{"k 1 1 1 -1", badQuantity},
		{"k 1 1 1 1.0", badQuantity},
		{"k 1 1 1 " + tooBig, badQuantity},
		{"k 1 1000000001 1", badRate},
		{"k 1 9223372036854775807 1s", badRate},
		{"k 292 1 365d", badTolerance},
		{"k 0 1 9223372037", badTolerance},
		{"k 9223372036854775806 1 1", badTolerance},
		{"k 0 1 9223372036854775807d", badTolerance},
	} {
		t.Run(test.args, func(t *testing.T) {
			c := run("", test.args)
			assert.Equal(t, ReplyError, c.Reply)
			assert.Equal(t, test.want, string(c.Error))
			assert.Equal(t, Keep, c.Effect)
		})
	}
}

func TestThrottleRefusesEmptyArgumentsByName(t *testing.T) {
	for i, want := range []string{1: badMaxBurst, 2: badCount, 3: badPeriod, 4: badQuantity} {
		if want == "" {
			continue
		}
		c := &Call{In: &In{NowNs: nowNs, ArgCount: 5, Args: [][]byte{[]byte("k"), []byte("1"), []byte("1"), []byte("1"), []byte("1")}}, Key: &Key{}}
		c.Args[i] = nil
		c.Run(Throttle)
		assert.Equal(t, want, string(c.Error))
	}
}

func TestThrottleLimitsUpTo292YearsOfTolerance(t *testing.T) {
	c := run("", "k 0 1 9223372036")
	require.Equal(t, ReplyIntegers, c.Reply, string(c.Error))
	assert.Equal(t, []int64{0, 1, 0, -1, 9223372036}, c.Integers)
	assert.Equal(t, strconv.FormatUint(uint64(nowNs)+9223372036*nsPerSecond, 10), string(c.NewValue), "beyond 63 bits")
	assert.Len(t, c.NewValue, 20)
}

func TestThrottleWantsFourOrFiveArguments(t *testing.T) {
	for _, args := range []string{"k", "k 1", "k 1 1", "k 1 1 1 1 1"} {
		c := run("", args)
		assert.Equal(t, ReplyWrongArity, c.Reply, args)
		assert.Equal(t, Keep, c.Effect, args)
	}
}

func TestThrottleRefusesKeysThatHoldNoTAT(t *testing.T) {
	for _, value := range []string{"bar", "-5", strings.Repeat("9", 40), "18446744073709551616", "01", "1.5", " 1", "+1"} {
		c := run(value, "k 15 30 60")
		assert.Equal(t, wrongValue, string(c.Error), value)
		assert.Equal(t, Keep, c.Effect, value)
	}
	empty := &Call{In: &In{NowNs: nowNs, ArgCount: 4, Args: [][]byte{nil, []byte("1"), []byte("1"), []byte("1")}}, Key: &Key{Kind: String}}
	empty.Run(Throttle)
	assert.Equal(t, wrongValue, string(empty.Error), "an empty string")

	list := &Call{In: &In{NowNs: nowNs, ArgCount: 4, Args: empty.Args}, Key: &Key{Kind: Other}}
	list.Run(Throttle)
	assert.Equal(t, wrongType, string(list.Error))
}

func TestADecisionDoesNotAllocate(t *testing.T) {
	for name, c := range map[string]*Call{
		"allowed": run("", "k 15 30 60 1"),
		"denied":  run(tatIn(32*nsPerSecond), "k 15 30 60 1"),
		"peek":    run(tatIn(32*nsPerSecond), "k 15 30 60 0"),
		"error":   run("bar", "k 15 30 60 1"),
	} {
		c.Past = &Past{}
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.Run(Throttle) }), name)
	}
}

func BenchmarkThrottle(b *testing.B) {
	for name, c := range map[string]*Call{
		"allowed": run(tatIn(0), "user:12345 15 30 60 1"),
		"denied":  run(tatIn(32*nsPerSecond), "user:12345 15 30 60 1"),
		"peek":    run(tatIn(32*nsPerSecond), "user:12345 15 30 60 0"),
	} {
		c.Past = &Past{}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Run(Throttle)
			}
		})
	}
}
