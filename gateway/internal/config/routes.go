package config

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"redis-throttle/ratelimit/keyby"
)

// Routes map HTTP requests to descriptors.
type Routes struct {
	// Denied is the status of a request that is limited.
	Denied int

	mux       *http.ServeMux // knows which pattern matches
	byPattern map[string][]*Route
}

// Route is what applies to some requests.
type Route struct {
	Cost int64

	headers     []condition
	descriptors [][]source
}

// condition is a header field that a request needs, with any of the values that the pattern matches.
type condition struct {
	value keyby.Func
	parts []string
}

// source makes an entry of a descriptor from a request.
type source struct {
	key   string
	value keyby.Func
}

func (r *reader) routes(list *yaml.Node, denied int, client keyby.Func) *Routes {
	routes := &Routes{Denied: denied, mux: http.NewServeMux(), byPattern: map[string][]*Route{}}
	r.list(list, func(n *yaml.Node) {
		f := r.fields(n, "match", "headers", "cost", "descriptors")
		pattern := r.text(f["match"])
		route := &Route{headers: r.conditions(f["headers"]), Cost: r.number(f["cost"], 1, 0, 1<<31)}
		r.list(f["descriptors"], func(n *yaml.Node) { route.descriptors = append(route.descriptors, r.sources(n, client)) })
		switch {
		case f["match"] == nil:
			r.fail(n, "a route needs match, such as \"POST /login\" or \"/api/\"")
			return
		case len(route.descriptors) == 0:
			r.fail(n, "a route needs descriptors, such as [[{key: remote_address, value: \"{client}\"}]]")
		}
		if routes.byPattern[pattern] == nil {
			if err := register(routes.mux, pattern); err != nil {
				r.fail(f["match"], "%v", err)
			}
		}
		routes.byPattern[pattern] = append(routes.byPattern[pattern], route)
	})
	return routes
}

// register adds a pattern, whose mistakes http.ServeMux reports by a panic.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler()) // never called
	return nil
}

func (r *reader) conditions(n *yaml.Node) (all []condition) {
	if n == nil {
		return nil
	}
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "expected a mapping of header fields, such as X-Plan: free")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, condition{keyby.Header(r.text(n.Content[i])), strings.Split(r.text(n.Content[i+1]), "*")})
	}
	return all
}

func (r *reader) sources(n *yaml.Node, client keyby.Func) (all []source) {
	r.list(n, func(n *yaml.Node) {
		f := r.fields(n, "key", "value")
		key := r.text(f["key"])
		if key == "" {
			r.fail(n, "an entry needs a key")
		}
		value := func(*http.Request) string { return key } // the same for all requests
		if f["value"] != nil {
			value = r.template(f["value"], client)
		}
		all = append(all, source{key, value})
	})
	return all
}

// template reads the value of an entry: a text, in which {client}, {method}, {path}, {host}, {header:NAME} and {sha256:NAME} are
// replaced. A request that lacks one of them has no such descriptor.
func (r *reader) template(n *yaml.Node, client keyby.Func) keyby.Func {
	var parts []keyby.Func
	for rest := r.text(n); rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if before != "" {
			parts = append(parts, func(*http.Request) string { return before })
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		part := variable(name, client)
		if !closed || part == nil {
			r.fail(n, "%q: expected {client}, {method}, {path}, {host}, {header:NAME} or {sha256:NAME}", "{"+name+"}")
			return nil
		}
		parts, rest = append(parts, part), behind
	}
	if len(parts) == 0 {
		r.fail(n, "a value must not be empty; leave it out for one that is the same for all requests")
	}
	return func(q *http.Request) string {
		whole := ""
		for _, part := range parts {
			text := part(q)
			if text == "" {
				return ""
			}
			whole += text
		}
		return whole
	}
}

// variable is what stands in braces; nil for a name that has no meaning.
func variable(name string, client keyby.Func) keyby.Func {
	kind, header, _ := strings.Cut(name, ":")
	switch {
	case kind == "header" && header != "":
		return keyby.Header(header)
	case kind == "sha256" && header != "":
		return keyby.SHA256(keyby.Header(header))
	}
	return map[string]keyby.Func{
		"client": client,
		"method": func(q *http.Request) string { return q.Method },
		"path":   func(q *http.Request) string { return cleaned(q.URL).Path },
		"host":   keyby.Header("Host"),
	}[name]
}

// Of returns the routes of a request: that of its path as it came, and if it is another one, that of its path cleaned and decoded, so
// that neither "//login" nor "/%6cogin" is a way around "/login". Of routes with one pattern the first whose headers match counts.
func (rs *Routes) Of(q *http.Request) (all []*Route) {
	again := *q
	again.URL = cleaned(q.URL)
	for _, as := range []*http.Request{q, &again} {
		if route := rs.find(as); route != nil && !slices.Contains(all, route) {
			all = append(all, route)
		}
	}
	return all
}

func (rs *Routes) find(q *http.Request) *Route {
	_, pattern := rs.mux.Handler(q)
	for _, route := range rs.byPattern[pattern] {
		if route.matches(q) {
			return route
		}
	}
	return nil
}

func (route *Route) matches(q *http.Request) bool {
	for _, c := range route.headers {
		value := c.value(q)
		isMissing := value == "" && len(c.parts) > 1 // a wildcard needs a value
		if isMissing || !matches(c.parts, value) {
			return false
		}
	}
	return true
}

// cleaned is u with its path cleaned and decoded; u itself if it is so already.
func cleaned(u *url.URL) *url.URL {
	clean := path.Clean("/" + u.Path)
	if strings.HasSuffix(u.Path, "/") && clean != "/" {
		clean += "/"
	}
	if clean == u.Path && u.RawPath == "" {
		return u
	}
	decoded := *u
	decoded.Path, decoded.RawPath = clean, ""
	return &decoded
}

// Descriptors returns the descriptors of a request. One with an entry that the request has no value for is left out.
func (route *Route) Descriptors(q *http.Request) (all [][]Entry) {
	for _, sources := range route.descriptors {
		entries := make([]Entry, 0, len(sources))
		for _, s := range sources {
			if value := s.value(q); value != "" {
				entries = append(entries, Entry{s.key, value})
			}
		}
		if len(entries) == len(sources) && len(entries) > 0 {
			all = append(all, entries)
		}
	}
	return all
}
