package ratelimittest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/calls"
)

// inBatches runs a test in a bubble: time passes as the test lets it.
func inBatches(t *testing.T, o batched.Options, test func(t *testing.T, l *ratelimittest.Limiter, b *batched.Batched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		b := batched.New(l, o)
		defer func() { assert.NoError(t, b.Close(context.WithoutCancel(t.Context()))) }()
		test(t, l, b)
	})
}

// What was charged and not handed out comes back, after MaxAge as on Close.
func TestBatchedGivesBackWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, limits := range []ratelimit.Limits{
		{ratelimit.Rate(100_000, 365*day)},
		{ratelimit.Window(100_000, day)},
		{ratelimit.Fixed(100_000, 365*day)},
		{ratelimit.Fixed(100_000, 365*day), ratelimit.Window(100_000, day)},
	} {
		for _, onClose := range []bool{false, true} {
			inBatches(t, batched.Options{MaxAge: time.Minute, OnError: func(err error) { t.Error(err) }},
				func(t *testing.T, l *ratelimittest.Limiter, b *batched.Batched) {
					by := map[string]int{}
					for i := range int64(1000) {
						result := calls.Ask(t, b, calls.On("k", limits))
						require.False(t, result.Limited)
						require.EqualValues(t, 1, result.Granted)
						require.EqualValues(t, 100_000-i-1, result.Remaining)
						by[result.By]++
					}
					asked := len(l.Asked())
					assert.LessOrEqual(t, asked, 7+9, "1, 2, 4, ... 64, and then 100 each")
					assert.Equal(t, map[string]int{"server": asked, "batch": 1000 - asked}, by)
					left := func() int64 {
						return calls.Ask(t, l, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: calls.On("k", limits).Keys}).Remaining
					}
					require.Less(t, left(), int64(100_000-1000), "some are held")
					if onClose {
						require.NoError(t, b.Close(t.Context()))
					} else {
						l.Advance(2 * time.Minute)
					}
					assert.EqualValues(t, 100_000-1000, left(), limits)
					assert.Equal(t, "server", calls.Ask(t, b, calls.On("k", limits)).By)
				})
		}
	}
}

// Callers that come while the server is asked share the next calls, each for no more than Units.
func TestCallersAtTheSameTimeShareACall(t *testing.T) {
	t.Parallel()
	inBatches(t, batched.Options{Units: 50, MaxAge: time.Minute}, func(t *testing.T, l *ratelimittest.Limiter, b *batched.Batched) {
		limits := ratelimit.Limits{ratelimit.Fixed(100, 365*day)}
		l.Hang()
		results := make(chan ratelimit.Result, 300)
		for range 300 {
			go func() { results <- calls.Ask(t, b, calls.On("k", limits)) }()
		}
		synctest.Wait()
		l.Heal()
		allowed := 0
		for range 300 {
			if !(<-results).Limited {
				allowed++
			}
		}
		assert.Equal(t, 100, allowed)
		assert.LessOrEqual(t, len(l.Asked()), 5)
		for _, asked := range l.Asked() {
			assert.LessOrEqual(t, asked.Call.Cost, int64(50))
		}

		l.Hang()
		var failing []<-chan error
		for range 50 {
			failing = append(failing, calls.Ends(t.Context(), b, calls.On("other", limits)))
		}
		synctest.Wait()
		l.Fail(ratelimittest.ErrOutage)
		for _, ended := range failing {
			assert.ErrorIs(t, <-ended, ratelimittest.ErrOutage)
		}
	})
}

func TestWhatIsNotBatched(t *testing.T) {
	t.Parallel()
	rates := ratelimit.Limits{ratelimit.Rate(1000, day)}
	inBatches(t, batched.Options{Units: 10, MaxAge: time.Minute}, func(t *testing.T, l *ratelimittest.Limiter, b *batched.Batched) {
		for range 20 {
			calls.Ask(t, b, calls.On("k", rates))
		}
		for _, opt := range []calls.Option{calls.Cost(0), calls.Cost(11), calls.UpTo, calls.Strict, calls.MaxWait(time.Second)} {
			before := len(l.Asked())
			assert.Equal(t, "server", calls.Ask(t, b, calls.On("k", rates, opt)).By)
			assert.Len(t, l.Asked(), before+1)
		}
		for text, call := range map[string]ratelimit.Call{
			"there must be a limit after the key": calls.On("k", nil),
			"the count -1 is negative":            calls.On("k", ratelimit.Limits{ratelimit.Rate(-1, day)}),
			"the Cost, -1, is negative":           calls.On("k", rates, calls.Cost(-1)),
		} {
			_, err := b.Decide(t.Context(), call)
			assert.ErrorContains(t, err, text)
		}
		l.Next(1).Fail(ratelimittest.ReplyError("WRONGTYPE"))
		_, err := b.Decide(t.Context(), calls.On("list", rates))
		require.ErrorContains(t, err, "WRONGTYPE")
		assert.False(t, calls.Ask(t, b, calls.On("list", rates)).Limited, "an error is not remembered")
	})
	inBatches(t, batched.Options{Keys: 1, MaxAge: time.Minute}, func(t *testing.T, _ *ratelimittest.Limiter, b *batched.Batched) {
		for range 10 {
			calls.Ask(t, b, calls.On("first", rates))
		}
		assert.Equal(t, "batch", calls.Ask(t, b, calls.On("first", rates)).By)
		for range 10 {
			assert.Equal(t, "server", calls.Ask(t, b, calls.On("second", rates)).By, "of one key too many")
		}
	})
}

// A caller that costs more than the pot holds gets what the server and the pot have together.
func TestBatchedTellsWhenACostCanBeHad(t *testing.T) {
	t.Parallel()
	inBatches(t, batched.Options{Units: 8, MaxAge: time.Minute}, func(t *testing.T, _ *ratelimittest.Limiter, b *batched.Batched) {
		limits := ratelimit.Limits{ratelimit.Rate(24, day).Burst(10)} // one an hour
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
			result := calls.Ask(t, b, calls.On("k", limits, calls.Cost(step.cost)))
			assert.Equal(t, step.limited, result.Limited, "step %d: %+v", i, result)
			assert.Equal(t, step.by, result.By, "step %d: %+v", i, result)
			assert.Equal(t, step.retry, max(result.RetryAfter, 0), "step %d", i)
		}
	})
}

// Units that a caller did not wait for are there for others, and those that are too old for nobody.
func TestACallerThatLeavesLosesNoUnits(t *testing.T) {
	t.Parallel()
	inBatches(t, batched.Options{MaxAge: time.Minute}, func(t *testing.T, l *ratelimittest.Limiter, b *batched.Batched) {
		limits := ratelimit.Limits{ratelimit.Fixed(100, 365*day)}
		calls.Ask(t, b, calls.On("k", limits))
		l.Hang()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left := calls.Ends(ctx, b, calls.On("k", limits))
		synctest.Wait()
		var staying sync.WaitGroup
		for range 2 {
			staying.Go(func() { assert.False(t, calls.Ask(t, b, calls.On("k", limits)).Limited) })
		}
		err := <-left
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, ratelimit.IsOutage(err))
		l.Heal()
		staying.Wait()
		l.Advance(2 * time.Minute)
		assert.EqualValues(t, 97, calls.Ask(t, l, ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: calls.On("k", limits).Keys}).Remaining)
		assert.Equal(t, "server", calls.Ask(t, b, calls.On("k", limits)).By, "what was left is too old")
	})
}

// Every call spares what the processes hold, whether it is batched or not; a FIXED alone need not.
func TestWhatProcessesSpare(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
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
		b, key, let := batched.New(l, batching), fmt.Sprint(c.limits, len(c.opts)), int64(0)
		for range 60 {
			if !calls.Ask(t, b, calls.On(key, c.limits, c.opts...)).Limited {
				let++
			}
		}
		assert.Equal(t, c.let, let, key)
		require.NoError(t, b.Close(t.Context()))
		assert.Equal(t, "server", calls.Ask(t, b, calls.On(key, c.limits, calls.Cost(0))).By)
		assert.True(t, calls.Ask(t, b, calls.On(key, c.limits)).Limited, "closed, it spares as much")
	}
	b := batched.New(l, batching)
	for _, c := range []struct {
		limits ratelimit.Limits
		opts   []calls.Option
		says   string
	}{
		{ratelimit.Limits{ratelimit.Rate(20, day)}, nil, "RATE 20/1d: Units x Processes, 20, leave nothing of the limit"},
		{ratelimit.Limits{ratelimit.Rate(20, day)}, []calls.Option{calls.UpTo}, "RATE 20/1d: Units x Processes, 20, leave nothing of the limit"},
		{ratelimit.Limits{ratelimit.Window(39, day)}, nil, "/1d: Units x Processes, 20, leave only 19 of 39 units; take at most half, such as Units of 3"},
		{ratelimit.Limits{ratelimit.Fixed(39, day), ratelimit.Rate(50, day)}, nil, "/1d: Units x Processes, 20, leave only 19 of 39 units; take at most half"},
		{ratelimit.Limits{ratelimit.Rate(-1, day)}, nil, "the count -1 is negative"},
	} {
		_, err := b.Decide(t.Context(), calls.On("little", c.limits, c.opts...))
		require.ErrorContains(t, err, c.says)
		assert.False(t, ratelimit.IsOutage(err))
	}
	huge := batched.New(l, batched.Options{Units: 1 << 40, Processes: 1 << 40})
	_, err := huge.Decide(t.Context(), calls.On("huge", ratelimit.Limits{ratelimit.Rate(20, day)}))
	require.ErrorContains(t, err, "leave nothing")
	for _, b := range []*batched.Batched{b, huge} {
		require.NoError(t, b.Close(t.Context()))
	}
}

// What processes hold makes the bursts of a Rate smaller, and not the rate.
func TestProcessesThatHoldMostOfABurstGetTheWholeRate(t *testing.T) {
	t.Parallel()
	const processes, perSecond, seconds = 4, 1000, 2
	limits := ratelimit.Limits{ratelimit.Rate(perSecond, time.Second)}
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		all := make([]*batched.Batched, processes)
		for i := range all {
			all[i] = batched.New(l, batched.Options{Units: 240, Processes: processes})
			defer func() { assert.NoError(t, all[i].Close(context.WithoutCancel(t.Context()))) }()
		}
		let := 0
		for began := time.Now(); time.Since(began) < seconds*time.Second; l.Advance(time.Millisecond) {
			for _, b := range all {
				for !calls.Ask(t, b, calls.On("k", limits)).Limited {
					let++
				}
			}
		}
		spared := perSecond - processes*240 // what can be had at once
		assert.Greater(t, let, 4*spared*seconds)
		t.Log(let, "let through")
	})
}
