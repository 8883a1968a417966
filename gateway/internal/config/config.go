// Package config reads the configuration of the gateway: the YAML of envoyproxy/ratelimit, with some keys more. A Config never
// changes once it is loaded.
package config

import (
	"math"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/structpb"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/httplimit"
)

// Config is what all files say together.
type Config struct {
	Domains map[string]*Domain
	// Version is a hash of all files.
	Version string
}

// Domain is a container of rules. Keys of different domains never meet.
type Domain struct {
	Name string
	// Compat charges each descriptor by itself, as upstream does. Otherwise a request charges all or none.
	Compat bool
	// Down is what decides while Redis is out of reach.
	Down   guard.Policy
	Routes *Routes // nil without HTTP routes

	kind string
	tag  string // the entry whose value is the hash tag; "" is the first one
	root node
}

// The kinds of limits that rate_limit can make.
const (
	fixed  = "fixed"
	rate   = "rate"
	window = "window"
)

// node is a descriptor of the file.
type node struct {
	children  map[string]*node
	wildcards []*node
	rule      *Rule
	key       string   // key, or key_value
	parts     []string // of a wildcard, split at each *
	// share says that all values that a wildcard matches have one state.
	share, valueToMetric bool
}

// Rule is what applies to the descriptors of a node.
type Rule struct {
	// Limits are what Redis is asked. Shadows are the same, none of which decides.
	Limits, Shadows ratelimit.Limits
	// Shown is what clients are told of each of Limits.
	Shown []Shown
	// Policies write the header fields of HTTP.
	Policies *httplimit.Policies
	// Blocked is a limit of no requests at all. Unlimited is no limit, but a rule.
	Blocked, Unlimited bool
	// Shadow rules never deny. Quota rules deny only when all those of a request do.
	Shadow, Quota bool
	Name          string
	Replaces      []string
	// Batch is how many units a process takes from Redis at once; 0 takes what each request needs.
	Batch    int64
	Metadata *structpb.Struct

	detailed bool
	path     string
}

// Shown is a limit as the Rate Limit Service shows it.
type Shown struct {
	Requests uint32
	Unit     Unit
	Shadow   bool
}

// Unit is one of RateLimitResponse.RateLimit.Unit, by its number there.
type Unit int32

// The units. A period that is none of them is Unknown.
const (
	Unknown Unit = iota
	Second
	Minute
	Hour
	Day
	Month
	Year
	Week
)

// units are their words, and how long they last for a rate or a window, which slide: there months have 30 days.
var units = map[string]struct {
	unit   Unit
	length time.Duration
}{
	"SECOND": {Second, time.Second},
	"MINUTE": {Minute, time.Minute},
	"HOUR":   {Hour, time.Hour},
	"DAY":    {Day, day},
	"WEEK":   {Week, 7 * day},
	"MONTH":  {Month, 30 * day},
	"YEAR":   {Year, 365 * day},
}

const day = 24 * time.Hour

// periods are the units as the words of a limit end.
var periods = map[string]Unit{"1s": Second, "1m": Minute, "1h": Hour, "1d": Day, "1w": Week, "7d": Week, "1mo": Month, "1y": Year}

// limitOf is the limit of a rate_limit.
func limitOf(kind string, n int64, unit Unit) ratelimit.Limit {
	var length time.Duration
	for _, u := range units {
		if u.unit == unit {
			length = u.length
		}
	}
	switch {
	case kind == rate:
		return ratelimit.Rate(n, length)
	case kind == window:
		return ratelimit.Window(n, length)
	case unit == Week:
		return ratelimit.FixedWeeks(n, 1)
	case unit == Month:
		return ratelimit.FixedMonths(n, 1)
	case unit == Year:
		return ratelimit.FixedYears(n, 1)
	}
	return ratelimit.Fixed(n, length)
}

// domain reads a file. With merge, a domain of an earlier file gets the descriptors of this one, too.
func (c *Config) domain(r *reader, text string, merge bool) {
	document := r.parse(text)
	if len(r.errs) > 0 {
		return
	}
	d := &Domain{kind: fixed, root: node{children: map[string]*node{}}}
	var descriptors, routes, domain *yaml.Node
	routed := routing{denied: http.StatusTooManyRequests}
	var own []*yaml.Node // what is neither domain nor descriptors
	of := func(read func(*yaml.Node)) func(*yaml.Node) {
		return func(n *yaml.Node) {
			own = append(own, n)
			read(n)
		}
	}
	if !isNull(document) {
		r.fields(document,
			field{"domain", func(n *yaml.Node) { domain, d.Name = n, r.text(n) }},
			field{"descriptors", func(n *yaml.Node) { descriptors = n }},
			field{"kind", of(func(n *yaml.Node) { d.kind = r.word(n, fixed, rate, window) })},
			field{"compat", of(func(n *yaml.Node) { d.Compat = r.boolean(n) })},
			field{"redis_down", of(func(n *yaml.Node) { d.Down = policies[r.word(n, "fail", "open", "closed", "local")] })},
			field{"hash_tag", of(func(n *yaml.Node) {
				if d.tag = r.text(n); d.tag == "" {
					r.fail(n, "hash_tag is domain, or the key of an entry")
				}
			})},
			field{"routes", of(func(n *yaml.Node) { routes = n })},
			field{"denied_status", of(func(n *yaml.Node) {
				routed.denied = int(r.number(n, 400, 599))
			})},
			field{"trusted_proxies", of(func(n *yaml.Node) {
				r.list(n, func(n *yaml.Node) {
					prefix, err := netip.ParsePrefix(r.text(n))
					if err != nil {
						r.fail(n, "%q: expected a network, such as 10.1.0.0/24", r.text(n))
						return
					}
					routed.proxies = append(routed.proxies, prefix)
				})
			})},
		)
	}
	if d.Name == "" {
		r.fail(domain, "the domain is missing: expected domain: NAME")
		return
	}
	if known := c.Domains[d.Name]; known != nil {
		if !merge {
			r.fail(domain, "the domain %q is in another file already; MERGE_DOMAIN_CONFIG=true merges them", d.Name)
			return
		}
		if len(own) > 0 {
			r.fail(own[0], "what holds for the whole domain %q is in its first file", d.Name)
		}
		r.descriptors(known, &known.root, d.Name, descriptors)
		return
	}
	r.descriptors(d, &d.root, d.Name, descriptors)
	if routes != nil {
		d.Routes = r.routes(routes, routed)
	}
	c.Domains[d.Name] = d
}

var policies = map[string]guard.Policy{"fail": guard.Fail, "open": guard.Open, "closed": guard.Closed, "local": guard.Local}

// descriptors reads the list below a node.
func (r *reader) descriptors(d *Domain, parent *node, path string, list *yaml.Node) {
	r.list(list, func(n *yaml.Node) {
		child := &node{children: map[string]*node{}}
		rule := &Rule{}
		var key, value string
		var keyNode, limit, limits, below, share, batch *yaml.Node
		var shadow bool
		r.fields(n,
			field{"key", func(n *yaml.Node) { keyNode, key = n, r.text(n) }},
			field{"value", func(n *yaml.Node) { value = r.text(n) }},
			field{"rate_limit", func(n *yaml.Node) { limit = n }},
			field{"limits", func(n *yaml.Node) { limits = n }},
			field{"descriptors", func(n *yaml.Node) { below = n }},
			field{"shadow_mode", func(n *yaml.Node) { shadow = r.boolean(n) }},
			field{"quota_mode", func(n *yaml.Node) { rule.Quota = r.boolean(n) }},
			field{"detailed_metric", func(n *yaml.Node) { rule.detailed = r.boolean(n) }},
			field{"value_to_metric", func(n *yaml.Node) { child.valueToMetric = r.boolean(n) }},
			field{"share_threshold", func(n *yaml.Node) { share, child.share = n, r.boolean(n) }},
			field{"batch", func(n *yaml.Node) { batch, rule.Batch = n, r.number(n, 1, 1_000_000) }},
			field{"metadata", func(n *yaml.Node) { rule.Metadata = r.metadata(n) }},
		)
		if resolve(n).Kind != yaml.MappingNode {
			return
		}
		if key == "" {
			r.fail(orElse(keyNode, n), "a descriptor needs a key")
			return
		}
		child.key = key
		if value != "" {
			child.key += "_" + value
		}
		here := path + "." + child.key
		if parent.children[child.key] != nil {
			r.fail(keyNode, "the descriptor %q is there twice", here)
			return
		}
		if strings.Contains(child.key, "*") {
			child.parts = strings.Split(child.key, "*")
			parent.wildcards = append(parent.wildcards, child)
		} else if child.share {
			r.fail(share, "share_threshold is for values with a *, and that of %q has none", here)
		}
		rule.path, rule.Shadow = here, shadow
		if !isNull(limit) || limits != nil {
			if r.rule(d, rule, n, limit, limits) {
				child.rule = rule
			}
		}
		if batch != nil && (child.rule == nil || len(rule.Limits) == 0) {
			r.fail(batch, "batch is for a descriptor with a limit")
		}
		parent.children[child.key] = child
		r.descriptors(d, child, here, below)
	})
}

func orElse(n, otherwise *yaml.Node) *yaml.Node {
	if n == nil {
		return otherwise
	}
	return n
}

// rule reads rate_limit and limits of a descriptor, and says whether there is no mistake in them.
func (r *reader) rule(d *Domain, rule *Rule, at, limit, limits *yaml.Node) bool {
	before := len(r.errs)
	requests := int64(-1)
	var unit Unit
	var unitNode, requestsNode *yaml.Node
	if !isNull(limit) {
		r.fields(limit,
			field{"requests_per_unit", func(n *yaml.Node) { requestsNode, requests = n, r.number(n, 0, math.MaxUint32) }},
			field{"unit", func(n *yaml.Node) {
				unitNode = n
				known, ok := units[strings.ToUpper(r.text(n))]
				if unit = known.unit; !ok {
					r.fail(n, "%q: expected second, minute, hour, day, week, month or year", r.text(n))
				}
			}},
			field{"unlimited", func(n *yaml.Node) { rule.Unlimited = r.boolean(n) }},
			field{"name", func(n *yaml.Node) { rule.Name = r.text(n) }},
			field{"replaces", func(n *yaml.Node) { r.list(n, func(n *yaml.Node) { r.replaces(rule, n) }) }},
		)
		for _, name := range rule.Replaces {
			if name == rule.Name {
				r.fail(limit, "a limit cannot replace itself: %q", name)
			}
		}
	}
	switch {
	case len(r.errs) > before:
	case rule.Unlimited && (unitNode != nil || limits != nil):
		r.fail(orElse(unitNode, limits), "unlimited goes with neither a unit nor limits")
	case rule.Unlimited:
	case limits != nil && unitNode == nil && requestsNode == nil:
	case unitNode == nil:
		r.fail(orElse(limit, at), "rate_limit needs a unit: second, minute, hour, day, week, month or year")
	case requests <= 0:
		rule.Blocked, rule.Shown = true, []Shown{{Unit: unit}} // upstream has no default either: no number is no requests
	default:
		l := limitOf(d.kind, requests, unit)
		r.add(rule, requestsNode, ratelimit.Limits{l}, Shown{Requests: uint32(requests), Unit: unit})
	}
	r.list(limits, func(n *yaml.Node) {
		parsed, err := ratelimit.ParseLimits(r.text(n))
		if err != nil {
			r.fail(n, "%s", strings.TrimPrefix(err.Error(), "ratelimit: "))
			return
		}
		for i := range parsed {
			text := parsed[i].String() + " "
			if strings.Contains(text, " TAKE ") || strings.Contains(text, " USED ") {
				r.fail(n, "TAKE and USED are not for a file: hits_addend of the request says how many units it takes")
			}
			r.add(rule, n, ratelimit.Limits{parsed[i]}, shownOf(text))
		}
	})
	if limits != nil && len(rule.Limits) == 0 && len(r.errs) == before && !rule.Blocked {
		r.fail(limits, "limits needs at least one limit, such as RATE 5/s BURST 10")
	}
	if len(r.errs) > before {
		return false
	}
	r.finish(rule, at)
	return len(r.errs) == before
}

func (r *reader) replaces(rule *Rule, n *yaml.Node) {
	name := ""
	r.fields(n, field{"name", func(n *yaml.Node) { name = r.text(n) }})
	if name == "" {
		r.fail(n, "replaces needs the name of another limit")
	}
	rule.Replaces = append(rule.Replaces, name)
}

// add adds limits that are valid, or says what is wrong with them.
func (r *reader) add(rule *Rule, at *yaml.Node, limits ratelimit.Limits, shown Shown) {
	if err := limits.Validate(); err != nil {
		r.fail(at, "%s", strings.TrimPrefix(err.Error(), "ratelimit: limit 1 of 1: "))
		return
	}
	rule.Limits, rule.Shown = append(rule.Limits, limits...), append(rule.Shown, shown)
}

// shownOf is what clients are told of a limit, by its words.
func shownOf(words string) Shown {
	all := strings.Fields(words)
	count, period, _ := strings.Cut(all[1], "/")
	requests := uint32(0)
	for _, digit := range count {
		requests = uint32(min(uint64(requests)*10+uint64(digit-'0'), math.MaxUint32))
	}
	return Shown{Requests: requests, Unit: periods[period], Shadow: all[len(all)-1] == "SHADOW"}
}

// finish gives the limits their names and makes what requests need.
func (r *reader) finish(rule *Rule, at *yaml.Node) {
	if len(rule.Limits) == 0 {
		return
	}
	if err := rule.Limits.Validate(); err != nil {
		r.fail(at, "%s", strings.TrimPrefix(err.Error(), "ratelimit: "))
		return
	}
	name := rule.Name
	if name == "" {
		name = rule.path
	}
	rule.Limits = named(rule.Limits, name)
	for i := range rule.Limits {
		rule.Shadows = append(rule.Shadows, rule.Limits[i].Shadow())
		rule.Shown[i].Shadow = rule.Shown[i].Shadow || rule.Shadow
	}
	if rule.Shadow {
		rule.Limits = rule.Shadows
	}
	var err error
	if rule.Policies, err = httplimit.NewPolicies(rule.Limits); err != nil {
		r.fail(at, "%s", strings.TrimPrefix(err.Error(), "ratelimit: "))
	}
}

// metadata reads what a file attaches to a descriptor, of which the gateway knows nothing.
func (r *reader) metadata(n *yaml.Node) *structpb.Struct {
	if isNull(n) {
		return nil
	}
	var values map[string]any
	err := resolve(n).Decode(&values)
	if err == nil {
		var s *structpb.Struct
		if s, err = structpb.NewStruct(values); err == nil {
			return s
		}
	}
	r.fail(n, "metadata is a mapping of texts, numbers, booleans and lists: %v", err)
	return nil
}
