package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

// A flood is what the gateway is there for: whatever the load, at most the limit passes, each request is decided, and a
// Redis that is idle is never taken for dead. redis_down: open would show one that is, as requests that are let
// through. A machine with other work may keep the gateway from its replies: what it refuses then is asked again.
func TestAFloodPassesAtMostTheLimit(t *testing.T) {
	callers := size.Of(100, 1000)
	const limit = 100
	for name, env := range map[string][]string{"denials remembered": nil, "every request asks Redis": {"DENIALS=-1"}} {
		t.Run(name, func(t *testing.T) {
			g := start(t, server.Start(t).Addr(), "domain: web\nredis_down: open\nroutes: [{match: /, descriptors: [[{key: http}]]}]\ndescriptors:\n"+
				"- {key: http, limits: [FIXED 100/y]}\n- {key: grpc, limits: [FIXED 100/y]}\n", append(env, "REDIS_TIMEOUT=250ms")...)
			atStart := len(g.Log()) // a busy machine may keep the server from its first answer: that is not the flood's doing
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
			defer client.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			late := lateness(ctx)
			var byHTTP, byGRPC, failed, refused atomic.Int64
			var load sync.WaitGroup
			for range callers {
				load.Go(func() {
					for left := 10; left > 0; left-- {
						request, _ := http.NewRequestWithContext(ctx, http.MethodGet, g.url("/check/"), nil)
						response, err := client.Do(request)
						if err != nil {
							failed.Add(1)
							continue
						}
						_, _ = io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
						switch response.StatusCode {
						case http.StatusOK:
							byHTTP.Add(1)
						case http.StatusTooManyRequests:
						case http.StatusServiceUnavailable: // the log says why
							refused.Add(1)
							left++
						default:
							failed.Add(1)
						}
					}
				})
				load.Go(func() {
					for left := 10; left > 0; left-- {
						response, err := g.ShouldRateLimit(ctx, ask("web", 0, "grpc=x"))
						if err != nil && isTooBusy(err.Error()) {
							refused.Add(1)
							left++
						} else if err != nil {
							failed.Add(1)
						} else if response.OverallCode == rls.RateLimitResponse_OK {
							byGRPC.Add(1)
						}
					}
				})
			}
			load.Wait()
			assert.LessOrEqual(t, byHTTP.Load(), int64(limit))
			assert.LessOrEqual(t, byGRPC.Load(), int64(limit))
			assert.GreaterOrEqual(t, byHTTP.Load()+byGRPC.Load(), 2*limit-refused.Load(), "those that were refused may have been charged")
			assert.Zero(t, failed.Load(), "each request is decided")
			assert.Zero(t, g.metric("throttle_gateway_redis_out"))
			assert.Zero(t, g.metric("throttle_gateway_decisions_total", `by="policy"`), "no outage that is none")
			assert.Zero(t, g.metric("throttle_gateway_requests_refused_total"), "there is room for each")
			if refused.Load() > 0 {
				assert.GreaterOrEqual(t, late(), noticed, "%d requests were refused on a machine that has time for them", refused.Load())
			}
			for line := range strings.Lines(g.Log()[atStart:]) {
				assert.False(t, strings.Contains(line, "level=ERROR") && (refused.Load() == 0 || !isTooBusy(line)), line)
			}
		})
	}
}

// isTooBusy says whether text is that of a request that was refused because this machine has other work.
func isTooBusy(text string) bool {
	return strings.Contains(text, tooBusy) || strings.Contains(text, "calls beside this one had no reply in time")
}

// noticed is how late a process is at least that refuses requests for it: an eighth of REDIS_TIMEOUT.
const noticed = 250 * time.Millisecond / 8

// lateness returns what tells how late this process has been woken at most, which has the processors in common with the
// gateway.
func lateness(ctx context.Context) (most func() time.Duration) {
	var late atomic.Int64
	go func() {
		for ctx.Err() == nil {
			due := time.Now().Add(time.Millisecond)
			time.Sleep(time.Millisecond)
			late.Store(max(late.Load(), int64(time.Since(due))))
		}
	}()
	return func() time.Duration { return time.Duration(late.Load()) }
}

// How long callers wait for a decision, beside a route and an entry without a limit, and a handler that does nothing.
func TestAFloodBesideNoLimit(t *testing.T) {
	if os.Getenv("THROTTLE_LOAD") == "" {
		t.Skip("make test-load measures it")
	}
	g := start(t, server.Start(t).Addr(), "domain: web\nredis_down: open\nroutes:\n- {match: /far, descriptors: [[{key: far}]]}\n"+
		"- {match: /free, descriptors: [[{key: free}]]}\ndescriptors: [{key: far, limits: [FIXED 1000000/y]}]\n", "REDIS_TIMEOUT=250ms")
	empty := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer empty.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	get := func(url string) func() bool {
		return func() bool {
			request, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			response, err := client.Do(request)
			if err != nil {
				return false
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			return response.StatusCode == http.StatusOK
		}
	}
	decide := func(entry string) func() bool {
		return func() bool {
			response, err := g.ShouldRateLimit(ctx, ask("web", 0, entry))
			return err == nil && response.OverallCode == rls.RateLimitResponse_OK
		}
	}
	ways := []struct {
		name string
		ask  func() bool
	}{
		{"an empty handler", get(empty.URL)}, {"/check without a limit", get(g.url("/check/free"))}, {"/check", get(g.url("/check/far"))},
		{"RLS without a limit", decide("free=x")}, {"RLS", decide("far=x")},
	}
	for _, callers := range []int{50, 1000} {
		took := map[string][]time.Duration{}
		for range 5 { // in turn, since others use this machine
			for _, way := range ways {
				var mu sync.Mutex
				var load sync.WaitGroup
				for range callers {
					load.Go(func() {
						for range 2000 / callers {
							began := time.Now()
							ok := way.ask()
							mu.Lock()
							took[way.name] = append(took[way.name], time.Since(began))
							mu.Unlock()
							assert.True(t, ok, "%s, %d callers", way.name, callers)
						}
					})
				}
				load.Wait()
			}
		}
		for _, way := range ways {
			of := took[way.name]
			slices.Sort(of)
			t.Logf("%d callers, %s: half within %v, 99 %% within %v", callers, way.name, of[len(of)/2].Round(time.Microsecond), of[len(of)*99/100].Round(time.Microsecond))
		}
	}
	assert.Zero(t, g.metric("throttle_gateway_redis_out"))
	assert.Zero(t, g.metric("throttle_gateway_decisions_total", `by="policy"`), "no outage that is none")
}
