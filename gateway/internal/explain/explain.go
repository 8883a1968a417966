// Package explain says how the gateway decides a request, and why: by the code that decides, without charging anything.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/internal/quote"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/policies"
)

// Explainer explains requests. It is safe for concurrent use.
type Explainer struct {
	// Config is the configuration of the moment; nil if there is none yet.
	Config func() *config.Config
	// Prefix, Shadow, Quota and MaxDescriptors are those of the gateway.
	Prefix         string
	Shadow, Quota  bool
	MaxDescriptors int
	// Redis is asked what is left; nil if it is not known. Cluster says whether it is one.
	Redis   ratelimit.Decider
	Cluster bool
	// HasToken says whether EXPLAIN_TOKEN is set, whose descriptors the gateway sets aside.
	HasToken bool
	// Policies are those in force, and why they could not be read; nil if there are none.
	Policies func(ctx context.Context) (*policies.Rules, error)
}

// The outcomes of a request.
const (
	Allowed   = "allowed"
	Denied    = "denied"
	Unlimited = "unlimited" // no rule limits it
	Unknown   = "unknown"   // Redis did not say
)

// Explanation is how a request is decided. Texts may hold any bytes that the request has.
type Explanation struct {
	Domain  string `json:"domain"`
	Version string `json:"version"` // of the files
	Outcome string `json:"outcome"`
	Because string `json:"because"`
	// Decided is the index of the descriptor whose rule decides.
	Decided *int `json:"decided,omitempty"`
	// Routes are those of the domain: first those that match, then the nearest others.
	Routes      []Route      `json:"routes,omitempty"`
	MoreRoutes  int          `json:"more_routes,omitempty"`
	Descriptors []Descriptor `json:"descriptors"`
	Redis       Redis        `json:"redis"`
	Notes       []string     `json:"notes,omitempty"`
}

// Route is one of the routes of a domain.
type Route struct {
	Match   string `json:"match"`
	Matched bool   `json:"matched"`
	As      string `json:"as,omitempty"` // the spelling of the path that matches
	Cost    int64  `json:"cost"`
	Because string `json:"because,omitempty"` // why it does not match
}

// Redis says whether it was asked, and why it did not answer.
type Redis struct {
	Asked bool   `json:"asked"`
	Error string `json:"error,omitempty"`
}

// Descriptor is one of the request.
type Descriptor struct {
	Route   string         `json:"route,omitempty"`
	Entries []Entry        `json:"entries"`
	Hits    int64          `json:"hits"`
	Refund  bool           `json:"refund,omitempty"`
	Levels  []config.Level `json:"levels"`
	Rule    *Rule          `json:"rule,omitempty"`
	// Key is what Redis keeps the state in. Quoted is it as redis-cli takes it, where it holds bytes that are not
	// UTF-8.
	Key    string `json:"key,omitempty"`
	Quoted string `json:"key_quoted,omitempty"`
	Now    *Now   `json:"now,omitempty"`
	// Because says why there is no rule, or why it does not count. There are the keys of the level where the search
	// ended.
	Because   string   `json:"because,omitempty"`
	There     []string `json:"there,omitempty"`
	MoreThere int      `json:"more_there,omitempty"`
}

// Entry is a part of a descriptor.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Rule is the rule of a descriptor, with the limits in force.
type Rule struct {
	Name      string   `json:"name,omitempty"`
	Path      string   `json:"path"`
	Limits    []string `json:"limits"`
	Unlimited bool     `json:"unlimited,omitempty"`
	Shadow    bool     `json:"shadow,omitempty"`
	Quota     bool     `json:"quota,omitempty"`
	Replaces  []string `json:"replaces,omitempty"`
	Batch     int64    `json:"batch,omitempty"`
	Ban       string   `json:"ban,omitempty"`
	Policy    *Policy  `json:"policy,omitempty"`
}

// Policy is what a hash in Redis may say instead of the limits of a rule.
type Policy struct {
	Name  string `json:"name"`
	Field string `json:"field,omitempty"` // that is chosen for the key; "" if the limits of the file count
	Value string `json:"value,omitempty"` // of the field
	// Unused says why the field does not count.
	Unused string `json:"unused,omitempty"`
	// File are the limits of the file, where others count.
	File []string `json:"file,omitempty"`
}

// Now is what a key has left.
type Now struct {
	Banned       bool   `json:"banned,omitempty"`
	RetryAfterMs int64  `json:"retry_after_ms"` // until the request passes; -1 if it never does
	Over         bool   `json:"over"`
	Left         []Left `json:"left"`
}

// Left is what a limit has left.
type Left struct {
	Limit        string `json:"limit"`
	Name         string `json:"name"`
	Of           int64  `json:"of"`
	Remaining    int64  `json:"remaining"`
	Over         bool   `json:"over"` // it has less than the request takes
	Shadow       bool   `json:"shadow,omitempty"`
	RetryAfterMs int64  `json:"retry_after_ms"`
	ResetAfterMs int64  `json:"reset_after_ms"`
}

// mostDoubts bounds what is repeated of the doubts about the files.
const mostDoubts = 5

// ErrNoConfig says that no configuration has been loaded yet.
var ErrNoConfig = errors.New("no configuration has been loaded yet")

// Explain says how a request is decided. Errors are about the request, or ErrNoConfig: where Redis does not answer, the
// explanation says so.
func (e *Explainer) Explain(ctx context.Context, q Request) (Explanation, error) {
	c := e.Config()
	if c == nil {
		return Explanation{}, ErrNoConfig
	}
	x := &explaining{Explainer: e, whole: Explanation{Version: c.Version, Descriptors: []Descriptor{}}}
	var err error
	switch {
	case (q.HTTP == nil) == (q.RateLimit == nil):
		err = errors.New("expected either http or ratelimit")
	case q.HTTP != nil:
		err = x.http(c, q)
	default:
		err = x.message(c, q)
	}
	if err != nil {
		return Explanation{}, err
	}
	if x.domain != nil {
		x.decide(ctx)
	}
	x.whole.Notes = append(x.whole.Notes, c.Doubts[:min(len(c.Doubts), mostDoubts)]...)
	return x.whole, nil
}

// explaining is a request that is being explained.
type explaining struct {
	*Explainer
	domain *config.Domain
	whole  Explanation
	asks   []decide.Ask
	at     []int // in whole.Descriptors, of each of asks
	rules  *policies.Rules
}

// http finds the routes and descriptors of a request as decide.AsksOf does.
func (x *explaining) http(c *config.Config, of Request) error {
	q, err := of.HTTP.request()
	if err != nil {
		return err
	}
	if x.domain, err = c.Routed(of.Domain); errors.Is(err, config.ErrSeveralRouted) {
		return errors.New("several domains have routes: name one of them as domain")
	} else if err != nil {
		return err
	}
	x.whole.Domain = x.domain.Name
	traces, more := x.domain.Routes.Trace(q)
	x.whole.MoreRoutes = more
	for _, t := range traces {
		x.whole.Routes = append(x.whole.Routes, Route{t.Route.Pattern(), t.Because == "", t.Path, t.Route.Cost, t.Because})
		if t.Because != "" {
			continue
		}
		for _, made := range t.Route.Made(q) {
			d := Descriptor{Route: t.Route.Pattern(), Entries: entriesOf(made.Entries), Hits: t.Route.Cost, Levels: []config.Level{}}
			if made.Lacks != "" || len(made.Entries) == 0 {
				d.Because = "left out: the request has no value for " + made.Lacks
				x.whole.Descriptors = append(x.whole.Descriptors, d)
				continue
			}
			trace := x.domain.Trace(made.Entries)
			if x.domain.Routes.Frees(q, t.Route, trace.Match.Rule) {
				d.Because = "left out: a preflight is not charged, unless preflights: true"
				x.whole.Descriptors = append(x.whole.Descriptors, d)
				continue
			}
			x.add(d, trace, made.Entries, decide.Ask{Match: trace.Match, Hits: t.Route.Cost})
		}
	}
	return nil
}

// message finds the descriptors of a request of the Rate Limit Service.
func (x *explaining) message(c *config.Config, of Request) error {
	m, err := message(of.RateLimit, x.MaxDescriptors)
	if err != nil {
		return err
	}
	if of.Domain != "" && of.Domain != m.Domain {
		return fmt.Errorf("domain: the request has another one, %s", shown(m.Domain))
	}
	x.whole.Domain = m.Domain
	x.domain = c.Domains[m.Domain]
	if x.domain == nil {
		x.unknownDomain(m)
		return nil
	}
	asks, err := decide.AsksFor(x.domain, m)
	if err != nil {
		return err
	}
	for i, ask := range asks {
		entries := decide.EntriesOf(m.Descriptors[i])
		d := Descriptor{Entries: entriesOf(entries), Hits: ask.Hits, Refund: ask.Refund, Levels: []config.Level{}}
		trace := config.Trace{Match: ask.Match}
		if m.Descriptors[i].GetLimit() == nil {
			trace = x.domain.Trace(entries)
		}
		if x.HasToken && BringsToken(m.Descriptors[i]) {
			d.Entries[0].Value, d.Because = "", "set aside: it brings the token of EXPLAIN_TOKEN"
			x.whole.Descriptors = append(x.whole.Descriptors, d)
			x.asks, x.at = append(x.asks, decide.Ask{Refund: true}), append(x.at, len(x.whole.Descriptors)-1)
			continue
		}
		x.add(d, trace, entries, ask)
	}
	return nil
}

func (x *explaining) unknownDomain(m *rls.RateLimitRequest) {
	x.whole.Outcome, x.whole.Because = Unlimited, "nothing configures this domain, so everything is let through"
	for _, d := range m.Descriptors {
		x.whole.Descriptors = append(x.whole.Descriptors, Descriptor{Entries: entriesOf(decide.EntriesOf(d)), Levels: []config.Level{}, Because: "nothing configures the domain"})
	}
}

func entriesOf(entries []config.Entry) []Entry {
	all := make([]Entry, len(entries))
	for i, e := range entries {
		all[i] = Entry{e.Key, e.Value}
	}
	return all
}

// add adds a descriptor, with its rule or why it has none.
func (x *explaining) add(d Descriptor, trace config.Trace, entries []config.Entry, ask decide.Ask) {
	if trace.Levels != nil {
		d.Levels = trace.Levels
	}
	if trace.Match.Rule == nil {
		d.There, d.MoreThere = trace.There, trace.More
		switch ended := len(trace.Levels); {
		case ended < len(entries) && len(trace.There) == 0:
			d.Because = fmt.Sprintf("no rule: %s has no level below it, and the descriptor has %s more", trace.Below, counted(len(entries)-ended, "entry", "entries"))
		case ended < len(entries):
			d.Because = fmt.Sprintf("no rule: nothing below %s fits %s", trace.Below, pair(entriesOf(entries)[ended]))
		case len(trace.There) > 0:
			d.Because = trace.Below + " has no limits itself; rules below it need another entry"
		default:
			d.Because = trace.Below + " has no limits"
		}
	}
	x.at = append(x.at, len(x.whole.Descriptors))
	x.asks = append(x.asks, ask)
	x.whole.Descriptors = append(x.whole.Descriptors, d)
}

// decide decides the request as the gateway does, except that limits are only looked at.
func (x *explaining) decide(ctx context.Context) {
	x.readPolicies(ctx)
	look := &looking{redis: x.Redis, cluster: x.Cluster, compat: x.domain.Compat, seen: map[string]ratelimit.Result{}}
	look.expects(x.Prefix, x.asks)
	decider := decide.Decider{Redis: look, Prefix: x.Prefix, Shadow: x.Shadow, Quota: x.Quota, Lost: func(int64, error) {}}
	if x.rules != nil {
		decider.InForce = func(_ context.Context, rule *config.Rule, key string) *config.Rule {
			return decide.By(x.rules, rule, key, func(string, error) {}) // Unfit says why
		}
	}
	before := slices.Clone(x.asks)
	verdict, err := decider.Decide(ctx, x.domain, x.asks)
	x.whole.Redis.Asked = look.asked
	for i := range x.asks {
		d := &x.whole.Descriptors[x.at[i]]
		file, inForce := before[i].Rule, x.asks[i].Rule
		switch {
		case file == nil:
			continue
		case inForce == nil:
			d.Because = "another rule of the request replaces this one"
			inForce = file
		}
		d.Rule = x.rule(file, inForce, x.asks[i].Value)
		if len(inForce.Limits) > 0 {
			d.Key = x.Prefix + x.asks[i].Key
			if !utf8.ValidString(d.Key) {
				d.Quoted = quote.CLI(d.Key)
			}
		}
		if state, ok := look.seen[d.Key]; ok {
			d.Now = nowOf(inForce, state)
			if err == nil && !x.asks[i].Refund {
				s := &verdict.Statuses[i]
				d.Now.Over, d.Now.RetryAfterMs = s.Over, 0
				if s.Over {
					d.Now.RetryAfterMs = ms(s.RetryAfter)
				}
			}
		}
	}
	x.conclude(verdict, err)
}

func (x *explaining) readPolicies(ctx context.Context) {
	if x.Policies == nil || !slices.ContainsFunc(x.asks, func(a decide.Ask) bool { return a.Rule != nil && a.Rule.Policy != "" }) {
		return
	}
	var err error
	if x.rules, err = x.Policies(ctx); err != nil {
		x.whole.Notes = append(x.whole.Notes, "the policies in Redis could not be read, so what was read last counts, or the file: "+err.Error())
	}
}

// rule describes a rule of the file, and the one in force.
func (x *explaining) rule(file, inForce *config.Rule, value string) *Rule {
	r := &Rule{
		Name: inForce.Name, Path: file.Path(), Limits: inForce.EachWords(), Unlimited: inForce.Unlimited, Shadow: inForce.Shadow || x.Shadow,
		Quota: inForce.Quota || x.Quota, Replaces: inForce.Replaces, Batch: inForce.Batch, Ban: inForce.BanWords(),
	}
	if r.Path == "" {
		r.Path = config.OfRequest
	}
	if r.Limits == nil {
		r.Limits = []string{}
	}
	if file.Policy == "" {
		return r
	}
	r.Policy = &Policy{Name: file.Policy}
	if x.rules == nil {
		return r
	}
	if chosen := x.rules.Choose(file.Policy, value); chosen != nil {
		r.Policy.Field, r.Policy.Value = chosen.Field, chosen.Text
		if err := file.Unfit(chosen); err != nil {
			r.Policy.Unused = err.Error()
		} else {
			r.Policy.File = file.EachWords()
		}
	}
	return r
}

func nowOf(rule *config.Rule, state ratelimit.Result) *Now {
	now := &Now{Banned: state.Banned, RetryAfterMs: ms(state.RetryAfter), Over: state.Limited, Left: []Left{}}
	words, names := rule.EachWords(), rule.Names()
	for i, one := range state.Each {
		if i == len(words) {
			break
		}
		left := Left{
			Limit: words[i], Name: names[i], Of: one.Limit, Remaining: one.Remaining, Over: one.Limited,
			Shadow: rule.Shown[i].Shadow, ResetAfterMs: ms(one.ResetAfter),
		}
		if one.Limited {
			left.RetryAfterMs = ms(one.RetryAfter)
		}
		now.Left = append(now.Left, left)
	}
	return now
}

// ms rounds up, so that nobody is told to come too early.
func ms(d time.Duration) int64 {
	if d == ratelimit.Never {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// conclude says what comes of the request.
func (x *explaining) conclude(verdict decide.Verdict, err error) {
	whole := &x.whole
	if err != nil {
		whole.Outcome = Unknown
		if errors.Is(err, errNotAsked) {
			whole.Because = "what is left is not known, because no Redis was named"
			return
		}
		whole.Redis.Error = err.Error()
		if advice := decide.Advice(err); advice != "" && !strings.HasPrefix(whole.Redis.Error, "NOPERM") {
			whole.Redis.Error += " (" + advice + ")"
		}
		whole.Because = "what is left is not known, because Redis does not decide: " + outages[x.domain.Down]
		return
	}
	at := verdict.Decides(x.asks)
	if at < 0 {
		whole.Outcome, whole.Because = Unlimited, "no rule applies to it"
		return
	}
	decided := x.at[at]
	whole.Decided = &decided
	rule, s, d := x.asks[at].Rule, &verdict.Statuses[at], &whole.Descriptors[decided]
	switch {
	case verdict.Over && d.Now != nil && d.Now.Banned:
		whole.Outcome, whole.Because = Denied, fmt.Sprintf("%s: its key is banned, for %s", rule, lengthOf(d.Now.RetryAfterMs))
	case verdict.Over && s.RetryAfter == ratelimit.Never:
		whole.Outcome, whole.Because = Denied, fmt.Sprintf("%s never lets %s pass", rule, counted(int(x.asks[at].Hits), "unit", "units"))
	case verdict.Over:
		whole.Outcome, whole.Because = Denied, fmt.Sprintf("%s denies it, for %s", rule, lengthOf(ms(s.RetryAfter)))
	case rule.None:
		whole.Outcome, whole.Because = Unlimited, fmt.Sprintf("%s has no limits: %s is NONE", rule, shown(rule.Field))
	case rule.Unlimited:
		whole.Outcome, whole.Because = Unlimited, rule.String()+" is unlimited"
	case verdict.Shadowed:
		whole.Outcome, whole.Because = Allowed, fmt.Sprintf("%s would deny it, and SHADOW_MODE denies nothing", rule)
	case s.Over && s.Shadow:
		whole.Outcome, whole.Because = Allowed, fmt.Sprintf("%s would deny it, and is a shadow", rule)
	case s.Over:
		whole.Outcome, whole.Because = Allowed, fmt.Sprintf("%s is over, and another quota is not", rule)
	default:
		whole.Outcome, whole.Because = Allowed, fmt.Sprintf("%s has the least left after it: %s", rule, counted(int(s.Remaining), "unit", "units"))
	}
}

var outages = map[guard.Policy]string{
	guard.Fail:   "redis_down: fail has the proxy decide",
	guard.Open:   "redis_down: open lets it through",
	guard.Closed: "redis_down: closed denies it",
	guard.Local:  "with redis_down: local each process decides by its part of the limits",
}
