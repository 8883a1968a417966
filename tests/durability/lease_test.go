package durability

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// lease is how a process takes the load of a hot key off the server: it takes units
// by the batch and hands them out itself.
type lease struct {
	batch int64
	take  func(quantity int64) bool // asks the server
	mu    sync.Mutex
	left  int64
}

// allow hands out one unit.
func (l *lease) allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 && l.take(l.batch) {
		l.left = l.batch
	}
	if l.left == 0 {
		return false
	}
	l.left--
	return true
}

// Several processes lease from one bucket. Together they never hand out more than the
// limit; the server is asked once for each batch; and what is left in a process that
// goes away is what it costs.
func TestLeasesTakeTheLoadOffAHotKey(t *testing.T) {
	begin(t)
	const processes, requestsEach, batch = 4, 5000, 100
	s := server.Start(t)
	var handedOut atomic.Int64
	leases := make([]*lease, processes)
	var running sync.WaitGroup
	for i := range leases {
		c := s.Raw()
		leases[i] = &lease{batch: batch, take: func(quantity int64) bool {
			v, err := c.Do(stock.call("hot", quantity)...)
			if !assert.NoError(t, err) {
				return false
			}
			a, err := answerIn(v)
			assert.NoError(t, err)
			return a.Allowed
		}}
		running.Go(func() {
			for range requestsEach {
				if leases[i].allow() {
					handedOut.Add(1)
				}
			}
		})
	}
	running.Wait()
	unspent := int64(0)
	for _, l := range leases {
		unspent += l.left
	}
	assert.Equal(t, stock.capacity, handedOut.Load()+unspent)
	assert.LessOrEqual(t, unspent, int64(processes*(batch-1)))

	// While there is something to hand out, a hundred requests cost one call.
	enough := &lease{batch: batch, take: leases[0].take}
	s.MustDo("DEL", "hot")
	calls := callsOfThrottle(t, s)
	for range 2000 {
		require.True(t, enough.allow())
	}
	asked := callsOfThrottle(t, s) - calls
	assert.EqualValues(t, 2000/batch, asked)
	t.Logf("2000 requests, %d calls", asked)
}

// callsOfThrottle is how many the server has answered.
func callsOfThrottle(t testing.TB, s *server.Server) int64 {
	t.Helper()
	var calls int64
	_, err := fmt.Sscanf(s.Info("commandstats")["cmdstat_cl.throttle"], "calls=%d,", &calls)
	require.NoError(t, err)
	return calls
}
