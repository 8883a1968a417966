package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

const (
	units   = 4000 // of each user, in a year
	callers = 12   // that ask all the time, one request each

	redisTimeout = time.Second
)

// soaked is a file that a reload changes in what the load does not ask about.
func soaked(version int) string {
	return fmt.Sprintf(`
domain: shop
redis_down: closed
descriptors:
- {key: user, rate_limit: {unit: year, requests_per_unit: %d}}
- {key: version, rate_limit: {unit: year, requests_per_unit: %d}}
routes:
- match: /
  descriptors:
  - [{key: user, value: "{header:X-User}"}]
`, units, version)
}

// Redis is killed and comes back, stands still and goes on, and the configuration is loaded again and again, while
// callers ask by gRPC and by /check. Each request has its answer. Nobody gets more units than there are. Each time, no
// more units are lost than requests were under way when Redis went and when it came back.
// SOAK=10m repeats it for that long, and then the memory, goroutines and descriptors of the gateway must have leveled
// off.
func TestKillsAndReloadsLoseNoDecision(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.AppendOnly("always")) // what was answered is on disk
	g := start(t, s.Addr(), soaked(1), fmt.Sprint("REDIS_TIMEOUT=", redisTimeout))
	least, lasts := size.Of(1, 3), time.Duration(0)
	if text := os.Getenv("SOAK"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err, "SOAK is a duration such as 10m")
		least = 8
	}
	var readings []levels
	for began, round := time.Now(), 0; round < least || time.Since(began) < lasts; round++ {
		g.killAndReload(s, round)
		if t.Failed() {
			return
		}
		readings = append(readings, g.levels())
	}
	if len(readings) < 8 {
		return
	}
	t.Logf("%d rounds, from %+v to %+v", len(readings), readings[0], readings[len(readings)-1])
	// Single readings say little: buffers that are kept for later are sometimes gone.
	first, last := median(readings[1:len(readings)/2]), median(readings[len(readings)/2:])
	t.Logf("medians: first half %+v, second half %+v", first, last)
	assert.LessOrEqual(t, last.resident, 1.2*first.resident+8<<20, "bytes of memory")
	assert.LessOrEqual(t, last.heap, 1.2*first.heap+1<<20, "bytes in use after a collection")
	assert.LessOrEqual(t, last.goroutines, first.goroutines+5)
	assert.LessOrEqual(t, last.descriptors, first.descriptors+5)
}

// tooBusy is what the gateway says of a request that it has refused since it came to read the reply too late, on a
// machine with other work.
const tooBusy = "this process was too busy"

// saysTooBusy says whether the gateway logs that it was, which may come after the response.
func (g *gateway) saysTooBusy() bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if isTooBusy(g.Log()) {
			return true
		}
	}
	return false
}

// killAndReload is a round: a user that nobody has asked about, until nothing is left.
func (g *gateway) killAndReload(s *server.Server, round int) {
	t, user := g.t, fmt.Sprint("user", round)
	var passed, denied, wrong, busy, unanswered atomic.Int64
	var standsStill atomic.Bool // Redis, as it was told to
	failed := func(format string, args ...any) {
		if wrong.Add(1) == 1 {
			t.Errorf(format, args...)
		}
	}
	byRLS := func() (limited bool) {
		answer := g.asks(ask("shop", 0, "user="+user))
		switch {
		case strings.HasPrefix(answer, "OK"), strings.HasPrefix(answer, "OVER"):
		case isTooBusy(answer):
			busy.Add(1)
		default:
			failed("a request has no answer: %s", answer)
		}
		return !strings.HasPrefix(answer, "OK")
	}
	byCheck := func() (limited bool) {
		status := g.checkWithin(patience, user)
		switch {
		case status == http.StatusOK, status == http.StatusTooManyRequests:
		case status == http.StatusServiceUnavailable && g.saysTooBusy():
			busy.Add(1)
		default:
			failed("/check answered %d", status)
		}
		return status != http.StatusOK
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for !stop.Load() && wrong.Load() == 0 {
				limited := byRLS
				if i%2 == 1 {
					limited = byCheck
				}
				began, stood := time.Now(), standsStill.Load()
				if !limited() {
					passed.Add(1)
					continue
				}
				denied.Add(1)
				if time.Since(began) >= redisTimeout && !stood && !standsStill.Load() {
					unanswered.Add(1) // or the machine had other work for so long
				}
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)

	reloads := 0
	reload := func(meanwhile func()) {
		before := g.metric("ratelimit_service_config_load_success")
		reloads++
		g.write("limits.yaml", soaked(1000*round+reloads+1))
		meanwhile()
		await(t, "the file is loaded", func() bool { return g.metric("ratelimit_service_config_load_success") > before })
	}
	await(t, "requests pass", func() bool { return passed.Load() > units/10 || wrong.Load() > 0 })
	standsStill.Store(true)
	s.Pause()
	paused, before, sofar := time.Now(), denied.Load(), passed.Load()
	await(t, "requests are denied while Redis stands still", func() bool { return denied.Load() > before+callers || wrong.Load() > 0 })
	probes := int64(time.Since(paused) / time.Second) // one call a second tries a server that is left alone, and this one decides them all
	s.Resume()
	standsStill.Store(false)
	await(t, "requests pass again", func() bool { return passed.Load() > sofar+units/10 || wrong.Load() > 0 })
	reload(s.Kill)
	before = denied.Load()
	await(t, "requests are denied while Redis is down", func() bool { return denied.Load() > before+callers || wrong.Load() > 0 })
	require.Less(t, passed.Load(), int64(units), "Redis was killed in the middle")
	reload(s.Restart)
	reload(func() {})
	await(t, "nothing is left", func() bool {
		return wrong.Load() > 0 || g.asks(ask("shop", 0, "user="+user+" +0")) == "OVER 0!" // by Redis: closed would say nothing of what is left
	})
	stop.Store(true)
	wg.Wait()
	assert.LessOrEqual(t, passed.Load(), int64(units), "more passed than the limit allows")
	assert.GreaterOrEqual(t, passed.Load(), units-4*callers-probes-busy.Load()-unanswered.Load(),
		"more units are lost than requests were under way each time when Redis went and when it came back, than tried it, and than had no answer in time")
}

// levels are what a process has of things that must not grow.
type levels struct{ resident, heap, goroutines, descriptors float64 }

func (g *gateway) levels() levels {
	g.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	response, err := http.Get("http://" + g.At["debug"] + "/debug/pprof/heap?gc=1")
	require.NoError(g.t, err)
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return levels{g.metric("process_resident_memory_bytes"), g.metric("go_memstats_heap_alloc_bytes"), g.metric("go_goroutines"), g.metric("process_open_fds")}
}

// median returns the median of each level.
func median(all []levels) levels {
	middle := func(of func(levels) float64) float64 {
		var values []float64
		for _, one := range all {
			values = append(values, of(one))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return levels{
		middle(func(l levels) float64 { return l.resident }), middle(func(l levels) float64 { return l.heap }),
		middle(func(l levels) float64 { return l.goroutines }),
		middle(func(l levels) float64 { return l.descriptors }),
	}
}
