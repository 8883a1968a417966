package durability

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// Random calls go to this many keys.
const randomKeys = 1000

// The limits of those keys, in turn: what lasts, what crosses a second now and then,
// and what expires and is made again all the time.
var randomLimits = []limit{
	hourly,
	hourly,
	{"999 1000 86400", 1000, 86400 * time.Millisecond},
	{"999 1000 100", 1000, 100 * time.Millisecond},
	{"9 10 1s", 10, 100 * time.Millisecond},
	{"0 2000 1", 1, 500 * time.Microsecond},
}

// What CL.LIMIT keeps at a fifth of the keys: several limits in one value, of all
// kinds and lengths.
var randomStacks = []string{
	"RATE 5/s BURST 10 RATE 100000/h",
	"WINDOW 100/h",
	"WINDOW 20/1s",
	"FIXED 1000/d",
	"RATE 100/h BURST 20 WINDOW 50/10m FIXED 100/d",
}

// randomCall picks a key, and asks for nothing, for a unit, for some or for too many;
// or it gives units back.
func randomCall(rnd *rand.Rand) []string { return callFor(rnd.IntN(randomKeys), rnd) }

func callFor(i int, rnd *rand.Rand) []string {
	key := fmt.Sprintf("key:%d", i)
	l := randomLimits[i%len(randomLimits)]
	quantity := int64(1)
	switch rnd.IntN(10) {
	case 0:
		quantity = 0
	case 1, 2:
		quantity = rnd.Int64N(10)
	case 3:
		quantity = rnd.Int64N(l.capacity) + 2
	}
	if i%5 > 0 {
		return l.call(key, quantity)
	}
	stack := strings.Fields(randomStacks[i/5%len(randomStacks)])
	command := []string{"CL.LIMIT", "CL.LIMIT", "CL.LIMIT", "CL.PEEK", "CL.REFUND"}[rnd.IntN(5)]
	call := append(append([]string{command, key}, stack...), "COST", strconv.FormatInt(quantity, 10))
	if command == "CL.LIMIT" {
		call = append(call, [][]string{nil, {"UPTO"}, {"STRICT"}}[rnd.IntN(3)]...)
	}
	return call
}

// lasts says whether the limit of a random key gives nothing back in a test.
func lasts(i int) bool { return i%5 > 0 && randomLimits[i%len(randomLimits)] == hourly }

// traffic is a stream of random calls to one server, pipelined over several
// connections, that goes on until it is stopped.
type traffic struct {
	t                *testing.T
	allowed, limited atomic.Int64 // calls
	stopping         atomic.Bool
	callers          sync.WaitGroup
	err              atomic.Pointer[error]
}

func startTraffic(t *testing.T, s *server.Server) *traffic {
	t.Helper()
	const connections, pipelined = 4, 100
	tr := &traffic{t: t}
	for range connections {
		c := s.Raw()
		rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
		tr.callers.Go(func() {
			calls := make([][]string, pipelined)
			for !tr.stopping.Load() {
				for i := range calls {
					calls[i] = randomCall(rnd)
				}
				replies, err := c.Pipeline(calls...)
				for i := 0; err == nil && i < len(replies); i++ {
					var allowed bool
					if allowed, err = allowedIn(replies[i]); allowed {
						tr.allowed.Add(1)
					} else {
						tr.limited.Add(1)
					}
				}
				if err != nil {
					tr.err.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		tr.stopping.Store(true)
		tr.callers.Wait()
	})
	return tr
}

func (tr *traffic) answered() int64 { return tr.allowed.Load() + tr.limited.Load() }

// await returns when so many calls more were answered.
func (tr *traffic) await(calls int64) {
	tr.t.Helper()
	for goal := tr.answered() + calls; tr.answered() < goal; time.Sleep(time.Millisecond) {
		tr.check()
	}
}

// stop returns when all that was asked has been answered.
func (tr *traffic) stop() {
	tr.t.Helper()
	tr.stopping.Store(true)
	tr.callers.Wait()
	tr.check()
}

func (tr *traffic) check() {
	tr.t.Helper()
	if err := tr.err.Load(); err != nil {
		require.NoError(tr.t, *err)
	}
}

// requireWorthComparing makes sure that a state after random calls says something: a
// bucket is there for each key whose limit lasts.
func requireWorthComparing(t testing.TB, state topology.State) {
	t.Helper()
	for i := range randomKeys {
		if lasts(i) {
			key := fmt.Sprintf("key:%d", i)
			require.Contains(t, state, key)
			require.Equal(t, expiryMs(tatIn(t, state[key].Value)), state[key].ExpireAtMs, key)
		}
	}
}
