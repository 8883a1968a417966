package durability

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd is a number of callers who call one after the other, until they are sent home or their server is gone.
type crowd struct {
	t        *testing.T
	answered atomic.Int64
	callers  sync.WaitGroup
	stopping atomic.Bool
}

// gather starts n callers. newCaller is called for each before any of them starts, and returns its call: an error sends
// the caller home.
func gather(t *testing.T, n int, newCaller func(i int) func() error) *crowd {
	t.Helper()
	cr := &crowd{t: t}
	calls := make([]func() error, n)
	for i := range calls {
		calls[i] = newCaller(i)
	}
	for _, call := range calls {
		cr.callers.Go(func() {
			for !cr.stopping.Load() && call() == nil {
				cr.answered.Add(1)
			}
		})
	}
	t.Cleanup(func() { cr.disperse() })
	return cr
}

// awaitAnswers returns when so many calls more were answered.
func (cr *crowd) awaitAnswers(more int64) {
	cr.t.Helper()
	goal := cr.answered.Load() + more
	require.Eventually(cr.t, func() bool { return cr.answered.Load() >= goal || cr.t.Failed() }, time.Minute, time.Millisecond)
	require.False(cr.t, cr.t.Failed())
}

// disperse sends everybody home and returns, when they have all had their answer, how many answers there were.
func (cr *crowd) disperse() int64 {
	cr.stopping.Store(true)
	cr.callers.Wait()
	return cr.answered.Load()
}
