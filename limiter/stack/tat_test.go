package stack

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What is read eight digits at a time is what is read digit by digit.
func TestATATIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Uint64().Draw(t, "tat")
		got, ok := ParseTAT(strconv.AppendUint(nil, want, 10))
		require.True(t, ok)
		require.Equal(t, want, got)
	})
}

func TestATATIsWrittenInDecimalDigits(t *testing.T) {
	for _, tat := range []uint64{0, 9, 10, 1e18 - 1, 1e18, 1e18 + 1, 1e19 - 1, 1e19, math.MaxInt64, math.MaxUint64} {
		assert.Equal(t, strconv.FormatUint(tat, 10), string(AppendTAT(nil, tat)))
	}
	for n := range uint64(10_000) { // all that a half of eight digits can be
		want := fmt.Sprintf("1%03d%04d%04d%04d%03d", n%1000, n, 9999-n, n, n/10)
		tat, err := strconv.ParseUint(want, 10, 64)
		require.NoError(t, err)
		require.Equal(t, "x"+want, string(AppendTAT([]byte("x"), tat)))
	}
	rapid.Check(t, func(t *rapid.T) {
		tat := rapid.Uint64Range(1e18, 1e19-1).Draw(t, "tat")
		require.Equal(t, strconv.FormatUint(tat, 10), string(AppendTAT(nil, tat)))
	})
}

func TestOnlyDigitsAreATAT(t *testing.T) {
	for _, good := range []string{"1700000000000000000", "9999999999999999999", "1000000000000000001", "1234567890123456789"} {
		for place := range good {
			for b := range 256 {
				text := []byte(good)
				text[place] = byte(b)
				want, wantOK := parseTAT(text)
				got, ok := ParseTAT(text)
				require.Equal(t, wantOK, ok, "%q", text)
				require.Equal(t, want, got, "%q", text)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		alphabet := []byte("0123456789/:\x00\x2f\x3a\x7f\x80\xb0\xb9\xff")
		text := rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 24).Draw(t, "text")
		want, wantOK := parseTAT(text)
		got, ok := ParseTAT(text)
		assert.Equal(t, wantOK, ok, "%q", text)
		assert.Equal(t, want, got, "%q", text)
	})
}
