package commands_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/stack"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// startMany skips servers that are not told of keys behind a number.
func startMany(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	s := server.Start(t, opts...)
	s.Program.NeedsCountedKeys(t)
	return s
}

// The longest values that there are, of eight keys at once: each of eight windows is charged in each of the 65 slots of
// 100 days that it touches. They are the same that a call for one key writes.
func TestMLimitWritesTheLongestValuesOfEightKeys(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	virtual := clock.New(t, at)
	s := virtual.Start()
	s.Program.NeedsCountedKeys(t)
	c := s.Raw()
	var limits string
	for i := range stack.MaxLimits {
		limits += fmt.Sprintf(" WINDOW %d/6400d", math.MaxInt64-i)
	}
	for range 70 {
		at += int64(99 * 24 * time.Hour)
		virtual.Set(at)
		assert.Zero(t, kit.Do(t, c, "CL.MLIMIT 8 a b c d e f g h%s COST %d COMPACT", limits, int64(1)<<56).Elems[0].Int)
		assert.Zero(t, kit.Do(t, c, "CL.LIMIT one%s COST %d COMPACT", limits, int64(1)<<56).Elems[0].Int)
	}
	want := kit.Do(t, c, "GET one").Text
	assert.Len(t, want, stack.MaxEncodedLen)
	for _, name := range strings.Fields("a b c d e f g h") {
		assert.Equal(t, want, kit.Do(t, c, "GET %s", name).Text, name)
	}
}
