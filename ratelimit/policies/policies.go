// Package policies changes limits while a program runs. A limit in the code has a name, and stays the default. A hash
// in Redis may say otherwise, for everybody or for some keys:
//
//	limiter := ratelimit.With(policies.New(ratelimit.New(client, ratelimit.Options{}), client, policies.Options{}))
//	result, err := limiter.Limit(ctx, "user:42", ratelimit.Policy("api", ratelimit.Rate(100, time.Minute)), 1)
//
// and then, at any time:
//
//	HSET throttle:policies  api            "RATE 60/m BURST 20"
//	HSET throttle:policies  api/premium:*  "RATE 600/m"
//	HSET throttle:policies  api/user:42    "NONE"
//
// docs/policies.md has the rules.
package policies

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
)

// Policies is a Decider that puts the limits of a hash in place of those of the code. It changes keys whose limits are
// of ratelimit.Policy, where the hash has a value for them, and nothing else: other calls are handed on as they are.
//
// Put it around a guard.Guard, cached.Cached and batched.Batched, and inside of observed.New: these then see the limits
// in force, and Result.Policies tells of them.
//
// A call that a NONE lets through has a Result whose By is "none", and the server learns nothing of it. If it is about
// several keys, the others decide.
type Policies struct {
	next   ratelimit.Decider
	reader *Reader
}

// New returns a Policies before next. client is one that ratelimit.New takes, such as that of next; with rueidis,
// rueidislimit.Client(client); it may be nil if o.Read is set. New panics if next or what it reads by is nil.
func New(next ratelimit.Decider, client Client, o Options) *Policies {
	ratelimit.With(next) // panics at nil
	return &Policies{next: next, reader: NewReader(client, o)}
}

// Reader is what reads the hash.
func (p *Policies) Reader() *Reader { return p.reader }

// Decide hands a call on with the limits in force.
func (p *Policies) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	named := false
	for i := range call.Keys {
		name, ok := nameOf(call.Keys[i].Limits)
		if !ok {
			return ratelimit.Result{}, fmt.Errorf("policies: %v: all limits of a key belong to one policy, or to none", call.Verb)
		}
		named = named || name != ""
	}
	if !named {
		return p.next.Decide(ctx, call)
	}
	rules := p.reader.Rules(ctx)
	for i := range call.Keys {
		switch rule := choose(rules, &call.Keys[i]); {
		case rule == nil:
		case len(call.Keys) == 1:
			return p.applyToOne(ctx, call, rule)
		default:
			return p.apply(ctx, call, rules)
		}
	}
	return p.next.Decide(ctx, call)
}

// nameOf is the policy of limits, empty if they have none. ok is false for those of several.
func nameOf(limits ratelimit.Limits) (name string, ok bool) {
	for i := range limits {
		switch other := about.PolicyOf(&limits[i]); {
		case i == 0:
			name = other
		case other != name:
			return "", false
		}
	}
	return name, true
}

func choose(rules *Rules, key *ratelimit.Key) *Rule {
	if len(key.Limits) == 0 {
		return nil
	}
	name := about.PolicyOf(&key.Limits[0])
	if name == "" {
		return nil
	}
	return rules.Choose(name, key.Name)
}

// apply decides a call on several keys, some of which have rules.
func (p *Policies) apply(ctx context.Context, call ratelimit.Call, rules *Rules) (ratelimit.Result, error) {
	var (
		applied = make([]ratelimit.Applied, len(call.Keys))
		keys    = make([]ratelimit.Key, 0, len(call.Keys)) // that are handed on
		places  = make([]int, 0, len(call.Keys))           // of these in the call
		open    = -1                                       // the place of a key that lets a call with Any through
		changed = false
		banned  = false
	)
	asked := call
	for i, key := range call.Keys {
		rule := choose(rules, &key)
		if rule != nil {
			limits, why := rule.limitsFor(&call, key.Limits)
			if why != "" {
				p.say(rule, why)
				rule = nil
			}
			key.Limits = limits
		}
		if rule == nil {
			keys, places = append(keys, call.Keys[i]), append(places, i)
			continue
		}
		changed = true
		applied[i] = ratelimit.Applied{Name: rule.name, Field: rule.Field, Limits: key.Limits}
		if rule.None && call.Any { // the keys behind it are not asked
			open = i
			break
		}
		if rule.None {
			continue
		}
		keys, places = append(keys, key), append(places, i)
		if !banned {
			banned = rule.ban(&asked)
		}
	}
	switch {
	case !changed:
		return p.next.Decide(ctx, call)
	case len(keys) == 0:
		return none(&call, max(open, 0), applied), nil
	}
	asked.Keys = keys
	result, err := p.next.Decide(ctx, asked)
	switch {
	case err != nil:
		return result, err
	case open >= 0 && result.Limited:
		return none(&call, open, applied), nil
	}
	result.KeyIndex = placeOf(places, result.KeyIndex)
	if result.Shadowed {
		result.ShadowKeyIndex = placeOf(places, result.ShadowKeyIndex)
	}
	for i := range result.Each {
		result.Each[i].KeyIndex = placeOf(places, result.Each[i].KeyIndex)
	}
	result.Policies = applied
	return result, nil
}

// applyToOne decides a call on one key by a rule.
func (p *Policies) applyToOne(ctx context.Context, call ratelimit.Call, rule *Rule) (ratelimit.Result, error) {
	limits, why := rule.limitsFor(&call, call.Keys[0].Limits)
	if why != "" {
		p.say(rule, why)
		return p.next.Decide(ctx, call)
	}
	if rule.None {
		return none(&call, 0, rule.applied), nil
	}
	applied := rule.applied
	if &limits[0] != &rule.Limits[0] {
		applied = []ratelimit.Applied{{Name: rule.name, Field: rule.Field, Limits: limits}}
	}
	rule.ban(&call)
	key := call.Keys[0]
	key.Limits = limits
	call.Keys = []ratelimit.Key{key}
	result, err := p.next.Decide(ctx, call)
	if err == nil {
		result.Policies = applied
	}
	return result, err
}

func placeOf(places []int, key int) int {
	if key < 0 || key >= len(places) {
		return key
	}
	return places[key]
}

// none is the result of a call that a key lets through.
func none(call *ratelimit.Call, key int, applied []ratelimit.Applied) ratelimit.Result {
	return ratelimit.Result{Key: call.Keys[key].Name, KeyIndex: key, By: "none", Policies: applied}
}

// ban puts the ban of r in place of that of a call, and says whether it has one. Calls that the server refuses together
// with a ban keep what they have.
func (r *Rule) ban(call *ratelimit.Call) bool {
	leased := func(key ratelimit.Key) bool { return key.TTL != 0 }
	if r.Ban == 0 || call.Verb != ratelimit.VerbLimit || call.Any || call.MaxWait != 0 || slices.ContainsFunc(call.Keys, leased) {
		return false
	}
	call.Ban, call.BanAfter = r.Ban, r.BanAfter
	return true
}

// limitsFor are the limits of r for a call with limits of its own, or why these count.
func (r *Rule) limitsFor(call *ratelimit.Call, own ratelimit.Limits) (limits ratelimit.Limits, why string) {
	switch {
	case r.None:
		return nil, ""
	case call.Verb == ratelimit.VerbLimit && call.MaxWait != 0 && !r.onlyRates:
		return nil, "MaxWait reserves units of RATE alone"
	case call.Verb == ratelimit.VerbWait && r.shadows:
		return nil, "a call that waits takes no SHADOW"
	case call.Verb == ratelimit.VerbWait && r.onlyRates && (call.Group != "" || call.Priority != 0 || call.Weight > 1):
		return nil, "callers take turns by Group, Weight and Priority only with a WINDOW or FIXED"
	case call.Verb == ratelimit.VerbThrottle && !r.throttles:
		return nil, "CL.THROTTLE takes one RATE"
	}
	if !says(own) {
		return r.Limits, ""
	}
	if len(own) != len(r.Limits) {
		for i := range own {
			if saysOf(&own[i]) != saysOf(&own[0]) {
				return nil, "it has " + strconv.Itoa(len(r.Limits)) + " limits, and the " + strconv.Itoa(len(own)) + " of the code take different units"
			}
		}
	}
	limits = append(limits, r.Limits...)
	for i := range limits {
		of := &own[0]
		if len(own) == len(limits) {
			of = &own[i]
		}
		limits[i] = saysOf(of).put(limits[i])
	}
	return limits, ""
}

// saying is what the code alone says of a limit.
type saying struct {
	takes, settles    bool
	take, used, spare int64
	unit              string
}

func saysOf(limit *ratelimit.Limit) saying {
	l := about.Of(limit)
	return saying{takes: l.Takes, settles: l.Settles, take: l.Take, used: l.Used, spare: l.Spare, unit: l.Unit}
}

// says says whether the code says anything of its limits that stays with the call.
func says(limits ratelimit.Limits) bool {
	for i := range limits {
		if saysOf(&limits[i]) != (saying{}) {
			return true
		}
	}
	return false
}

// put is limit with what the code says.
func (s saying) put(limit ratelimit.Limit) ratelimit.Limit {
	if s.takes {
		limit = limit.Take(s.take)
	}
	if s.settles {
		limit = limit.Used(s.used)
	}
	if s.spare != 0 {
		limit = limit.Spare(s.spare)
	}
	if s.unit != "" {
		limit = limit.Unit(s.unit)
	}
	return limit
}

// say says once why a rule does not count for a call.
func (p *Policies) say(rule *Rule, why string) {
	if _, told := rule.told.LoadOrStore(why, true); told {
		return
	}
	p.reader.logger().Warn(fmt.Sprintf("%spolicy %s: %s is not for this call, the default counts: %s", prefix, shown(rule.Field), strconv.Quote(strings.TrimSpace(rule.Text)), why))
}
