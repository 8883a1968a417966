package load_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/rueidislimit"
)

// Two processors, as in a small container: with more there would have to be more callers.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(2)
	os.Exit(m.Run())
}

// asREADMEAsks are the time limits that ratelimit/README.md asks for.
func asREADMEAsks(o *redis.Options) {
	const short = 200 * time.Millisecond
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = short, short, short, short
	o.DialerRetries, o.ContextTimeoutEnabled, o.PoolSize = 1, true, 50
}

// compute keeps a processor busy, as a handler does that renders a page.
func compute() {
	for began := time.Now(); time.Since(began) < 10*time.Millisecond; {
	}
}

func computes(w http.ResponseWriter, _ *http.Request) {
	compute()
	_, _ = io.WriteString(w, "x")
}

// tally is how many requests ended how.
type tally struct {
	served, limited, unavailable, failed atomic.Int64
	outages, overloads                   atomic.Int64
	mu                                   sync.Mutex
	last                                 error
	took                                 []time.Duration
}

func (c *tally) String() string {
	slices.Sort(c.took)
	return fmt.Sprintf("served %d, limited %d, unavailable %d, failed %d; %d outages, %d overloads, such as %v; p50 %v, p99 %v", c.served.Load(),
		c.limited.Load(), c.unavailable.Load(), c.failed.Load(), c.outages.Load(), c.overloads.Load(), c.last,
		c.took[len(c.took)/2].Round(time.Millisecond), c.took[len(c.took)*99/100].Round(time.Millisecond))
}

// failures counts what could not be decided. What is to become of it is left to the defaults.
func (c *tally) failures() httplimit.Failures {
	return httplimit.Failures{OnError: func(_ *http.Request, err error) { c.fails(err) }}
}

// fails counts an error of a limiter.
func (c *tally) fails(err error) {
	if ratelimit.IsOverload(err) {
		c.overloads.Add(1)
	} else {
		c.outages.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || !ratelimit.IsOverload(err) {
		c.last = err
	}
}

// byRueidis is a client of rueidis with the same time limits.
func byRueidis(t *testing.T, addr string) rueidis.Client {
	t.Helper()
	var client rueidis.Client
	require.Eventually(t, func() bool { // on a busy machine it is late at first
		var err error
		client, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, DisableCache: true, ConnWriteTimeout: 200 * time.Millisecond, Dialer: net.Dialer{Timeout: 200 * time.Millisecond},
		})
		return err == nil
	}, time.Minute, time.Millisecond)
	t.Cleanup(client.Close)
	return client
}

// limiters are the ways to a server that a program may take, with a client as README has it.
func limiters(t *testing.T, client *redis.Client) map[string]ratelimit.Decider {
	return map[string]ratelimit.Decider{
		"ratelimit": ratelimit.New(client, ratelimit.Options{}),
		"rueidis":   rueidislimit.New(byRueidis(t, client.Options().Addr)),
		"guard":     guard.New(ratelimit.New(client, ratelimit.Options{}), guard.Options{Policy: guard.Open}),
	}
}
