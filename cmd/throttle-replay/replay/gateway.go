package replay

import (
	"cmp"
	"maps"
	"slices"

	"redis-throttle/cmd/throttle-replay/logs"
)

// Gateway is rules that decide requests by more than one key: the files of a gateway. It decides all requests in the
// order of their times.
type Gateway interface {
	// Name and Words are what a report calls it.
	Name() string
	Words() string
	// Bind has a layout read what a request is made of. The function makes one of a record, which is gone afterwards.
	Bind(l logs.Layout) (func(*logs.Record) any, error)
	// Decide decides a request at an instant. It takes cost units, unless the rules say otherwise.
	Decide(nowNs int64, request any, cost int64) (Verdict, error)
}

// Verdict is what a Gateway made of a request.
type Verdict struct {
	Denied  bool
	RetryMs int64 // of a denied request, until it would be let through; -1 for never
	Rules   []RuleVerdict
}

// RuleVerdict is what one rule said.
type RuleVerdict struct {
	Words   string
	Denied  bool // it is over its limit
	Shadow  bool // and denies nothing
	RetryMs int64
}

// gatewayTrial is a Gateway at work.
type gatewayTrial struct {
	Gateway
	requests, units, denied, deniedUnits, shadowed, unlimited int64
	retries                                                   waits
	rules                                                     map[string]*Rule
	clients                                                   map[uint32]*topClient // that were denied any request
	when                                                      instants
}

func newGatewayTrial(g Gateway) *gatewayTrial {
	return &gatewayTrial{Gateway: g, rules: map[string]*Rule{}, clients: map[uint32]*topClient{}, when: newInstants()}
}

// decide has the rules decide an event.
func (g *gatewayTrial) decide(e *event, request any) error {
	v, err := g.Decide(e.ns, request, e.cost)
	if err != nil {
		return err
	}
	g.requests++
	g.units += e.cost
	if len(v.Rules) == 0 {
		g.unlimited++
	}
	g.note(&v)
	if !v.Denied {
		return nil
	}
	g.denied++
	g.deniedUnits += e.cost
	g.retries.add(v.RetryMs, 1)
	g.when.add(e.ns)
	if e.client == nobody {
		return nil
	}
	c := g.clients[e.client]
	if c == nil {
		c = &topClient{client: e.client}
		g.clients[e.client] = c
	}
	c.denied++
	c.longestMs = longer(c.longestMs, v.RetryMs)
	return nil
}

// note counts what each rule said. The rule that denies for the longest time, the first of several, is the one that
// decided.
func (g *gatewayTrial) note(v *Verdict) {
	decided, isShadowed := -1, false
	for i, one := range v.Rules {
		rule := g.rules[one.Words]
		if rule == nil {
			rule = &Rule{Words: one.Words}
			g.rules[one.Words] = rule
		}
		rule.Requests++
		if !one.Denied {
			continue
		}
		rule.Alone++
		isShadowed = isShadowed || one.Shadow
		if !one.Shadow && (decided < 0 || isLonger(one.RetryMs, v.Rules[decided].RetryMs)) {
			decided = i
		}
	}
	switch {
	case v.Denied && decided >= 0:
		g.rules[v.Rules[decided].Words].Denied++
	case !v.Denied && isShadowed:
		g.shadowed++
	}
}

func isLonger(aMs, bMs int64) bool { return bMs >= 0 && (aMs < 0 || aMs > bMs) }

// forget takes the clients out that were dropped.
func (g *gatewayTrial) forget(isDropped func(uint32) bool) {
	maps.DeleteFunc(g.clients, func(i uint32, _ *topClient) bool { return isDropped(i) })
}

func (g *gatewayTrial) result(r *run, s *series) Result {
	result := Result{
		Name: g.Name(), Words: g.Words(), Requests: g.requests, Denied: g.denied, Units: g.units, DeniedUnits: g.deniedUnits, Shadowed: g.shadowed,
		Unlimited: g.unlimited,
		Waits:     g.retries.report(), Series: g.when.spread(s),
	}
	top := topClients{most: r.Top}
	var groups groupTally
	for i := range r.clients.count {
		c := r.clients.at(i)
		if c.lines <= 0 {
			continue
		}
		weight := r.clients.weight(c)
		result.Clients += weight
		denied := g.clients[i]
		if weight > 0 {
			lost := int64(0)
			if denied != nil {
				lost = denied.denied
			}
			groups.add(c, lost, weight)
		}
		if denied != nil && weight > 0 {
			result.DeniedClients += weight
			denied.id, denied.lines = c.id, c.lines
			top.add(*denied)
		}
	}
	result.Top = r.list(top.all)
	result.Groups = r.groups(&groups)
	for _, rule := range g.rules {
		result.Rules = append(result.Rules, *rule)
	}
	slices.SortFunc(result.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Alone, a.Alone), cmp.Compare(a.Words, b.Words))
	})
	return result
}

// instants counts by time, before anybody knows how long the log is: by seconds, and by minutes or hours if there are
// many of them. Parts of a series that is as long are whole minutes or hours.
type instants struct {
	unitNs int64
	counts map[int64]int64 // by instant, in units
}

func newInstants() instants { return instants{1e9, map[int64]int64{}} }

const mostInstants = 20_000

func (t *instants) add(ns int64) {
	t.counts[ns/t.unitNs]++
	if len(t.counts) <= mostInstants || t.unitNs == hourNs {
		return
	}
	merged := map[int64]int64{}
	for at, n := range t.counts {
		merged[at/60] += n
	}
	t.unitNs, t.counts = t.unitNs*60, merged
}

func (t *instants) spread(s *series) []int64 {
	all := make([]int64, s.n)
	for at, n := range t.counts {
		all[max(s.index(at*t.unitNs), 0)] += n
	}
	return all
}
