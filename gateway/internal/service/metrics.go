package service

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
)

// metrics has everything that the gateway counts. Where upstream has a metric, name and labels follow its default
// mapping.
type metrics struct {
	total, over, near, within, shadow, overCached, rehearsed *prometheus.CounterVec // hits of a rule

	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	errors    *prometheus.CounterVec
	decisions *prometheus.CounterVec
	refused   *prometheus.CounterVec
	info      *prometheus.GaugeVec
	loadedAt  prometheus.Gauge

	loadFailed prometheus.Gauge

	unknown, policies *prometheus.CounterVec

	loads, loadFails, shadowed, lost prometheus.Counter

	// What was looked up, of which each request needs some.
	mu      sync.RWMutex
	rules   map[ruleName]*ruleCounters
	decided map[ofDecision]prometheus.Counter
	methods map[string]method
	series  atomic.Int64
}

// ofDecision are the labels of a decision.
type ofDecision struct{ domain, via, outcome, by string }

type method struct {
	requests prometheus.Counter
	latency  prometheus.Observer
}

// ruleName is a rule as metrics name it.
type ruleName struct {
	domain string
	path   [2]string
}

// ruleCounters has the counters of a rule, looked up once.
type ruleCounters struct{ total, over, near, within, shadow, overCached, rehearsed prometheus.Counter }

// mostRules bounds the time series of detailed_metric and value_to_metric, whose values clients can choose. Those of
// the rules of the file come on top, so that no client takes their room.
const mostRules = 10_000

// longestLabel bounds what a time series keeps of such a value, in bytes. Clients choose the length, too.
const longestLabel = 200

// newMetrics registers the metrics. out says whether Redis is left alone.
func newMetrics(registry prometheus.Registerer, out func() bool) *metrics {
	r := promauto.With(registry)
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return r.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return r.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "throttle_gateway_redis_out", Help: "1 while the circuit breaker of a Redis server is open.",
	}, func() float64 {
		if out() {
			return 1
		}
		return 0
	})
	const of = "ratelimit_service_rate_limit_"
	rule := []string{"domain", "key1", "key2"}
	m := &metrics{
		rules: map[ruleName]*ruleCounters{}, decided: map[ofDecision]prometheus.Counter{}, methods: map[string]method{},
		total:      counters(of+"total_hits", "Hits of a rule.", rule...),
		over:       counters(of+"over_limit", "Hits that a rule denied.", rule...),
		near:       counters(of+"near_limit", "Hits that were charged near the limit of a rule.", rule...),
		within:     counters(of+"within_limit", "Hits that were charged.", rule...),
		shadow:     counters(of+"shadow_mode", "Hits that a rule in shadow mode would have denied.", rule...),
		overCached: counters(of+"over_limit_with_local_cache", "Hits that a remembered denial denied.", rule...),
		rehearsed: counters("throttle_gateway_shadow_hits_total",
			"Hits that a limit with SHADOW would have denied, and that the limits beside it let through.", rule...),
		requests: counters("ratelimit_service_total_requests", "Requests by method.", "grpc_method"),
		errors:   counters("ratelimit_service_should_rate_limit_error", "Requests that were not decided.", "err_type"),
		decisions: counters("throttle_gateway_decisions_total",
			"Decisions by domain, by how the request came, by outcome and by where it was decided.", "domain", "via", "outcome", "by"),
		refused: counters("throttle_gateway_requests_refused_total",
			"Requests that were refused before they could be decided, by how they came and why.", "via", "reason"),
		policies: counters("throttle_gateway_policy_hits_total",
			"Hits of rules with a policy, by whether the limits of the file decided or those of a field of the hash, and by outcome.", "policy", "limits", "outcome"),
		loads:     counter("ratelimit_service_config_load_success", "Configurations that were loaded."),
		loadFails: counter("ratelimit_service_config_load_error", "Configurations with mistakes."),
		unknown:   counters("throttle_gateway_domain_not_found_total", "Requests about a domain that nothing configures, which are let through.", "domain"),
		shadowed:  counter("ratelimit_service_global_shadow_mode", "Requests that SHADOW_MODE let through."),
		lost:      counter("throttle_gateway_units_lost_total", "Units of denied requests that could not be given back."),
		latency: r.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ratelimit_service_response_time_seconds", Help: "How long requests took.",
			Buckets: []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1},
		}, []string{"grpc_method"}),
		info: r.NewGaugeVec(prometheus.GaugeOpts{Name: "throttle_gateway_config_info", Help: "The configuration in use."}, []string{"version"}),
		loadFailed: r.NewGauge(prometheus.GaugeOpts{
			Name: "throttle_gateway_config_load_failed", Help: "1 while the newest configuration has mistakes, so that an older one or none is in use.",
		}),
		loadedAt: r.NewGauge(prometheus.GaugeOpts{Name: "throttle_gateway_config_loaded_timestamp_seconds", Help: "When the configuration was loaded."}),
	}
	return m
}

func (m *metrics) loaded(version string) {
	m.loads.Inc()
	m.loadFailed.Set(0)
	m.info.Reset()
	m.info.WithLabelValues(version).Set(1)
	m.loadedAt.SetToCurrentTime()
}

func (m *metrics) took(name string, began time.Time) {
	c := lookUp(m, m.methods, name, func() method { return method{m.requests.WithLabelValues(name), m.latency.WithLabelValues(name)} })
	c.requests.Inc()
	c.latency.Observe(time.Since(began).Seconds())
}

// lookUp is what a map of m holds, made when it is asked for first.
func lookUp[K comparable, V any](m *metrics, in map[K]V, key K, made func() V) V {
	m.mu.RLock()
	v, ok := in[key]
	m.mu.RUnlock()
	if !ok {
		v = made()
		m.mu.Lock()
		in[key] = v
		m.mu.Unlock()
	}
	return v
}

// decision counts a decision.
func (m *metrics) decision(of ofDecision) {
	lookUp(m, m.decided, of, func() prometheus.Counter { return m.decisions.WithLabelValues(of.domain, of.via, of.outcome, of.by) }).Inc()
}

// failed counts a request that nobody decided.
func (m *metrics) failed(domain, via string, err error) {
	var wrong mistake
	kind := "service_error"
	if errors.Is(err, decide.ErrGone) {
		kind = "client_gone"
	} else if !errors.As(err, &wrong) && !errors.Is(err, errBusy) {
		kind = "redis_error"
	}
	m.errors.WithLabelValues(kind).Inc()
	m.decision(ofDecision{domain, via, "error", ""})
}

// rule returns the counters of a rule. isOpen says that a client can choose a part of the name.
func (m *metrics) rule(name ruleName, isOpen bool) *ruleCounters {
	for i, text := range name.path {
		name.path[i] = text[:min(len(text), longestLabel)]
	}
	m.mu.RLock()
	known := m.rules[name]
	m.mu.RUnlock()
	if known != nil {
		return known
	}
	full := isOpen && m.series.Add(1) > mostRules
	if full {
		name.path = [2]string{"other"}
	}
	l := []string{name.domain, valid(name.path[0]), valid(name.path[1])}
	c := &ruleCounters{
		m.total.WithLabelValues(l...), m.over.WithLabelValues(l...), m.near.WithLabelValues(l...),
		m.within.WithLabelValues(l...), m.shadow.WithLabelValues(l...), m.overCached.WithLabelValues(l...), m.rehearsed.WithLabelValues(l...),
	}
	if !full {
		name.path = [2]string{strings.Clone(name.path[0]), strings.Clone(name.path[1])} // not the whole request with them
		m.mu.Lock()
		m.rules[name] = c
		m.mu.Unlock()
	}
	return c
}

// valid is text as a label can hold it. A path or a header field can hold any bytes, and Prometheus panics at those
// that are not UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// countDecision counts a decision, and the hits of each rule.
func (m *metrics) countDecision(domain, via string, o *outcome, nearRatio float64) {
	result := "ok"
	if o.Over {
		result = "over_limit"
	}
	m.decision(ofDecision{domain, via, result, o.Result.By})
	if o.Shadowed {
		m.shadowed.Inc()
	}
	for i := range o.asks {
		a, s := &o.asks[i], &o.Statuses[i]
		if a.Rule == nil || a.Refund {
			continue
		}
		c, hits := m.rule(ruleName{domain, a.Path}, a.Open), float64(a.Hits)
		if a.Rule.Policy != "" {
			m.policies.WithLabelValues(a.Rule.Policy, limitsOf(a.Rule), outcomeOf(a.Rule, s)).Add(hits)
		}
		c.total.Add(hits)
		if s.Rehearsed {
			c.rehearsed.Add(hits)
		}
		switch {
		case s.Over:
			c.over.Add(hits)
			if s.Shadow {
				c.shadow.Add(hits)
			}
			if o.Result.By == "cache" {
				c.overCached.Add(hits)
			}
		case s.Charged:
			c.within.Add(hits)
			c.near.Add(nearHits(a, s, nearRatio))
		case a.Rule.Unlimited:
			c.within.Add(hits)
		}
	}
}

// limitsOf says whose limits are in force.
func limitsOf(rule *config.Rule) string {
	if rule.Field == "" {
		return "file"
	}
	return "hash"
}

func outcomeOf(rule *config.Rule, s *decide.Status) string {
	switch {
	case rule.None:
		return "none"
	case s.Rehearsed, s.Over && s.Shadow:
		return "shadow"
	case s.Over:
		return "over_limit"
	}
	return "ok"
}

// nearHits is how many of the hits lie beyond the share of the limit.
func nearHits(a *decide.Ask, s *decide.Status, ratio float64) float64 {
	limit := shown(a.Rule, s).Requests
	used := int64(limit) - s.Remaining
	return float64(min(max(used-int64(ratio*float64(limit)), 0), a.Hits))
}

// shown is the limit that a status tells of.
func shown(rule *config.Rule, s *decide.Status) config.Shown {
	if len(rule.Shown) == 0 {
		return config.Shown{}
	}
	return rule.Shown[s.Limit]
}
