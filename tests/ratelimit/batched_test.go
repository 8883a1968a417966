package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// unitsLeft is what the server has left of limits.
func unitsLeft(t testing.TB, l *ratelimit.Limiter, key string, limits ratelimit.Limits) int64 {
	t.Helper()
	result, err := l.Peek(t.Context(), key, limits, 0)
	require.NoError(t, err)
	return result.Remaining
}

// closed closes b when the test ends.
func closed(t testing.TB, b *batched.Batched) *batched.Batched {
	t.Cleanup(func() { assert.NoError(t, b.Close(context.Background())) })
	return b
}

func TestBatchedAsksOnceForMany(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limiter := ratelimit.New(s.Client(), ratelimit.Options{})
	b := closed(t, batched.New(limiter, batched.Options{MaxAge: time.Minute}))
	limits := ratelimit.Limits{ratelimit.Rate(100_000, day)}
	by := map[string]int{}
	for i := range int64(1000) {
		result := decide(t, b, "k", limits)
		require.False(t, result.Limited)
		require.EqualValues(t, 1, result.Granted)
		require.InDelta(t, 100_000-i-1, result.Remaining, 2) // one unit comes back a second
		by[result.By]++
	}
	// 1, 2, 4, ... 64, and then 100 each.
	assert.LessOrEqual(t, asked(s), 7+9)
	assert.Equal(t, asked(s), by["server"])
	assert.Equal(t, 1000-asked(s), by["batch"])
}

func TestCallersAtTheSameTimeShareACall(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	b := closed(t, batched.New(ratelimit.New(s.Client(), ratelimit.Options{}), batched.Options{MaxAge: time.Minute}))
	limits := ratelimit.Limits{ratelimit.Fixed(100, 365*day)}
	s.Pause()
	var waiting sync.WaitGroup
	var mu sync.Mutex
	allowed, denied := 0, 0
	for range 300 {
		waiting.Go(func() {
			result, err := b.Decide(context.WithoutCancel(t.Context()), calls.On("k", limits))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case result.Limited:
				denied++
			default:
				allowed++
			}
		})
	}
	s.Resume()
	waiting.Wait()
	assert.Equal(t, 100, allowed)
	assert.Equal(t, 200, denied)
	assert.LessOrEqual(t, asked(s), 10)
}

// What was charged and not handed out comes back, after MaxAge as on Close.
func TestBatchedGivesBackWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limiter := ratelimit.New(s.Client(), ratelimit.Options{})
	for _, limits := range []ratelimit.Limits{
		{ratelimit.Rate(100_000, 365*day)},
		{ratelimit.Window(100_000, day)},
		{ratelimit.Fixed(100_000, 365*day)},
		{ratelimit.Fixed(100_000, 365*day), ratelimit.Window(100_000, day)},
	} {
		for _, onClose := range []bool{false, true} {
			age := time.Minute
			if !onClose {
				age = 50 * time.Millisecond
			}
			b := closed(t, batched.New(limiter, batched.Options{MaxAge: age, OnError: func(err error) { t.Error(err) }}))
			limiterKey := fmt.Sprint(limits, age)
			for range 1000 {
				require.False(t, decide(t, b, limiterKey, limits).Limited)
			}
			back := func() bool { return unitsLeft(t, limiter, limiterKey, limits) == 100_000-1000 }
			if onClose {
				require.False(t, back(), "nothing was held")
				require.NoError(t, b.Close(t.Context()))
				assert.True(t, back(), limits)
				assert.Equal(t, "server", decide(t, b, limiterKey, limits).By, "closed, it hands calls on")
			} else {
				assert.Eventually(t, back, 10*time.Second, 10*time.Millisecond, limits)
			}
		}
	}
}

func TestWhatIsNotBatched(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	b := closed(t, batched.New(ratelimit.New(s.Client(), ratelimit.Options{}), batched.Options{Units: 10, MaxAge: time.Minute}))
	rates := ratelimit.Limits{ratelimit.Rate(1000, day)}
	for range 20 {
		decide(t, b, "k", rates)
	}
	for _, opts := range [][]calls.Option{
		{calls.Cost(0)}, {calls.Cost(11)}, {calls.UpTo}, {calls.Strict}, {calls.MaxWait(time.Second)},
	} {
		before := asked(s)
		assert.Equal(t, "server", decide(t, b, "k", rates, opts...).By)
		assert.Equal(t, before+1, asked(s))
	}
	for _, bad := range []struct {
		limits ratelimit.Limits
		opts   []calls.Option
		text   string
	}{
		{nil, nil, "there must be a limit after the key"},
		{ratelimit.Limits{ratelimit.Rate(-1, day)}, nil, "the count -1 is negative"},
		{rates, []calls.Option{calls.Cost(-1)}, "the Cost, -1, is negative"},
	} {
		_, err := b.Decide(t.Context(), calls.On("k", bad.limits, bad.opts...))
		assert.ErrorContains(t, err, bad.text)
	}
	s.MustDo("RPUSH", "list", "1")
	_, err := b.Decide(t.Context(), calls.On("list", rates))
	assert.ErrorContains(t, err, "WRONGTYPE")

	few := closed(t, batched.New(ratelimit.New(s.Client(), ratelimit.Options{}), batched.Options{Keys: 1, MaxAge: time.Minute}))
	for _, key := range []string{"first", "second"} {
		for range 10 {
			decide(t, few, key, rates)
		}
	}
	assert.Equal(t, "batch", decide(t, few, "first", rates).By)
	assert.Equal(t, "server", decide(t, few, "second", rates).By, "of one key too many")
}

// A caller that costs more than the pot holds gets what the server and the pot have together.
func TestBatchedTellsWhenACostCanBeHad(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	b := closed(t, batched.New(ratelimit.New(s.Client(), ratelimit.Options{}), batched.Options{Units: 8, MaxAge: time.Minute}))
	limits := ratelimit.Limits{ratelimit.Rate(24, day).Burst(10)} // one an hour
	began := time.Now()
	for i, step := range []struct {
		cost    int64
		limited bool
		retry   time.Duration
		by      string
	}{
		{1, false, 0, "server"}, // 9 on the server
		{2, false, 0, "server"}, // 7
		{5, false, 0, "server"}, // 2
		{3, true, time.Hour, "server"},
		{3, true, time.Hour, "cache"},
		{4, true, 2 * time.Hour, "server"},
		{4, true, 2 * time.Hour, "cache"},
		{2, false, 0, "batch"},
		{1, true, time.Hour, "cache"}, // one unit too few: so it was for the 3 as well
	} {
		result := decide(t, b, "k", limits, calls.Cost(step.cost))
		assert.Equal(t, step.limited, result.Limited, "step %d: %+v", i, result)
		assert.Equal(t, step.by, result.By, "step %d: %+v", i, result)
		assert.LessOrEqual(t, result.RetryAfter, step.retry, "step %d", i)
		assert.GreaterOrEqual(t, result.RetryAfter, max(step.retry-time.Since(began)-time.Millisecond, 0), "step %d", i)
	}
}

func TestACallerThatLeavesLosesNoUnits(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limiter := ratelimit.New(s.Client(), ratelimit.Options{})
	heeding := ratelimit.New(s.Client(func(o *redis.Options) { o.ContextTimeoutEnabled = true }), ratelimit.Options{})
	b := closed(t, batched.New(heeding, batched.Options{MaxAge: 100 * time.Millisecond}))
	limits := ratelimit.Limits{ratelimit.Rate(100, 365*day)}
	decide(t, b, "k", limits)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var staying sync.WaitGroup
	for range 2 {
		staying.Go(func() {
			time.Sleep(10 * time.Millisecond) // it most likely waits for what the other fetches
			result, err := b.Decide(context.WithoutCancel(t.Context()), calls.On("k", limits))
			assert.NoError(t, err)
			assert.False(t, result.Limited)
		})
	}
	_, err := b.Decide(ctx, calls.On("k", limits))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.True(t, ratelimit.IsOutage(err))
	s.Resume()
	staying.Wait()
	assert.Eventually(t, func() bool { return unitsLeft(t, limiter, "k", limits) == 97 }, 10*time.Second, 10*time.Millisecond)
	assert.False(t, decide(t, b, "k", limits).Limited)
}

func TestBatchedSharesErrorsAndRemembersNone(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	b := closed(t, batched.New(ratelimit.New(s.Client(quick), ratelimit.Options{}), batched.Options{}))
	limits := ratelimit.Limits{ratelimit.Rate(100, day)}
	s.Kill()
	var waiting sync.WaitGroup
	for range 50 {
		waiting.Go(func() {
			_, err := b.Decide(context.WithoutCancel(t.Context()), calls.On("k", limits))
			assert.True(t, ratelimit.IsOutage(err), err)
		})
	}
	waiting.Wait()
	s.Restart()
	require.Eventually(t, func() bool {
		result, err := b.Decide(t.Context(), calls.On("k", limits))
		return err == nil && !result.Limited
	}, 10*time.Second, 10*time.Millisecond)
}

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

// Every call spares what the processes hold, whether it is batched or not; a FIXED alone need not.
func TestWhatProcessesSpare(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limiter := ratelimit.New(s.Client(), ratelimit.Options{})
	batching := batched.Options{Units: 4, Processes: 5, MaxAge: time.Minute}
	for _, c := range []struct {
		limits ratelimit.Limits
		opts   []calls.Option
		let    int64
	}{
		{ratelimit.Limits{ratelimit.Rate(50, day)}, nil, 30},
		{ratelimit.Limits{ratelimit.Rate(50, day)}, []calls.Option{calls.Strict}, 30},
		{ratelimit.Limits{ratelimit.Rate(50, day).Spare(7)}, nil, 23},
		{ratelimit.Limits{ratelimit.Window(41, day), ratelimit.Rate(50, day).Take(1)}, nil, 21},
		{ratelimit.Limits{ratelimit.Fixed(50, 365*day)}, nil, 50},
		{ratelimit.Limits{ratelimit.Fixed(50, 365*day), ratelimit.Rate(100, day)}, nil, 30},
	} {
		b, key, let := closed(t, batched.New(limiter, batching)), fmt.Sprint(c.limits, len(c.opts)), int64(0)
		for range 60 {
			if !decide(t, b, key, c.limits, c.opts...).Limited {
				let++
			}
		}
		assert.Equal(t, c.let, let, key)
		require.NoError(t, b.Close(t.Context()))
		assert.Equal(t, "server", decide(t, b, key, c.limits, calls.Cost(0)).By)
		assert.True(t, decide(t, b, key, c.limits).Limited, "closed, it spares as much")
	}
	b := closed(t, batched.New(limiter, batching))
	for _, opts := range [][]calls.Option{nil, {calls.UpTo}} {
		_, err := b.Decide(t.Context(), calls.On("little", ratelimit.Limits{ratelimit.Rate(20, day)}, opts...))
		require.ErrorContains(t, err, "RATE 20/1d: Units x Processes, 20, leave nothing of the limit")
		assert.False(t, ratelimit.IsOutage(err))
	}
	for _, limits := range []ratelimit.Limits{{ratelimit.Window(39, day)}, {ratelimit.Fixed(39, day), ratelimit.Rate(50, day)}} {
		_, err := b.Decide(t.Context(), calls.On("less than half", limits))
		require.ErrorContains(t, err, "/1d: Units x Processes, 20, leave only 19 of 39 units; take at most half, such as Units of 3")
	}
	_, err := b.Decide(t.Context(), calls.On("bad", ratelimit.Limits{ratelimit.Rate(-1, day)}))
	require.ErrorContains(t, err, "the count -1 is negative")
	huge := closed(t, batched.New(limiter, batched.Options{Units: 1 << 40, Processes: 1 << 40}))
	_, err = huge.Decide(t.Context(), calls.On("huge", ratelimit.Limits{ratelimit.Rate(20, day)}))
	require.ErrorContains(t, err, "leave nothing")
}

func TestUnitsAreNotHandedOutWhenTheyAreOld(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	const maxAge = 50 * time.Millisecond
	b := closed(t, batched.New(ratelimit.New(s.Client(), ratelimit.Options{}), batched.Options{MaxAge: maxAge}))
	limits := ratelimit.Limits{ratelimit.Window(1_000_000, day)}
	for range 500 { // so that batches are large
		decide(t, b, "k", limits)
	}
	var fetched time.Time
	require.Eventually(t, func() bool { // until units are left of a batch that has just come
		if decide(t, b, "k", limits).By == "batch" {
			return time.Since(fetched) < maxAge/2
		}
		fetched = time.Now()
		return false
	}, 10*time.Second, time.Microsecond)
	s.Pause() // nothing can be fetched
	time.Sleep(time.Until(fetched.Add(maxAge)))
	ctx, cancel := context.WithTimeout(t.Context(), maxAge)
	defer cancel()
	_, err := b.Decide(ctx, calls.On("k", limits))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	s.Resume()
}

func TestABatchIsNoLargerThanUnits(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	b := closed(t, batched.New(ratelimit.New(s.Client(), ratelimit.Options{}), batched.Options{Units: 10, MaxAge: time.Minute}))
	limits := ratelimit.Limits{ratelimit.Rate(1000, day)}
	s.Pause()
	var waiting sync.WaitGroup
	for range 100 {
		waiting.Go(func() {
			_, err := b.Decide(context.WithoutCancel(t.Context()), calls.On("k", limits))
			assert.NoError(t, err)
		})
	}
	s.Resume()
	waiting.Wait()
	assert.GreaterOrEqual(t, asked(s), 10)
}

// What processes hold makes the bursts of a Rate smaller, and not the rate.
func TestProcessesThatHoldMostOfABurstGetTheWholeRate(t *testing.T) {
	t.Parallel()
	const (
		processes = 4
		perSecond = 1000
		lasts     = 2 * time.Second
	)
	s := server.Start(t)
	limits := ratelimit.Limits{ratelimit.Rate(perSecond, time.Second)}
	var let atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for range processes {
		b := closed(t, batched.New(ratelimit.New(s.Client(), ratelimit.Options{}), batched.Options{Units: 240, Processes: processes}))
		running.Go(func() {
			for time.Since(began) < lasts {
				if !decide(t, b, "k", limits).Limited {
					let.Add(1)
				}
			}
		})
	}
	running.Wait()
	t.Log(let.Load(), "let through in", time.Since(began))
	spared := int64(perSecond - processes*240) // what can be had at once
	assert.Greater(t, let.Load(), 4*spared*int64(lasts/time.Second))
}
