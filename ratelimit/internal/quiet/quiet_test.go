package quiet_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit/internal/quiet"
)

// A flood of failures is one line of each kind in each interval, and none goes uncounted.
//
//nolint:paralleltest // it sets the default logger
func TestErrorsThatRepeatAreCountedAndNotLogged(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		var printed bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&printed, nil)))
		lines := func() (lines []string) {
			lines = strings.Split(strings.TrimSpace(printed.String()), "\n")
			printed.Reset()
			return lines
		}
		var log quiet.Log
		fail := func(kind string) { log.Error(context.Background(), kind, "no answer", errors.New("boom")) }

		for range 1000 {
			fail("outage")
			fail("mistake")
		}
		first := lines()
		require.Len(t, first, 2)
		assert.Contains(t, first[0], "kind=outage error=boom")
		assert.Contains(t, first[1], "kind=mistake error=boom")
		assert.NotContains(t, first[0], "left_out")

		time.Sleep(quiet.Interval - 1)
		fail("outage")
		assert.Equal(t, []string{""}, lines(), "the interval is not over")
		time.Sleep(time.Nanosecond)
		fail("outage")
		fail("outage")
		second := lines()
		require.Len(t, second, 1)
		assert.Contains(t, second[0], "left_out=1000")
		time.Sleep(quiet.Interval)
		fail("outage")
		assert.Contains(t, lines()[0], "left_out=1")
		time.Sleep(quiet.Interval)
		fail("outage")
		assert.NotContains(t, lines()[0], "left_out", "nothing was")
	})
}
