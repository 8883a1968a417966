// Package promlimit counts and times the decisions of a rate limiter for Prometheus.
//
//	metrics := promlimit.New(promlimit.Options{})
//	prometheus.MustRegister(metrics)
//	limiter := observed.New(ratelimit.New(client, ratelimit.Options{}), metrics.Observe)
//
// It has three metrics:
//
//	ratelimit_decisions_total{verb, outcome, policy, by}
//	ratelimit_shadowed_total{policy}
//	ratelimit_decision_duration_seconds{verb, by}
//
// The verb is what was done: limit, refund, lease and so on (ratelimit.Verb). The outcome is allowed, limited, outage,
// overload, cancelled or error. The policy is the name of the limit that decided (ratelimit.Limit.Named), "" where none
// did; of shadowed it is the limit that would have denied the call if it were enforced (ratelimit.Limit.Shadow). By is
// where it was decided: server, cache, batch, local or policy.
//
// There is no label for keys: each value would be a time series for ever, clients could make as many as they like, and
// keys may hold addresses or secrets. CL.TOP shows which keys are limited most. For the same reason the names of
// limits must come from the program, never from a request.
package promlimit

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/observed"
)

// Options may be left as they are.
type Options struct {
	// Namespace is what the names of the metrics begin with, "ratelimit" when it is "".
	Namespace string
	// ConstLabels are added to all time series, such as which limiter of several this is.
	ConstLabels prometheus.Labels
	// Buckets are the upper bounds of durations, in seconds. Nil is from 50 us (a local decision, a cache) to 1 s.
	Buckets []float64
}

// Metrics is a prometheus.Collector.
type Metrics struct {
	decisions *prometheus.CounterVec
	shadowed  *prometheus.CounterVec
	durations *prometheus.HistogramVec

	mu    sync.RWMutex
	known map[kind]series // so that labels are looked up once
}

// kind is what the labels tell of a decision.
type kind struct {
	verb       ratelimit.Verb
	outcome    observed.Outcome
	policy, by string
}

type series struct {
	decisions prometheus.Counter
	durations prometheus.Observer
}

// New returns metrics that are to be registered.
func New(o Options) *Metrics {
	if o.Namespace == "" {
		o.Namespace = "ratelimit"
	}
	if o.Buckets == nil {
		o.Buckets = []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1}
	}
	return &Metrics{
		known: map[kind]series{},
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: o.Namespace, Name: "decisions_total", ConstLabels: o.ConstLabels,
			Help: "Decisions of the rate limiter, by verb, by outcome, by the limit that decided, and by where it was decided.",
		}, []string{"verb", "outcome", "policy", "by"}),
		shadowed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: o.Namespace, Name: "shadowed_total", ConstLabels: o.ConstLabels,
			Help: "Decisions that a limit would have denied if it were enforced, by that limit.",
		}, []string{"policy"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: o.Namespace, Name: "decision_duration_seconds", ConstLabels: o.ConstLabels, Buckets: o.Buckets,
			Help: "How long callers waited for a decision of the rate limiter, by where it was decided.",
		}, []string{"verb", "by"}),
	}
}

// Observe is an observer for observed.New.
func (m *Metrics) Observe(_ context.Context, d observed.Decision) {
	k := kind{d.Call.Verb, d.Outcome(), d.Policy(), d.By()}
	m.mu.RLock()
	s, ok := m.known[k]
	m.mu.RUnlock()
	if !ok {
		verb := k.verb.String()
		s = series{m.decisions.WithLabelValues(verb, k.outcome.String(), k.policy, k.by), m.durations.WithLabelValues(verb, k.by)}
		m.mu.Lock()
		m.known[k] = s
		m.mu.Unlock()
	}
	s.decisions.Inc()
	if policy := d.Shadowed(); policy != "" {
		m.shadowed.WithLabelValues(policy).Inc()
	}
	s.durations.Observe(d.Duration.Seconds())
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.decisions.Describe(ch)
	m.shadowed.Describe(ch)
	m.durations.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.decisions.Collect(ch)
	m.shadowed.Collect(ch)
	m.durations.Collect(ch)
}
