package adaptive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/adaptive"
)

const (
	most     = 100
	recovery = time.Minute
)

// server is one that many processes share: leases by key, and a Rate that refills.
type server struct {
	mu     sync.Mutex
	held   map[string]bool
	closed float64 // units of the Rate that were taken
	since  time.Time
	// tooMuch says that more was to be closed than there was to close.
	tooMuch bool
	calls   []ratelimit.Call
	err     error
}

func newServer() *server { return &server{held: map[string]bool{}, since: time.Now()} }

func (s *server) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	if s.err != nil {
		return ratelimit.Result{}, s.err
	}
	result := ratelimit.Result{By: "server"}
	key := c.Keys[0]
	switch {
	case strings.HasSuffix(key.Name, " adaptive slots"):
		now := time.Now()
		s.closed = max(0, s.closed-(most-1)*now.Sub(s.since).Seconds()/recovery.Seconds())
		s.since = now
		if c.Verb == ratelimit.VerbLimit {
			s.tooMuch = s.tooMuch || float64(c.Cost) > most-1-s.closed
			s.closed = min(most-1, s.closed+float64(c.Cost))
		}
		result.Remaining = int64(most - 1 - s.closed)
	case c.Verb == ratelimit.VerbLease:
		result.Limit, result.Lasts = key.Slots, key.TTL
		if result.Limited = int64(len(s.held)) >= key.Slots && !s.held[c.ID]; !result.Limited {
			s.held[c.ID] = true
		}
		result.Remaining = max(0, key.Slots-int64(len(s.held)))
	case c.Verb == ratelimit.VerbRelease:
		delete(s.held, c.ID)
		result.Granted = -1
	}
	return result, nil
}

// to are the calls on a key.
func (s *server) to(key string) (calls []ratelimit.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Keys[0].Name == key {
			calls = append(calls, c)
		}
	}
	return calls
}

func lease(id string) ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "k", Slots: most, TTL: time.Hour}}, ID: id}
}

func release(id string, failed bool) ratelimit.Call {
	return ratelimit.Call{Verb: ratelimit.VerbRelease, Keys: []ratelimit.Key{{Name: "k"}}, ID: id, Failed: failed}
}

// load makes callers hold slots one after the other, each for as long as took says, until the time is over.
func load(t *testing.T, d ratelimit.Decider, name string, callers int, lasts time.Duration, took func(now time.Duration) (time.Duration, bool)) {
	t.Helper()
	began := time.Now()
	var callersDone sync.WaitGroup
	for caller := range callers {
		callersDone.Go(func() {
			for i := 0; time.Since(began) < lasts; i++ {
				id := fmt.Sprint(name, caller, "-", i)
				result, err := d.Decide(t.Context(), lease(id))
				if !assert.NoError(t, err) {
					return
				}
				if result.Limited {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				hold, failed := took(time.Since(began))
				time.Sleep(hold)
				_, err = d.Decide(t.Context(), release(id, failed))
				assert.NoError(t, err)
			}
		})
	}
	callersDone.Wait()
}

// slotsNow is how many slots there are when the server has been told of what was seen, which is done in the background.
func slotsNow(t *testing.T, d ratelimit.Decider) int64 {
	t.Helper()
	synctest.Wait()
	result, err := d.Decide(t.Context(), lease("probe"))
	require.NoError(t, err)
	_, err = d.Decide(t.Context(), release("probe", false))
	require.NoError(t, err)
	return result.Limit
}

// What the service shows in a window decides whether slots close.
func TestWhatClosesSlots(t *testing.T) {
	t.Parallel()
	always := func(d time.Duration, failed bool) func(time.Duration) (time.Duration, bool) {
		return func(time.Duration) (time.Duration, bool) { return d, failed }
	}
	every := func(n int64, rare, usual time.Duration) func(time.Duration) (time.Duration, bool) {
		var mu sync.Mutex
		var calls int64
		return func(time.Duration) (time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			if calls%n == 0 {
				return rare, false
			}
			return usual, false
		}
	}
	for rule, c := range map[string]struct {
		callers int
		took    func(time.Duration) (time.Duration, bool)
		closes  bool
	}{
		"calls that are fast":              {20, always(100*time.Millisecond, false), false},
		"calls that take longer than Slow": {20, always(400*time.Millisecond, false), true},
		"calls that never end":             {20, always(20*time.Second, false), true},
		"a third of the calls is slow":     {20, every(3, 400*time.Millisecond, 100*time.Millisecond), false},
		"calls that fail fast":             {20, always(10*time.Millisecond, true), true},
		"too few calls to say":             {2, always(time.Second, true), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			d := adaptive.New(s, adaptive.Options{Slow: 300 * time.Millisecond, Recovery: recovery})
			load(t, d, "", c.callers, 3500*time.Millisecond, c.took)
			synctest.Wait()
			closed := false
			for _, call := range s.to("k adaptive slots") {
				closed = closed || call.Verb == ratelimit.VerbLimit
			}
			assert.Equal(t, c.closes, closed, rule)
		})
	}
}

// Without Slow, twice the usual time is slow.
func TestSlowIsLearned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		d := adaptive.New(s, adaptive.Options{Recovery: recovery})
		load(t, d, "well", 20, 20*time.Second, func(time.Duration) (time.Duration, bool) { return 100 * time.Millisecond, false })
		require.EqualValues(t, most, slotsNow(t, d))
		load(t, d, "as well", 20, 20*time.Second, func(time.Duration) (time.Duration, bool) { return 190 * time.Millisecond, false })
		require.EqualValues(t, most, slotsNow(t, d))
		load(t, d, "slow", 20, 5*time.Second, func(time.Duration) (time.Duration, bool) { return 210 * time.Millisecond, false })
		assert.Less(t, slotsNow(t, d), int64(most))
	})
}

// However bad it gets, Floor stays; when it is over, all slots come back.
func TestTheNumberStaysBetweenFloorAndSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		d := adaptive.New(s, adaptive.Options{Slow: 300 * time.Millisecond, Recovery: recovery})
		load(t, d, "bad", 50, 30*time.Second, func(time.Duration) (time.Duration, bool) { return time.Second, true })
		worst := int64(most)
		for _, call := range s.to("k") {
			if call.Verb == ratelimit.VerbLease {
				require.LessOrEqual(t, call.Keys[0].Slots, int64(most))
				require.GreaterOrEqual(t, call.Keys[0].Slots, int64(1))
				worst = min(worst, call.Keys[0].Slots)
			}
		}
		assert.Less(t, worst, int64(10))
		assert.False(t, s.tooMuch, "what is not there cannot close")
		time.Sleep(recovery)
		slotsNow(t, d) // it goes by the number that it knows, and asks for the new one
		synctest.Wait()
		assert.EqualValues(t, most, slotsNow(t, d))
	})
}

// All processes have one number, which a new one begins with, and one of many that is unlucky closes little.
func TestProcessesShareTheNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		o := adaptive.Options{Slow: 300 * time.Millisecond, Recovery: time.Hour}
		var running sync.WaitGroup
		for p := range 10 {
			d := adaptive.New(s, o)
			running.Go(func() {
				load(t, d, fmt.Sprint(p), 10, 2*time.Second, func(time.Duration) (time.Duration, bool) { return 50 * time.Millisecond, p == 0 })
			})
		}
		running.Wait()
		unlucky := slotsNow(t, adaptive.New(s, o))
		assert.Less(t, unlucky, int64(most))
		assert.Greater(t, unlucky, int64(most-15), "one in ten closes a tenth of three in ten, twice at most")

		d := adaptive.New(s, o)
		load(t, d, "all", 100, 4*time.Second, func(time.Duration) (time.Duration, bool) { return 400 * time.Millisecond, false })
		assert.Less(t, slotsNow(t, adaptive.New(s, o)), int64(70), "a new process begins with what the others have found")
	})
}

// While the server cannot be asked, the last number holds.
func TestTheLastNumberHoldsDuringAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var errs []error
		var mu sync.Mutex
		d := adaptive.New(s, adaptive.Options{Slow: 300 * time.Millisecond, OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}})
		load(t, d, "bad", 50, 5*time.Second, func(time.Duration) (time.Duration, bool) { return time.Second, true })
		slotsNow(t, d)
		synctest.Wait()
		last := slotsNow(t, d)
		require.Less(t, last, int64(most))
		s.mu.Lock()
		s.err, s.calls = errors.New("gone"), nil
		s.mu.Unlock()
		for i := range 5 {
			time.Sleep(time.Second)
			_, err := d.Decide(t.Context(), lease(fmt.Sprint(i)))
			require.EqualError(t, err, "gone")
			synctest.Wait()
		}
		for _, call := range s.to("k") {
			assert.Equal(t, last, call.Keys[0].Slots)
		}
		mu.Lock()
		defer mu.Unlock()
		assert.Len(t, errs, 5, "one for each Window")
	})
}

// What has no slots, and what has no more than Floor, is left as it is.
func TestWhatIsNotAdapted(t *testing.T) {
	t.Parallel()
	s := newServer()
	d := adaptive.New(s, adaptive.Options{Floor: most})
	_, err := d.Decide(t.Context(), lease("id"))
	require.NoError(t, err)
	limit := ratelimit.Call{Keys: []ratelimit.Key{{Name: "k", Limits: ratelimit.Limits{ratelimit.Rate(1, time.Second)}}}, Cost: 1}
	_, err = d.Decide(t.Context(), limit)
	require.NoError(t, err)
	assert.Equal(t, []ratelimit.Call{lease("id"), limit}, s.calls)
	assert.Panics(t, func() { adaptive.New(nil, adaptive.Options{}) })
	assert.Panics(t, func() { adaptive.New(s, adaptive.Options{Floor: -1}) })
}

// slow is a server that tells the number only when it is let go.
type slow struct {
	*server
	let chan struct{}
}

func (s slow) Decide(ctx context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	if strings.HasSuffix(c.Keys[0].Name, " adaptive slots") {
		<-s.let
	}
	return s.server.Decide(ctx, c)
}

// Two versions of a program, or two places in one, may differ about the slots of a key: no caller hangs, and none gets more than it asked for.
func TestCallersThatDifferAboutTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := slow{newServer(), make(chan struct{})}
		a := adaptive.New(s, adaptive.Options{Recovery: recovery})
		var callers sync.WaitGroup
		for i, slots := range []int64{10, most} {
			callers.Go(func() {
				call := lease(fmt.Sprint(i))
				call.Keys[0].Slots = slots
				result, err := a.Decide(context.Background(), call)
				assert.NoError(t, err)
				assert.LessOrEqual(t, result.Limit, slots)
			})
			synctest.Wait()
		}
		close(s.let)
		callers.Wait()
	})
}
