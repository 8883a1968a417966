// Words one by one.
package command

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"0", 0, true},
		{"-0", 0, true},
		{"5", 5 * time.Second, true},
		{"+5s", 5 * time.Second, true},
		{"s", time.Second, true},
		{"ms", time.Millisecond, true},
		{"500ms", 500 * time.Millisecond, true},
		{"90m", 90 * time.Minute, true},
		{"24h", 24 * time.Hour, true},
		{"d", 24 * time.Hour, true},
		{"36500d", maxDuration, true},
		{"876000h", maxDuration, true},
		{"3153600000000ms", maxDuration, true},
		{"36501d", 0, false},
		{"876001h", 0, false},
		{"3153600000001ms", 0, false},
		{"9223372036854775807", 0, false},
		{"9223372036854775808", 0, false},
		{"-1", 0, false},
		{"-1d", 0, false},
		{"-9223372036854775808", 0, false},
		{"", 0, false},
		{"+", 0, false},
		{"x", 0, false},
		{"5w", 0, false},
		{"5 s", 0, false},
		{"5S", 0, false},
		{"s5", 0, false},
		{"5ss", 0, false},
		{"5us", 0, false},
		{"1.5s", 0, false},
		{strings.Repeat("0", maxNumberLen-1) + "5", 5 * time.Second, true},
		{strings.Repeat("0", maxNumberLen) + "5", 0, false},
	} {
		got, ok := parseDuration([]byte(tt.text))
		assert.Equal(t, tt.ok, ok, tt.text)
		assert.Equal(t, int64(tt.want), got, tt.text)
	}
}

func TestParseQuota(t *testing.T) {
	for _, tt := range []struct {
		text     string
		count, n int64
		unit     time.Duration
	}{
		{"5/s", 5, 1, time.Second},
		{"5/7", 5, 7, time.Second},
		{"9223372036854775807/9223372036854775807d", math.MaxInt64, math.MaxInt64, 24 * time.Hour},
		{strings.Repeat("0", maxNumberLen-2) + "5/" + strings.Repeat("0", maxNumberLen-2) + "9m", 5, 9, time.Minute},
	} {
		count, n, unit, ok := parseQuota([]byte(tt.text))
		assert.True(t, ok, tt.text)
		assert.Equal(t, []any{tt.count, tt.n, tt.unit}, []any{count, n, unit}, tt.text)
	}
	for _, text := range []string{"", "/", "5", "5/", "/5", strings.Repeat("0", maxNumberLen) + "5/s", "5/" + strings.Repeat("0", maxNumberLen) + "s"} {
		_, _, _, ok := parseQuota([]byte(text))
		assert.False(t, ok, text)
	}
}

func TestAKeywordIsItsLettersInAnyCase(t *testing.T) {
	for _, word := range []string{"STRICT", "strict", "Strict", "sTRiCt"} {
		assert.True(t, isKeyword([]byte(word), "STRICT"), word)
	}
	for _, word := range []string{"", "STRIC", "STRICTS", " STRICT", "STRICT\x00", "\u017ftrict", "\u017ftric", "5TRICT", "\x13TRICT", "\xd3TRICT"} {
		assert.False(t, isKeyword([]byte(word), "STRICT"), "%q", word)
	}
}

func TestTakeAndSkip(t *testing.T) {
	w := words{args: [][]byte{[]byte("key"), []byte("a"), []byte("Burst"), []byte("b")}, next: 1}
	assert.False(t, w.skip("BURST"))
	word, ok := w.take()
	assert.True(t, ok)
	assert.Equal(t, "a", string(word))
	assert.True(t, w.skip("BURST"))
	word, _ = w.take()
	assert.Equal(t, "b", string(word))
	assert.False(t, w.skip("BURST"))
	_, ok = w.take()
	assert.False(t, ok)
}
