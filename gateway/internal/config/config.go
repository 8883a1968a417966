// Package config reads the configuration of the gateway: the YAML of envoyproxy/ratelimit, with some keys more. A
// Config never changes once it is loaded.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/types/known/structpb"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
)

// Config is what all files say together.
type Config struct {
	Domains map[string]*Domain
	// Version is a hash of all files.
	Version string
	// Doubts are what is no mistake, but hardly what the author of the files wanted.
	Doubts []string
}

// Routed is the domain that a request of HTTP is about: the named one, or the only one with routes.
func (c *Config) Routed(name string) (only *Domain, err error) {
	if name != "" {
		if d := c.Domains[name]; d != nil && d.Routes != nil {
			return d, nil
		}
		return nil, errors.New("no domain of this name has routes")
	}
	for _, d := range c.Domains {
		if d.Routes != nil {
			if only != nil {
				return nil, ErrSeveralRouted
			}
			only = d
		}
	}
	if only == nil {
		return nil, errors.New("no domain has routes")
	}
	return only, nil
}

// ErrSeveralRouted says that a request of HTTP needs the name of a domain.
var ErrSeveralRouted = errors.New("several domains have routes: ask /domains/NAME/check")

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
	root *node
}

// node is a descriptor of the file.
type node struct {
	children  map[string]*node
	networks  networks
	wildcards []*node
	rule      *Rule
	key       string   // key, or key_value
	parts     []string // of a wildcard, split at each *
	inNetwork bool     // the value is a network
	isAddress bool     // the value is an address
	network   netip.Prefix
	// share says that all values that a wildcard or a network matches have one state.
	share, valueToMetric bool
}

// hasRule says whether the node or one below it has a rule.
func (n *node) hasRule() bool {
	if n.rule != nil {
		return true
	}
	for _, child := range n.children {
		if child.hasRule() {
			return true
		}
	}
	return false
}

func newNode(key string) *node { return &node{key: key, children: map[string]*node{}} }

// Rule is what applies to the descriptors of a node.
type Rule struct {
	// Limits are what Redis is asked. Shadows are the same, none of which decides.
	Limits, Shadows ratelimit.Limits
	// Shown is what clients are told of each of Limits.
	Shown []Shown
	// Policies write the header fields of HTTP.
	Policies *httplimit.Policies
	// Unlimited is no limit, but a rule.
	Unlimited bool
	// Shadow rules never deny. Quota rules deny only when all those of a request do.
	Shadow, Quota bool
	Name          string
	Replaces      []string
	// Batch is how many units a process takes from Redis at once; 0 takes what each request needs.
	Batch int64
	// Metadata is what the file attaches to the descriptor: structpb.NewStruct takes it.
	Metadata map[string]any
	// Ban bans the key of a request that the limits deny, if it is not 0, with the last of as many denials as BanAfter
	// says, such as "10/1h".
	Ban      time.Duration
	BanAfter string
	// Policy is the name by which a hash in Redis may change Limits and Ban; "" for none. Field is the field of the
	// hash that they are from, "" for those of the file. None says that the field lets everything through; the rule is
	// Unlimited then.
	Policy, Field string
	None          bool

	detailed bool
	path     string
	file     *Rule   // of a rule by a policy, that of the file
	forced   *forced // of a rule of the file with a policy
}

// Closes says whether one of the limits lets nobody through.
func (rule *Rule) Closes() bool {
	return slices.ContainsFunc(rule.Shown, func(s Shown) bool { return s.Requests == 0 })
}

// String names the rule: as the file does, or by the keys that lead to it.
func (rule *Rule) String() string { return cmp.Or(rule.Name, rule.path, OfRequest) }

// OfRequest names the rule of a limit that no file has.
const OfRequest = "the limit that the request brings"

// Words are the limits as the file or a field of the hash has them, without the names that the rule has given them.
func (rule *Rule) Words() string {
	switch {
	case rule.None:
		return "NONE"
	case rule.Unlimited:
		return "unlimited"
	}
	return strings.Join(rule.EachWords(), "; ")
}

// EachWords are the words of each limit.
func (rule *Rule) EachWords() (all []string) {
	for _, l := range rule.Limits {
		all = append(all, (ratelimit.Limits{l.Named("")}).String())
	}
	return all
}

// Names are those of each limit.
func (rule *Rule) Names() (all []string) {
	for _, l := range rule.Limits {
		all = append(all, optionsOf(l)["NAME"])
	}
	return all
}

// Path is the keys and values that lead to the rule, behind its domain; "" for a limit of a request.
func (rule *Rule) Path() string { return rule.path }

// Shown is a limit as the Rate Limit Service shows it.
type Shown struct {
	Requests uint32
	Unit     Unit   // UNKNOWN for a period that is none of the service's
	Units    uint32 // how many of them are the period
	Period   time.Duration
	Shadow   bool
}

// Unit is how the Rate Limit Service says a period.
type Unit = rls.RateLimitResponse_RateLimit_Unit

// The kinds of limits that rate_limit can make.
const (
	fixed  = "fixed"
	rate   = "rate"
	window = "window"
)

// How limits write the units, by their numbers. Rates and windows slide: a month has 30 days there.
var (
	fixedPeriods   = []string{"", "1s", "1m", "1h", "1d", "1mo", "1y", "1w"}
	slidingPeriods = []string{"", "1s", "1m", "1h", "1d", "30d", "365d", "7d"}
)

// limitOf is the limit of a rate_limit, or of a request: requests in each interval of units times unit.
func limitOf(kind string, requests uint32, unit Unit, units uint32) (ratelimit.Limits, Shown, error) {
	periods := slidingPeriods
	if kind == fixed {
		periods = fixedPeriods
	}
	name := strings.TrimLeft(periods[unit], "0123456789")
	n, _ := strconv.ParseInt(strings.TrimSuffix(periods[unit], name), 10, 64) // it is an integer
	limits, err := ratelimit.ParseLimits(fmt.Sprintf("%s %d/%d%s", kind, requests, n*int64(units), name))
	return limits, Shown{Requests: requests, Unit: unit, Units: units, Period: lengthOf(unit, units)}, err
}

// lengths holds how long the units are, by their numbers: about, for months and years of the calendar.
var lengths = []time.Duration{0, time.Second, time.Minute, time.Hour, day, 30 * day, 365 * day, 7 * day}

const day = 24 * time.Hour

func lengthOf(unit Unit, units uint32) time.Duration {
	return lengths[unit] * time.Duration(min(int64(units), int64(math.MaxInt64/lengths[unit])))
}

// shownOf is what clients are told of a limit, by its words.
func shownOf(limit ratelimit.Limit) Shown {
	words := wordsOf(limit)
	count, period, _ := strings.Cut(words[1], "/")
	requests, _ := strconv.ParseInt(count, 10, 64) // it is an integer
	unit := max(slices.Index(fixedPeriods, period), 0)
	if period == "7d" {
		unit = int(rls.RateLimitResponse_RateLimit_WEEK)
	}
	_, isShadow := optionsOf(limit)["SHADOW"]
	return Shown{Requests: uint32(min(requests, math.MaxUint32)), Unit: Unit(unit), Units: 1, Period: periodOf(period), Shadow: isShadow}
}

// periodOf is the length of a period as limits write it: about, for months and years.
func periodOf(word string) time.Duration {
	unit := strings.TrimLeft(word, "0123456789.")
	n, _ := strconv.ParseFloat(strings.TrimSuffix(word, unit), 64)
	length := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day, "w": 7 * day,
		"mo": 30 * day, "y": 365 * day}[unit]
	return time.Duration(min(n*float64(length), math.MaxInt64/2))
}

// wordsOf is a limit as a file writes it. Names are in quotation marks where they have to be.
func wordsOf(limit ratelimit.Limit) (words []string) {
	for rest := (ratelimit.Limits{limit}).String(); rest != ""; rest = strings.TrimPrefix(rest, " ") {
		word, after, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			after = rest[len(quoted):]
			word, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
		}
		words, rest = append(words, word), after
	}
	return words
}

// optionsOf has the words behind the quota of a limit, with what each of them takes.
func optionsOf(limit ratelimit.Limit) map[string]string {
	options := map[string]string{}
	words := wordsOf(limit)
	for i := 2; i < len(words); i++ {
		if word := words[i]; !takesValue[word] || i+1 == len(words) {
			options[word] = ""
		} else {
			i++
			options[word] = words[i]
		}
	}
	return options
}

// domain reads a file. With merge, a domain of an earlier file gets the descriptors of this one, too.
func (c *Config) domain(r *reader, document *yaml.Node, merge bool) {
	var f map[string]*yaml.Node
	if !isNull(document) {
		f = r.fields(document, ofDomain...)
	}
	d := &Domain{
		Name: r.text(f["domain"]), kind: r.word(f["kind"], fixed, rate, window), Compat: r.boolean(f["compat"]),
		Down: outages[r.word(f["redis_down"], "fail", "open", "closed", "local")], tag: r.text(f["hash_tag"]), root: newNode(""),
	}
	if f["hash_tag"] != nil && d.tag == "" {
		r.fail(f["hash_tag"], "hash_tag is domain, or the key of an entry")
	}
	denied := int(r.number(f["denied_status"], http.StatusTooManyRequests, 400, 599))
	networks := r.networks(f["trusted_proxies"])
	client := clientOf{keyby.Client(networks...), keyby.IPv6(128).Client(networks...)}
	for _, network := range networks {
		if holdsEverybody(network) {
			r.doubt(f["trusted_proxies"], "%s holds clients, too, and each of them chooses by X-Forwarded-For whom it is taken for. Name the networks of your proxies", network)
		}
	}
	known := c.Domains[d.Name]
	switch {
	case d.Name == "":
		r.fail(f["domain"], "the domain is missing: expected domain: NAME")
	case known == nil:
		r.descriptors(d, d.root, d.Name, f["descriptors"])
		if f["routes"] != nil {
			d.Routes = r.routes(f["routes"], denied, client)
			d.Routes.preflights = r.boolean(f["preflights"])
			if d.Routes.usesClient && f["trusted_proxies"] == nil {
				r.doubt(f["routes"], "{client} is the address of the proxy that asks, the same for all clients: name it in trusted_proxies")
			}
		}
		c.Domains[d.Name] = d
	case !merge:
		r.fail(f["domain"], "the domain %q is in another file or resource already; MERGE_DOMAIN_CONFIG=true merges them", d.Name)
	default:
		r.descriptors(known, known.root, d.Name, f["descriptors"])
		for _, key := range ofDomain[2:] {
			if f[key] != nil {
				r.fail(f[key], "%s may be set only in the first file of domain %q", key, d.Name)
			}
		}
	}
}

// ofDomain are the keys of a file. Those behind the first two hold for the whole domain.
var ofDomain = []string{"domain", "descriptors", "kind", "compat", "redis_down", "hash_tag", "routes", "denied_status", "trusted_proxies", "preflights"}

var outages = map[string]guard.Policy{"fail": guard.Fail, "open": guard.Open, "closed": guard.Closed, "local": guard.Local}

// holdsEverybody says whether a network is larger than any that is one's own: 10.0.0.0/8 and fc00::/7 are the largest.
func holdsEverybody(network netip.Prefix) bool {
	switch addr, bits := network.Addr(), network.Bits(); {
	case addr.Is4():
		return bits < 8
	case addr.Is4In6():
		return bits < 96+8
	default:
		return bits < 7
	}
}

func (r *reader) networks(list *yaml.Node) (all []netip.Prefix) {
	r.list(list, func(n *yaml.Node) {
		prefix, err := netip.ParsePrefix(r.text(n))
		if err != nil {
			r.fail(n, "%q: expected a network, such as 10.1.0.0/24", r.text(n))
			return
		}
		all = append(all, prefix)
	})
	return all
}

// descriptors reads the list below a node.
func (r *reader) descriptors(d *Domain, parent *node, path string, list *yaml.Node) {
	r.list(list, func(n *yaml.Node) {
		f := r.fields(n, "key", "value", "rate_limit", "limits", "descriptors", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric",
			"share_threshold", "batch", "metadata", "policy")
		if f == nil {
			return
		}
		before := len(r.errs)
		name, value := r.text(f["key"]), r.text(f["value"])
		if name == "" {
			r.fail(cmp.Or(f["key"], n), "a descriptor needs a key")
			return
		}
		key := name
		if value != "" {
			key += "_" + value
		}
		here := path + "." + key
		if parent.children[key] != nil {
			r.fail(f["key"], "the descriptor %q is there twice", here)
			return
		}
		child := newNode(key)
		child.valueToMetric, child.share = r.boolean(f["value_to_metric"]), r.boolean(f["share_threshold"])
		prefix, ok := networkOf(value)
		child.network = prefix
		if !ok && almostNetwork(value) {
			r.doubt(f["value"], "%q is no network, and matches this very text alone: a network is written as 10.0.0.0/8, without a port, brackets or a zone", value)
		}
		if ok && strings.Contains(value, "/") {
			child.inNetwork = true
			if same := parent.networks.add(network{name, prefix}, child); same != nil {
				r.fail(f["value"], "the descriptor %q is there twice: %q is the same network", here, same.key)
				return
			}
		} else if ok && !child.share && !strings.Contains(key, "*") {
			child.isAddress = true
			parent.networks.add(network{name, prefix}, child) // of two spellings the first counts, beside each itself
		} else if strings.Contains(key, "*") {
			child.parts = strings.Split(key, "*")
			parent.wildcards = append(parent.wildcards, child)
		} else if child.share {
			r.fail(f["share_threshold"], "share_threshold is for values with a * and for networks, and that of %q is neither", here)
		}
		rule := &Rule{
			path: here, Shadow: r.boolean(f["shadow_mode"]), Quota: r.boolean(f["quota_mode"]), detailed: r.boolean(f["detailed_metric"]),
			Batch: r.number(f["batch"], 0, 1, 1_000_000), Metadata: r.metadata(f["metadata"]), Policy: r.policy(f["policy"]),
		}
		if !isNull(f["rate_limit"]) || f["limits"] != nil {
			if r.rule(d, rule, n, f["rate_limit"], f["limits"]) {
				child.rule = rule
			}
		}
		if f["batch"] != nil && (child.rule == nil || len(rule.Limits) == 0) {
			r.fail(f["batch"], "batch is for a descriptor with a limit")
		}
		if f["policy"] != nil && (child.rule == nil || len(rule.Limits) == 0) && len(r.errs) == before {
			r.fail(f["policy"], "policy is for a descriptor with a limit, which counts until Redis says otherwise")
		}
		parent.children[key] = child
		r.descriptors(d, child, here, f["descriptors"])
	})
}

// rule reads rate_limit and limits of a descriptor, and says whether there is no mistake in them.
func (r *reader) rule(d *Domain, rule *Rule, at, limit, limits *yaml.Node) bool {
	before := len(r.errs)
	var f map[string]*yaml.Node
	if !isNull(limit) {
		f = r.fields(limit, "requests_per_unit", "unit", "unlimited", "name", "replaces")
	}
	requests := uint32(r.number(f["requests_per_unit"], 0, 0, math.MaxUint32))
	unit := Unit(rls.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(r.text(f["unit"]))])
	if f["unit"] != nil && unit == 0 {
		r.fail(f["unit"], "%q: expected second, minute, hour, day, week, month or year", r.text(f["unit"]))
	}
	rule.Unlimited, rule.Name = r.boolean(f["unlimited"]), r.text(f["name"])
	r.list(f["replaces"], func(n *yaml.Node) {
		name := r.text(r.fields(n, "name")["name"])
		if name == "" {
			r.fail(n, "replaces needs the name of another limit")
		}
		rule.Replaces = append(rule.Replaces, name)
	})
	if slices.Contains(rule.Replaces, rule.Name) {
		r.fail(limit, "a limit cannot replace itself: %q", rule.Name)
	}
	switch {
	case len(r.errs) > before:
	case limits != nil && (f["unit"] != nil || f["requests_per_unit"] != nil):
		r.fail(cmp.Or(f["unit"], f["requests_per_unit"]), "beside limits, rate_limit may hold only name and replaces: write the limit there, such as FIXED 10/m")
	case rule.Unlimited && (f["unit"] != nil || limits != nil):
		r.fail(cmp.Or(f["unit"], limits), "unlimited goes with neither a unit nor limits")
	case rule.Unlimited:
	case limits != nil:
	case f["unit"] == nil:
		r.fail(cmp.Or(limit, at), "rate_limit needs a unit: second, minute, hour, day, week, month or year")
	default: // upstream has no default for the requests either: no number is none
		one, shown, err := limitOf(d.kind, requests, unit, 1)
		r.failIf(f["requests_per_unit"], errors.Unwrap(err)) // without saying that it is limit 1 of 1
		rule.Limits, rule.Shown = one, []Shown{shown}
	}
	r.limits(rule, limits)
	if limits != nil && len(rule.Limits) == 0 && len(r.errs) == before {
		r.fail(limits, "limits needs at least one limit, such as RATE 5/s BURST 10")
	}
	if len(r.errs) == before && len(rule.Limits) > 0 {
		if rule.Policy != "" {
			rule.Limits, rule.forced = ratelimit.Policy(rule.Policy, rule.Limits...), &forced{}
		}
		r.failIf(at, rule.finish(cmp.Or(rule.Name, rule.Policy, rule.path)))
	}
	return len(r.errs) == before
}

// failIf notes what package ratelimit says of a limit.
func (r *reader) failIf(n *yaml.Node, err error) {
	if err != nil {
		r.fail(n, "%s", strings.TrimPrefix(err.Error(), "ratelimit: "))
	}
}

// finish names the limits and makes what requests need.
func (rule *Rule) finish(name string) (err error) {
	plain := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' { // what a header field cannot hold
			return '_'
		}
		return c
	}, name)
	for i, l := range rule.Limits {
		_, isNamed := optionsOf(l)["NAME"]
		switch {
		case isNamed:
		case len(rule.Limits) == 1:
			rule.Limits[i] = l.Named(plain)
		default:
			rule.Limits[i] = l.Named(plain + "-" + strconv.Itoa(i+1))
		}
		rule.Shadows = append(rule.Shadows, rule.Limits[i].Shadow())
		rule.Shown[i].Shadow = rule.Shown[i].Shadow || rule.Shadow
	}
	if rule.Shadow {
		rule.Limits = rule.Shadows
	}
	if rule.Closes() {
		rule.Batch = 0 // there is nothing to take at once
	}
	rule.Policies, err = httplimit.NewPolicies(rule.Limits)
	return err
}

// metadata reads what a file attaches to a descriptor. It means nothing to the gateway.
func (r *reader) metadata(n *yaml.Node) (values map[string]any) {
	if isNull(n) {
		return nil
	}
	err := resolve(n).Decode(&values)
	if err == nil {
		_, err = structpb.NewStruct(values)
	}
	if err != nil {
		r.fail(n, "metadata is a mapping of texts, numbers, booleans and lists: %v", err)
	}
	return values
}
