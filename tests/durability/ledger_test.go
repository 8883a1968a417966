package durability

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// ledger is what callers know of their buckets, all under the limit hourly: which
// units they were told they have, and which they asked for and heard nothing of.
type ledger struct {
	keys []string
	mu   sync.Mutex
	by   map[string]*account
}

type account struct {
	tatAtNone int64 // what is stored is this and an hour for each unit taken
	taken     int64 // units that callers were told they have
	open      map[int][]int64
}

// openLedger takes one unit of each key, to learn when its bucket began.
func openLedger(t testing.TB, s *server.Server, keys []string) *ledger {
	t.Helper()
	l := &ledger{keys: keys, by: map[string]*account{}}
	c := s.Raw()
	defer c.Close()
	for _, key := range keys {
		replies, err := c.Pipeline(hourly.call(key, 1), []string{"GET", key})
		require.NoError(t, err)
		l.by[key] = &account{
			tatAtNone: tatIn(t, replies[1].Text) - int64(hourly.emission),
			taken:     1,
			open:      map[int][]int64{},
		}
	}
	return l
}

// asks notes that a caller is about to ask for units.
func (l *ledger) asks(caller int, key string, quantity int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.by[key]
	a.open[caller] = append(a.open[caller], quantity)
}

// has notes that a caller was told it has what it asked for first. It returns how many
// units of the key callers were told they have, and how many they asked for.
func (l *ledger) has(caller int, key string) (told, asked int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.by[key]
	a.taken += a.open[caller][0]
	a.open[caller] = a.open[caller][1:]
	asked = a.taken
	for _, quantities := range a.open {
		for _, q := range quantities {
			asked += q
		}
	}
	return a.taken, asked
}

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
	for _, key := range l.keys {
		replies, err := c.Pipeline([]string{"GET", key}, []string{"PEXPIRETIME", key}, hourly.call(key, 0))
		require.NoError(t, err)
		a := l.by[key]
		tat := tatIn(t, replies[0].Text)
		taken := (tat - a.tatAtNone) / int64(hourly.emission)
		require.Equal(t, tat, a.tatAtNone+taken*int64(hourly.emission), "%s is not what whole units make", key)
		require.Contains(t, a.possible(), taken, "%s: callers have %d units, and no word of %v", key, a.taken, a.open)
		require.Equal(t, expiryMs(tat), replies[1].Int, "expiry of %s", key)
		peek, err := answerIn(replies[2])
		require.NoError(t, err)
		require.Equal(t, hourly.capacity-taken, peek.Remaining, "remaining of %s", key)
		unheardOf += taken - a.taken
		a.taken = taken
		clear(a.open)
	}
	return unheardOf
}
