package load_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/server"
)

// behind are Deciders that a guard may stand before: also one of somebody's own, which shares nothing.
func behind(t *testing.T, client *redis.Client) map[string]ratelimit.Decider {
	return map[string]ratelimit.Decider{
		"ratelimit": ratelimit.New(client, ratelimit.Options{}),
		"rueidis":   rueidislimit.New(byRueidis(t, client.Options().Addr)),
		"own":       ratelimit.New(struct{ *redis.Client }{client}, ratelimit.Options{}),
	}
}

// count is how calls ended.
type count struct {
	allowed, denied, overloads, outages atomic.Int64
	last                                atomic.Pointer[error]
}

func (c *count) String() string {
	s := fmt.Sprintf("allowed %d, denied %d, overloads %d, outages %d", c.allowed.Load(), c.denied.Load(), c.overloads.Load(), c.outages.Load())
	if last := c.last.Load(); last != nil {
		s += ", such as " + (*last).Error()
	}
	return s
}

// ask sends a call that has 50 ms, and says whether it passed.
func (c *count) ask(ctx context.Context, d ratelimit.Decider, key string, limits ratelimit.Limits) bool {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	result, err := d.Decide(ctx, ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: limits}}})
	switch {
	case ratelimit.IsOverload(err):
		c.overloads.Add(1)
	case err != nil:
		c.outages.Add(1)
		c.last.Store(&err)
	case result.Limited:
		c.denied.Add(1)
	default:
		c.allowed.Add(1)
	}
	return err == nil && !result.Limited
}

// A guard takes no process that is busy for a server that is dead, whatever Decider it stands before, and however short
// the deadlines are.
func TestTheGuardTakesNoBusyProcessForAnOutage(t *testing.T) {
	s := server.Start(t)
	for name, decider := range behind(t, s.Client(asREADMEAsks)) {
		for _, callers := range of([]int{200}, []int{200, 500, 1000}) {
			var c *count
			var changes atomic.Int64
			// Again where the machine has kept the server from answering anybody.
			for attempt := 0; attempt == 0 || attempt < 5 && c.allowed.Load()+c.denied.Load() == 0; attempt++ {
				c = &count{}
				changes.Store(0)
				g := guard.New(decider, guard.Options{OnChange: func(_ string, err error) { changes.Add(1); t.Log(name, err) }})
				var asking sync.WaitGroup
				for range callers {
					asking.Go(func() {
						for range of(1, 3) {
							if c.ask(t.Context(), g, name, ratelimit.Limits{ratelimit.Rate(1_000_000, time.Minute)}) {
								compute()
							}
						}
					})
				}
				asking.Wait()
				t.Log(name, callers, c)
			}
			assert.Zero(t, c.outages.Load()+changes.Load(), "%s, %d callers: %v", name, callers, c)
		}
	}
}

// Ten thousand callers at once are an overload at most. The next ten thousand are served.
func TestTenThousandCallersAtOnceAreNoOutage(t *testing.T) {
	const callers = 10_000
	limits := ratelimit.Limits{ratelimit.Rate(100, 24*time.Hour)}
	s := server.Start(t)
	for name, decider := range behind(t, s.Client(asREADMEAsks)) {
		var changes atomic.Int64
		g := guard.New(decider, guard.Options{OnChange: func(_ string, err error) { changes.Add(1); t.Log(name, err) }})
		var passed int64
		for range 2 {
			var c count
			var asking sync.WaitGroup
			for range callers {
				asking.Go(func() {
					if c.ask(t.Context(), g, name, limits) {
						compute()
					}
				})
			}
			asking.Wait()
			t.Log(name, &c)
			assert.Zero(t, c.outages.Load()+changes.Load(), "%s: %v", name, &c)
			passed += c.allowed.Load()
		}
		assert.LessOrEqual(t, passed, int64(100), name)
		require.Eventually(t, func() bool {
			_, err := g.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: []ratelimit.Key{{Name: "k", Limits: limits}}})
			assert.False(t, ratelimit.IsOutage(err), "%s: a call that has more time: %v", name, err)
			return err == nil
		}, time.Minute, time.Millisecond, name)
	}
}
