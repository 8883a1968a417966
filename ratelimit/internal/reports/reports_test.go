package reports

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
)

// counting is a server that counts, or says why not.
type counting struct {
	keys  map[string]int64
	calls int
	off   bool
	err   error
}

func (c *counting) Decide(_ context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	c.calls++
	if c.off || c.err != nil {
		return ratelimit.Result{}, c.err
	}
	c.keys[call.Keys[0].Name] += call.Cost
	return ratelimit.Result{Granted: call.Cost, By: "server"}, nil
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
		require.Zero(t, server.calls)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, map[string]int64{"k0": 100, "k1": 100, "k2": 100}, server.keys)
		r.Count("k0", time.Now())
		time.Sleep(every)
		synctest.Wait()
		assert.EqualValues(t, 101, server.keys["k0"])
		assert.Equal(t, 4, server.calls)
		time.Sleep(time.Hour)
		assert.Equal(t, 4, server.calls, "nothing is sent while nothing is denied")
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
		assert.Len(t, r.counts, most)
		assert.Len(t, r.order, most)
		for second := range most / perRound {
			time.Sleep(every)
			synctest.Wait()
			require.Equal(t, (second+1)*perRound, server.calls)
		}
		assert.Len(t, server.keys, most)
		assert.EqualValues(t, 2, server.keys["0"])
		time.Sleep(every)
		synctest.Wait()
		assert.Empty(t, r.counts)
		assert.False(t, r.sends)
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
				assert.InDelta(t, 10, test.server.calls, 1)
				assert.Empty(t, r.counts)
			})
		})
	}
}

func TestACountBeyondWhatACallTakesIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newCounting()
		r := New(server)
		for range atOnce + 1 {
			r.Count("k", time.Now())
		}
		time.Sleep(every)
		synctest.Wait()
		assert.EqualValues(t, atOnce, server.keys["k"])
	})
}
