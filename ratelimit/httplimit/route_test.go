package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

const day = 24 * time.Hour

// deciderFunc decides without a server.
type deciderFunc func(key string, limits ratelimit.Limits) (ratelimit.Result, error)

func (f deciderFunc) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	return f(c.Keys[0].Name, c.Keys[0].Limits)
}

func TestTheMostSpecificRouteLimitsARequest(t *testing.T) {
	t.Parallel()
	var asked []string
	header := func(name string) func(*http.Request) string {
		return func(r *http.Request) string { return r.Header.Get(name) }
	}
	m := httplimit.New(deciderFunc(func(key string, limits ratelimit.Limits) (ratelimit.Result, error) {
		asked = append(asked, key, limits[0].String())
		return ratelimit.Result{}, nil
	}), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(1, day)},
		Key:    header("Name"),
		Routes: []httplimit.Route{
			{Pattern: "/files/", Limits: ratelimit.Limits{ratelimit.Rate(2, day)}},
			{Pattern: "POST /orders/{id}", Limits: ratelimit.Limits{ratelimit.Rate(3, day)}, Key: header("Tenant")},
			{Pattern: "/files/public/", Limits: ratelimit.Limits{ratelimit.Rate(4, day)}, Key: func(*http.Request) string { return "" }},
			{Pattern: "GET /reports/", Limits: ratelimit.Limits{ratelimit.Rate(6, day)}},
		},
		LimitsFor: func(r *http.Request) ratelimit.Limits {
			return map[string]ratelimit.Limits{"gold": {ratelimit.Rate(5, day)}, "broken": {ratelimit.Rate(-1, day)}}[r.Header.Get("Plan")]
		},
		Failures: httplimit.Failures{OnError: func(*http.Request, error) {}},
	})
	handler := m(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		rule   string
		method string
		path   string
		plan   string
		want   []string
		policy string
		status int
	}{
		{"no route", "GET", "/", "", []string{"ann", "RATE 1/1d"}, `"default";q=1;w=86400`, 200},
		{"a plan", "GET", "/", "gold", []string{"ann", "RATE 5/1d"}, `"default";q=5;w=86400`, 200},
		{"a plan that is none", "GET", "/", "lead", []string{"ann", "RATE 1/1d"}, `"default";q=1;w=86400`, 200},
		{"a plan that is a mistake", "GET", "/", "broken", nil, "", 500},
		{"a route", "GET", "/files/x", "gold", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"a route with a key", "POST", "/orders/1", "", []string{"acme", "RATE 3/1d"}, `"default";q=3;w=86400`, 200},
		{"another method", "GET", "/orders/1", "", []string{"ann", "RATE 1/1d"}, `"default";q=1;w=86400`, 200},
		{"GET", "GET", "/reports/1", "", []string{"GET /reports/ ann", "RATE 6/1d"}, `"default";q=6;w=86400`, 200},
		{"GET covers HEAD", "HEAD", "/reports/1", "", []string{"GET /reports/ ann", "RATE 6/1d"}, `"default";q=6;w=86400`, 200},
		{"GET covers nothing else", "POST", "/reports/1", "", []string{"ann", "RATE 1/1d"}, `"default";q=1;w=86400`, 200},
		{"another host", "GET", "http://elsewhere/files/x", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"a route that is free", "GET", "/files/public/x", "", nil, "", 200},
		// No way round.
		{"two slashes", "GET", "//files//x", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"dots", "GET", "/files/public/../x", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"escaped", "GET", "/%66iles/x", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"a slash in disguise", "GET", "/files%2fx", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"dots in disguise", "GET", "/x/%2e%2e/files/x", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"without the slash", "GET", "/files", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
		{"CONNECT", "CONNECT", "/files/x", "", []string{"/files/ ann", "RATE 2/1d"}, `"default";q=2;w=86400`, 200},
	} {
		asked = nil
		r := httptest.NewRequest(c.method, "http://here/", nil)
		u, err := r.URL.Parse(c.path)
		if assert.NoError(t, err) && len(c.path) > 1 && c.path[0] == '/' {
			*u = *r.URL // as it came, with its dots
			u.Path, u.RawPath = c.path, ""
			if strings.Contains(c.path, "%") {
				u.RawPath = c.path
				u.Path, err = url.PathUnescape(c.path)
				assert.NoError(t, err)
			}
		}
		r.URL, r.Host = u, u.Host
		r.Header = http.Header{"Name": {"ann"}, "Tenant": {"acme"}, "Plan": {c.plan}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, c.want, asked, c.rule)
		assert.Equal(t, c.policy, w.Header().Get("RateLimit-Policy"), c.rule)
		assert.Equal(t, c.status, w.Code, c.rule)
	}
}

func TestRequestsWithoutARouteAreNotLimitedWithoutLimits(t *testing.T) {
	t.Parallel()
	calls := 0
	m := httplimit.New(deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) { calls++; return ratelimit.Result{}, nil }), httplimit.Options{
		Routes: []httplimit.Route{{Pattern: "/a", Limits: ratelimit.Limits{ratelimit.Rate(1, time.Second)}, Key: func(*http.Request) string { return "k" }}},
	})
	handler := m(http.NotFoundHandler())
	for _, path := range []string{"/a", "/b"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	assert.Equal(t, 1, calls)
}

// A client chooses its header field, but not the limit that it counts for.
func TestNoClientWritesTheKeyOfARoute(t *testing.T) {
	t.Parallel()
	var asked []string
	limits := ratelimit.Limits{ratelimit.Rate(1, day)}
	decider := deciderFunc(func(key string, _ ratelimit.Limits) (ratelimit.Result, error) {
		asked = append(asked, key)
		return ratelimit.Result{}, nil
	})
	key := func(r *http.Request) string { return r.Header.Get("X-Api-Key") }
	handler := httplimit.New(decider, httplimit.Options{
		Limits: limits, Key: key, Routes: []httplimit.Route{{Pattern: "POST /login", Limits: limits}},
		And: []httplimit.Part{{Limits: ratelimit.Limits{limits[0].Named("also")}, Key: key}},
	})(http.NotFoundHandler())
	ask := func(method, path, key string) string {
		asked = nil
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("X-Api-Key", key)
		handler.ServeHTTP(httptest.NewRecorder(), r)
		return asked[0]
	}
	theirs := ask("POST", "/login", "198.51.100.77")
	assert.Equal(t, "POST /login 198.51.100.77", theirs)
	for _, forged := range []string{theirs, strings.ReplaceAll(theirs, " ", "%20")} {
		assert.NotEqual(t, theirs, ask("GET", "/", forged))
		assert.NotEqual(t, theirs, ask("POST", "/login", forged))
	}
}

func TestMistakesInTheProgramPanic(t *testing.T) {
	t.Parallel()
	key := func(*http.Request) string { return "k" }
	good := ratelimit.Limits{ratelimit.Rate(1, day)}
	bad := ratelimit.Limits{ratelimit.Rate(-1, day)}
	routes := func(all ...httplimit.Route) httplimit.Options { return httplimit.Options{Key: key, Routes: all} }
	for i, wrong := range []httplimit.Options{
		{},
		{Key: key},
		{Limits: good},
		{Limits: bad, Key: key},
		{Limits: ratelimit.Limits{good[0].Named("täglich")}, Key: key},
		{Limits: good, Key: key, And: []httplimit.Part{{Limits: good}}},
		{Limits: good, Key: key, And: []httplimit.Part{{Limits: good, Key: key}}},
		{Limits: good, Key: key, BanAfter: "10/1h"},
		{Limits: good, Key: key, Ban: -day},
		{Limits: good, Key: key, Ban: day, BanAfter: "often"},
		{Key: key, LimitsFor: func(*http.Request) ratelimit.Limits { return good }},
		{Limits: good, Routes: []httplimit.Route{{Pattern: "/a", Limits: good, Key: key}}},
		{Routes: []httplimit.Route{{Pattern: "/a", Limits: good}}},
		routes(httplimit.Route{Pattern: "/a"}),
		routes(httplimit.Route{Limits: good}),
		routes(httplimit.Route{Pattern: "/a", Limits: good}, httplimit.Route{Pattern: "/a", Limits: good}),
		routes(httplimit.Route{Pattern: "/a", Limits: bad}),
	} {
		assert.Panics(t, func() { httplimit.New(allows{}, wrong) }, "%d", i)
	}
	fine := httplimit.Options{Limits: good, Key: key}
	for i, wrong := range []func(){
		func() { httplimit.New(nil, fine) },
		func() { httplimit.New((*ratelimit.Limiter)(nil), fine) },
		func() { httplimit.New(nil, routes(httplimit.Route{Pattern: "/a", Limits: good})) },
		func() { httplimit.New(allows{}, fine)(nil) },
		func() { httplimit.NewConcurrency(allows{}, httplimit.ConcurrencyOptions{}) },
		func() { httplimit.NewConcurrency(nil, httplimit.ConcurrencyOptions{Slots: 1, Key: key}) },
		func() { httplimit.NewTransport(nil, httplimit.TransportOptions{Limits: good, Key: key}) },
		func() { httplimit.NewTransport(allows{}, httplimit.TransportOptions{Limits: good}) },
		func() { httplimit.NewTransport(allows{}, httplimit.TransportOptions{Key: key}) },
	} {
		assert.Panics(t, wrong, "%d", i)
	}
}
