// Words one by one.
package words

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/size"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set(size.Of("300", "3000"))
	}
	m.Run()
}

// Decimal numbers are drawn below; spec/errors.txt has what callers get wrong.
func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"0", 0, true},
		{"-0", 0, false},
		{"5s", 5 * time.Second, true},
		{"+5s", 0, false},
		{"05", 0, false},
		{"00", 0, false},
		{"0.5s", 500 * time.Millisecond, true},
		{"1.000000000s", time.Second, true},
		{"0.000000001s", 1, true},
		{"0.000001ms", 1, true},
		{"0.0", 0, true},
		{"0.0000152587890625d", 1318359375, true}, // 2^-16
		{"36499.5d", MaxDuration - 12*time.Hour, true},
		{"36500.0d", MaxDuration, true},
		{"36500.5d", 0, false},
		{"0.0000000001", 0, false},
		{"1.0000000001s", 0, false},
		{"0.00000762939453125d", 0, false}, // 2^-17
		{"9223372036854775807.5", 0, false},
		{"18446744073709551615.9d", 0, false},
		{".5", 0, false},
		{"5.", 0, false},
		{".", 0, false},
		{"1.5.5", 0, false},
		{"-0.5", 0, false},
		{"0.-5", 0, false},
		{"1.5e3", 0, false},
		{"s", time.Second, true},
		{"ms", time.Millisecond, true},
		{"500ms", 500 * time.Millisecond, true},
		{"d", 24 * time.Hour, true},
		{"36500d", MaxDuration, true},
		{"3153600000000ms", MaxDuration, true},
		{"36501d", 0, false},
		{"3153600000001ms", 0, false},
		{"9223372036854775808", 0, false},
		{"-1", 0, false},
		{"", 0, false},
		{"x", 0, false},
		{"5w", 0, false},
		{"5." + strings.Repeat("0", maxNumberLen-3) + "s", 5 * time.Second, true},
		{"5." + strings.Repeat("0", maxNumberLen-1), 0, false},
		{strings.Repeat("0", maxNumberLen-1) + "5", 0, false},
		{strings.Repeat("9", 1<<20), 0, false},
		{"0." + strings.Repeat("9", 1<<20), 0, false},
	} {
		got, err := ParseDuration([]byte(tt.text))
		assert.Equal(t, tt.ok, err == nil, tt.text)
		assert.Equal(t, int64(tt.want), got, tt.text)
	}
}

// Where no unit follows, CL.THROTTLE means seconds and everything else refuses the number.
func TestABareNumberNeedsAUnit(t *testing.T) {
	for text, want := range map[string]struct {
		n    int64
		unit time.Duration
	}{"5": {5, time.Second}, "60": {60, time.Second}, "0.5": {5, 100 * time.Millisecond}, "5." + strings.Repeat("0", maxNumberLen-2): {5, time.Second}} {
		_, err := ParseDuration([]byte(text))
		assert.Equal(t, ErrNoUnit, err, text)
		_, _, _, err = parseQuota([]byte("9/" + text))
		if len(text) < maxNumberLen {
			assert.Equal(t, ErrNoUnit, err, text)
		}
		n, unit, err := ParsePeriod([]byte(text))
		assert.NoError(t, err, text)
		assert.Equal(t, []any{want.n, want.unit}, []any{n, unit}, text)
	}
	for _, text := range []string{"0", "0.0"} {
		ns, err := ParseDuration([]byte(text))
		assert.NoError(t, err, text)
		assert.Zero(t, ns)
	}
}

func TestParseQuota(t *testing.T) {
	for _, tt := range []struct {
		text     string
		count, n int64
		unit     time.Duration
	}{
		{"5/s", 5, 1, time.Second},
		{"5/7s", 5, 7, time.Second},
		{"9223372036854775807/9223372036854775807d", math.MaxInt64, math.MaxInt64, 24 * time.Hour},
		{"5/1.5s", 5, 15, 100 * time.Millisecond},
		{"5/1.0s", 5, 1, time.Second},
		{"5/0.7s", 5, 7, 100 * time.Millisecond},
		{"1/9223372036854775807.0d", 1, math.MaxInt64, 24 * time.Hour},
		{"1/100000000000000000.5d", 1, 1e18 + 5, 144 * time.Minute},
	} {
		count, n, unit, err := parseQuota([]byte(tt.text))
		assert.NoError(t, err, tt.text)
		assert.Equal(t, []any{tt.count, tt.n, tt.unit}, []any{count, n, unit}, tt.text)
	}
	for _, text := range []string{"", "/", "5", "5/", "/5", "05/s", "5/05", "+5/s", "-0/s", "5.0/s", "5/.5",
		strings.Repeat("0", maxNumberLen) + "5/s", "5/" + strings.Repeat("0", maxNumberLen) + "s"} {
		_, _, _, err := parseQuota([]byte(text))
		assert.Equal(t, errMalformed, err, text)
	}
	for text, want := range map[string]error{"5/0": errZero, "5/0.0": errZero, "9223372036854775808/0": errTooMany, "5/9223372036854775808": errTooLong, "5/99999999999999999999.5h": errTooLong} {
		_, _, _, err := parseQuota([]byte(text))
		assert.Equal(t, want, err, text)
	}
	for _, text := range []string{"5/0.0000000001", "5/1.00000000001s", "5/0.0000001ms", "5/0.00000762939453125d",
		"5/0." + strings.Repeat("3", 50)} {
		_, _, _, err := parseQuota([]byte(text))
		assert.Equal(t, ErrTooFine, err, text)
	}
}

// As the server's own commands read integers (string2ll in its sources).
func TestParseInt(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 10, 101, -10, math.MaxInt64 - 1, math.MaxInt64, math.MinInt64, math.MinInt64 + 1} {
		got, ok := ParseInt([]byte(strconv.FormatInt(n, 10)))
		assert.True(t, ok, n)
		assert.Equal(t, n, got)
	}
	for _, text := range []string{"", "-", "+", "+1", "+0", "-0", "00", "01", "-01", "--1", "+-1", " 1", "1 ", "1.0", "1e3", "0x1", "1\x00",
		"9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "99999999999999999999",
		"100000000000000000000", strings.Repeat("9", 1<<20)} {
		_, ok := ParseInt([]byte(text))
		assert.False(t, ok, "%.30q", text)
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "7": 7, "8": 8, "0": 0, "9": 0, "-1": 0, "x": 0, "": 0, "9223372036854775807": 0} {
		n, ok := ParseCount([]byte(text), 8)
		assert.Equal(t, want > 0, ok, text)
		assert.Equal(t, want, n, text)
	}
}

// A decimal number is what arithmetic in fractions of any size says, or refused.
func TestADecimalPeriodIsExactOrRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.OneOf(rapid.Uint64Range(0, 1000), rapid.Uint64()).Draw(t, "whole")
		fraction := rapid.StringMatching(`[0-9]{1,12}|[0-9]{1,20}0{0,9}|0{1,9}[0-9]{1,9}|(5|25|125|0625|0009765625|0000152587890625)`).Draw(t, "fraction")
		unit := rapid.SampledFrom([]string{"", "ms", "s", "m", "h", "d"}).Draw(t, "unit")
		text := fmt.Sprintf("%d.%s%s", whole, fraction, unit)
		n, part, err := parseLength([]byte(text), 1)
		if unit == "" && n > 0 {
			require.Equal(t, ErrNoUnit, err, text)
			err = nil // it is read as seconds all the same
		}

		unitNs := map[string]int64{"": 1e9, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 86400e9}[unit]
		want, _ := new(big.Rat).SetString(fmt.Sprintf("%d.%s", whole, fraction))
		want.Mul(want, new(big.Rat).SetInt64(unitNs))
		switch {
		case err == nil:
			got := new(big.Rat).Mul(new(big.Rat).SetInt64(n), new(big.Rat).SetInt64(int64(part)))
			require.Zero(t, want.Cmp(got), "%s: %s instead of %s", text, got, want)
		case errors.Is(err, ErrTooFine):
			require.False(t, want.IsInt(), text)
		default:
			require.Positive(t, want.Cmp(new(big.Rat).SetInt64(math.MaxInt64)), "%s is refused", text)
		}
	})
}

func TestAWordIsItsLettersInAnyCase(t *testing.T) {
	strict := rowOf(vocabulary, "STRICT")
	for _, word := range []string{"STRICT", "strict", "Strict", "sTRiCt"} {
		assert.True(t, strict.is([]byte(word)), word)
	}
	for _, word := range []string{"", "STRIC", "STRICTS", " STRICT", "STRICT\x00", "\u017ftrict", "\u017ftric", "5TRICT", "\x13TRICT", "\xd3TRICT"} {
		assert.False(t, strict.is([]byte(word)), "%q", word)
	}
}
