package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
)

// Route has the limits for some requests to a Middleware.
type Route struct {
	// Pattern selects the requests, in the syntax of http.ServeMux: "POST /orders/{id}", "/files/". A path is
	// cleaned before it is matched, so that "//files/../files/x" is no way around "/files/". A host in the
	// pattern is one: clients write into a request what host they like.
	Pattern string
	// Limits are those of the route.
	Limits Limits
	// Key says who is limited. Nil is Key of the Middleware with the Pattern and a space before it, since
	// limits that differ must not share a key. Path values (Request.PathValue) are not set yet.
	Key func(r *http.Request) string
	// Cost is how many units a request takes; nil is Cost of the Middleware.
	Cost func(r *http.Request) int64
}

// rule is what applies to a request. Without limits, nothing does.
type rule struct {
	limits   Limits
	policies []policy
	prefix   string
	key      func(*http.Request) string
	cost     func(*http.Request) int64
}

// keyOf is "" for a request that is not limited.
func (rule rule) keyOf(r *http.Request) string {
	if len(rule.limits) == 0 {
		return ""
	}
	key := rule.key(r)
	if key == "" {
		return ""
	}
	return rule.prefix + key
}

// rules are those of a Middleware.
type rules struct {
	routes    *http.ServeMux // knows which pattern matches; nil without routes
	byPattern map[string]rule
	limitsFor func(*http.Request) Limits
	fallback  rule
}

func (m Middleware) rules() (rs rules, err error) {
	all := len(m.Limits) > 0 || m.LimitsFor != nil
	switch {
	case m.Limiter == nil:
		return rs, errors.New("ratelimit: Middleware needs a Limiter")
	case !all && len(m.Routes) == 0, m.LimitsFor != nil && len(m.Limits) == 0:
		return rs, errors.New("ratelimit: Middleware needs Limits")
	case all && m.Key == nil:
		return rs, errors.New("ratelimit: Middleware needs a Key")
	}
	rs = rules{limitsFor: m.LimitsFor, byPattern: map[string]rule{}, fallback: rule{limits: m.Limits, key: m.Key, cost: m.Cost}}
	if rs.fallback.policies, err = policiesOf(m.Limits); err != nil {
		return rs, err
	}
	for _, route := range m.Routes {
		if err := rs.add(m, route); err != nil {
			return rs, fmt.Errorf("%w, in the route %q", err, route.Pattern)
		}
	}
	return rs, nil
}

func (rs *rules) add(m Middleware, route Route) (err error) {
	r := rule{limits: route.Limits, key: route.Key, cost: route.Cost}
	if r.key == nil {
		r.key, r.prefix = m.Key, route.Pattern+" "
	}
	if r.cost == nil {
		r.cost = m.Cost
	}
	if len(r.limits) == 0 || r.key == nil {
		return errors.New("ratelimit: Route needs Limits, and a Key unless the Middleware has one")
	}
	if r.policies, err = policiesOf(r.limits); err != nil {
		return err
	}
	if rs.routes == nil {
		rs.routes = http.NewServeMux()
	}
	rs.routes.Handle(route.Pattern, http.NotFoundHandler()) // never called; panics at a pattern that is none
	rs.byPattern[route.Pattern] = r
	return nil
}

// of finds the rule of r. It fails for limits of LimitsFor that are none.
func (rs *rules) of(r *http.Request) (rule, error) {
	if rs.routes != nil {
		_, pattern := rs.routes.Handler(r)
		if route, ok := rs.byPattern[pattern]; ok {
			return route, nil
		}
	}
	if rs.limitsFor == nil {
		return rs.fallback, nil
	}
	limits := rs.limitsFor(r)
	if len(limits) == 0 {
		return rs.fallback, nil
	}
	policies, err := policiesOf(limits)
	if err != nil {
		return rule{}, err
	}
	chosen := rs.fallback
	chosen.limits, chosen.policies = limits, policies
	return chosen, nil
}
