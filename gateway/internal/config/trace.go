package config

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Trace is how the rule of a descriptor was found, or where the search ended.
type Trace struct {
	Match Match
	// Levels are those that the entries lead through, at most as many as there are entries.
	Levels []Level
	// Below names the last of them, or the domain. Where there is no rule, There are the keys below it, those of the
	// next entry first, at most mostThere, and More is how many others there are.
	Below string
	There []string
	More  int
}

// Level is what an entry has led to.
type Level struct {
	Matched string `json:"matched"` // KEY, or KEY_VALUE as the file has it
	// By says what matched: value, network, wildcard or key.
	By string `json:"by"`
	// Instead are what the entry fits as well, and what comes later: a larger network, a wildcard, or the key alone.
	Instead []string `json:"instead,omitempty"`
}

// mostThere bounds what a trace lists of a kind.
const mostThere = 20

// Trace is Match, and how it came to that.
func (d *Domain) Trace(entries []Entry) Trace {
	t := Trace{Match: d.Match(entries), Below: d.Name}
	way, _ := d.walk(entries, nil)
	from := d.root
	for i, n := range way {
		level := Level{Matched: n.key, By: n.by(&entries[i])}
		for _, other := range from.fits(&entries[i]) {
			if other != n {
				level.Instead = append(level.Instead, other.key)
			}
		}
		level.Instead = level.Instead[:min(len(level.Instead), mostThere)]
		t.Levels, t.Below, from = append(t.Levels, level), t.Below+"."+n.key, n
	}
	if t.Match.Rule != nil {
		return t
	}
	for key := range from.children {
		t.There = append(t.There, key)
	}
	slices.Sort(t.There)
	if len(way) < len(entries) {
		next := entries[len(way)].Key
		slices.SortStableFunc(t.There, func(a, b string) int { return rankOf(a, next) - rankOf(b, next) })
	}
	t.More = max(len(t.There)-mostThere, 0)
	t.There = t.There[:len(t.There)-t.More]
	return t
}

// rankOf brings what has a key to the front.
func rankOf(child, key string) int {
	if child == key || strings.HasPrefix(child, key+"_") {
		return 0
	}
	return 1
}

// by says how an entry has led to n.
func (n *node) by(e *Entry) string {
	switch {
	case n.key == e.Key+"_"+e.Value, n.isAddress:
		return "value"
	case n.inNetwork:
		return "network"
	case len(n.parts) > 1 && matches(n.parts, e.Key+"_"+e.Value):
		return "wildcard"
	}
	return "key"
}

// fits are all nodes below n that an entry could lead to, some of them twice; next takes the first.
func (n *node) fits(e *Entry) (all []*node) {
	whole := e.Key + "_" + e.Value
	exact := n.children[whole]
	if exact != nil && !e.address.IsValid() {
		all = append(all, exact)
	}
	n.networks.holding(e, func(child *node) bool {
		if child != exact || e.address.IsValid() {
			all = append(all, child)
		}
		return true
	})
	for _, child := range n.wildcards {
		if matches(child.parts, whole) {
			all = append(all, child)
		}
	}
	if child := n.children[e.Key]; child != nil {
		all = append(all, child)
	}
	return all
}

// Pattern is what the file says of the requests that a route is for.
func (route *Route) Pattern() string { return route.pattern }

// Made is a descriptor that a route makes of a request, or does not make because the request lacks what Lacks names.
type Made struct {
	Entries []Entry
	Lacks   string
}

// Made are Descriptors, and those that are left out.
func (route *Route) Made(q *http.Request) (all []Made) {
	for _, sources := range route.descriptors {
		m := Made{}
		var lacks *source
		if m.Entries, lacks = entriesOf(sources, q); lacks != nil {
			m.Lacks = lacks.key + ": " + lacks.text
		}
		all = append(all, m)
	}
	return all
}

// RouteTrace says of a route by which writing of the path it is one of a request, or why it is not.
type RouteTrace struct {
	Route   *Route
	Path    string
	Because string
}

// Trace is Of, and why the other routes are none of the request: the nearest ones first, at most mostThere. more is how
// many others there are.
func (rs *Routes) Trace(q *http.Request) (all []RouteTrace, more int) {
	var taken []taker
	rs.each(q, func(route *Route, pattern, path string) { taken = append(taken, taker{route, pattern, path}) })
	for _, route := range rs.Of(q) {
		at := slices.IndexFunc(taken, func(t taker) bool { return t.route == route })
		all = append(all, RouteTrace{Route: route, Path: taken[at].path})
	}
	type other struct {
		RouteTrace
		distance int
	}
	var others []other
	for _, route := range rs.all {
		if !slices.ContainsFunc(all, func(t RouteTrace) bool { return t.Route == route }) {
			why, distance := route.whyNot(q, taken)
			others = append(others, other{RouteTrace{Route: route, Because: why}, distance})
		}
	}
	slices.SortStableFunc(others, func(a, b other) int { return a.distance - b.distance })
	for _, o := range others[:min(len(others), mostThere)] {
		all = append(all, o.RouteTrace)
	}
	return all, max(len(others)-mostThere, 0)
}

// taker is what a writing of the path came to.
type taker struct {
	route         *Route // nil if no header fields of the routes with the pattern fit
	pattern, path string
}

// whyNot says why a route is none of a request, and how much of it differs. It is tried by itself, with less and less
// of its own.
func (route *Route) whyNot(q *http.Request, taken []taker) (why string, distance int) {
	method, name, path := split(route.pattern)
	if route.matchedAs(q, path, nil, true) == "" {
		return "another path", 5
	}
	if route.matchedAs(q, path, nil, route.loose) == "" {
		return "another spelling of the path: loose: true takes it", 4
	}
	if name != "" && route.matchedAs(q, name+path, nil, route.loose) == "" {
		return "another host: " + host(q), 3
	}
	if method != "" && route.matchedAs(q, method+name+path, nil, route.loose) == "" {
		return "another method: " + q.Method, 2
	}
	as := route.matchedAs(q, method+name+path, route.headers, route.loose)
	if as == "" {
		c := route.differs(q)
		return fmt.Sprintf("%s is %q, and the route is for %q", c.name, cut(c.value(q)), strings.Join(c.parts, "*")), 1
	}
	for _, t := range taken {
		switch {
		case t.path != as || t.pattern == "":
		case t.route == nil:
			return "a more specific pattern takes it, though its header fields differ: " + t.pattern, 0
		case t.route.pattern == route.pattern:
			return "an earlier route with the same pattern takes it", 0
		default:
			return "a more specific route takes it: " + t.route.pattern, 0
		}
	}
	return "another path", 5
}

// matchedAs is the writing of the path by which a route would be one of the request if it had this pattern and these
// header fields and there was no other; "" if it would not.
func (route *Route) matchedAs(q *http.Request, pattern string, headers []condition, loose bool) (as string) {
	alone := &Routes{strict: newPatterns(), loose: newPatterns()}
	bare := &Route{headers: headers}
	if alone.strict.add(pattern, bare) != nil {
		return ""
	}
	if loose {
		before, path, _ := strings.Cut(pattern, "/")
		_ = alone.loose.add(before+folded("/"+path), bare) // where that is no pattern, the strict one counts
	}
	alone.each(q, func(found *Route, _, path string) {
		if found != nil && as == "" {
			as = path
		}
	})
	return as
}

// longestCut bounds what is told of a value that a client has chosen.
const longestCut = 100

// cut is the beginning of a text that may be long.
func cut(text string) string {
	if len(text) > longestCut {
		return text[:longestCut] + "..."
	}
	return text
}
