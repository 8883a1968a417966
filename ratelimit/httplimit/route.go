package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/bans"
	"redis-throttle/ratelimit/internal/chosen"
	"redis-throttle/ratelimit/internal/field"
	"redis-throttle/ratelimit/internal/keys"
)

// Route has the limits for some requests.
type Route struct {
	// Pattern selects the requests, in the syntax of http.ServeMux: "POST /orders/{id}", "/files/". A path is matched
	// as it came, and cleaned and decoded, so that neither "//files/../files/x" nor "/files%2fx" is a way around
	// "/files/". Where the two have different routes, the request counts for both. Leave hosts out of patterns: clients
	// choose the host of a request, so they could get around the route.
	Pattern string
	// Limits apply to the route.
	Limits ratelimit.Limits
	// Key says who is limited. Nil is Options.Key with the Pattern and a space before it, since
	// limits that differ must not share a key. Path values (Request.PathValue) are not set yet.
	Key func(r *http.Request) string
	// Cost is how many units a request takes; nil is Options.Cost.
	Cost func(r *http.Request) int64
}

// rule is what applies to a request. Without limits, nothing does.
type rule struct {
	limits   ratelimit.Limits
	policies *field.Policies
	prefix   string
	key      func(*http.Request) string
	cost     func(*http.Request) int64
}

// keyOf is "" for a request that is not limited.
func (rule *rule) keyOf(r *http.Request) string {
	if len(rule.limits) == 0 {
		return ""
	}
	key := rule.key(r)
	if key == "" {
		return ""
	}
	return rule.prefix + keys.Plain(key)
}

// rules is what a middleware checks.
type rules struct {
	routes    *http.ServeMux // knows which pattern matches; nil without routes
	byPattern map[string]*rule
	limitsFor func(*http.Request) ratelimit.Limits
	fallback  *rule
	chosen    chosen.Cache[*rule] // by limitsFor
}

func (m *middleware) compile() (err error) {
	all := len(m.Limits) > 0 || m.LimitsFor != nil
	switch {
	case !all && len(m.Routes) == 0 && len(m.And) == 0, m.LimitsFor != nil && len(m.Limits) == 0:
		return errors.New("httplimit: Options need Limits")
	case all && m.Key == nil:
		return errors.New("httplimit: Options need a Key")
	}
	if err := bans.Check(m.Ban, m.BanAfter); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	m.rules = rules{limitsFor: m.LimitsFor, byPattern: map[string]*rule{}}
	m.rules.fallback = &rule{limits: m.Limits, key: m.Key, cost: m.Cost}
	if len(m.Limits) > 0 {
		if m.rules.fallback.policies, err = field.Valid(m.Limits); err != nil {
			return err
		}
	}
	for _, part := range m.And {
		if part.Key == nil {
			return errors.New("httplimit: each Part of And needs a Key")
		}
		policies, err := field.Valid(part.Limits)
		if err != nil {
			return fmt.Errorf("%w, in a Part of And", err)
		}
		m.parts = append(m.parts, policies)
	}
	for _, route := range m.Routes {
		if err := m.rules.add(&m.Options, route); err != nil {
			return fmt.Errorf("%w, in the route %q", err, route.Pattern)
		}
	}
	return m.tellApart()
}

// tellApart refuses policies of one response that have the same name.
func (m *middleware) tellApart() error {
	if len(m.And) == 0 {
		return nil
	}
	rules := []*rule{m.rules.fallback}
	for _, r := range m.rules.byPattern {
		rules = append(rules, r)
	}
	for _, r := range rules {
		seen := map[string]bool{}
		for _, p := range append([]*field.Policies{r.policies}, m.parts...) {
			if p == nil {
				continue
			}
			for _, name := range p.Names() {
				if seen[name] {
					return fmt.Errorf("httplimit: two limits of a request are called %q; give those of And names (Limit.Named)", name)
				}
				seen[name] = true
			}
		}
	}
	return nil
}

func (rs *rules) add(o *Options, route Route) (err error) {
	r := &rule{limits: route.Limits, key: route.Key, cost: route.Cost}
	if r.key == nil {
		r.key, r.prefix = o.Key, route.Pattern+" "
	}
	if r.cost == nil {
		r.cost = o.Cost
	}
	if len(r.limits) == 0 || r.key == nil {
		return errors.New("httplimit: a Route needs Limits, and a Key unless the Options have one")
	}
	if r.policies, err = field.Valid(r.limits); err != nil {
		return err
	}
	if rs.routes == nil {
		rs.routes = http.NewServeMux()
	}
	rs.routes.Handle(route.Pattern, http.NotFoundHandler()) // never called; panics at a pattern that is none
	rs.byPattern[route.Pattern] = r
	return nil
}

// of finds the rules of r, the second of which is nil for most requests. It fails for limits of LimitsFor that are
// none.
func (rs *rules) of(r *http.Request) (first, second *rule, err error) {
	if rs.routes == nil {
		first, err = rs.otherwise(r)
		return first, nil, err
	}
	_, pattern := rs.routes.Handler(r)
	first, second = rs.byPattern[pattern], nil
	if decoded := decodedPath(r.URL); decoded != nil {
		again := *r
		again.URL = decoded
		_, pattern := rs.routes.Handler(&again)
		second = rs.byPattern[pattern]
	}
	switch {
	case first == nil && second == nil:
		first, err = rs.otherwise(r)
	case first == nil:
		first, second = second, nil
	case first == second:
		second = nil
	}
	return first, second, err
}

// decodedPath is u with its path cleaned and decoded; nil if it is so already.
func decodedPath(u *url.URL) *url.URL {
	clean := u.Path
	if clean == "" || clean[0] != '/' {
		clean = "/" + clean
	}
	slash := strings.HasSuffix(clean, "/")
	if clean = path.Clean(clean); slash && clean != "/" {
		clean += "/"
	}
	if clean == u.Path && u.RawPath == "" {
		return nil
	}
	decoded := *u
	decoded.Path, decoded.RawPath = clean, ""
	return &decoded
}

// otherwise is the rule of a request without a route.
func (rs *rules) otherwise(r *http.Request) (*rule, error) {
	if rs.limitsFor == nil {
		return rs.fallback, nil
	}
	limits := rs.limitsFor(r)
	if len(limits) == 0 {
		return rs.fallback, nil
	}
	return rs.chosen.Of(limits, func(limits ratelimit.Limits, policies *field.Policies) *rule {
		return &rule{limits: limits, policies: policies, key: rs.fallback.key, cost: rs.fallback.cost}
	})
}
