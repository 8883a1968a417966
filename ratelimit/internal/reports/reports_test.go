package reports

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
)

// counting is a server that counts, or says why not.
type counting struct {
	mu    sync.Mutex
	keys  map[string]int64
	calls int
	off   bool
	err   error
}

func (c *counting) Decide(_ context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.off || c.err != nil {
		return ratelimit.Result{}, c.err
	}
	c.keys[call.Keys[0].Name] += call.Cost
	return ratelimit.Result{Granted: call.Cost, By: "server"}, nil
}

// asked is how often it was, and of says how often a key was denied.
func (c *counting) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func (c *counting) of(key string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys[key]
}

// waiting is how many keys are counted and not reported.
func (r *Reports) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(len(r.counts), len(r.order))
}

func newCounting() *counting { return &counting{keys: map[string]int64{}} }

func TestDenialsAreReportedOnceASecondAndExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newCounting()
		r := New(server)
		for i := range 300 {
			r.Count(fmt.Sprint("k", i%3), time.Now())
		}
		time.Sleep(every - 1)
		require.Zero(t, server.asked())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		for _, key := range []string{"k0", "k1", "k2"} {
			assert.EqualValues(t, 100, server.of(key))
		}
		r.Count("k0", time.Now())
		time.Sleep(every)
		synctest.Wait()
		assert.EqualValues(t, 101, server.of("k0"))
		assert.Equal(t, 4, server.asked())
		time.Sleep(time.Hour)
		assert.Equal(t, 4, server.asked(), "nothing is sent while nothing is denied")
	})
}

func TestAMillionKeysTakeAsMuchMemoryAndAsManyCallsASecondAsThereMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newCounting()
		r := New(server)
		for i := range 1_000_000 {
			r.Count(fmt.Sprint(i), time.Now())
		}
		r.Count("0", time.Now())
		r.Count(strings.Repeat("k", longest+1), time.Now())
		assert.Equal(t, most, r.waiting())
		for second := range most / perRound {
			time.Sleep(every)
			synctest.Wait()
			require.Equal(t, (second+1)*perRound, server.asked())
		}
		server.mu.Lock()
		assert.Len(t, server.keys, most)
		server.mu.Unlock()
		assert.EqualValues(t, 2, server.of("0"))
		time.Sleep(every)
		synctest.Wait()
		assert.Zero(t, r.waiting())
		r.mu.Lock()
		assert.False(t, r.sends)
		r.mu.Unlock()
	})
}

func TestAServerThatCountsNothingIsAskedRarely(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		server *counting
		pause  time.Duration
	}{
		"CL.TOP is off":         {&counting{off: true}, time.Minute},
		"the server is away":    {&counting{err: fmt.Errorf("dial: %w", context.DeadlineExceeded)}, time.Minute},
		"the module is older":   {&counting{err: ratelimit.ErrNoModule}, time.Hour},
		"the user has no right": {&counting{err: errors.New("NOPERM")}, time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := New(test.server)
				began := time.Now()
				for time.Since(began) < 10*test.pause {
					r.Count("a", time.Now())
					r.Count("b", time.Now())
					time.Sleep(test.pause / 100)
				}
				time.Sleep(test.pause)
				assert.InDelta(t, 10, test.server.asked(), 1)
				assert.Zero(t, r.waiting())
			})
		})
	}
}

func TestACountBeyondWhatACallTakesIsReportedInParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newCounting()
		r := New(server)
		for range 2*atOnce + 1 {
			r.Count("k", time.Now())
		}
		r.Count("l", time.Now())
		time.Sleep(every)
		synctest.Wait()
		assert.EqualValues(t, 2*atOnce+1, server.of("k"))
		assert.EqualValues(t, 1, server.of("l"))
		assert.Equal(t, 4, server.asked())
	})
}
