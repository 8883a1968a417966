package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"redis-throttle/ratelimit/keyby"
)

// Routes map HTTP requests to descriptors.
type Routes struct {
	// Denied is the status of a request that is limited.
	Denied int
	// Headers are the names of the header fields that routes read, X-Forwarded-For aside.
	Headers []string

	strict, loose patterns
	all           []*Route
	usesClient    bool // an entry holds {client}
	preflights    bool // are charged
}

// patterns find routes by the pattern that matches a request.
type patterns struct {
	mux *http.ServeMux
	by  map[string][]*Route
}

func newPatterns() patterns { return patterns{http.NewServeMux(), map[string][]*Route{}} }

// Route is what applies to some requests.
type Route struct {
	Cost int64

	headers     []condition
	descriptors [][]source

	pattern      string
	loose        bool // also for other writings of the path
	looseIsGiven bool
	places       []string // of the descriptors in the file
}

// condition is a header field that a request needs, with any of the values that the pattern matches.
type condition struct {
	name  string
	value keyby.Func
	parts []string
}

// source makes an entry of a descriptor from a request.
type source struct {
	key   string
	value keyby.Func
	fixed string     // the value, if it is the same for all requests
	text  string     // the value as the file has it
	whole keyby.Func // the client's address in full, of a value that is {client}; otherwise nil
}

// clientOf tells the client of a request: value is what it counts as, the network of an IPv6 address, and whole has all
// of the address.
type clientOf struct{ value, whole keyby.Func }

func (r *reader) routes(list *yaml.Node, denied int, client clientOf) *Routes {
	routes := &Routes{Denied: denied, strict: newPatterns(), loose: newPatterns()}
	r.list(list, func(n *yaml.Node) {
		f := r.fields(n, "match", "headers", "cost", "descriptors", "loose")
		route := &Route{pattern: r.text(f["match"]), headers: r.conditions(f["headers"], routes), Cost: r.number(f["cost"], 1, 0, 1<<31)}
		route.loose = r.boolean(f["loose"])
		route.looseIsGiven = f["loose"] != nil
		r.list(f["descriptors"], func(n *yaml.Node) {
			route.descriptors = append(route.descriptors, r.sources(n, client, routes))
			route.places = append(route.places, r.place(n))
		})
		switch {
		case f["match"] == nil:
			r.fail(n, "a route needs match, such as \"POST /login\" or \"/api/\"")
			return
		case len(route.descriptors) == 0:
			r.fail(n, "a route needs descriptors, such as [[{key: remote_address, value: \"{client}\"}]]")
		}
		method, host, path := split(route.pattern)
		r.failIf(f["match"], routes.strict.add(method+host+path, route))
		if method != strings.ToUpper(method) {
			r.doubt(f["match"], "no request has the method %s: methods are in capital letters", strings.TrimSpace(method))
		}
		routes.all = append(routes.all, route)
	})
	return routes
}

// add adds a route. Mistakes in a pattern are those that http.ServeMux reports by a panic.
func (p *patterns) add(pattern string, route *Route) (err error) {
	if p.by[pattern] == nil {
		defer func() {
			if failed := recover(); failed != nil {
				err = errors.New(registered.ReplaceAllString(fmt.Sprint(failed), ""))
			}
		}()
		p.mux.Handle(pattern, http.NotFoundHandler()) // never called
	}
	p.by[pattern] = append(p.by[pattern], route)
	return nil
}

// registered is what http.ServeMux says of patterns that conflict: where in this program they come from.
var registered = regexp.MustCompile(` \(registered at [^)]*\)`)

// split returns the method of a pattern, or "", its host in lower case, or "", and its path, which begins with a slash.
func split(pattern string) (method, host, path string) {
	before, path, found := strings.Cut(pattern, "/")
	if at := strings.LastIndexAny(before, " \t"); at >= 0 {
		method, before = before[:at+1], before[at+1:]
	}
	if found {
		path = "/" + path
	}
	return method, strings.ToLower(before), path
}

// finish learns from the rules of the domain what the routes need. A route to a limit of no requests is loose unless
// the file says otherwise: what is to be closed must not be open at "/ADMIN".
func (rs *Routes) finish(root *node) (doubts []string, err error) {
	seen := reaching{}
	for _, route := range rs.all {
		for i, descriptor := range route.descriptors {
			reached := seen.of(root, descriptor)
			if !reached.some {
				doubts = append(doubts, route.places[i]+": no rule below descriptors is for this descriptor, so it limits nothing")
			}
			route.loose = route.loose || (reached.closes && !route.looseIsGiven)
		}
		if !route.loose {
			continue
		}
		method, host, path := split(route.pattern)
		if err := rs.loose.add(method+host+folded(path), route); err != nil {
			return nil, fmt.Errorf("%s: %w", route.places[0], err)
		}
	}
	return doubts, nil
}

// reach is whether a descriptor can have a rule, whatever the request is, and whether one of them closes.
type reach struct{ some, closes bool }

// reaching finds what descriptors reach. Many routes have the same ones, and a level may have many children: each is
// looked through once.
type reaching map[reachFrom]reach

// reachFrom is a node, and the entries that lead on from it as far as they are the same for all requests.
type reachFrom struct {
	at      *node
	entries string
}

func (seen reaching) of(n *node, sources []source) (all reach) {
	if len(sources) == 0 {
		return reach{n.rule != nil, n.rule != nil && n.rule.Closes()}
	}
	text := ""
	for i := range sources {
		text += fmt.Sprintf("%q%q", sources[i].key, sources[i].fixed)
	}
	from := reachFrom{n, text}
	if known, ok := seen[from]; ok {
		return known
	}
	defer func() { seen[from] = all }()
	s := &sources[0]
	if s.fixed != "" {
		if next := n.next(&Entry{Key: s.key, Value: s.fixed}); next != nil {
			all = seen.of(next, sources[1:])
		}
		return all
	}
	for key, child := range n.children {
		if key == s.key || strings.HasPrefix(key, s.key+"_") || len(child.parts) > 1 {
			one := seen.of(child, sources[1:])
			if all = (reach{all.some || one.some, all.closes || one.closes}); all.closes {
				break
			}
		}
	}
	return all
}

func (r *reader) conditions(n *yaml.Node, routes *Routes) (all []condition) {
	if n == nil {
		return nil
	}
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "expected a mapping of header fields, such as X-Plan: free")
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := r.text(n.Content[i])
		routes.Headers = append(routes.Headers, name)
		all = append(all, condition{name, keyby.Header(name), strings.Split(r.text(n.Content[i+1]), "*")})
	}
	return all
}

func (r *reader) sources(n *yaml.Node, client clientOf, routes *Routes) (all []source) {
	r.list(n, func(n *yaml.Node) {
		f := r.fields(n, "key", "value")
		key := r.text(f["key"])
		if key == "" {
			r.fail(n, "an entry needs a key")
		}
		fixed := key
		value := func(*http.Request) string { return key } // the same for all requests
		if f["value"] != nil {
			value = r.template(f["value"], client.value, routes)
			if fixed = r.text(f["value"]); strings.Contains(fixed, "{") {
				routes.usesClient = routes.usesClient || strings.Contains(fixed, "{client}")
				fixed = ""
			}
		}
		s := source{key: key, value: value, fixed: fixed, text: r.text(f["value"])}
		if s.text == "{client}" {
			s.whole = client.whole
		}
		all = append(all, s)
	})
	return all
}

// template reads the value of an entry: a text, in which {client}, {method}, {path}, {host}, {header:NAME} and
// {sha256:NAME} are replaced. A request that lacks one of them has no such descriptor.
func (r *reader) template(n *yaml.Node, client keyby.Func, routes *Routes) keyby.Func {
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
		if kind, header, _ := strings.Cut(name, ":"); kind == "header" || kind == "sha256" {
			routes.Headers = append(routes.Headers, header)
		}
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
		"host":   host,
	}[name]
}

// host returns the host of a request, as every service takes it: in lower case, without a port and a dot at the end.
func host(q *http.Request) string {
	name := strings.ToLower(q.Host)
	if at := strings.LastIndexByte(name, ':'); at >= 0 && !strings.HasSuffix(name, "]") {
		name = name[:at]
	}
	return strings.TrimSuffix(name, ".")
}

// Frees says whether a route is not charged for a request that a browser asks first (OPTIONS with Origin and
// Access-Control-Request-Method): the request itself follows. A route that names OPTIONS means these, too. What is
// closed is so for them as well.
func (rs *Routes) Frees(q *http.Request, route *Route, rule *Rule) bool {
	if rs.preflights || q.Method != http.MethodOptions || q.Header.Get("Origin") == "" || q.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	method, _, _ := split(route.pattern)
	return strings.TrimSpace(method) != http.MethodOptions && (rule == nil || !rule.Closes())
}

// Of returns the routes of a request: that of its path as it came, and if it is another one, that of its path cleaned
// and decoded, so that neither "//login" nor "/%6cogin" is a way around "/login". What stands behind a # in it, which
// some services cut off, is taken both as a part of the path and as none. Loose routes are also those of "/LOGIN/" and
// "/login;a=b", whatever the case of the method. Of routes with one pattern the first whose headers match counts.
func (rs *Routes) Of(q *http.Request) (all []*Route) {
	rs.each(q, func(route *Route, _, _ string) {
		if route != nil && !slices.Contains(all, route) {
			all = append(all, route)
		}
	})
	return all
}

// each calls found for each writing of the path that counts, with the pattern that matches it, "" if none does, and the
// route; without one, the header fields of the request are none that its routes ask for. It may come to one route
// several times.
func (rs *Routes) each(q *http.Request, found func(route *Route, pattern, path string)) {
	again := q
	if name := host(q); name != q.Host {
		again = q.WithContext(q.Context()) // a copy
		again.Host = name
	}
	rs.strict.find(again, found)
	clean := cleaned(q.URL)
	if clean == q.URL && len(rs.loose.by) == 0 { // there is no other writing
		return
	}
	again = again.WithContext(q.Context())
	paths := []*url.URL{clean}
	if before, _, found := strings.Cut(q.URL.RawPath, "#"); found {
		paths = append(paths, cleaned(&url.URL{Path: unescaped(before)}))
	}
	for _, path := range paths {
		again.URL = path
		rs.strict.find(again, found)
	}
	if len(rs.loose.by) == 0 {
		return
	}
	again.Method = strings.ToUpper(q.Method)
	for i := 0; i < len(paths) && len(paths) < mostWritings; i++ { // some services decode twice
		if again := unescaped(paths[i].Path); again != paths[i].Path {
			paths = append(paths, &url.URL{Path: again})
		}
	}
	for _, path := range paths {
		path := loosened(path.Path)
		for _, path := range []string{path, path + "/"} {
			again.URL = &url.URL{Path: path}
			rs.loose.find(again, found)
		}
	}
}

// mostWritings bounds how often a path is decoded again.
const mostWritings = 6

// loosened is a path as a service may read it that is not particular: in lower case, without parameters, a trailing
// slash, blanks around its segments and dots behind them, without what stands behind a zero byte, or a ? or # that was
// encoded, and with slashes for backslashes.
func loosened(text string) string {
	if at := strings.IndexAny(text, "\x00?#"); at >= 0 {
		text = text[:at]
	}
	segments := strings.Split(strings.ReplaceAll(folded(text), `\`, "/"), "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
		if plain := strings.TrimFunc(segments[i], isBlank); plain == "." || plain == ".." {
			segments[i] = plain
		} else {
			segments[i] = strings.TrimRightFunc(plain, func(c rune) bool { return c == '.' || isBlank(c) })
		}
	}
	return strings.TrimSuffix(path.Clean("/"+strings.Join(segments, "/")), "/")
}

// folded is text in one case, by the rules of any language: some take a long s for an S, and an i without its dot for
// an I.
func folded(text string) string { return strings.ToLower(strings.ToUpper(text)) }

// isBlank reports whether some language trims a character: Java all control characters, Python and JavaScript the
// spaces of Unicode.
func isBlank(c rune) bool { return c <= ' ' || c == 0x7f || c == 0xfeff || unicode.IsSpace(c) }

// find calls found with the route of a request; see each.
func (p *patterns) find(q *http.Request, found func(route *Route, pattern, path string)) {
	_, pattern := p.mux.Handler(q)
	for _, route := range p.by[pattern] {
		if route.differs(q) == nil {
			found(route, pattern, q.URL.Path)
			return
		}
	}
	found(nil, pattern, q.URL.Path)
}

// differs returns the first of the route's header fields that a request has another value for; nil if it has them all.
func (route *Route) differs(q *http.Request) *condition {
	for i := range route.headers {
		c := &route.headers[i]
		value := c.value(q)
		isMissing := value == "" && len(c.parts) > 1 // a wildcard needs a value
		if isMissing || !matches(c.parts, value) {
			return c
		}
	}
	return nil
}

// cleaned is u with its path cleaned and decoded; u itself if it is so already.
func cleaned(u *url.URL) *url.URL {
	whole := u.Path
	if !strings.HasPrefix(whole, "/") {
		whole = "/" + whole
	}
	clean := path.Clean(whole)
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

// Target is the URL in a request line. What is none, such as a path with a stray %, is decided all the same, since the
// service behind the proxy may take it: what cannot be decoded stands for itself.
func Target(text string) *url.URL {
	if u, err := url.ParseRequestURI(text); err == nil {
		return u
	}
	text, query, _ := strings.Cut(text, "?")
	if before, behind, found := strings.Cut(text, "://"); found && !strings.Contains(before, "/") { // http://host/path
		_, text, _ = strings.Cut(behind, "/")
	}
	text = "/" + strings.TrimPrefix(text, "/")
	return &url.URL{Path: unescaped(text), RawPath: text, RawQuery: query}
}

// unescaped is text with the bytes that it has as %XX. What cannot be decoded stands for itself.
func unescaped(text string) string {
	whole := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if b, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
				whole = append(whole, b...)
				i += 2
				continue
			}
		}
		whole = append(whole, text[i])
	}
	return string(whole)
}

// Descriptors returns the descriptors of a request. One with an entry that the request has no value for is left out.
func (route *Route) Descriptors(q *http.Request) (all [][]Entry) {
	for _, sources := range route.descriptors {
		if entries, lacks := entriesOf(sources, q); lacks == nil && len(entries) > 0 {
			all = append(all, entries)
		}
	}
	return all
}

// entriesOf makes the entries of a descriptor. lacks is the first source that the request has no value for.
func entriesOf(sources []source, q *http.Request) (entries []Entry, lacks *source) {
	entries = make([]Entry, 0, len(sources))
	for i := range sources {
		value := sources[i].value(q)
		if value == "" {
			return entries, &sources[i]
		}
		e := Entry{Key: sources[i].key, Value: value}
		if sources[i].whole != nil && strings.Contains(value, "/") {
			if p, err := netip.ParsePrefix(sources[i].whole(q)); err == nil {
				e.address = p.Addr()
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}
