package durability

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd is a number of callers who all want the units of one bucket, one at a time,
// until they are sent home or their server is gone.
type crowd struct {
	t               *testing.T
	allowed, denied atomic.Int64
	callers         sync.WaitGroup
	stopping        atomic.Bool
}

// ask is how a caller of a crowd asks for one unit. ok is false when there is no answer
// but another try makes sense; an error sends the caller home, for good reasons only.
type ask func() (a answer, ok bool, err error)

// gather starts n callers. newCaller is called for each before any of them starts.
func gather(t *testing.T, n int, newCaller func(i int) ask) *crowd {
	t.Helper()
	cr := &crowd{t: t}
	asks := make([]ask, n)
	for i := range asks {
		asks[i] = newCaller(i)
	}
	for _, one := range asks {
		cr.callers.Go(func() { cr.call(one) })
	}
	t.Cleanup(func() { cr.disperse() })
	return cr
}

func (cr *crowd) call(one ask) {
	for !cr.stopping.Load() {
		a, ok, err := one()
		switch {
		case err != nil:
			return
		case !ok:
		case a.Allowed:
			cr.allowed.Add(1)
		default:
			cr.denied.Add(1)
		}
	}
}

// awaitAllowed returns when so many units more were handed out.
func (cr *crowd) awaitAllowed(more int64) { cr.await(&cr.allowed, more) }

// awaitDenied returns when so many calls more were turned away.
func (cr *crowd) awaitDenied(more int64) { cr.await(&cr.denied, more) }

func (cr *crowd) await(count *atomic.Int64, more int64) {
	cr.t.Helper()
	goal := count.Load() + more
	require.Eventually(cr.t, func() bool { return count.Load() >= goal || cr.t.Failed() }, time.Minute, time.Millisecond)
	require.False(cr.t, cr.t.Failed())
}

// disperse sends everybody home and returns when they have all had their answer. It
// returns how many units they were given.
func (cr *crowd) disperse() int64 {
	cr.stopping.Store(true)
	cr.callers.Wait()
	return cr.allowed.Load()
}

// assertWithinLimit is what a rate limit is for: over any time, no more than a full
// bucket and what came back meanwhile. forgotten are units whose taking was lost.
func assertWithinLimit(t testing.TB, l limit, admitted, forgotten, fromNs, toNs int64) {
	t.Helper()
	most := l.capacity + (toNs-fromNs)/int64(l.emission) + forgotten
	assert.LessOrEqual(t, admitted, most, "units admitted in %v under %s", time.Duration(toNs-fromNs), l.args)
}
