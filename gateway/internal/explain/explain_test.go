package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/internal/chance"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
	"redis-throttle/ratelimit/ratelimittest"
)

const files = `
domain: web
trusted_proxies: [127.0.0.1/32, "fd00::/8"]
routes:
- match: POST /login
  loose: true
  cost: 5
  descriptors:
  - [{key: login}, {key: address, value: "{client}"}]
  - [{key: key, value: "{header:X-Api-Key}"}]
- match: GET api.example.com/files/
  headers: {X-Plan: "free*"}
  descriptors: [[{key: plan, value: "{header:X-Plan}"}, {key: path, value: "{path}"}]]
- match: GET /admin
  descriptors: [[{key: closed}]]
- match: /
  descriptors: [[{key: address, value: "{client}"}]]
descriptors:
- key: login
  descriptors:
  - {key: address, limits: [WINDOW 50/h, FIXED 200/d SHADOW]}
- {key: address, policy: api, limits: [RATE 3/h BAN 1h AFTER 10/1h]}
- {key: key, value: "gold*", rate_limit: {unit: hour, requests_per_unit: 5, name: gold, replaces: [{name: plain}]}}
- {key: key, value: gold1, shadow_mode: true, limits: [RATE 1/s]}
- {key: key, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 5, name: plain}}
- {key: closed, limits: [RATE 0/s]}
- {key: free, rate_limit: {unlimited: true}}
- key: plan
  value: freebie
  descriptors: [{key: path, limits: [RATE 1/s]}]
`

// explainer explains by a file, and by a Redis in this process.
func explainer(t testing.TB, text string) *Explainer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	c, err := config.Read(path).Parse(false)
	require.NoError(t, err)
	return &Explainer{
		Config: func() *config.Config { return c }, MaxDescriptors: 128, Redis: ratelimit.New(ratelimittest.New(t), ratelimit.Options{}),
	}
}

func (e *Explainer) of(t testing.TB, q Request) Explanation {
	t.Helper()
	x, err := e.Explain(t.Context(), q)
	require.NoError(t, err)
	return x
}

func web(method, target, from string, headers map[string]Values) Request {
	return Request{HTTP: &HTTP{Method: method, Target: target, From: from, Headers: headers}}
}

func TestARouteIsMatchedOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	plan := map[string]Values{"X-Plan": {"free"}, "Host": {"API.example.com:80"}}
	for _, c := range []struct {
		q    Request
		want string
	}{
		{web("POST", "/login?x=1", "", nil), "+POST /login as /login|/: a more specific route takes it: POST /login"},
		{web("GET", "/login", "", nil), "+/ as /login|POST /login: another method: GET"},
		{web("post", "/x/..//LOGIN/;a=b", "", nil), "+/ as /x/..//LOGIN/;a=b|+POST /login as /login|GET /admin: another path"},
		{web("GET", "/files/a", "", plan), "+GET api.example.com/files/ as /files/a|/: a more specific route takes it: GET api.example.com/files/"},
		{web("GET", "/files/a", "", map[string]Values{"Host": {"api.example.com"}, "X-Plan": {"team"}}),
			`/: a more specific pattern takes it, though its header fields differ: GET api.example.com/files/|GET api.example.com/files/: X-Plan is "team", and the route is for "free*"`},
		{web("GET", "/files/a", "", map[string]Values{"X-Plan": {"free"}}), "+/ as /files/a|GET api.example.com/files/: another host: "},
		{web("GET", "/admin", "", nil), "+GET /admin as /admin|/: a more specific route takes it: GET /admin"},
		{web("GET", "/ADMIN", "", nil), "+/ as /ADMIN|+GET /admin as /admin"},
	} {
		var got []string
		for _, r := range e.of(t, c.q).Routes {
			if r.Matched {
				got = append(got, "+"+r.Match+" as "+r.As)
			} else if r.Because != "another path" || strings.Contains(c.want, r.Match+": another path") {
				got = append(got, r.Match+": "+r.Because)
			}
		}
		all := strings.Join(got, "|")
		if !strings.HasPrefix(all, c.want) {
			assert.Equal(t, c.want, all, "%+v", c.q.HTTP)
		}
	}
}

func TestADescriptorHasARuleOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	for entries, want := range map[string]string{
		"login=login address=1":   "web.login.address by login key, address key",
		"login=login":             "web.login has no limits itself; rules below it need another entry; there address",
		"login=login user=1":      "no rule: nothing below web.login fits user=1; there address",
		"address=1 more=2 less=3": "no rule: web.address has no level below it, and the descriptor has 2 entries more; there ",
		"key=gold1":               "web.key_gold1 by key_gold1 value before key_gold* key",
		"key=gold*":               "web.key_gold* by key_gold* value before key",
		"key=gold2":               "web.key_gold* by key_gold* wildcard before key",
		"key=":                    "web.key by key key",
		"plan=free path=/":        "no rule: nothing below web fits plan=free; there plan_freebie, address, closed",
		"free=1":                  "web.free by free key",
	} {
		var list []string
		for word := range strings.FieldsSeq(entries) {
			key, value, _ := strings.Cut(word, "=")
			list = append(list, fmt.Sprintf(`{"key": %q, "value": %q}`, key, value))
		}
		x := e.of(t, Request{RateLimit: []byte(`{"domain": "web", "descriptors": [{"entries": [` + strings.Join(list, ",") + `]}]}`)})
		d := x.Descriptors[0]
		got := d.Because + "; there " + strings.Join(d.There, ", ")
		if d.Rule != nil {
			var levels []string
			for _, l := range d.Levels {
				levels = append(levels, strings.TrimSpace(l.Matched+" "+l.By+" "+strings.Join(append([]string{"before"}, l.Instead...), " ")))
			}
			got = d.Rule.Path + " by " + strings.ReplaceAll(strings.Join(levels, ", "), " before,", ",")
			got = strings.TrimSuffix(got, " before")
		}
		if !strings.HasPrefix(got, want) {
			assert.Equal(t, want, got, entries)
		}
	}
}

// What is left is what a request then finds, and explaining charges nothing.
func TestWhatIsLeftIsShown(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	q := web("POST", "/login", "203.0.113.7", map[string]Values{"X-Api-Key": {"gold2"}})
	x := e.of(t, q)
	assert.Equal(t, x, e.of(t, q), "nothing was charged")
	assert.Equal(t, "allowed: gold has the least left after it: 0 units", x.Outcome+": "+x.Because)
	login := x.Descriptors[0]
	assert.Equal(t, "{web|login=login}|address=203.0.113.7", login.Key)
	assert.Equal(t, []Left{
		{Limit: "WINDOW 50/1h", Name: "web.login.address-1", Of: 50, Remaining: 50},
		{Limit: "FIXED 200/1d SHADOW", Name: "web.login.address-2", Of: 200, Remaining: 200, Shadow: true, ResetAfterMs: login.Now.Left[1].ResetAfterMs},
	}, login.Now.Left)

	keys := []ratelimit.Key{{Name: x.Descriptors[1].Key, Limits: e.Config().Domains["web"].Match([]config.Entry{{Key: "key", Value: "gold2"}}).Rule.Limits}}
	_, err := e.Redis.Decide(t.Context(), ratelimit.Call{Keys: keys, Cost: 3})
	require.NoError(t, err)
	x = e.of(t, q)
	assert.Equal(t, Denied, x.Outcome)
	assert.Contains(t, x.Because, "gold denies it, for ")
	assert.Equal(t, 1, *x.Decided)
	assert.Equal(t, int64(2), x.Descriptors[1].Now.Left[0].Remaining)
	assert.True(t, x.Descriptors[1].Now.Over)
	assert.False(t, x.Descriptors[0].Now.Over)

	_, err = e.Redis.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbBan, Keys: []ratelimit.Key{{Name: login.Key}}, Ban: time.Hour})
	require.NoError(t, err)
	x = e.of(t, q)
	assert.Equal(t, "denied: web.login.address: its key is banned, for 1h0m0s", x.Outcome+": "+x.Because)
	assert.Contains(t, x.Text(), "\n  banned for 1h0m0s\n")
}

func TestModesAndPoliciesAreShown(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	outcome := func(q Request) string { x := e.of(t, q); return x.Outcome + ": " + x.Because }
	list := func(all ...string) Request {
		var ds []string
		for _, pair := range all {
			key, value, _ := strings.Cut(pair, "=")
			ds = append(ds, fmt.Sprintf(`{"entries": [{"key": %q, "value": %q}]}`, key, value))
		}
		return Request{RateLimit: []byte(`{"domain": "web", "descriptors": [` + strings.Join(ds, ",") + `]}`)}
	}
	assert.Equal(t, "denied: web.closed never lets 1 unit pass", outcome(list("closed=closed")))
	assert.Equal(t, "unlimited: web.free is unlimited", outcome(list("free=1")))
	assert.Equal(t, "unlimited: no rule applies to it", outcome(list("unknown=1")))
	x := e.of(t, list("key=gold2", "key=other"))
	assert.Equal(t, "another rule of the request replaces this one", x.Descriptors[1].Because)
	assert.Nil(t, x.Descriptors[1].Now)
	e.Shadow = true
	assert.Equal(t, "allowed: web.closed would deny it, and SHADOW_MODE denies nothing", outcome(list("closed=closed")))
	e.Shadow = false
	x, err := e.Explain(t.Context(), Request{RateLimit: []byte(`{"domain": "elsewhere", "descriptors": [{"entries": [{"key": "a"}]}]}`)})
	require.NoError(t, err)
	assert.Equal(t, "nothing configures this domain, so everything is let through", x.Because)

	rules, errs := policies.Parse(map[string]string{"api": "RATE 60/m", "api/192.0.2.1": "RATE 1/s RATE 2/m RATE 3/h", "api/192.0.2.*": "NONE"})
	require.Empty(t, errs)
	e.Policies = func(context.Context) (*policies.Rules, error) { return rules, nil }
	for address, want := range map[string]string{
		"198.51.100.1": `api, by api "RATE 60/m" instead of RATE 3/1h`,
		"192.0.2.2":    `api, by api/192.0.2.* "NONE" instead of RATE 3/1h`,
	} {
		assert.Contains(t, e.of(t, list("address="+address)).Text(), "\n  policy "+want+"\n")
	}
	assert.Equal(t, "unlimited: web.address has no limits: api/192.0.2.* is NONE", outcome(list("address=192.0.2.2")))
}

// An outage is told, and the rule all the same.
func TestARedisThatIsAwayIsTold(t *testing.T) {
	t.Parallel()
	e := explainer(t, "redis_down: open\ncompat: true\n"+files) // which asks about each descriptor, whatever came of the others
	asked := 0
	e.Redis = deciding(func() error { asked++; return fmt.Errorf("dial tcp 127.0.0.1:1: connection refused") })
	e.Policies = func(context.Context) (*policies.Rules, error) { return &policies.Rules{}, fmt.Errorf("it hangs") }
	x := e.of(t, web("POST", "/login", "", map[string]Values{"X-Api-Key": {"gold2"}}))
	assert.Equal(t, "unknown: what is left is not known, because Redis does not decide: redis_down: open lets it through", x.Outcome+": "+x.Because)
	assert.Equal(t, Redis{true, "dial tcp 127.0.0.1:1: connection refused"}, x.Redis)
	assert.Equal(t, "web.login.address", x.Descriptors[0].Rule.Path)
	assert.Equal(t, 1, asked, "one that hangs is not asked again")
	assert.Empty(t, x.Notes, "no rule of the request has a policy")
	assert.Contains(t, e.of(t, web("GET", "/", "", nil)).Notes[0], "the policies in Redis could not be read, so what was read last counts, or the file: it hangs")
	e.Redis = nil
	assert.Contains(t, e.of(t, web("GET", "/", "", nil)).Because, "no Redis was named")
}

type deciding func() error

func (d deciding) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{}, d()
}

func TestRequestsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	for text, want := range map[string]string{
		`{}`:                            "expected either http or ratelimit",
		`{"htpp": {"target": "/"}}`:     `unknown field "htpp"`,
		`[]`:                            "expected JSON such as",
		`{"http": {"target": "/"}} 1`:   "there is something behind it",
		`{"http": {"target": ""}}`:      "target: : expected a path",
		`{"http": {"target": "login"}}`: "target: login: expected a path, such as /login?x=1, or a URL",
		`{"http": {"target": "/", "method": "GET /"}}`:                                                                      `method: "GET /" is none`,
		`{"http": {"target": "/", "from": "203.0.113.700"}}`:                                                                "from: 203.0.113.700: expected an address",
		`{"http": {"target": "/", "headers": {"X-A": "a\r\nX-B: b"}}}`:                                                      "headers: X-A: a value must not hold line feeds",
		`{"http": {"target": "/", "headers": {"X A": "a"}}}`:                                                                "headers: X A is no name of a header field",
		`{"domain": "other", "http": {"target": "/"}}`:                                                                      "no domain of this name has routes",
		`{"ratelimit": {"domain": "web"}}`:                                                                                  "the list of descriptors must not be empty",
		`{"ratelimit": {"descriptors": [{}]}}`:                                                                              "the domain must not be empty",
		`{"ratelimit": {"domain": "web", "descripters": []}}`:                                                               "descripters",
		`{"ratelimit": {"domain": "web", "descriptors": [{"entries": [{"key": "a"}], "limit": {"requests_per_unit": 1}}]}}`: "needs a unit",
	} {
		q, err := Parse([]byte(text))
		if err == nil {
			_, err = e.Explain(t.Context(), q)
		}
		assert.ErrorContains(t, err, want, text)
	}
	e.Config = func() *config.Config { return nil }
	_, err := e.Explain(t.Context(), web("GET", "/", "", nil))
	assert.ErrorIs(t, err, ErrNoConfig)
}

// Whatever a client sends, lines stay lines, and are not too long.
func TestHostileRequestsAreExplained(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	for from, want := range map[string]string{
		"2001:db8::1": "address=2001:db8::/64", "[2001:db8::1]:443": "address=2001:db8::/64", "::ffff:192.0.2.1": "address=192.0.2.1", "@": "address=@", "": "address=127.0.0.1",
	} {
		x := e.of(t, web("GET", "/", from, nil))
		assert.Contains(t, x.Text(), want, from)
	}
	x := e.of(t, web("GET", "/", "127.0.0.1", map[string]Values{"X-Forwarded-For": {"192.0.2.1", "192.0.2.2"}}))
	assert.Contains(t, x.Descriptors[0].Key, "=192.0.2.2")
	for _, target := range []string{
		"/files/" + strings.Repeat("x/../", 200_000), "/files/\xff\xfe\x1b[2J\n", "/files/%zz%00%0a\u202e", "/files/" + strings.Repeat("\xff", 5000), "*", "//", "/?" + strings.Repeat("a", 1<<20),
	} {
		x := e.of(t, web("GET", target, "", map[string]Values{"Host": {"api.example.com"}, "X-Plan": {"freebie"}, "X-Api-Key": {"caf\xe9"}}))
		text := x.Text()
		assert.NotContains(t, text, "\x1b")
		assert.NotContains(t, text, "\u202e")
		assert.True(t, json.Valid(must(json.Marshal(x))))
		for line := range strings.Lines(text) {
			assert.Less(t, len(line), 5000)
		}
	}
	x = e.of(t, web("POST", "/login", "", map[string]Values{"X-Api-Key": {"gold\xe9"}}))
	assert.Equal(t, `"{web|key=gold\xe9}"`, x.Descriptors[1].Quoted, "as redis-cli takes it")
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// Explanations are of the descriptors that a decision is about, in their order.
func TestExplanationsAreOfWhatIsDecided(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	d := e.Config().Domains["web"]
	r := chance.New(t)
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	for range 2000 {
		h := &HTTP{Method: pick("GET", "POST", "post", "OPTIONS", "HEAD"), From: pick("", "203.0.113.7", "2001:db8::1", "@"), Headers: map[string]Values{}}
		for range r.IntN(4) {
			h.Target += pick("/", "//", "/.", "/..", "/login", "/LOGIN", "/admin", "/%61dmin", "/files/", ";a=b", "%00", "?x", "#", "%2f", "é", "\xff")
		}
		h.Target = "/" + h.Target
		for _, name := range []string{"X-Api-Key", "X-Plan", "Host", "Origin", "Access-Control-Request-Method"} {
			if r.IntN(2) == 0 {
				h.Headers[name] = Values{pick("", "gold1", "gold2", "free", "freebie", "api.example.com", "\xff")}
			}
		}
		q, err := h.request()
		require.NoError(t, err)
		x := &explaining{Explainer: e, domain: d}
		require.NoError(t, x.http(e.Config(), Request{HTTP: h}))
		require.Equal(t, decide.AsksOf(d, q), x.asks, "%+v", h)
		for _, r := range x.whole.Routes {
			require.NotEqual(t, r.Matched, r.Because != "")
		}
	}
}

// 10,000 rules and 10,000 routes are explained in a time that a person waits for, and the answer stays short.
func TestThousandsOfRulesAreExplainedShortly(t *testing.T) {
	t.Parallel()
	text := "domain: web\nroutes:\n"
	for i := range 10_000 {
		text += fmt.Sprintf("- {match: \"POST /p%d/x\", loose: true, headers: {X-A: b}, descriptors: [[{key: user, value: \"{path}\"}]]}\n", i)
	}
	e := explainer(t, text+"descriptors:\n- {key: user, limits: [RATE 5/s]}\n")
	explained := func(q Request) Explanation {
		began := time.Now()
		x := e.of(t, q)
		t.Log(time.Since(began))
		assert.Less(t, time.Since(began), 20*time.Second)
		assert.Less(t, len(x.Text()), 5000)
		return x
	}
	x := explained(web("GET", "/p77/x", "", nil))
	assert.Len(t, x.Routes, 20)
	assert.Equal(t, 9980, x.MoreRoutes)
	assert.Equal(t, "another method: GET", x.Routes[0].Because, "the nearest one first")

	text = "domain: web\ndescriptors:\n"
	for i := range 10_000 {
		text += fmt.Sprintf("- {key: user, value: \"%d*\", limits: [RATE 5/s]}\n", i)
	}
	e = explainer(t, text)
	d := explained(Request{RateLimit: []byte(`{"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "x"}]}]}`)}).Descriptors[0]
	assert.Len(t, d.There, 20)
	assert.Equal(t, 9980, d.MoreThere)
}

func TestATokenIsComparedWhole(t *testing.T) {
	t.Parallel()
	token := NewToken("0123456789abcdef")
	assert.True(t, token.Is("0123456789abcdef"))
	for _, wrong := range []string{"", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef "} {
		assert.False(t, token.Is(wrong), wrong)
	}
	none := NewToken("")
	assert.False(t, none.Is(""))
	assert.False(t, none.IsSet())
}

// A ban is the cause, however long another limit of the request denies.
func TestABanIsNamedBeforeLongerDenials(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	q := web("POST", "/login", "203.0.113.7", map[string]Values{"X-Api-Key": {"gold2"}})
	gold := ratelimit.Key{Name: "{web|key=gold2}", Limits: e.Config().Domains["web"].Match([]config.Entry{{Key: "key", Value: "gold2"}}).Rule.Limits}
	_, err := e.Redis.Decide(t.Context(), ratelimit.Call{Keys: []ratelimit.Key{gold}, Cost: 5})
	require.NoError(t, err)
	_, err = e.Redis.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbBan, Keys: []ratelimit.Key{{Name: "{web|login=login}|address=203.0.113.7"}}, Ban: time.Minute})
	require.NoError(t, err)
	x := e.of(t, q)
	assert.Contains(t, x.Because, "web.login.address: its key is banned, for ")
	assert.Equal(t, 0, *x.Decided)
}

// Two limits that a request brings are two, also for the same entries, and have a name.
func TestLimitsOfTheRequestAreNamed(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	of := func(n int) string {
		return fmt.Sprintf(`{"entries": [{"key": "a", "value": "b"}], "limit": {"requests_per_unit": %d, "unit": "HOUR"}}`, n)
	}
	x := e.of(t, Request{RateLimit: []byte(`{"domain": "web", "descriptors": [` + of(0) + "," + of(5) + `]}`)})
	assert.Contains(t, x.Because, "the limit that the request brings never lets 1 unit pass")
	assert.NotEqual(t, x.Descriptors[0].Key, x.Descriptors[1].Key)
}

// What a request gives back is there for what it takes, and what is left is what a decision then tells.
func TestTheRequestItselfCounts(t *testing.T) {
	t.Parallel()
	e := explainer(t, "domain: web\ndescriptors:\n- {key: a, limits: [FIXED 5/d]}\n- {key: b, limits: [FIXED 4/d]}\n")
	limit := func(key string) ratelimit.Limits {
		return e.Config().Domains["web"].Match([]config.Entry{{Key: key, Value: "1"}}).Rule.Limits
	}
	_, err := e.Redis.Decide(t.Context(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "{web|a=1}", Limits: limit("a")}}, Cost: 5})
	require.NoError(t, err)
	of := func(all ...string) Explanation {
		var ds []string
		for _, one := range all {
			key, hits, _ := strings.Cut(one, " ")
			back := strings.HasPrefix(hits, "-")
			ds = append(ds, fmt.Sprintf(`{"entries": [{"key": %q, "value": "1"}], "hits_addend": %s, "is_negative_hits": %v}`, key, strings.TrimPrefix(hits, "-"), back))
		}
		return e.of(t, Request{RateLimit: []byte(`{"domain": "web", "descriptors": [` + strings.Join(ds, ",") + `]}`)})
	}
	for _, c := range []struct {
		asks []string
		want string
	}{
		{[]string{"a 1"}, "denied: web.a denies it, for "},
		{[]string{"a -3", "a 2"}, "allowed: web.a has the least left after it: 1 unit"},
		{[]string{"a 2", "a -3", "a 1"}, "allowed: web.a has the least left after it: 0 units"},
		{[]string{"a -3", "a 4"}, "denied: web.a denies it, for "},
		{[]string{"a -9", "a 5"}, "allowed: web.a has the least left after it: 0 units"}, // a limit gets no fuller than full
		{[]string{"a -9", "a 6"}, "denied: web.a never lets 6 units pass"},
		{[]string{"a -4", "a 1", "b 2"}, "allowed: web.b has the least left after it: 2 units"},
		{[]string{"a -5", "a 3", "b 1"}, "allowed: web.a has the least left after it: 2 units"}, // before it, b has less
		{[]string{"b 3"}, "allowed: web.b has the least left after it: 1 unit"},
		{[]string{"a -2"}, "unlimited: no rule applies to it"},
	} {
		x := of(c.asks...)
		assert.True(t, strings.HasPrefix(x.Outcome+": "+x.Because, c.want), "%v: %s: %s", c.asks, x.Outcome, x.Because)
	}
	assert.Equal(t, int64(2), of("a -2").Descriptors[0].Now.Left[0].Remaining)
}

// A descriptor that brings the token limits nothing where the gateway has one, and its value is not told.
func TestTheDescriptorOfTheTokenIsSetAside(t *testing.T) {
	t.Parallel()
	e := explainer(t, "domain: web\ndescriptors:\n- {key: x-throttle-explain, limits: [FIXED 0/d]}\n- {key: a, limits: [FIXED 5/d]}\n")
	q := Request{RateLimit: []byte(`{"domain": "web", "descriptors": [{"entries": [{"key": "x-throttle-explain", "value": "secret"}]}, {"entries": [{"key": "a", "value": "1"}]}]}`)}
	assert.Equal(t, Denied, e.of(t, q).Outcome, "without a token it is one as others are")
	e.HasToken, e.Quota = true, true
	x := e.of(t, q)
	assert.Equal(t, "allowed: web.a has the least left after it: 4 units", x.Outcome+": "+x.Because)
	assert.Equal(t, 1, *x.Decided)
	assert.Contains(t, x.Text(), "set aside")
	assert.NotContains(t, string(must(json.Marshal(x))), "secret")
}
