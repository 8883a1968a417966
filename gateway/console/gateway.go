package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Gateway is what a gateway knows beyond Redis.
type Gateway interface {
	// Counts are those since the process began.
	Counts() Counts
	Status() Status
	// Forget drops what the process remembers of a key.
	Forget(key string)
}

// Counts are what a gateway counts.
type Counts struct {
	Decisions Count
	Domains   map[string]Count // their parts of Decisions
	Rules     map[Rule]Count
	Policies  map[string]Count
}

// Rule is a rule of a file.
type Rule struct{ Domain, Name string }

// Status is the state of a gateway.
type Status struct {
	BreakerOpen bool     `json:"breaker_open"`
	Loaded      bool     `json:"loaded"`
	LoadedMs    int64    `json:"loaded_ms"`
	Version     string   `json:"version"`
	Error       string   `json:"error,omitempty"` // of the last configuration, which does not count
	Domains     []string `json:"domains"`
}

// Gateways is what the page shows of a gateway.
type Gateways struct {
	Status
	OverMs int64     `json:"over_ms"` // how long rules were counted
	Domain []RuleRow `json:"by_domain"`
	Rules  []RuleRow `json:"rules"`
	Count  int       `json:"count"`
	More   int       `json:"more"`
}

// RuleRow is a rule, and what it decided in the last minutes.
type RuleRow struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	Count
}

const (
	shownRules   = 60
	sampleEvery  = 30 * time.Second
	rulesFor     = 5 * time.Minute
	mostSamples  = int(rulesFor/sampleEvery) + 1
	shownDomains = 20
)

// sample is what a gateway had counted at an instant.
type sample struct {
	at     time.Time
	counts Counts
}

// Watch notes what the gateway counts, until ctx ends, so that the page knows the last minutes when somebody opens it.
func (c *Console) Watch(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for c.o.Gateway != nil {
		c.mu.Lock()
		c.lines = append(c.lines, sample{time.Now(), c.o.Gateway.Counts()})
		c.lines = c.lines[max(0, len(c.lines)-mostSamples):]
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// gatewayInto fills in what the gateway knows.
func (c *Console) gatewayInto(s *State, now time.Time) {
	if c.o.Gateway == nil {
		return
	}
	counts := c.o.Gateway.Counts()
	before := Counts{}
	g := &Gateways{Status: c.o.Gateway.Status(), Count: len(counts.Rules), Domain: []RuleRow{}, Rules: []RuleRow{}}
	if len(c.lines) > 0 {
		before, g.OverMs = c.lines[0].counts, now.Sub(c.lines[0].at).Milliseconds()
	}
	g.Version = shown(g.Version, shownKey)
	g.Domains = g.Domains[:min(len(g.Domains), shownDomains)]
	for domain, count := range counts.Domains {
		g.Domain = append(g.Domain, RuleRow{shown(domain, shownKey), "", count.less(before.Domains[domain])})
	}
	byDenials(g.Domain)
	for rule, count := range counts.Rules {
		g.Rules = append(g.Rules, RuleRow{shown(rule.Domain, shownKey), shown(rule.Name, shownKey), count.less(before.Rules[rule])})
	}
	byDenials(g.Rules)
	for i := range s.Policies.Rows {
		name, _, _ := strings.Cut(s.Policies.Rows[i].Field, "/")
		if count, ok := counts.Policies[name]; ok && name == s.Policies.Rows[i].Field {
			lately := count.less(before.Policies[name])
			s.Policies.Rows[i].Lately = &lately
		}
	}
	c.times.add(now, counts.Decisions)
	s.Gateway = g
}

func byDenials(rows []RuleRow) {
	slices.SortFunc(rows, func(a, b RuleRow) int {
		return cmp.Or(cmp.Compare(b.Denied+b.Shadowed, a.Denied+a.Shadowed), cmp.Compare(b.Total, a.Total), strings.Compare(a.Domain, b.Domain),
			strings.Compare(a.Name, b.Name))
	})
}

// filtered has the rules that hold a text, and no more than the page shows.
func (g *Gateways) filtered(filter string) *Gateways {
	if g == nil {
		return nil
	}
	own := *g
	own.Rules = []RuleRow{}
	for _, rule := range g.Rules {
		if strings.Contains(strings.ToLower(rule.Domain+" "+rule.Name), strings.ToLower(filter)) {
			own.Rules = append(own.Rules, rule)
		}
	}
	own.Domain = own.Domain[:min(len(own.Domain), shownDomains)]
	if len(own.Rules) > shownRules {
		own.Rules, own.More = own.Rules[:shownRules], len(own.Rules)-shownRules
	}
	return &own
}
