// Package decide asks Redis about the descriptors of a request: all of them in one call, all or none.
package decide

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/httplimit"
)

// Ask is a descriptor of a request. Without a Rule nothing limits it.
type Ask struct {
	config.Match
	// Hits is how many units it takes. With 0 it takes none, and is over when none is left.
	Hits int64
	// Refund gives these units back instead. It denies nothing.
	Refund bool
}

// AsksFor returns the descriptors of a request of the Rate Limit Service. Errors are about the limits that it brings.
func AsksFor(d *config.Domain, request *rls.RateLimitRequest) ([]Ask, error) {
	asks := make([]Ask, len(request.GetDescriptors()))
	for i, given := range request.GetDescriptors() {
		asks[i].Hits, asks[i].Refund = hitsOf(request, given), given.GetIsNegativeHits()
		var buffer [4]config.Entry
		entries, own := appendEntries(buffer[:0], given), given.GetLimit()
		if own == nil {
			asks[i].Match = d.Match(entries)
			continue
		}
		unit := config.Unit(own.GetUnit()) // with the numbers of the response
		if unit <= rls.RateLimitResponse_RateLimit_UNKNOWN || unit > rls.RateLimitResponse_RateLimit_WEEK {
			return nil, errors.New("the limit in the request needs a unit")
		}
		units := uint32(1)
		if m := own.GetUnitMultiplier(); m != nil {
			if units = m.GetValue(); units == 0 {
				return nil, errors.New("the limit in the request has a unit_multiplier of 0: expected 1 or more")
			}
		}
		var err error
		if asks[i].Match, err = d.Override(entries, own.GetRequestsPerUnit(), unit, units); err != nil {
			return nil, fmt.Errorf("the limit in the request: %w", err)
		}
		for j := range asks[:i] { // a key has one rule: the units of equal ones are taken together, and others get a key of their own
			switch {
			case asks[j].Rule == nil || asks[j].Key != asks[i].Key:
			case request.GetDescriptors()[j].GetLimit().GetRequestsPerUnit() == own.GetRequestsPerUnit():
				asks[i].Rule = asks[j].Rule
			default:
				asks[i].Key += "|" + strconv.FormatUint(uint64(own.GetRequestsPerUnit()), 10)
			}
		}
	}
	return asks, nil
}

// EntriesOf are the entries of a descriptor.
func EntriesOf(d *common.RateLimitDescriptor) []config.Entry {
	return appendEntries(make([]config.Entry, 0, len(d.GetEntries())), d)
}

func appendEntries(entries []config.Entry, d *common.RateLimitDescriptor) []config.Entry {
	for _, e := range d.GetEntries() {
		entries = append(entries, config.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	return entries
}

// hitsOf is what a descriptor takes: what it says itself, which may be 0, else what the request says, else 1.
func hitsOf(request *rls.RateLimitRequest, d *common.RateLimitDescriptor) int64 {
	if d.GetHitsAddend() != nil {
		return int64(min(d.GetHitsAddend().GetValue(), math.MaxInt64))
	}
	return int64(max(request.GetHitsAddend(), 1))
}

// AsksOf returns the descriptors of a request of HTTP, by the routes of a domain.
func AsksOf(d *config.Domain, q *http.Request) (asks []Ask) {
	for _, route := range d.Routes.Of(q) {
		for _, entries := range route.Descriptors(q) {
			if match := d.Match(entries); !d.Routes.Frees(q, route, match.Rule) {
				asks = append(asks, Ask{Match: match, Hits: route.Cost})
			}
		}
	}
	return asks
}

// Status is the outcome for a descriptor.
type Status struct {
	// Over says that its limit denies it. In a shadow it only would.
	Over, Shadow bool
	// Rehearsed says that a limit with SHADOW beside others would have denied what these let through.
	Rehearsed bool
	// Charged says that its units were taken, and Banned that its key is banned.
	Charged, Banned bool
	// Known is false when no limit was asked: the numbers below are then 0.
	Known bool
	// Limit is the index in Rule.Limits of the limit that the numbers describe: the one that denies the longest,
	// otherwise the one with the fewest units left.
	Limit      int
	Remaining  int64
	RetryAfter time.Duration // ratelimit.Never if waiting does not help
	ResetAfter time.Duration
}

// Verdict is the outcome for a request.
type Verdict struct {
	Over     bool
	Statuses []Status // of each Ask
	// Result is of the call that decided, and Policies are of its keys.
	Result   ratelimit.Result
	Policies []*httplimit.Policies
	// Shadowed says that the shadow mode of the whole gateway let through what was over.
	Shadowed bool
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
	// Shadow denies nothing. Quota has every rule in quota mode; a descriptor without a rule is then a quota that is
	// not over.
	Shadow, Quota bool
	// Lost is told of units that a denied request could not give back.
	Lost func(units int64, err error)
	// InForce returns the rule that is in force for a key of a rule with a policy: rule itself, or what the hash says
	// instead. nil is rule itself.
	InForce func(ctx context.Context, rule *config.Rule, key string) *config.Rule
}

// Decides returns the index of the descriptor whose rule decided: one whose key is banned, then the one that denies,
// for the longest time, otherwise the one with the fewest units left. It is -1 where no descriptor has a rule.
func (v *Verdict) Decides(asks []Ask) int {
	best := -1
	for i := range asks {
		if asks[i].Rule != nil && !asks[i].Refund && (best < 0 || v.before(asks, i, best)) {
			best = i
		}
	}
	return best
}

// before says whether descriptor i tells more than descriptor j.
func (v *Verdict) before(asks []Ask, i, j int) bool {
	a, b := &v.Statuses[i], &v.Statuses[j]
	switch {
	case a.Banned != b.Banned:
		return a.Banned
	case a.Shadow != b.Shadow:
		return b.Shadow
	case a.Over != b.Over:
		return a.Over
	case a.Over && a.RetryAfter != b.RetryAfter:
		return a.RetryAfter == ratelimit.Never || (b.RetryAfter != ratelimit.Never && a.RetryAfter > b.RetryAfter)
	case a.Known != b.Known:
		return a.Known
	case !a.Known:
		return !asks[i].Rule.Unlimited && asks[j].Rule.Unlimited
	}
	return a.Remaining < b.Remaining
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
	charged bool
	result  []ratelimit.Result // of each limit
}

// ban says how a denial by this key bans it: "" for none. A rule that does not decide does not ban. A call has one ban
// for all of its keys.
func (p *part) ban() string {
	if p.shadow || p.rule.Ban == 0 || p.hits == 0 {
		return ""
	}
	return p.rule.Ban.String() + " " + p.rule.BanAfter
}

func (p *part) setBan(call *ratelimit.Call) {
	if p.ban() != "" {
		call.Ban, call.BanAfter = p.rule.Ban, p.rule.BanAfter
	}
}

// request is a request that is being decided.
type request struct {
	*Decider
	domain  *config.Domain
	asks    []Ask
	parts   []part
	verdict Verdict
	passed  bool // a descriptor has no rule
	banned  bool // a key is banned, which holds in a shadow, too
	room    *room
}

// usual is how many descriptors a request has, or more than nearly all have.
const usual = 2

// room is what is made for such a request, in one piece of memory.
type room struct {
	statuses [usual]Status
	parts    [usual]part
	places   [usual]int
	keys     [usual]ratelimit.Key
	policies [usual]*httplimit.Policies
}

// atMost is n elements, in room if there is enough.
func atMost[T any](room *[usual]T, n int) []T {
	if n > usual {
		return make([]T, n)
	}
	return room[:n:n]
}

// Decide decides about all descriptors of a request at one instant. If the keys are in several slots of a cluster, or
// more than eight, there is a call for each eight keys of a slot, one after the other. If one of them denies, those
// before are given their units back, and those behind it are only looked at.
//
// The rules of asks are those in force afterwards, and those that another rule replaces are gone.
func (d *Decider) Decide(ctx context.Context, domain *config.Domain, asks []Ask) (Verdict, error) {
	replace(asks)
	d.force(ctx, asks)
	r := &request{Decider: d, domain: domain, asks: asks, room: new(room)}
	r.verdict.Statuses = atMost(&r.room.statuses, len(asks))
	if err := r.refund(ctx); err != nil {
		return Verdict{}, err
	}
	r.prepare()
	decide := r.together
	if domain.Compat {
		decide = r.each
	}
	if err := decide(ctx); err != nil {
		return Verdict{}, err
	}
	r.judge()
	if r.verdict.Result.By == "" && slices.ContainsFunc(asks, func(a Ask) bool { return a.Rule != nil && a.Rule.None }) {
		r.verdict.Result.By = "none"
	}
	if r.verdict.Over && !domain.Compat {
		r.giveBack(ctx)
	}
	r.verdict.Shadowed = r.verdict.Over && d.Shadow && !r.banned
	r.verdict.Over = r.verdict.Over && !r.verdict.Shadowed
	return r.verdict, nil
}

// replace takes the rules away that another rule of the request replaces.
func replace(asks []Ask) {
	var replaced []string
	for i := range asks {
		if rule := asks[i].Rule; rule != nil {
			replaced = append(replaced, rule.Replaces...)
		}
	}
	for i := range asks {
		if rule := asks[i].Rule; rule != nil && rule.Name != "" && !rule.Unlimited && slices.Contains(replaced, rule.Name) {
			asks[i].Rule = nil
		}
	}
}

// force sets the rules that are in force. Descriptors of one key have the same one, also where the hash changes in
// between.
func (d *Decider) force(ctx context.Context, asks []Ask) {
	if d.InForce == nil {
		return
	}
next:
	for i := range asks {
		a := &asks[i]
		if a.Rule == nil || a.Rule.Policy == "" {
			continue
		}
		for j := range asks[:i] {
			if o := &asks[j]; o.Rule != nil && o.Rule.File() == a.Rule && o.Value == a.Value {
				a.Rule = o.Rule
				continue next
			}
		}
		a.Rule = d.InForce(ctx, a.Rule, a.Value)
	}
}

// refund gives back what descriptors return, in one round trip and before anything is charged. It says nothing about
// the request itself, so that this stays as it is when another descriptor denies.
func (r *request) refund(ctx context.Context) error {
	var calls []ratelimit.Call
	var asks []int // of each call
	for i := range r.asks {
		a := &r.asks[i]
		if !a.Refund || a.Rule == nil || len(a.Rule.Limits) == 0 || a.Hits == 0 {
			continue
		}
		key := ratelimit.Key{Name: r.Prefix + a.Key, Limits: a.Rule.Limits}
		calls = append(calls, ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: []ratelimit.Key{key}, Cost: a.Hits, Each: len(key.Limits) > 1})
		asks = append(asks, i)
	}
	if len(calls) == 0 {
		return nil
	}
	ctx, err := detached(ctx)
	if err != nil {
		return err
	}
	results, errs := r.Redis.Each(ctx, r.domain.Down, calls)
	for i, at := range asks {
		a := &r.asks[at]
		switch {
		case errs[i] == nil:
			p := part{rule: a.Rule, hits: a.Hits, result: results[i].Each}
			if len(p.result) == 0 {
				p.result = results[i : i+1]
			}
			r.verdict.Statuses[at] = p.status(false)
		case r.domain.Down == guard.Fail || !IsOutage(errs[i]):
			return errs[i]
		default: // nobody can give them back
			r.Lost(a.Hits, errs[i])
		}
	}
	r.verdict.Result = ratelimit.Result{By: "server"}
	return nil
}

// prepare makes the keys. Several descriptors with one key take their units of it together.
func (r *request) prepare() {
	quotas := 0
	r.parts = atMost(&r.room.parts, len(r.asks))[:0]
	places := atMost(&r.room.places, len(r.asks))
	for i := range r.asks {
		a := &r.asks[i]
		switch {
		case a.Refund:
			continue
		case a.Rule == nil:
			r.passed = true
			continue
		case a.Rule.None && r.quota(a.Rule) && !a.Rule.Shadow: // a quota that is never over
			quotas++
			continue
		case a.Rule.Unlimited:
			continue
		}
		name := r.Prefix + a.Key
		if at := slices.IndexFunc(r.parts, func(p part) bool { return p.key.Name == name && p.rule == a.Rule }); at >= 0 {
			p := &r.parts[at]
			p.hits += min(a.Hits, math.MaxInt64-p.hits)
			p.asks = append(p.asks, i)
			continue
		}
		if r.quota(a.Rule) && !a.Rule.Shadow {
			quotas++
		}
		places[i] = i
		r.parts = append(r.parts, part{asks: places[i : i+1 : i+1], rule: a.Rule, hits: a.Hits, key: ratelimit.Key{Name: name}})
	}
	for i := range r.parts {
		p := &r.parts[i]
		// Of several quotas one is enough, so none of them can decide by itself.
		p.shadow = p.rule.Shadow || r.Shadow || (r.quota(p.rule) && (quotas > 1 || (r.Quota && r.passed)))
		p.key.Limits = p.rule.Limits
		if p.shadow {
			p.key.Limits = p.rule.Shadows
		}
	}
}

func (r *request) quota(rule *config.Rule) bool { return rule.Quota || r.Quota }

// together asks about all keys, with as few calls as there can be.
func (r *request) together(ctx context.Context) error {
	denied := false
	// Rules with a ban come first: behind a call that denies they would only be looked at, and not count the denial.
	slices.SortStableFunc(r.parts, func(a, b part) int { return strings.Compare(b.ban(), a.ban()) })
	for rest := r.parts; len(rest) > 0; {
		n := r.group(rest)
		result, err := r.ask(ctx, rest[:n], denied)
		if err != nil {
			r.giveBack(ctx)
			return err
		}
		if !denied {
			r.tell(rest[:n], result)
			denied = result.Limited
		}
		rest = rest[n:]
	}
	return nil
}

// group is how many of the parts go into the next call. It brings those of one slot together.
func (r *request) group(parts []part) int {
	tag, ban := r.asks[parts[0].asks[0]].Tag, parts[0].ban()
	n := 1
	for i := 1; i < len(parts) && n < maxKeys; i++ {
		if (!r.Redis.Cluster() || r.asks[parts[i].asks[0]].Tag == tag) && parts[i].ban() == ban {
			parts[n], parts[i] = parts[i], parts[n]
			n++
		}
	}
	return n
}

// tell makes a result that of the request, if it is the first one, or the first that denies.
func (r *request) tell(group []part, result ratelimit.Result) {
	if r.verdict.Policies != nil && (r.verdict.Result.Limited || !result.Limited) {
		return
	}
	r.verdict.Result, r.verdict.Policies = result, atMost(&r.room.policies, len(group))
	for i := range group {
		r.verdict.Policies[i] = group[i].rule.Policies
	}
}

// ask asks about some keys in one call. With look it charges nothing.
func (r *request) ask(ctx context.Context, group []part, look bool) (ratelimit.Result, error) {
	call := ratelimit.Call{Cost: group[0].hits}
	if len(group) == len(r.parts) {
		call.Keys = atMost(&r.room.keys, len(group))
	} else { // there are other calls
		call.Keys = make([]ratelimit.Key, len(group))
	}
	if look || call.Cost == 0 || slices.ContainsFunc(group, func(p part) bool { return p.hits != call.Cost }) {
		call.Cost = 1 // each limit says what it takes
		for i := range group {
			units := group[i].hits
			if look {
				units = 0
			}
			group[i].key.Limits = taking(group[i].key.Limits, units)
		}
	}
	limits := 0
	if !look {
		group[0].setBan(&call)
	}
	for i := range group {
		call.Keys[i] = group[i].key
		limits += len(group[i].key.Limits)
	}
	call.Each = limits > 1
	batch := int64(0)
	if len(group) == 1 && !look && call.Ban == 0 {
		batch = group[0].rule.Batch
	}
	ctx, err := detached(ctx)
	if err != nil {
		return ratelimit.Result{}, err
	}
	result, err := r.Redis.Of(r.domain.Down, batch).Decide(ctx, call)
	if err == nil {
		r.spread(group, result, look)
	}
	return result, err
}

// ErrGone says that the client had left, or its deadline had passed, before Redis was asked.
var ErrGone = errors.New("the client has left")

// detached is ctx without its deadline, unless the client has left by now. A call to Redis that has begun is bounded by
// REDIS_TIMEOUT alone: cut short by a client, it would cost a connection, and a Redis that hangs would look like a
// client without patience.
func detached(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	return context.WithoutCancel(ctx), nil
}

// spread notes the result of a call for each of its keys.
func (r *request) spread(group []part, result ratelimit.Result, look bool) {
	if result.By == "policy" { // no limit was asked
		for i := range group {
			r.note(&group[i], Status{Over: result.Limited, Shadow: group[i].shadow, RetryAfter: result.RetryAfter})
		}
		return
	}
	each := result.Each
	if len(each) == 0 {
		each = []ratelimit.Result{result}
		each[0].Limited = result.Limited || result.Shadowed
	}
	for i := range group {
		p := &group[i]
		n := len(p.key.Limits)
		p.result, each = each[:n], each[n:]
		p.charged = !result.Limited && !look && p.hits > 0 && result.By != "local" // what this process granted is no unit of Redis
		s := p.status(look)
		if result.Banned && result.KeyIndex == i {
			s.Over, s.Banned, s.Shadow, s.Remaining, s.RetryAfter = true, true, false, 0, result.RetryAfter
			r.banned = true
		}
		r.note(p, s)
	}
}

// note sets the status of the descriptors that a key stands for.
func (r *request) note(p *part, s Status) {
	for _, at := range p.asks {
		r.verdict.Statuses[at] = s
	}
}

// status is what clients are told of the limits of a key. One that was only looked at is over if it has less left than
// the request takes.
func (p *part) status(look bool) Status {
	best := 0
	for i := range p.result {
		if tighter(&p.result[i], &p.result[best], p.rule.Shown[i].Shadow, p.rule.Shown[best].Shadow) {
			best = i
		}
	}
	e := &p.result[best]
	s := Status{
		Over: e.Limited, Shadow: p.rule.Shadow || p.rule.Shown[best].Shadow, Charged: p.charged, Known: true,
		Limit: best, Remaining: e.Remaining, RetryAfter: e.RetryAfter, ResetAfter: e.ResetAfter,
	}
	if !e.Limited && (look || p.hits == 0) && e.Remaining < max(p.hits, 1) {
		s.Over, s.RetryAfter = true, e.ResetAfter
		if max(p.hits, 1) > e.Limit { // not even a full limit has that
			s.RetryAfter = ratelimit.Never
		}
	}
	for i := range p.result {
		s.Rehearsed = s.Rehearsed || (!s.Over && p.result[i].Limited && p.rule.Shown[i].Shadow)
	}
	return s
}

// tighter says whether limit a tells more than limit b: one that decides before a shadow, then one that denies, for
// long, then one with few units left.
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

// each asks about each key by itself, as upstream does: one that denies does not spare the others, and a denied call is
// charged up to the limit.
func (r *request) each(ctx context.Context) error {
	calls := make([]ratelimit.Call, len(r.parts))
	for i := range r.parts {
		p := &r.parts[i]
		calls[i] = ratelimit.Call{Keys: []ratelimit.Key{p.key}, Cost: p.hits, NoCost: p.hits == 0, Each: len(p.key.Limits) > 1}
		if p.hits > 0 {
			calls[i].Charge = charge.Strict
			p.setBan(&calls[i])
		}
	}
	ctx, err := detached(ctx)
	if err != nil {
		return err
	}
	results, errs := r.Redis.Each(ctx, r.domain.Down, calls)
	for i, result := range results {
		if errs[i] != nil {
			return errs[i]
		}
		group := r.parts[i : i+1]
		r.spread(group, result, false)
		r.tell(group, result)
	}
	return nil
}

// judge says whether the request is over: if any rule is that is no quota, if all quotas are, or if a key is banned.
func (r *request) judge() {
	quotas, over := 0, 0
	if r.Quota && r.passed {
		quotas++
	}
	for i := range r.asks {
		rule, s := r.asks[i].Rule, &r.verdict.Statuses[i]
		denies := s.Over && !s.Shadow
		switch {
		case rule == nil || r.asks[i].Refund:
		case rule.None && r.quota(rule) && !rule.Shadow:
			quotas++
		case rule.Unlimited:
		case !r.quota(rule):
			r.verdict.Over = r.verdict.Over || denies
		default:
			quotas++
			if denies {
				over++
			}
		}
	}
	r.verdict.Over = r.verdict.Over || r.banned || (quotas > 0 && over == quotas)
}

// giveBackTimeout bounds what nobody waits for but a denied client.
const giveBackTimeout = time.Second

// giveBack returns what a denied request was charged, in one round trip: where there were several calls, where all
// quotas were over, and where a descriptor that takes nothing found nothing left.
func (r *request) giveBack(ctx context.Context) {
	var calls []ratelimit.Call
	var parts []*part // of each call
	for i := range r.parts {
		p := &r.parts[i]
		if !p.charged || (r.Shadow && !r.banned) {
			continue
		}
		p.charged = false
		r.note(p, p.status(false))
		var limits ratelimit.Limits
		for j := range p.result {
			if !p.result[j].Limited { // a shadow that would have denied took nothing
				limits = append(limits, p.key.Limits[j])
			}
		}
		if len(limits) > 0 {
			key := ratelimit.Key{Name: p.key.Name, Limits: limits}
			calls = append(calls, ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: []ratelimit.Key{key}, Cost: p.hits, NoCost: p.hits == 0,
				Each: len(limits) > 1})
			parts = append(parts, p)
		}
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	results, errs := r.Redis.Each(ctx, r.domain.Down, calls)
	for i, p := range parts {
		if errs[i] != nil {
			r.Lost(p.hits, errs[i])
		}
		if errs[i] != nil || results[i].By != "server" { // nobody says what is left
			for _, at := range p.asks {
				r.verdict.Statuses[at].Remaining += p.hits
			}
			continue
		}
		each := results[i].Each
		if len(each) == 0 {
			each = results[i : i+1]
		}
		for j := range p.result {
			if !p.result[j].Limited {
				p.result[j], each = each[0], each[1:]
			}
		}
		r.note(p, p.status(false))
	}
}

func taking(limits ratelimit.Limits, units int64) ratelimit.Limits {
	all := make(ratelimit.Limits, len(limits))
	for i := range limits {
		all[i] = limits[i].Take(units)
	}
	return all
}
