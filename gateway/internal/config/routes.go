package config

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"go.yaml.in/yaml/v4"

	"redis-throttle/ratelimit/keyby"
)

// Routes map HTTP requests to descriptors.
type Routes struct {
	// Denied is the status of a request that is limited.
	Denied int
	// Client is the address of the client, behind the proxies that are trusted.
	Client keyby.Func

	mux       *http.ServeMux // knows which pattern matches
	byPattern map[string][]*Route
}

// routing is what holds for all routes.
type routing struct {
	denied  int
	proxies []netip.Prefix
}

// Route is what applies to some requests.
type Route struct {
	Cost uint64

	headers     []condition
	descriptors [][]source
}

// condition is a header field that a request needs, with any of the values that the pattern matches.
type condition struct {
	name  string
	parts []string
}

// source makes an entry of a descriptor from a request.
type source struct {
	key   string
	value func(*Request) string
}

// Request is a request that a proxy asks about.
type Request struct {
	*http.Request        // method, URL and header fields of the client's request
	Client        string // its address
}

func (r *reader) routes(n *yaml.Node, o routing) *Routes {
	routes := &Routes{Denied: o.denied, Client: keyby.Client(o.proxies...), mux: http.NewServeMux(), byPattern: map[string][]*Route{}}
	r.list(n, func(n *yaml.Node) {
		route := &Route{Cost: 1}
		var match *yaml.Node
		pattern := ""
		r.fields(n,
			field{"match", func(n *yaml.Node) { match, pattern = n, r.text(n) }},
			field{"headers", func(n *yaml.Node) { route.headers = r.conditions(n) }},
			field{"cost", func(n *yaml.Node) { route.Cost = uint64(r.number(n, 0, 1<<31)) }},
			field{"descriptors", func(n *yaml.Node) {
				r.list(n, func(n *yaml.Node) { route.descriptors = append(route.descriptors, r.sources(n)) })
			}},
		)
		switch {
		case match == nil:
			r.fail(n, "a route needs match, such as \"POST /login\" or \"/api/\"")
			return
		case len(route.descriptors) == 0:
			r.fail(n, "a route needs descriptors, such as [[{key: remote_address, value: \"{client}\"}]]")
		}
		if routes.byPattern[pattern] == nil {
			if err := register(routes.mux, pattern); err != nil {
				r.fail(match, "%v", err)
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
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "expected a mapping of header fields, such as X-Plan: free")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, condition{r.text(n.Content[i]), strings.Split(r.text(n.Content[i+1]), "*")})
	}
	return all
}

func (r *reader) sources(n *yaml.Node) (all []source) {
	r.list(n, func(n *yaml.Node) {
		var s source
		value := n
		r.fields(n,
			field{"key", func(n *yaml.Node) { s.key = r.text(n) }},
			field{"value", func(n *yaml.Node) { value = n }},
		)
		if s.key == "" {
			r.fail(n, "an entry needs a key")
		}
		s.value = func(*Request) string { return s.key } // without a value it is the same for all requests
		if value != n {
			s.value = r.template(value)
		}
		all = append(all, s)
	})
	return all
}

// template reads the value of an entry: a text, in which {client}, {method}, {path}, {host}, {header:NAME} and {sha256:NAME} are
// replaced. A request that lacks one of them has no such descriptor.
func (r *reader) template(n *yaml.Node) func(*Request) string {
	var parts []func(*Request) string
	for rest := r.text(n); rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if before != "" {
			parts = append(parts, func(*Request) string { return before })
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		part := variable(name)
		if !closed || part == nil {
			r.fail(n, "%q: expected {client}, {method}, {path}, {host}, {header:NAME} or {sha256:NAME}", "{"+name+"}")
			return nil
		}
		parts, rest = append(parts, part), behind
	}
	if len(parts) == 0 {
		r.fail(n, "a value must not be empty; leave it out for one that is the same for all requests")
	}
	return func(q *Request) string {
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

func variable(name string) func(*Request) string {
	kind, header, _ := strings.Cut(name, ":")
	switch {
	case kind == "header" && header != "":
		get := keyby.Header(header)
		return func(q *Request) string { return get(q.Request) }
	case kind == "sha256" && header != "":
		get := keyby.SHA256(keyby.Header(header))
		return func(q *Request) string { return get(q.Request) }
	}
	return map[string]func(*Request) string{
		"client": func(q *Request) string { return q.Client },
		"method": func(q *Request) string { return q.Method },
		"path":   func(q *Request) string { return cleaned(q.URL).Path },
		"host":   func(q *Request) string { return strings.ToLower(q.Host) },
	}[name]
}

// Of returns the routes of a request: that of its path as it came, and if it is another one, that of its path cleaned and decoded, so
// that neither "//login" nor "/%6cogin" is a way around "/login". Of routes with one pattern the first whose headers match counts.
func (rs *Routes) Of(q *Request) (all []*Route) {
	if first := rs.find(q, q.Request); first != nil {
		all = append(all, first)
	}
	if u := cleaned(q.URL); u != q.URL {
		again := *q.Request
		again.URL = u
		if second := rs.find(q, &again); second != nil && (len(all) == 0 || second != all[0]) {
			all = append(all, second)
		}
	}
	return all
}

func (rs *Routes) find(q *Request, as *http.Request) *Route {
	_, pattern := rs.mux.Handler(as)
	for _, route := range rs.byPattern[pattern] {
		if route.matches(q.Request) {
			return route
		}
	}
	return nil
}

func (route *Route) matches(r *http.Request) bool {
	for _, c := range route.headers {
		if !matches(c.parts, keyby.Header(c.name)(r)) {
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
func (route *Route) Descriptors(q *Request) (all [][]Entry) {
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
