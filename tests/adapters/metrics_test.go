// Package adapters tests what connects the Go client to gRPC, Prometheus and OpenTelemetry.
package adapters

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/otellimit"
	"redis-throttle/ratelimit/promlimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

const day = 24 * time.Hour

// quick is a client that gives up quickly.
func quick(o *redis.Options) {
	o.DialTimeout, o.DialerRetries, o.ReadTimeout, o.MaxRetries = time.Second, 1, 500*time.Millisecond, -1
}

// fiveCalls are two that are allowed, one that is limited, one that is a mistake, and one in an outage.
func fiveCalls(t *testing.T, ctx context.Context, observers ...func(context.Context, observed.Decision)) {
	t.Helper()
	s := server.Start(t)
	limiter := observed.New(ratelimit.New(s.Client(quick), ratelimit.Options{}), observers...)
	hourly := ratelimit.Limits{ratelimit.Fixed(100, day), ratelimit.Rate(2, day).Named("twice"), ratelimit.Rate(1, day).Named("trial").Shadow()}
	for _, limited := range []bool{false, false, true} {
		result, err := limiter.Decide(ctx, calls.On("secret:ann", hourly))
		require.NoError(t, err)
		assert.Equal(t, limited, result.Limited)
	}
	_, err := limiter.Decide(ctx, calls.On("secret:ann", hourly, calls.Cost(-1)))
	require.Error(t, err)
	s.Kill()
	_, err = limiter.Decide(ctx, calls.On("secret:ann", hourly))
	require.True(t, ratelimit.IsOutage(err), err)
}

func TestPrometheusCountsDecisions(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	metrics := promlimit.New(promlimit.Options{ConstLabels: prometheus.Labels{"limiter": "api"}})
	registry.MustRegister(metrics)
	fiveCalls(t, t.Context(), metrics.Observe)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP ratelimit_decisions_total Decisions of the rate limiter, by verb, by outcome, by the limit that decided, and by where it was decided.
# TYPE ratelimit_decisions_total counter
ratelimit_decisions_total{by="server",limiter="api",outcome="allowed",policy="twice",verb="limit"} 2
ratelimit_decisions_total{by="server",limiter="api",outcome="limited",policy="twice",verb="limit"} 1
ratelimit_decisions_total{by="server",limiter="api",outcome="error",policy="",verb="limit"} 1
ratelimit_decisions_total{by="server",limiter="api",outcome="outage",policy="",verb="limit"} 1
# HELP ratelimit_shadowed_total Decisions that a limit would have denied if it were enforced, by that limit.
# TYPE ratelimit_shadowed_total counter
ratelimit_shadowed_total{limiter="api",policy="trial"} 2
`), "ratelimit_decisions_total", "ratelimit_shadowed_total"))

	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	assert.Contains(t, w.Body.String(), `ratelimit_decision_duration_seconds_count{by="server",limiter="api",verb="limit"} 5`)
	assert.NotContains(t, w.Body.String(), "ann", "keys are no labels")
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestOpenTelemetryCountsDecisions(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	observe, err := otellimit.New(otellimit.Options{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
		Attributes:    []attribute.KeyValue{attribute.String("limiter", "api")},
	})
	require.NoError(t, err)
	spans := tracetest.NewSpanRecorder()
	ctx, span := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("").Start(t.Context(), "request")
	fiveCalls(t, ctx, observe)
	span.End()

	var collected metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &collected))
	require.Len(t, collected.ScopeMetrics, 1)
	assert.Equal(t, otellimit.Scope, collected.ScopeMetrics[0].Scope.Name)
	counts, durations := map[string]int64{}, map[string]uint64{}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			if m.Name == "ratelimit.shadowed" {
				require.Len(t, data.DataPoints, 1)
				assert.EqualValues(t, 2, data.DataPoints[0].Value)
				assert.Equal(t, "limiter=api,ratelimit.policy=trial", data.DataPoints[0].Attributes.Encoded(attribute.DefaultEncoder()))
				continue
			}
			assert.Equal(t, "ratelimit.decisions", m.Name)
			for _, point := range data.DataPoints {
				counts[point.Attributes.Encoded(attribute.DefaultEncoder())] = point.Value
			}
		case metricdata.Histogram[float64]:
			assert.Equal(t, "ratelimit.decision.duration", m.Name)
			assert.Equal(t, "s", m.Unit)
			for _, point := range data.DataPoints {
				durations[point.Attributes.Encoded(attribute.DefaultEncoder())] = point.Count
			}
		}
	}
	assert.Equal(t, map[string]int64{
		"limiter=api,ratelimit.by=server,ratelimit.outcome=allowed,ratelimit.policy=twice,ratelimit.verb=limit": 2,
		"limiter=api,ratelimit.by=server,ratelimit.outcome=limited,ratelimit.policy=twice,ratelimit.verb=limit": 1,
		"limiter=api,ratelimit.by=server,ratelimit.outcome=error,ratelimit.policy=,ratelimit.verb=limit":        1,
		"limiter=api,ratelimit.by=server,ratelimit.outcome=outage,ratelimit.policy=,ratelimit.verb=limit":       1,
	}, counts)
	assert.Equal(t, map[string]uint64{"limiter=api,ratelimit.by=server,ratelimit.verb=limit": 5}, durations)

	require.Len(t, spans.Ended(), 1)
	var outcomes []string
	for _, event := range spans.Ended()[0].Events() {
		assert.Equal(t, "ratelimit", event.Name)
		set := attribute.NewSet(event.Attributes...)
		outcome, _ := set.Value(otellimit.OutcomeKey)
		outcomes = append(outcomes, outcome.AsString())
		assert.NotContains(t, set.Encoded(attribute.DefaultEncoder()), "ann", "keys are in no event")
		if outcome.AsString() == "limited" {
			remaining, _ := set.Value(otellimit.RemainingKey)
			assert.EqualValues(t, 0, remaining.AsInt64())
			retryAfterMs, _ := set.Value(otellimit.RetryAfterKey)
			assert.Positive(t, retryAfterMs.AsInt64())
			assert.LessOrEqual(t, retryAfterMs.AsInt64(), (day / 2).Milliseconds())
		}
	}
	assert.Equal(t, []string{"limited", "error", "outage"}, outcomes)
}

func TestSpansAreLeftAloneWhenToldTo(t *testing.T) {
	t.Parallel()
	observe, err := otellimit.New(otellimit.Options{MeterProvider: metric.NewMeterProvider(), WithoutEvents: true})
	require.NoError(t, err)
	spans := tracetest.NewSpanRecorder()
	ctx, span := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("").Start(t.Context(), "request")
	observe(ctx, observed.Decision{Result: ratelimit.Result{Limited: true, Banned: true}})
	span.End()
	require.Len(t, spans.Ended(), 1)
	assert.Empty(t, spans.Ended()[0].Events())
}

// A denied request must not cost more than it has to.
func TestObserversAllocateNothing(t *testing.T) {
	metrics := promlimit.New(promlimit.Options{})
	reader := metric.NewManualReader()
	observe, err := otellimit.New(otellimit.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	require.NoError(t, err)
	d := observed.Decision{Call: calls.On("k", ratelimit.Limits{ratelimit.Rate(1, day)}), Result: ratelimit.Result{Limited: true}}
	ctx := t.Context()
	assert.Zero(t, testing.AllocsPerRun(100, func() { metrics.Observe(ctx, d) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { observe(ctx, d) }))
}
