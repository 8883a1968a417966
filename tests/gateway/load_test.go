package gateway_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

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
