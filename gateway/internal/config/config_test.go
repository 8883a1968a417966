package config

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// load reads texts as files called 0.yaml, 1.yaml and so on.
func load(t *testing.T, merge bool, texts ...string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, string(rune('0'+i))+".yaml"), []byte(text), 0o644))
	}
	c, err := Read(dir).Parse(merge)
	if err != nil {
		return nil, told(strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	return c, nil
}

type told string

func (e told) Error() string { return string(e) }

func domain(t *testing.T, text string) *Domain {
	t.Helper()
	c, err := load(t, false, "domain: d\n"+text)
	require.NoError(t, err)
	return c.Domains["d"]
}

// entries reads "a=b c=d".
func entries(text string) (all []Entry) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		all = append(all, Entry{Key: key, Value: value})
	}
	return all
}

// routed are the descriptors to which a request is mapped, as entries reads them.
func (d *Domain) routed(r *http.Request) (all []string) {
	for _, route := range d.Routes.Of(r) {
		for _, es := range route.Descriptors(r) {
			var words []string
			for _, e := range es {
				words = append(words, e.Key+"="+e.Value)
			}
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

// keyOf is the key of the first entry, where there is one.
func keyOf(descriptors []string) string {
	key, _, _ := strings.Cut(strings.Join(descriptors, " "), "=")
	return key
}

func TestMistakesAreToldWithTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                    "0.yaml: the domain is missing: expected domain: NAME",
		"domain: ''\n":        "0.yaml:1:9: the domain is missing: expected domain: NAME",
		"domain: d\n  a: b\n": "0.yaml:2:4: mapping values are not allowed in this context",
		"domain: d\ndescriptor: []\n": "0.yaml:2:1: unknown key \"descriptor\": expected domain, descriptors, kind, compat, redis_down, " +
			"hash_tag, routes, denied_status, trusted_proxies or preflights",
		"domain: d\ndomain: e\n":                        `0.yaml:2:1: the key "domain" is there twice`,
		"domain: d\nkind: sliding\n":                    `0.yaml:2:7: "sliding": expected fixed, rate, window`,
		"domain: d\ndescriptors: {}\n":                  "0.yaml:2:14: expected a list",
		"domain: d\ndescriptors: [a]\n":                 "0.yaml:2:15: expected a mapping, such as key: ...",
		"domain: d\ndescriptors:\n- value: a\n":         "0.yaml:3:3: a descriptor needs a key",
		"domain: d\ndescriptors:\n- key: a\n- key: a\n": `0.yaml:4:8: the descriptor "d.a" is there twice`,
		"domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: fortnight, requests_per_unit: 1}\n": `0.yaml:4:22: "fortnight": expected ` +
			"second, minute, hour, day, week, month or year",
		"domain: d\ndescriptors:\n- key: a\n  rate_limit: {requests_per_unit: 1}\n":                                            "0.yaml:4:15: rate_limit needs a unit: second, minute, hour, day, week, month or year",
		"domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: -1}\n":                                `0.yaml:4:46: "-1": expected an integer from 0 to 4294967295`,
		"domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, unlimited: true}\n":                                      "0.yaml:4:22: unlimited goes with neither a unit nor limits",
		"domain: d\ndescriptors:\n- key: a\n  rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}\n": `0.yaml:4:15: a limit cannot replace itself: "n"`,
		"domain: d\ndescriptors:\n- key: a\n  share_threshold: true\n":                                                         `0.yaml:4:20: share_threshold is for values with a * and for networks, and that of "d.a" is neither`,
		"domain: d\ndescriptors:\n- key: a\n  limits: [RATE 5/s, RATE 5/fortnight]\n":                                          "0.yaml:4:22: syntax error near '5/fortnight': RATE takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d",
		"domain: d\ndescriptors:\n- key: a\n  limits: [RATE 5/s TAKE 2]\n":                                                     "0.yaml:4:12: TAKE: hits_addend of the request says how many units it takes, or cost of a route",
		"domain: d\ndescriptors:\n- key: a\n  limits: []\n":                                                                    "0.yaml:4:11: limits needs at least one limit, such as RATE 5/s BURST 10",
		"domain: d\ndescriptors:\n- key: a\n  limits: [" + strings.Repeat("RATE 1/s, ", 9) + "]\n":                             "0.yaml:4:92: syntax error near 'RATE': at most 8 limits",
		"domain: d\nkind: rate\ndescriptors:\n- key: a\n  rate_limit: {unit: second, requests_per_unit: 4294967295}\n":         "0.yaml:5:49: RATE: 4294967295 units in 1s are more than 10^9 units per second",
		"domain: d\nroutes:\n- descriptors: [[{key: a}]]\n":                                                                    `0.yaml:3:3: a route needs match, such as "POST /login" or "/api/"`,
		"domain: d\nroutes:\n- match: /\n  descriptors: [[{key: a, value: \"{who}\"}]]\n":                                      `0.yaml:4:34: "{who}": expected {client}, {method}, {path}, {host}, {header:NAME} or {sha256:NAME}`,
		"domain: d\ntrusted_proxies: [10.0.0.1]\n":                                                                             `0.yaml:2:19: "10.0.0.1": expected a network, such as 10.1.0.0/24`,

		"domain: d\n---\ndomain: e\n": "0.yaml:2:1: a file has one document; this is a second one",
	} {
		_, err := load(t, false, text)
		assert.EqualError(t, err, want, text)
	}
	_, err := load(t, false, "domain: d\n", "domain: d\n")
	assert.EqualError(t, err, `1.yaml:1:9: the domain "d" is in another file or resource already; MERGE_DOMAIN_CONFIG=true merges them`)
	_, err = load(t, true, "domain: d\n", "domain: d\ncompat: true\n")
	assert.EqualError(t, err, `1.yaml:2:9: compat may be set only in the first file of domain "d"`)
	_, err = load(t, false, "domain: d\nkind: a\ncompat: b\n", "domain: ''\n")
	assert.EqualError(t, err, "0.yaml:2:7: \"a\": expected fixed, rate, window\n0.yaml:3:9: \"b\": expected true or false\n"+
		"1.yaml:1:9: the domain is missing: expected domain: NAME", "all mistakes of all files at once")
}

func TestUnitsBecomeLimits(t *testing.T) {
	t.Parallel()
	for unit, want := range map[string][3]string{
		"second": {"FIXED 7/1s", "RATE 7/1s", "WINDOW 7/1s"},
		"MINUTE": {"FIXED 7/1m", "RATE 7/1m", "WINDOW 7/1m"},
		"hour":   {"FIXED 7/1h", "RATE 7/1h", "WINDOW 7/1h"},
		"Day":    {"FIXED 7/1d", "RATE 7/1d", "WINDOW 7/1d"},
		"week":   {"FIXED 7/1w", "RATE 7/7d", "WINDOW 7/7d"},
		"month":  {"FIXED 7/1mo", "RATE 7/30d", "WINDOW 7/30d"},
		"year":   {"FIXED 7/1y", "RATE 7/365d", "WINDOW 7/365d"},
	} {
		for i, kind := range []string{fixed, rate, window} {
			d := domain(t, "kind: "+kind+"\ndescriptors: [{key: a, rate_limit: {unit: "+unit+", requests_per_unit: 7}}]\n")
			assert.Equal(t, want[i], d.Match(entries("a=b")).Rule.Limits[0].String())
		}
	}
	d := domain(t, "descriptors: [{key: a, limits: [RATE 5/s BURST 10, FIXED 100000/mo TZ Europe/Berlin SHADOW NAME monthly]}]\n")
	rule := d.Match(entries("a=b")).Rule
	assert.Equal(t, "RATE 5/1s BURST 10 NAME d.a-1; FIXED 100000/1mo TZ Europe/Berlin SHADOW NAME monthly", rule.Limits.String())
	assert.Equal(t, []Shown{{5, rls.RateLimitResponse_RateLimit_SECOND, 1, time.Second, false},
		{100000, rls.RateLimitResponse_RateLimit_MONTH, 1, 30 * 24 * time.Hour, true}}, rule.Shown)
}

// The rules of upstream's README and of its source: value, wildcard, key; as many entries as levels.
func TestADescriptorMatches(t *testing.T) {
	t.Parallel()
	d := domain(t, `
descriptors:
- key: a
  rate_limit: &one {unit: second, requests_per_unit: 1}
- key: a
  value: x
  rate_limit: *one
- key: a
  value: "x*"
  rate_limit: *one
- key: a
  value: "p*q*r"
  share_threshold: true
  rate_limit: *one
- key: nested
  value: 42
  descriptors:
  - key: below
    value_to_metric: true
    rate_limit: {<<: *one, name: low}
- key: detailed
  detailed_metric: true
  rate_limit: *one
- key: allowed
- key: both
  rate_limit: *one
  descriptors:
  - key: below
    rate_limit: *one
`)
	for text, want := range map[string][4]string{
		"a=x":                {"d.a_x", "{d|a=x}", "a_x"},
		"a=xy":               {"d.a_x*", "{d|a=xy}", "a_x*"},
		"a=y":                {"d.a", "{d|a=y}", "a"},
		"a=":                 {"d.a", "{d|a=}", "a"},
		"a=p-q-r":            {"d.a_p*q*r", "{d|a=p*q*r}", "a_p*q*r"},
		"a=pr":               {"d.a", "{d|a=pr}", "a"},
		"nested=42 below=z":  {"d.nested_42.below", "{d|nested=42}|below=z", "nested_42", "below_z"},
		"nested=42":          {},
		"nested=43 below=z":  {},
		"detailed=v":         {"d.detailed", "{d|detailed=v}", "detailed_v"},
		"allowed=v":          {},
		"both=v":             {"d.both", "{d|both=v}", "both"},
		"both=v below=w":     {"d.both.below", "{d|both=v}|below=w", "both", "below"},
		"both=v below=w c=d": {},
		"a=x below=w":        {},
		"unknown=v":          {},
		"":                   {},
	} {
		m := d.Match(entries(text))
		got := [4]string{"", m.Key, m.Path[0], m.Path[1]}
		if m.Rule != nil {
			got[0] = m.Rule.path
		}
		assert.Equal(t, want, got, text)
	}
}

func TestDifferentDescriptorsHaveDifferentKeys(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"", "hash_tag: domain\n", "hash_tag: b\n"} {
		d := domain(t, tag+"descriptors: []\n")
		seen := map[string]string{}
		for _, text := range []string{"a=b", "a=b|c=d", "a=b c=d", "a=b%7Cc=d", "a==b", "a={b}", "b=x a=b", "a=b b=x", "a=b b=x b=y", "a=x} b={", "a= b=",
			"a=" + strings.Repeat("x", 200), "a=" + strings.Repeat("x", 201), "a=" + strings.Repeat("x", 202)} {
			key, tag := d.key(entries(text), nil)
			assert.Empty(t, seen[key], "%s and %s", text, seen[key])
			seen[key] = text
			assert.Equal(t, tag, key[1:strings.IndexByte(key, '}')], "the tag is what Redis takes for it")
			assert.Less(t, len(key), 300)
		}
	}
	for tag, want := range map[string]string{
		"":                      "{d|path=/a}|user=42",
		"hash_tag: domain\n":    "{d}|path=/a|user=42",
		"hash_tag: user\n":      "{d|user=42}|path=/a|=",
		"hash_tag: path\n":      "{d|path=/a}|user=42",
		"hash_tag: elsewhere\n": "{d}|path=/a|user=42",
	} {
		key, _ := domain(t, tag).key(entries("path=/a user=42"), nil)
		assert.Equal(t, want, key, tag)
	}
}

func TestRoutesMapRequestsToDescriptors(t *testing.T) {
	t.Parallel()
	d := domain(t, `
trusted_proxies: [10.0.0.0/8]
denied_status: 403
routes:
- match: POST /login
  cost: 5
  descriptors:
  - [{key: login}, {key: remote_address, value: "{client}"}]
- match: /api/
  headers: {X-Plan: "fr*"}
  descriptors:
  - [{key: plan, value: "{header:X-Plan}"}, {key: key, value: "{sha256:X-Api-Key}"}]
  - [{key: client, value: "ip-{client}"}]
- match: /api/
  headers: {X-Plan: gold, X-Trial: ""}
  descriptors:
  - [{key: plan, value: "gold"}]
- match: /api/
  headers: {X-Any: "*"}
  descriptors:
  - [{key: any, value: "any"}]
- match: /api/
  descriptors:
  - [{key: path, value: "{method} {path}"}]
`)
	require.Equal(t, http.StatusForbidden, d.Routes.Denied)
	for _, c := range []struct {
		method, url string
		header      http.Header
		want        []string
	}{
		{"POST", "/login", nil, []string{"login=login remote_address=192.0.2.1"}},
		{"POST", "//x/../%6cogin", nil, []string{"login=login remote_address=192.0.2.1"}},
		{"GET", "/login", nil, nil},
		{"GET", "/api/x", nil, []string{"path=GET /api/x"}},
		{"GET", "/api/../api/x", nil, []string{"path=GET /api/x"}},
		{"GET", "/api/x", http.Header{"X-Plan": {"free"}}, []string{"client=ip-192.0.2.1"}},
		{"GET", "/api/x", http.Header{"X-Plan": {"gold"}}, []string{"plan=gold"}},
		{"GET", "/api/x", http.Header{"X-Any": {"x"}}, []string{"any=any"}},
		{"GET", "/api/x", http.Header{"X-Any": {""}}, []string{"path=GET /api/x"}},
		{"GET", "/api/x", http.Header{"X-Plan": {"goldgold"}}, []string{"path=GET /api/x"}},
		{"GET", "/api/x", http.Header{"X-Plan": {"gold"}, "X-Trial": {"yes"}}, []string{"path=GET /api/x"}},
		{"GET", "/api/x", http.Header{"X-Plan": {"free"}, "X-Api-Key": {"k"}},
			[]string{"plan=free key=8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a", "client=ip-192.0.2.1"}},
	} {
		r := httptest.NewRequest(c.method, c.url, nil)
		for name, values := range c.header {
			r.Header[name] = values
		}
		assert.Equal(t, c.want, d.routed(r), "%s %s %v", c.method, c.url, c.header)
	}
}

// Whatever a file holds, reading it ends, and a rule that comes out of it is one that Redis takes.
func FuzzFile(f *testing.F) {
	f.Add("domain: d\ndescriptors:\n- key: a\n  value: 'x*'\n  rate_limit: {unit: day, requests_per_unit: 3}\n  limits: [RATE 5/s]\n", "a=x")
	f.Add("domain: d\na: &a {<<: *a}\n", "")
	bomb := "domain: d\na0: &a0 [x, x]\n"
	for i := range 40 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	f.Add(bomb, "")
	f.Add("domain: d\ndescriptors: "+strings.Repeat("[", 20000), "")
	f.Add("domain: d\ndescriptors: !!binary x\n", "")
	f.Add("domain: d\ndescriptors: &a [{key: a, descriptors: *a}]\n", "a=a a=a")
	f.Fuzz(func(t *testing.T, text, descriptor string) {
		r := &reader{file: "f"}
		c := &Config{Domains: map[string]*Domain{}}
		c.domain(r, r.parse(text), false)
		for _, d := range c.Domains {
			m := d.Match(entries(descriptor))
			if m.Rule != nil && len(r.errs) == 0 && !m.Rule.Unlimited {
				assert.NoError(t, m.Rule.Limits.Validate())
				assert.Len(t, m.Rule.Shown, len(m.Rule.Limits))
			}
		}
	})
}

// What a limit is called, and whether it is on trial, is in its words, not in what stands in quotation marks.
func TestNamesAreNoWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`RATE 5/s UNIT "a NAME b"`:            `RATE 5/1s NAME d.a UNIT "a NAME b"`,
		`RATE 5/s UNIT "a TAKE b"`:            `RATE 5/1s NAME d.a UNIT "a TAKE b"`,
		`RATE 5/s NAME "SHADOW"`:              `RATE 5/1s NAME SHADOW`,
		`RATE 5/s UNIT "NAME" NAME mine`:      `RATE 5/1s NAME mine UNIT NAME`,
		`FIXED 5/d TZ Europe/Berlin NAME "x"`: `FIXED 5/1d TZ Europe/Berlin NAME x`,
	} {
		rule := domain(t, "descriptors: [{key: a, limits: ['"+text+"']}]\n").Match(entries("a=b")).Rule
		assert.Equal(t, want, rule.Limits.String(), text)
		assert.False(t, rule.Shown[0].Shadow, text)
		assert.Equal(t, rule.Limits[0].Shadow(), rule.Shadows[0])
	}
}

// A limit of 0 lets nobody through, however the file writes it.
func TestALimitOfNothingLetsNobodyThrough(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rate_limit: {unit: hour, requests_per_unit: 0}": "FIXED 0/1h NAME d.a", "limits: [RATE 0/h]": "RATE 0/1h NAME d.a", "limits: [fixed 0/h NAME closed]": "FIXED 0/1h NAME closed",
		"limits: [RATE 5/s, WINDOW 0/h]": "RATE 5/1s NAME d.a-1; WINDOW 0/1h NAME d.a-2", "limits: [RATE 0/h SHADOW]": "RATE 0/1h SHADOW NAME d.a",
	} {
		rule := domain(t, "descriptors: [{key: a, "+text+"}]\n").Match(entries("a=b")).Rule
		assert.Equal(t, want, rule.Limits.String(), text)
		last := rule.Shown[len(rule.Shown)-1]
		assert.Equal(t, Shown{0, rls.RateLimitResponse_RateLimit_HOUR, 1, time.Hour, strings.Contains(text, "SHADOW")}, last, text)
		assert.True(t, rule.Closes(), text)
	}
}

// check and the log tell of what is no mistake but limits nobody, or the wrong ones.
func TestDoubtsAreTold(t *testing.T) {
	t.Parallel()
	const rule = "descriptors: [{key: a, limits: [RATE 5/s]}]\n"
	for text, want := range map[string][]string{
		rule: nil,
		"routes:\n- match: /\n  descriptors: [[{key: b}]]\n" + rule:                                                                 {"0.yaml:4:17: no rule below descriptors is for this descriptor, so it limits nothing"},
		"routes:\n- match: /\n  descriptors: [[{key: a, value: \"{path}\"}, {key: b}]]\n" + rule:                                    {"0.yaml:4:17: no rule below descriptors is for this descriptor, so it limits nothing"},
		"routes:\n- match: /\n  descriptors: [[{key: a, value: \"{path}\"}]]\n" + rule:                                              nil,
		"routes:\n- match: /\n  descriptors: [[{key: a, value: \"{client}\"}]]\n" + rule:                                            {"0.yaml:3:1: {client} is the address of the proxy that asks, the same for all clients: name it in trusted_proxies"},
		"trusted_proxies: []\nroutes:\n- match: /\n  descriptors: [[{key: a, value: \"{client}\"}]]\n" + rule:                       nil,
		"trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]\n" + rule:                                                                         {"0.yaml:2:18: 0.0.0.0/0 holds clients, too, and each of them chooses by X-Forwarded-For whom it is taken for. Name the networks of your proxies"},
		"trusted_proxies: [\"::ffff:0:0/96\"]\n" + rule:                                                                             {"0.yaml:2:18: ::ffff:0.0.0.0/96 holds clients, too, and each of them chooses by X-Forwarded-For whom it is taken for. Name the networks of your proxies"},
		"trusted_proxies: [128.0.0.0/1]\n" + rule:                                                                                   {"0.yaml:2:18: 128.0.0.0/1 holds clients, too, and each of them chooses by X-Forwarded-For whom it is taken for. Name the networks of your proxies"},
		"trusted_proxies: [\"2000::/3\"]\n" + rule:                                                                                  {"0.yaml:2:18: 2000::/3 holds clients, too, and each of them chooses by X-Forwarded-For whom it is taken for. Name the networks of your proxies"},
		"trusted_proxies: [10.0.0.0/8, \"fc00::/7\", \"::ffff:10.0.0.0/104\"]\n" + rule:                                             nil,
		"routes:\n- match: post /\n  descriptors: [[{key: a}]]\n" + rule:                                                            {"0.yaml:3:10: no request has the method post: methods are in capital letters"},
		"routes:\n- match: /\n  descriptors: [[{key: w, value: axb}]]\ndescriptors: [{key: w, value: 'a*b', limits: [RATE 5/s]}]\n": nil,
	} {
		c, err := load(t, false, "domain: d\n"+text)
		require.NoError(t, err, text)
		for i := range c.Doubts {
			_, c.Doubts[i], _ = strings.Cut(c.Doubts[i], "/0.yaml")
			c.Doubts[i] = "0.yaml" + c.Doubts[i]
		}
		assert.Equal(t, want, c.Doubts, text)
	}
}

// A file whose descriptors or routes limit nothing is hardly what its author wanted. Where one of them does, the others
// are exceptions.
func TestFilesThatLimitNothingAreDoubted(t *testing.T) {
	t.Parallel()
	const limited = "descriptors: [{key: a, descriptors: [{key: b}, {key: c, limits: [RATE 5/s]}]}]\n"
	for text, want := range map[string]string{
		limited: "",
		"descriptors: [{key: a, rate_limit: {unlimited: true}}]\n": "",
		"":                          "has no descriptors",
		"descriptors: []":           "has no descriptors",
		"descriptors: [{key: a}]\n": "none of its descriptors has limits or rate_limit",
		"descriptors: [{key: a}, {key: 'b*', descriptors: [{key: c}]}]\n": "none of its descriptors has limits or rate_limit",
		"descriptors: [{key: a, rate_limit: }]\n":                         "none of its descriptors has limits or rate_limit",
		"routes: []\n" + limited:                                          "an empty list of routes",
	} {
		c, err := load(t, false, "domain: d\n"+text)
		require.NoError(t, err, text)
		assert.Equal(t, want == "", len(c.Doubts) == 0, text)
		assert.Contains(t, strings.Join(c.Doubts, "\n"), want, text)
	}
}

// What a browser asks first is not charged, unless a route names OPTIONS, lets nobody through, or the file says so.
// Nothing else is free.
func TestPreflightsAreNotCharged(t *testing.T) {
	t.Parallel()
	const file = `routes:
- {match: /, descriptors: [[{key: all}], [{key: address, value: "{client}"}]]}
- {match: OPTIONS /named, descriptors: [[{key: all}]]}
- {match: /free, descriptors: [[{key: unknown}]]}
descriptors: [{key: all, limits: [RATE 5/s]}, {key: address, value: 192.0.2.1, limits: [RATE 0/s]}]
`
	by, charging := domain(t, file), domain(t, file+"preflights: true\n")
	charged := func(d *Domain, r *http.Request) (n int) {
		for _, route := range d.Routes.Of(r) {
			for _, entries := range route.Descriptors(r) {
				if rule := d.Match(entries).Rule; rule != nil && !d.Routes.Frees(r, route, rule) {
					n++
				}
			}
		}
		return n
	}
	for text, want := range map[string]int{
		"OPTIONS / both": 0, "OPTIONS /x both": 0, "OPTIONS /named both": 1, "OPTIONS /free both": 0, "OPTIONS /blocked both": 1,
		"OPTIONS / origin": 1, "OPTIONS / method": 1, "OPTIONS / none": 1, "GET / both": 1, "POST /x both": 1, "options / both": 1, "HEAD / both": 1,
	} {
		words := strings.Fields(text)
		r := httptest.NewRequest(words[0], "http://h"+words[1], nil)
		if words[2] == "both" || words[2] == "origin" {
			r.Header.Set("Origin", "https://example.com")
		}
		if words[2] == "both" || words[2] == "method" {
			r.Header.Set("Access-Control-Request-Method", "POST")
		}
		r.RemoteAddr = "192.0.2.2:1"
		if words[1] == "/blocked" {
			r.RemoteAddr = "192.0.2.1:1"
		}
		assert.Equal(t, want, charged(by, r), text)
		assert.Positive(t, charged(charging, r)+strings.Count(text, "/free"), text)
	}
}

// Services read more paths than one as the same. A loose route is for all of them, and a route to a limit of no
// requests is loose by itself.
func TestLooseRoutesAreForOtherWritingsOfThePath(t *testing.T) {
	t.Parallel()
	d := domain(t, `
routes:
- {match: POST /login, loose: true, descriptors: [[{key: login}]]}
- {match: /Files/, loose: true, descriptors: [[{key: files}]]}
- {match: /admin, descriptors: [[{key: closed}]]}
- {match: /plain, descriptors: [[{key: login}]]}
- {match: /exact, loose: false, descriptors: [[{key: closed}]]}
descriptors:
- {key: login, limits: [RATE 5/s]}
- {key: files, limits: [RATE 5/s]}
- {key: closed, limits: [RATE 0/s]}
`)
	for target, want := range map[string]string{
		"POST /login": "login", "POST /login/": "login", "POST /LOGIN": "login", "POST /login;a=b": "login", "POST /login%00": "login", "POST /x/..;/login": "login",
		"POST /login%00.png": "login", "POST //Login;x/": "login", `POST /%5clogin`: "login", "POST /login%3Ba": "login", "GET /LOGIN": "", "POST /login/x": "", "POST /logins": "",
		"GET /Files/a": "files", "GET /files/a": "files", "GET /FILES": "files", "GET /filesx": "",
		"post /login": "login", "Post /LOGIN": "login", "get /plain": "login",
		"GET /ADMIN/": "closed", "GET /admin;jsessionid=1": "closed", "GET /PLAIN": "", "GET /plain": "login", "GET /EXACT": "", "GET /exact": "closed",
	} {
		method, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequest(method, "http://h"+path, nil)
		assert.Equal(t, want, keyOf(d.routed(r)), target)
	}
}

// A # is no part of a path for many services, and a part of it for others: both count. Nor is a host another one in
// capital letters.
func TestRoutesAreFoundWhateverStandsBehindThePathOrInTheHost(t *testing.T) {
	t.Parallel()
	d := domain(t, `
routes:
- {match: /login, descriptors: [[{key: login}]]}
- {match: /pay/now, loose: true, descriptors: [[{key: pay}]]}
- {match: GET Api.example/x, descriptors: [[{key: api}]]}
- {match: Big.example/Y, loose: true, descriptors: [[{key: big}]]}
descriptors:
- {key: login, limits: [RATE 5/s]}
- {key: pay, limits: [RATE 5/s]}
- {key: api, limits: [RATE 5/s]}
- {key: big, limits: [RATE 5/s]}
`)
	for request, want := range map[string]string{
		"h /login#x": "login", "h /login#": "login", "h /%6cogin#?x": "login", "h /login#%zz": "login", "h /%zz/../login#x": "login", "h /login%23x": "", "h /#/login": "",
		"h /free#/../login": "login", "h /free/#/../../login": "login", "h /PAY/now/#x": "pay",
		"api.example /x": "api", "API.example:443 /x": "api", "Api.Example. /x": "api", "api.example.org /x": "", "BIG.example /y/": "big", "big.example:1 /Y": "big",
	} {
		host, target, _ := strings.Cut(request, " ")
		r := &http.Request{Method: "GET", Host: host, URL: Target(target)}
		assert.Equal(t, want, keyOf(d.routed(r)), request)
	}
	_, err := load(t, false, "domain: d\nroutes:\n- {match: /x/, descriptors: [[{key: a}]]}\n- {match: \"/{a}/y\", descriptors: [[{key: a}]]}\n")
	assert.ErrorContains(t, err, `pattern "/{a}/y" conflicts with pattern "/x/"`)
	assert.NotContains(t, err.Error(), "registered at")
}
