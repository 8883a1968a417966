package ratelimit_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// handedOut is units that a caller got between two readings of the clock.
type handedOut struct {
	from, to time.Time
	units    int64
}

// within is how many units of all were surely handed out in an interval.
func within(all []handedOut, from, to time.Time) (units int64) {
	for _, h := range all {
		if !h.from.Before(from) && !h.to.After(to) {
			units += h.units
		}
	}
	return units
}

// Many processes drain one key, with costs and pauses drawn at random; some end and begin anew. Now and then
// all of them fill their pots, pause for as long as units keep, and then take what they can: those are the
// intervals in which the most is handed out. In none is it more than was promised.
func TestBatchedKeepsItsBoundInTotal(t *testing.T) {
	t.Parallel()
	requireBoundInTotal(t, false)
}

// When the processes are told, that is the limit itself.
func TestBatchedKeepsTheLimitInTotal(t *testing.T) {
	t.Parallel()
	requireBoundInTotal(t, true)
}

func requireBoundInTotal(t *testing.T, told bool) {
	const (
		processes = 6
		callers   = 4
		units     = 8
		maxAge    = 200 * time.Millisecond
		period    = 250 * time.Millisecond
		cycle     = 2 * period
		count     = 100
		lasts     = 3 * time.Second
	)
	batching := batched.Options{Units: units, MaxAge: maxAge}
	more := int64(processes * units) // than the limits let through
	if told {
		batching.Processes, more = processes, 0
	}
	s := server.Start(t)
	for name, c := range map[string]struct {
		limits ratelimit.Limits
		most   func(length time.Duration) int64 // that the limits let through in an interval of such a length
		exact  bool                             // by windows of the epoch
	}{
		"RATE": {ratelimit.Limits{ratelimit.Rate(count, period).Burst(60)},
			func(length time.Duration) int64 { return 60 + int64(length*count/period) + 1 }, false},
		"WINDOW": {ratelimit.Limits{ratelimit.Window(count, period)},
			func(length time.Duration) int64 { return count * int64((length-1)/period+1) }, false},
		"FIXED": {ratelimit.Limits{ratelimit.Fixed(count, period)},
			func(length time.Duration) int64 { return count * int64((length-1)/period+2) }, true},
		"FIXED and RATE": {ratelimit.Limits{ratelimit.Fixed(count, period), ratelimit.Rate(count, period).Burst(70)},
			func(length time.Duration) int64 { return 70 + int64(length*count/period) + 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var all []handedOut
			began := time.Now()
			var running sync.WaitGroup
			for range processes {
				running.Go(func() {
					client := s.Client()
					for time.Since(began) < lasts {
						b := batched.New(ratelimit.New(client, ratelimit.Options{}), batching)
						var calling sync.WaitGroup
						ends := time.Now().Add(time.Duration(rand.Int64N(int64(lasts))))
						for caller := range callers {
							calling.Go(func() {
								for time.Now().Before(ends) {
									units, pause := 1+rand.Int64N(3), time.Duration(rand.Int64N(int64(time.Millisecond)))
									if n, at := int(time.Since(began)/cycle), time.Since(began)%cycle; n%3 != 0 {
										drain := maxAge * time.Duration(5+n%4) / 10
										switch {
										case caller == 0 && at < cycle/50:
											units, pause = 1, cycle/300
										case at < drain:
											time.Sleep(drain - at)
										case at > drain+maxAge:
											time.Sleep(cycle - at)
											continue
										}
									} else if rand.IntN(30) == 0 {
										pause = time.Duration(rand.Int64N(int64(2 * maxAge)))
									}
									from := time.Now()
									result, err := b.Decide(context.WithoutCancel(t.Context()), calls.On(name, c.limits, calls.Cost(units)))
									if err != nil {
										t.Error(err)
										return
									}
									if !result.Limited {
										mu.Lock()
										all = append(all, handedOut{from, time.Now(), units})
										mu.Unlock()
									}
									time.Sleep(pause)
								}
							})
						}
						calling.Wait()
						assert.NoError(t, b.Close(context.Background()))
					}
				})
			}
			running.Wait()

			total := within(all, began, time.Now())
			assert.Greater(t, total, count*int64(lasts/period)/3, "most of the limit is used")
			for _, h := range all {
				for _, length := range []time.Duration{period / 5, period / 2, maxAge, period, 3 * period} {
					got := within(all, h.from, h.from.Add(length))
					require.LessOrEqual(t, got, c.most(length+maxAge+reportedUp), "in %v, by age", length)
					require.LessOrEqual(t, got, c.most(length+reportedUp)+more, "in %v, by units", length)
				}
			}
			if c.exact {
				for window := began.Truncate(period); window.Before(time.Now()); window = window.Add(period) {
					require.LessOrEqual(t, within(all, window, window.Add(period)), int64(count), "in a window")
				}
			}
		})
	}
}

// reportedUp is the fineness of the server's cached clock, which may be behind by so much.
const reportedUp = time.Millisecond
