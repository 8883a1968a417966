package service

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"redis-throttle/gateway/console"
)

// Counts are what the metrics say of decisions, rules that were met, and policies.
func (s *Service) Counts() console.Counts {
	c := console.Counts{Domains: map[string]console.Count{}, Rules: map[console.Rule]console.Count{}, Policies: map[string]console.Count{}}
	s.metrics.mu.RLock()
	rules := maps.Clone(s.metrics.rules)
	s.metrics.mu.RUnlock()
	for rule, of := range rules {
		shadowed := valueOf(of.shadow)
		count := console.Count{Total: valueOf(of.total), Denied: valueOf(of.over) - shadowed, Shadowed: shadowed + valueOf(of.rehearsed)}
		c.Rules[console.Rule{Domain: rule.domain, Name: strings.Trim(rule.path[0]+" "+rule.path[1], " ")}] = count
		c.Domains[rule.domain] = add(c.Domains[rule.domain], console.Count{Shadowed: count.Shadowed})
	}
	each(s.metrics.decisions, func(labels map[string]string, n float64) {
		count := console.Count{Total: n}
		if labels["outcome"] == "over_limit" {
			count.Denied = n
		}
		c.Domains[labels["domain"]] = add(c.Domains[labels["domain"]], count)
	})
	for _, count := range c.Domains {
		c.Decisions = add(c.Decisions, count)
	}
	each(s.metrics.policies, func(labels map[string]string, n float64) {
		count := console.Count{Total: n}
		switch labels["outcome"] {
		case "over_limit":
			count.Denied = n
		case "shadow":
			count.Shadowed = n
		}
		c.Policies[labels["policy"]] = add(c.Policies[labels["policy"]], count)
	})
	return c
}

func add(a, b console.Count) console.Count {
	return console.Count{Total: a.Total + b.Total, Denied: a.Denied + b.Denied, Shadowed: a.Shadowed + b.Shadowed}
}

func valueOf(metric prometheus.Metric) float64 {
	var m dto.Metric
	_ = metric.Write(&m) // a counter has no error
	return m.GetCounter().GetValue()
}

// each calls do with the labels and values of all counters.
func each(all *prometheus.CounterVec, do func(labels map[string]string, n float64)) {
	metrics := make(chan prometheus.Metric)
	go func() {
		all.Collect(metrics)
		close(metrics)
	}()
	for metric := range metrics {
		var m dto.Metric
		_ = metric.Write(&m)
		labels := map[string]string{}
		for _, pair := range m.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		do(labels, m.GetCounter().GetValue())
	}
}

// Status is the configuration in use, and why the last one is not.
func (s *Service) Status() console.Status {
	status := console.Status{LoadedMs: s.loadedMs.Load()}
	if why := s.refused.Load(); why != nil {
		status.Error = *why
	}
	if c := s.config.Load(); c != nil {
		status.Loaded, status.Version, status.Domains = true, c.Version, slices.Sorted(maps.Keys(c.Domains))
	}
	return status
}
