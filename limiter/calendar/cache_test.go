package calendar_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
)

// Clocks that jump in both directions, and more specs than the cache has room for.
func TestTheCacheSaysWhatTheSpecSays(t *testing.T) {
	var specs []calendar.Spec
	for i, name := range zoneNames(t) {
		unit := calendar.Unit(i%4 + 1)
		specs = append(specs, spec(t, 1, unit, name, 0), spec(t, 2, unit, name, 0), spec(t, 2, unit, name, time.Hour))
	}
	specs = append(specs, every(t, hour, 0), every(t, hour, time.Minute))
	random := rand.New(rand.NewPCG(1, 1))
	var cache calendar.Cache
	for range 20_000 {
		s := specs[random.IntN(len(specs))]
		now := random.Int64()
		for range 4 {
			w := s.At(now)
			require.Equal(t, w, cache.At(s, now))
			require.Equal(t, w, cache.At(s, max(w.Start, 0)))
			require.Equal(t, w, cache.At(s, w.End-1))
			require.Equal(t, s.At(w.End), cache.At(s, w.End))
			now = max(0, now-1+random.Int64N(int64(48*time.Hour))-day)
		}
	}
	for _, s := range specs {
		require.Equal(t, s.At(math.MaxInt64), cache.At(s, math.MaxInt64))
	}
}

func TestWhatIsAskedAgainDoesNotAllocate(t *testing.T) {
	var cache calendar.Cache
	now, months, hours := utc(t, "2026-11-21T17:00:00Z"), spec(t, 1, calendar.Month, "Europe/Berlin", time.Hour), every(t, hour, 1)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		now += 13 * day
		w := cache.At(months, now)
		months.Window(w.Index)
		months.ID()
		hours.Window(cache.At(hours, now).Index)
	}))
}
