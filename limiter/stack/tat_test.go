package stack_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/limiter/stack"
)

func TestATATIsWrittenInDecimalDigits(t *testing.T) {
	for _, tat := range []uint64{0, 9, 10, 1e18 - 1, 1e18, 1e18 + 1, 1e19 - 1, 1e19, math.MaxInt64, math.MaxUint64} {
		assert.Equal(t, strconv.FormatUint(tat, 10), string(stack.AppendTAT(nil, tat)))
	}
	for n := range uint64(10_000) { // all that a half of eight digits can be
		want := fmt.Sprintf("1%03d%04d%04d%04d%03d", n%1000, n, 9999-n, n, n/10)
		tat, err := strconv.ParseUint(want, 10, 64)
		require.NoError(t, err)
		require.Equal(t, "x"+want, string(stack.AppendTAT([]byte("x"), tat)))
	}
	rapid.Check(t, func(t *rapid.T) {
		tat := rapid.Uint64Range(1e18, 1e19-1).Draw(t, "tat")
		require.Equal(t, strconv.FormatUint(tat, 10), string(stack.AppendTAT(nil, tat)))
	})
}

// Texts of nineteen characters are read eight at a time.
func TestATATIsReadExactlyAsItIsWritten(t *testing.T) {
	check := func(t require.TestingT, text string) {
		want, err := strconv.ParseUint(text, 10, 64)
		wantOK := err == nil && strconv.FormatUint(want, 10) == text
		got, ok := stack.ParseTAT([]byte(text))
		require.Equal(t, wantOK, ok, "%q", text)
		if ok {
			require.Equal(t, want, got, "%q", text)
		}
	}
	for _, text := range []string{
		"0", "1", "9223372036854775808", "18446744073709551615", "18446744073709551616", "18446744073709551620",
		"99999999999999999999", "111111111111111111111", "", "00", "01", "-1", "+1", " 1", "1 ", "1.0", "1e3", "1\x00", ":", "/",
	} {
		check(t, text)
	}
	for _, good := range []string{"1700000000000000000", "9999999999999999999", "1000000000000000001", "1234567890123456789"} {
		for place := range good {
			for b := range 256 {
				text := []byte(good)
				text[place] = byte(b)
				check(t, string(text))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, strconv.FormatUint(rapid.Uint64().Draw(t, "tat"), 10))
		alphabet := []byte("0123456789/:\x00\x2f\x3a\x7f\x80\xb0\xb9\xff")
		check(t, string(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 24).Draw(t, "text")))
	})
}
