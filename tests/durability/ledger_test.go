package durability

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// ledger is what callers know of their buckets: which units they were told they have,
// and which they asked for and heard nothing of.
type ledger struct {
	mu sync.Mutex
	by map[string]*account
}

type account struct {
	limit     limit
	tatAtNone int64 // what is stored is this and the emission interval for each unit taken
	taken     int64 // units that callers were told they have
	open      map[int][]int64
}

// openLedger takes the first units of each key, to learn when its bucket began: so
// many that it will not be full again before the test is over.
func openLedger(t testing.TB, s *server.Server, limits map[string]limit) *ledger {
	t.Helper()
	book := &ledger{by: map[string]*account{}}
	c := s.Raw()
	defer c.Close()
	for key, l := range limits {
		first := int64(3 * time.Hour / l.emission)
		replies, err := c.Pipeline(l.call(key, first), []string{"GET", key})
		require.NoError(t, err)
		book.by[key] = &account{
			limit:     l,
			tatAtNone: tatIn(t, replies[1].Text) - first*int64(l.emission),
			taken:     first,
			open:      map[int][]int64{},
		}
	}
	return book
}

// asks notes that a caller is about to ask for units.
func (l *ledger) asks(caller int, key string, quantity int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.by[key]
	a.open[caller] = append(a.open[caller], quantity)
}

// has notes that a caller was told it has what it asked for first. The error says what
// is wrong with what it was told.
func (l *ledger) has(caller int, key string, told answer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.by[key]
	a.taken += a.open[caller][0]
	a.open[caller] = a.open[caller][1:]
	if !told.Allowed {
		return errors.New("denied, with the bucket far from empty")
	}
	if a.limit != hourly {
		return nil // some came back meanwhile
	}
	taken, atLeast, atMost := a.limit.capacity-told.Remaining, a.taken, a.taken
	if len(a.open) > 1 { // callers overtake each other
		atLeast = 0
		for _, quantities := range a.open {
			for _, q := range quantities {
				atMost += q
			}
		}
	}
	if taken < atLeast || taken > atMost {
		return fmt.Errorf("%d units taken, where callers know of %d to %d", taken, atLeast, atMost)
	}
	return nil
}

func (l *ledger) limitOf(key string) limit { return l.by[key].limit }

// possible is how many units may be taken: what was acknowledged, and of each caller's
// open calls those up to some point. Connections keep the order of their calls.
func (a *account) possible() []int64 {
	sums := []int64{a.taken}
	for _, quantities := range a.open {
		next := slices.Clone(sums)
		ahead := int64(0)
		for _, q := range quantities {
			ahead += q
			for _, sum := range sums {
				next = append(next, sum+ahead)
			}
		}
		slices.Sort(next)
		sums = slices.Compact(next)
	}
	return sums
}

// settle compares what a server holds, now that all calls have been answered or never
// will be, with what the callers know; from then on they know all. It returns how many
// units were taken by calls that nobody was told of.
func (l *ledger) settle(t testing.TB, s *server.Server) (unheardOf int64) {
	t.Helper()
	c := s.Raw()
	defer c.Close()
	for key, a := range l.by {
		replies, err := c.Pipeline([]string{"GET", key}, []string{"PEXPIRETIME", key}, a.limit.call(key, 0))
		require.NoError(t, err)
		tat := tatIn(t, replies[0].Text)
		taken := (tat - a.tatAtNone) / int64(a.limit.emission)
		require.Equal(t, tat, a.tatAtNone+taken*int64(a.limit.emission), "%s is not what whole units make", key)
		require.Contains(t, a.possible(), taken, "%s: callers have %d units, and no word of %v", key, a.taken, a.open)
		require.Equal(t, expiryMs(tat), replies[1].Int, "expiry of %s", key)
		peek, err := answerIn(replies[2])
		require.NoError(t, err)
		if a.limit == hourly {
			require.Equal(t, hourly.capacity-taken, peek.Remaining, "remaining of %s", key)
		}
		unheardOf += taken - a.taken
		a.taken = taken
		clear(a.open)
	}
	return unheardOf
}
