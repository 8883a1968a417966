package ratelimittest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/adaptive"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/calls"
)

const (
	most     = 100
	recovery = time.Minute
	slow     = 300 * time.Millisecond
)

// lease asks for one of most slots.
func lease(id string) ratelimit.Call { return calls.Lease("k", most, time.Hour, id) }

// isNumber says whether a call is about how many slots there are.
func isNumber(c ratelimit.Call) bool { return strings.HasSuffix(c.Keys[0].Name, " adaptive slots") }

// service is called by the holder of a slot.
type service func() (failed bool)

func takes(d time.Duration) service { return func() bool { time.Sleep(d); return false } }

func fails(d time.Duration) service { return func() bool { time.Sleep(d); return true } }

// load has callers call a service one time after the other, under a slot each, until the time is over.
func load(t *testing.T, d ratelimit.Decider, name string, callers int, lasts time.Duration, call service) {
	t.Helper()
	began := time.Now()
	var calling sync.WaitGroup
	for caller := range callers {
		calling.Go(func() {
			for i := 0; time.Since(began) < lasts; i++ {
				id := fmt.Sprint(name, caller, "-", i)
				if calls.Ask(t, d, lease(id)).Limited {
					time.Sleep(slow)
					continue
				}
				release := calls.Release("k", id)
				release.Failed = call()
				calls.Ask(t, d, release)
			}
		})
	}
	calling.Wait()
}

// slotsNow is how many slots there are when the server has been told of what was seen, which is done in the background.
func slotsNow(t *testing.T, d ratelimit.Decider) int64 {
	t.Helper()
	synctest.Wait()
	result := calls.Ask(t, d, lease("probe"))
	calls.Ask(t, d, calls.Release("k", "probe"))
	return result.Limit
}

// What the service shows in a window decides whether slots close.
func TestWhatClosesSlots(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	for rule, c := range map[string]struct {
		callers int
		call    service
		closes  bool
	}{
		"calls that are fast":              {20, takes(slow / 3), false},
		"calls that take longer than Slow": {20, takes(4 * slow / 3), true},
		"calls that never end":             {20, takes(time.Hour), true},
		"a third of the calls is slow": {20, func() bool {
			if made.Add(1)%3 == 0 {
				return takes(4 * slow / 3)()
			}
			return takes(slow / 3)()
		}, false},
		"calls that fail fast": {20, fails(slow / 30), true},
		"too few calls to say": {2, fails(time.Second), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := ratelimittest.New(t)
			load(t, adaptive.New(l, adaptive.Options{Slow: slow, Recovery: recovery}), "", c.callers, 3500*time.Millisecond, c.call)
			synctest.Wait()
			closed := false
			for _, asked := range l.Asked() {
				closed = closed || isNumber(asked.Call) && asked.Call.Verb == ratelimit.VerbLimit
			}
			assert.Equal(t, c.closes, closed, rule)
		})
	}
}

// Without Slow, twice the usual time is slow.
func TestSlowIsLearned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := adaptive.New(ratelimittest.New(t), adaptive.Options{Recovery: recovery})
		for _, usual := range []time.Duration{100, 190} {
			load(t, d, fmt.Sprint(usual, " "), 20, 20*time.Second, takes(usual*time.Millisecond))
			require.EqualValues(t, most, slotsNow(t, d), usual)
		}
		load(t, d, "slow", 20, 5*time.Second, takes(210*time.Millisecond))
		assert.Less(t, slotsNow(t, d), int64(most))
	})
}

// However bad it gets, Floor stays; when it is over, all slots come back.
func TestTheNumberStaysBetweenFloorAndSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		d := adaptive.New(l, adaptive.Options{Slow: slow, Recovery: recovery})
		load(t, d, "bad", 50, 30*time.Second, fails(time.Second))
		worst := int64(most)
		for _, asked := range l.Asked() {
			switch {
			case isNumber(asked.Call) && asked.Call.Verb == ratelimit.VerbLimit:
				assert.Equal(t, asked.Call.Cost, asked.Result.Granted, "what is not there cannot close")
			case asked.Call.Verb == ratelimit.VerbLease:
				worst = min(worst, asked.Call.Keys[0].Slots)
				require.LessOrEqual(t, asked.Call.Keys[0].Slots, int64(most))
			}
		}
		assert.Less(t, worst, int64(10))
		assert.GreaterOrEqual(t, worst, int64(1))
		time.Sleep(recovery)
		slotsNow(t, d) // it goes by the number that it knows, and asks for the new one
		assert.EqualValues(t, most, slotsNow(t, d))
	})
}

// All processes have one number, which a new one begins with, and one of many that is unlucky closes little.
func TestProcessesShareTheNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		o := adaptive.Options{Slow: slow, Recovery: time.Hour}
		var running sync.WaitGroup
		for p := range 10 {
			call := takes(50 * time.Millisecond)
			if p == 0 {
				call = fails(50 * time.Millisecond)
			}
			running.Go(func() { load(t, adaptive.New(l, o), fmt.Sprint(p, " "), 10, 2*time.Second, call) })
		}
		running.Wait()
		unlucky := slotsNow(t, adaptive.New(l, o))
		assert.Less(t, unlucky, int64(most))
		assert.Greater(t, unlucky, int64(most-15), "one in ten closes a tenth of three in ten, twice at most")

		load(t, adaptive.New(l, o), "all", 100, 4*time.Second, takes(4*slow/3))
		assert.Less(t, slotsNow(t, adaptive.New(l, o)), int64(70), "a new process begins with what the others have found")
	})
}

// Three processes call a service that is the slower the more calls it has at a time. They let it have as many as it can bear. When it can bear
// more, all slots come back.
func TestSlotsFollowWhatTheServiceCanBear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const capacity = most / 6
		var serving, bears atomic.Int64
		bears.Store(capacity)
		call := func() bool {
			beyond := serving.Add(1) - bears.Load()
			defer serving.Add(-1)
			time.Sleep(slow / 3)
			if beyond > 0 {
				time.Sleep(2 * slow)
			}
			return false
		}
		l := ratelimittest.New(t)
		o := adaptive.Options{Slow: slow, Floor: 2, Recovery: recovery / 4, Window: 100 * time.Millisecond}
		var running sync.WaitGroup
		for p := range 3 {
			running.Go(func() { load(t, adaptive.New(l, o), fmt.Sprint(p, " "), most/3, recovery, call) })
		}
		now := func() int64 { return slotsNow(t, adaptive.New(l, o)) }
		time.Sleep(recovery / 4)
		for range 100 { // while the load goes on, the number stays what it has to be
			slots := now()
			require.GreaterOrEqual(t, slots, o.Floor)
			require.LessOrEqual(t, slots, int64(4*capacity))
			time.Sleep(100 * time.Millisecond)
		}
		bears.Store(10 * most)
		time.Sleep(recovery / 2)
		assert.EqualValues(t, most, now(), "it can bear all")
		running.Wait()
	})
}

// nodes are two servers, of which one has the number of slots.
type nodes struct{ slots, number *ratelimittest.Limiter }

func (n nodes) Decide(ctx context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	if isNumber(c) {
		return n.number.Decide(ctx, c)
	}
	return n.slots.Decide(ctx, c)
}

// While the server with the number cannot be asked, or a guard answers in its place, the last number holds.
func TestTheLastNumberHoldsDuringAnOutage(t *testing.T) {
	t.Parallel()
	for errors, protect := range map[int]func(ratelimit.Decider) ratelimit.Decider{
		5: func(d ratelimit.Decider) ratelimit.Decider { return d }, // one for each Window
		0: func(d ratelimit.Decider) ratelimit.Decider {
			return guard.New(d, guard.Options{Policy: guard.Open, Failures: 1, OnChange: untold, Node: func(key string) string { return key }})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := nodes{ratelimittest.New(t), ratelimittest.New(t)}
			var told atomic.Int64
			d := adaptive.New(protect(n), adaptive.Options{Slow: slow, OnError: func(error) { told.Add(1) }})
			load(t, d, "bad", 50, 5*time.Second, fails(time.Second))
			slotsNow(t, d)
			last := slotsNow(t, d)
			require.Less(t, last, int64(most))
			n.number.Fail(ratelimittest.ErrOutage)
			for range 5 {
				time.Sleep(time.Second)
				assert.Equal(t, last, slotsNow(t, d))
			}
			synctest.Wait()
			assert.EqualValues(t, errors, told.Load())
		})
	}
}

// Admissions take units with a slot: their slots are adapted, too, and settled as ever.
func TestSlotsOfAdmissionsAreAdapted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := adaptive.New(ratelimittest.New(t), adaptive.Options{Slow: time.Minute, Recovery: time.Hour})
		tokens := ratelimit.Limits{ratelimit.Rate(1_000_000, day).Take(10)}
		for i := range 50 {
			id := fmt.Sprint(i)
			admitted := calls.Ask(t, d, ratelimit.Call{ID: id, Keys: []ratelimit.Key{{Name: "tokens", Limits: tokens}, {Name: "k", Slots: most, TTL: time.Minute}}})
			require.False(t, admitted.Limited)
			require.Nil(t, admitted.Each, "it was not asked for")
			time.Sleep(100 * time.Millisecond)
			settled := calls.Ask(t, d, ratelimit.Call{Verb: ratelimit.VerbSettle, ID: id, Failed: true, Keys: []ratelimit.Key{
				{Name: "tokens", Limits: ratelimit.Limits{tokens[0].Used(4)}}, {Name: "k"},
			}})
			require.False(t, settled.Limited)
			require.EqualValues(t, -6, settled.Granted)
		}
		assert.Less(t, slotsNow(t, d), int64(most))
	})
}

// What has no slots, and what has no more than Floor, is left as it is.
func TestWhatIsNotAdapted(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	d := adaptive.New(l, adaptive.Options{Floor: most})
	for i, call := range []ratelimit.Call{lease("id"), calls.On("k", hourly)} {
		_, _ = d.Decide(t.Context(), call)
		require.Len(t, l.Asked(), i+1)
		assert.Equal(t, call, l.Asked()[i].Call)
	}
	assert.Panics(t, func() { adaptive.New(nil, adaptive.Options{}) })
	assert.Panics(t, func() { adaptive.New(l, adaptive.Options{Floor: -1}) })
}

// Two versions of a program, or two places in one, may differ about the slots of a key: no caller hangs, and none gets more than it asked for.
func TestCallersThatDifferAboutTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		d := adaptive.New(l, adaptive.Options{Recovery: recovery})
		l.Hang() // nobody is told the number
		var callers sync.WaitGroup
		for i, slots := range []int64{10, most} {
			callers.Go(func() {
				assert.LessOrEqual(t, calls.Ask(t, d, calls.Lease("k", slots, time.Hour, fmt.Sprint(i))).Limit, slots)
			})
			synctest.Wait()
		}
		l.Heal()
		callers.Wait()
	})
}
