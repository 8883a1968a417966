package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
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
// through.
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
			var byHTTP, byGRPC, failed atomic.Int64
			var load sync.WaitGroup
			for range callers {
				load.Go(func() {
					for range 10 {
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
						default:
							failed.Add(1)
						}
					}
				})
				load.Go(func() {
					for range 10 {
						response, err := g.ShouldRateLimit(ctx, ask("web", 0, "grpc=x"))
						if err != nil {
							failed.Add(1)
						} else if response.OverallCode == rls.RateLimitResponse_OK {
							byGRPC.Add(1)
						}
					}
				})
			}
			load.Wait()
			assert.Equal(t, int64(limit), byHTTP.Load())
			assert.Equal(t, int64(limit), byGRPC.Load())
			assert.Zero(t, failed.Load(), "each request is decided")
			assert.Zero(t, g.metric("throttle_gateway_redis_out"))
			assert.Zero(t, g.metric("throttle_gateway_decisions_total", `by="policy"`), "no outage that is none")
			assert.NotContains(t, g.Log()[atStart:], "level=ERROR")
		})
	}
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
