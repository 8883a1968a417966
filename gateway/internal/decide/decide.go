// Package decide asks Redis about the descriptors of a request: all of them in one call, all or none.
package decide

import (
	"context"
	"math"
	"slices"
	"time"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
)

// Ask is a descriptor of a request that a rule applies to.
type Ask struct {
	config.Match
	// Hits is how many units it takes. With 0 it takes none, and is over when none is left.
	Hits int64
}

// Status is the outcome for a descriptor.
type Status struct {
	// Over says that its limit denies it. In a shadow it only would.
	Over, Shadow bool
	// Charged says that its units were taken.
	Charged bool
	// Known is false when no limit was asked: the numbers below are then 0.
	Known bool
	// Limit is the index in Rule.Limits of the limit that the numbers describe: the one that denies the longest, otherwise the one with the
	// fewest units left.
	Limit      int
	Remaining  int64
	RetryAfter time.Duration // ratelimit.Never if waiting does not help
	ResetAfter time.Duration
}

// Verdict is the outcome for a request.
type Verdict struct {
	Over     bool
	Statuses []Status // of each Ask
	// Result is of the call that decided, and Asks are the descriptors that its keys stand for.
	Result ratelimit.Result
	Asks   []int
	// Shadowed says that the shadow mode of the whole gateway let through what was over.
	Shadowed bool
}

// Options are what a request may ask for.
type Options struct {
	Down   guard.Policy
	Compat bool
	// Shadow denies nothing. Quota has every rule in quota mode, and Passed is that a descriptor without a rule was in the request.
	Shadow, Quota, Passed bool
}

// Redis asks Redis, or what stands before it.
type Redis interface {
	// Of decides by a policy while Redis is out of reach, and by the batch if units is not 0.
	Of(down guard.Policy, units int64) ratelimit.Decider
	// Each asks several calls in one round trip. It has a result or an error of each.
	Each(ctx context.Context, down guard.Policy, calls []ratelimit.Call) ([]ratelimit.Result, []error)
	// Cluster says whether keys with different tags may be in different slots.
	Cluster() bool
}

// Decider decides requests.
type Decider struct {
	Redis  Redis
	Prefix string // of all keys
	// Lost is told of units that a denied request could not give back.
	Lost func(units int64, err error)
}

// maxKeys is how many keys a call has at most.
const maxKeys = 8

// part is one key of a call, and the descriptors that it stands for.
type part struct {
	asks    []int
	rule    *config.Rule
	key     ratelimit.Key
	hits    int64
	shadow  bool // none of its limits decides
	result  []ratelimit.Result
	charged bool
}

// request is a request that is being decided.
type request struct {
	*Decider
	Options
	asks    []Ask
	parts   []part
	verdict Verdict
	blocked bool // by a limit of no requests
}

// Decide decides about all descriptors of a request at one instant. If the keys are in several slots of a cluster, or more than
// eight, there is a call for each eight keys of a slot, one after the other. If one of them denies, those before are given their
// units back, and those behind it are only looked at.
func (d *Decider) Decide(ctx context.Context, asks []Ask, o Options) (Verdict, error) {
	r := &request{Decider: d, Options: o, asks: asks}
	r.verdict.Statuses = make([]Status, len(asks))
	r.prepare()
	var err error
	if o.Compat {
		err = r.each(ctx)
	} else {
		err = r.together(ctx)
	}
	if err != nil {
		return Verdict{}, err
	}
	r.judge()
	if r.verdict.Over && !o.Compat {
		r.giveBack(ctx)
	}
	if r.verdict.Over && o.Shadow {
		r.verdict.Over, r.verdict.Shadowed = false, true
	}
	return r.verdict, nil
}

// prepare makes the keys. Several descriptors with one key take their units of it together.
func (r *request) prepare() {
	quotas := 0
	r.parts = make([]part, 0, len(r.asks))
	for i := range r.asks {
		a := &r.asks[i]
		if a.Rule.Blocked {
			s := &r.verdict.Statuses[i]
			*s = Status{Over: true, Shadow: a.Rule.Shadow, Known: true, RetryAfter: ratelimit.Never}
			r.blocked = r.blocked || (!s.Shadow && !r.quota(a.Rule))
			continue
		}
		if a.Rule.Unlimited {
			continue
		}
		name := r.Prefix + a.Key
		if at := slices.IndexFunc(r.parts, func(p part) bool { return p.key.Name == name && p.rule == a.Rule }); at >= 0 {
			r.parts[at].hits = add(r.parts[at].hits, a.Hits)
			r.parts[at].asks = append(r.parts[at].asks, i)
			continue
		}
		if r.quota(a.Rule) && !a.Rule.Shadow {
			quotas++
		}
		r.parts = append(r.parts, part{asks: []int{i}, rule: a.Rule, hits: a.Hits, key: ratelimit.Key{Name: name}})
	}
	for i := range r.parts {
		p := &r.parts[i]
		// Of several quotas one is enough, so none of them can decide by itself.
		p.shadow = p.rule.Shadow || r.Shadow || (r.quota(p.rule) && (quotas > 1 || (r.Quota && r.Passed)))
		p.key.Limits = p.rule.Limits
		if p.shadow {
			p.key.Limits = p.rule.Shadows
		}
	}
}

func (r *request) quota(rule *config.Rule) bool { return rule.Quota || r.Quota }

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// together asks about all keys, with as few calls as there can be.
func (r *request) together(ctx context.Context) error {
	denied := r.blocked && !r.Shadow
	for rest := r.parts; len(rest) > 0; {
		n := r.group(rest)
		group := rest[:n]
		rest = rest[n:]
		result, err := r.ask(ctx, group, denied)
		if err != nil {
			r.giveBack(ctx)
			return err
		}
		if result.Limited && !denied {
			denied = true
			r.tell(group, result)
		} else if r.verdict.Asks == nil && !denied {
			r.tell(group, result)
		}
	}
	return nil
}

// group is how many of the parts go into the next call. It brings those of one slot together.
func (r *request) group(parts []part) int {
	if !r.Redis.Cluster() {
		return min(len(parts), maxKeys)
	}
	tag := r.asks[parts[0].asks[0]].Tag
	n := 1
	for i := 1; i < len(parts) && n < maxKeys; i++ {
		if r.asks[parts[i].asks[0]].Tag == tag {
			parts[n], parts[i] = parts[i], parts[n]
			n++
		}
	}
	return n
}

func (r *request) tell(group []part, result ratelimit.Result) {
	r.verdict.Result, r.verdict.Asks = result, nil
	for i := range group {
		r.verdict.Asks = append(r.verdict.Asks, group[i].asks[0])
	}
}

// ask asks about some keys in one call. With look it charges nothing.
func (r *request) ask(ctx context.Context, group []part, look bool) (ratelimit.Result, error) {
	call := ratelimit.Call{Keys: make([]ratelimit.Key, len(group)), Cost: group[0].hits}
	same, limits := group[0].hits > 0, 0
	for i := range group {
		same = same && group[i].hits == call.Cost
		limits += len(group[i].key.Limits)
	}
	if !same || look {
		call.Cost = 1 // each limit says what it takes
	}
	for i := range group {
		p := &group[i]
		switch {
		case look:
			p.key.Limits = taking(p.key.Limits, 0)
		case !same:
			p.key.Limits = taking(p.key.Limits, p.hits)
		}
		call.Keys[i] = p.key
	}
	units := int64(0)
	if len(group) == 1 && !look {
		units = group[0].rule.Batch
	}
	call.Each = limits > 1
	ctx, err := detached(ctx)
	if err != nil {
		return ratelimit.Result{}, err
	}
	result, err := r.Redis.Of(r.Down, units).Decide(ctx, call)
	if err != nil {
		return result, err
	}
	r.spread(group, result, look)
	return result, nil
}

// detached is ctx without its deadline, unless the client has left by now. A call to Redis that has begun is bounded by REDIS_TIMEOUT
// alone: cut short by a client, it would cost a connection, and a Redis that hangs would look like a client without patience.
func detached(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return context.WithoutCancel(ctx), nil
}

// spread notes the result of a call for each of its keys.
func (r *request) spread(group []part, result ratelimit.Result, look bool) {
	each := result.Each
	if result.By == "policy" { // no limit was asked
		for i := range group {
			group[i].result = nil
			for _, at := range group[i].asks {
				r.verdict.Statuses[at] = Status{Over: result.Limited, Shadow: group[i].shadow, RetryAfter: result.RetryAfter}
			}
		}
		return
	}
	if len(each) == 0 {
		alone := result
		alone.Limited = result.Limited || result.Shadowed
		each = []ratelimit.Result{alone}
	}
	for i := range group {
		p := &group[i]
		n := len(p.key.Limits)
		p.result, each = each[:n], each[n:]
		p.charged = !result.Limited && !look && p.hits > 0 && result.By != "local" // what this process granted is no unit of Redis
		r.status(p, look)
		if result.Banned && result.Key == i {
			for _, at := range p.asks {
				s := &r.verdict.Statuses[at]
				s.Over, s.Shadow, s.Remaining, s.RetryAfter = true, false, 0, result.RetryAfter
			}
		}
	}
}

// status is what clients are told of the limits of a key. One that was only looked at is over if it has less left than the request takes.
func (r *request) status(p *part, look bool) {
	best := 0
	for i := 1; i < len(p.result); i++ {
		if tighter(&p.result[i], &p.result[best], p.rule.Shown[i].Shadow, p.rule.Shown[best].Shadow) {
			best = i
		}
	}
	e := &p.result[best]
	s := Status{
		Over: e.Limited || ((look || p.hits == 0) && e.Remaining < max(p.hits, 1)), Shadow: p.rule.Shadow || p.rule.Shown[best].Shadow, Charged: p.charged, Known: true,
		Limit: best, Remaining: e.Remaining, RetryAfter: e.RetryAfter, ResetAfter: e.ResetAfter,
	}
	if s.Over && !e.Limited {
		s.RetryAfter = e.ResetAfter
	}
	for _, at := range p.asks {
		r.verdict.Statuses[at] = s
	}
}

// tighter says whether limit a tells more than limit b: one that decides before a shadow, then one that denies, for long, then one with few units left.
func tighter(a, b *ratelimit.Result, aShadow, bShadow bool) bool {
	switch {
	case aShadow != bShadow:
		return bShadow
	case a.Limited != b.Limited:
		return a.Limited
	case a.Limited && a.RetryAfter != b.RetryAfter:
		return a.RetryAfter == ratelimit.Never || (b.RetryAfter != ratelimit.Never && a.RetryAfter > b.RetryAfter)
	}
	return a.Remaining < b.Remaining
}

// each asks about each key by itself, as upstream does: one that denies does not spare the others, and a denied call is charged up to
// the limit.
func (r *request) each(ctx context.Context) error {
	calls := make([]ratelimit.Call, len(r.parts))
	for i := range r.parts {
		p := &r.parts[i]
		calls[i] = ratelimit.Call{Keys: []ratelimit.Key{p.key}, Cost: p.hits, Strict: p.hits > 0, Each: len(p.key.Limits) > 1}
	}
	if len(calls) == 0 {
		return nil
	}
	ctx, err := detached(ctx)
	if err != nil {
		return err
	}
	results, errs := r.Redis.Each(ctx, r.Down, calls)
	for i, result := range results {
		if errs[i] != nil {
			return errs[i]
		}
		r.spread(r.parts[i:i+1], result, false)
		if r.verdict.Asks == nil || (result.Limited && !r.verdict.Result.Limited) {
			r.tell(r.parts[i:i+1], result)
		}
	}
	return nil
}

// judge says whether the request is over: if any rule is that is no quota, or if all quotas are.
func (r *request) judge() {
	quotas, over := 0, 0
	for i := range r.asks {
		s, rule := &r.verdict.Statuses[i], r.asks[i].Rule
		if rule.Unlimited {
			continue
		}
		denies := s.Over && !s.Shadow
		if r.quota(rule) {
			quotas++
			if denies {
				over++
			}
		} else if denies {
			r.verdict.Over = true
		}
	}
	if r.Quota && r.Passed {
		quotas++
	}
	r.verdict.Over = r.verdict.Over || (quotas > 0 && over == quotas)
}

// giveBackTimeout bounds what nobody waits for but a denied client.
const giveBackTimeout = time.Second

// giveBack returns what a denied request was charged, in one round trip: where there were several calls, where all quotas were over, and
// where a descriptor that takes nothing found nothing left.
func (r *request) giveBack(ctx context.Context) {
	var calls []ratelimit.Call
	var parts []*part  // of each call
	var places [][]int // of its limits in the part
	for i := range r.parts {
		p := &r.parts[i]
		if !p.charged || r.Shadow {
			continue
		}
		p.charged = false
		r.status(p, false)
		var limits ratelimit.Limits
		var at []int
		for j := range p.result {
			if !p.result[j].Limited { // a shadow that would have denied took nothing
				limits, at = append(limits, p.key.Limits[j]), append(at, j)
			}
		}
		if len(limits) == 0 {
			continue
		}
		calls = append(calls, ratelimit.Call{
			Verb: ratelimit.VerbRefund, Keys: []ratelimit.Key{{Name: p.key.Name, Limits: limits}}, Cost: p.hits, Each: len(limits) > 1,
		})
		parts, places = append(parts, p), append(places, at)
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	results, errs := r.Redis.Each(ctx, r.Down, calls)
	for i, p := range parts {
		if errs[i] != nil && r.Lost != nil {
			r.Lost(p.hits, errs[i])
		}
		if errs[i] != nil || results[i].By != "server" { // nobody says what is left
			for _, at := range p.asks {
				r.verdict.Statuses[at].Remaining += p.hits
			}
			continue
		}
		each := results[i].Each
		if len(places[i]) == 1 {
			each = results[i : i+1]
		}
		for k := range each {
			p.result[places[i][k]] = each[k]
		}
		r.status(p, false)
	}
}

func taking(limits ratelimit.Limits, units int64) ratelimit.Limits {
	all := make(ratelimit.Limits, len(limits))
	for i := range limits {
		all[i] = limits[i].Take(units)
	}
	return all
}
