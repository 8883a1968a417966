package promlimit_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/examples"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/promlimit"
)

func TestMain(m *testing.M) { examples.Main(m) }

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: examples.Addr})
	defer client.Close()

	metrics := promlimit.New(promlimit.Options{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	limiter := observed.New(ratelimit.New(client, ratelimit.Options{}), metrics.Observe)
	limits := ratelimit.Limits{ratelimit.Rate(2, time.Hour).Named("hourly")}
	for range 3 {
		_, _ = limiter.Decide(context.Background(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "counted:42", Limits: limits}}, Cost: 1})
	}

	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "ratelimit_decisions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// ratelimit_decisions_total{by="server",outcome="allowed",policy="hourly",verb="limit"} 2
	// ratelimit_decisions_total{by="server",outcome="limited",policy="hourly",verb="limit"} 1
}
