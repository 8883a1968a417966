package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file of some lines whose aliases stand for millions of descriptors is refused before these take memory.
func TestAliasesThatMultiplyAreRefused(t *testing.T) {
	t.Parallel()
	leaf := "{key: a, rate_limit: {unit: second, requests_per_unit: 1}}, {key: b, rate_limit: {unit: second, requests_per_unit: 1}}"
	text := "domain: a\ndescriptors:\n  - {key: z0, descriptors: &l0 [" + leaf + "]}\n"
	for i := range 24 {
		text += fmt.Sprintf("  - {key: z%d, descriptors: &l%d [{key: a, descriptors: *l%d}, {key: b, descriptors: *l%d}]}\n", i+1, i+1, i, i)
	}
	_, err := load(t, false, text)
	require.ErrorContains(t, err, "aliases that stand for more than")
	many := "domain: b\ndescriptors:\n" // what is written out is not bounded so
	for i := range mostRepeated + 1 {
		many += fmt.Sprintf("- {key: k%d}\n", i)
	}
	_, err = load(t, false, many)
	assert.NoError(t, err)
}

// What "<<" brings is read to its end, or refused: a limit that comes by many of them is not left out.
func TestMappingsThatMergeForeverAreRefused(t *testing.T) {
	t.Parallel()
	chain := func(length int) string {
		text := "domain: a\ndescriptors:\n- &m0 {key: m0, limits: [RATE 5/s]}\n"
		for i := range length {
			text += fmt.Sprintf("- &m%d {<<: *m%d, key: m%d}\n", i+1, i, i+1)
		}
		return text
	}
	c, err := load(t, false, chain(mostMerged))
	require.NoError(t, err)
	assert.NotNil(t, c.Domains["a"].Match(entries(fmt.Sprintf("m%d=x", mostMerged))).Rule)
	_, err = load(t, false, chain(mostMerged+1))
	require.ErrorContains(t, err, `"<<" brings more than 100`)
	_, err = load(t, false, "domain: a\ndescriptors:\n- &m {key: a, <<: *m, limits: [RATE 5/s]}\n")
	assert.ErrorContains(t, err, `"<<" brings more than 100`)
}

// Servers and frameworks take these for a path, too.
func TestLooseRoutesAreForEveryWritingThatServicesTake(t *testing.T) {
	t.Parallel()
	d := domain(t, "routes:\n- {match: GET /login, loose: true, descriptors: [[{key: login}]]}\n"+
		"- {match: /login/help, loose: true, descriptors: [[{key: help}]]}\ndescriptors:\n- {key: login, limits: [RATE 5/s]}\n- {key: help, limits: [RATE 5/s]}\n")
	for target, want := range map[string]string{
		"/login%01": "login", "/%7flogin": "login", "/login%c2%a0": "login", "/login%e3%80%80": "login", "/login%ef%bb%bf": "login",
		"/login%3fx": "login", "/login%23": "login", "/log%C4%B1n": "login", "/LOGİN": "login", "/login%e9": "",
		"/login%09": "login", "/login%0a": "login", "/login%0d%0a": "login", "/login%20": "login", "/login.": "login", "/login.%20.": "login",
		"/login..;/": "login", "/x/..;/login": "login", "/login%3bx=y": "login", "/%6c%6fgin": "login", "/%256cogin": "login", "/%25256cogin": "login",
		"/x%252f..%252flogin": "login", "/login%2500": "login", "/%20login": "login", "/login/%2e%20": "login", "/login/help.": "help", "/LOGIN%09/help": "help",
		"/login2": "", "/log in": "", "/logi.n": "", "/x/login": "", "/login..x": "",
	} {
		for _, method := range []string{"GET", "HEAD", "get"} {
			r := &http.Request{Method: method, Host: "h", URL: Target(target)}
			assert.Equal(t, want, keyOf(d.routed(r)), "%s %s", method, target)
		}
	}
}

// GET is HEAD, too, in each form of a route: whoever asks by HEAD spends what GET spends.
func TestGETImpliesHEAD(t *testing.T) {
	t.Parallel()
	d := domain(t, "routes:\n- {match: GET /a, descriptors: [[{key: a}]]}\n- {match: GET h/b/, loose: true, descriptors: [[{key: b}]]}\n"+
		"- {match: GET /c, descriptors: [[{key: a}]]}\n- {match: HEAD /c, descriptors: [[{key: b}]]}\n"+
		"descriptors:\n- {key: a, limits: [RATE 5/s]}\n- {key: b, limits: [RATE 5/s]}\n")
	for target, want := range map[string]string{"/a": "a", "/b/x": "b", "/B/x": "b", "/c": "b"} {
		assert.Equal(t, want, keyOf(d.routed(&http.Request{Method: "HEAD", Host: "h", URL: Target(target)})), target)
	}
}

// Target keeps the path of a URL that cannot be parsed, also behind a scheme and a host.
func TestTargetsHaveTheirPath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/a?b": "/a", "http://h/a": "/a", "http://h/a/%zz": "/a/%zz", "http://h/%zz/a?x=/b": "/%zz/a", "/x://h/%zz": "/x://h/%zz", "http://h?%zz": "/", "*": "*",
	} {
		path := Target(text).Path
		assert.Equal(t, want, strings.Replace(path, "", "", 1)+map[bool]string{true: "/"}[path == ""], text)
	}
}

// The ban of a rule is written as CL.LIMIT has it.
func TestARuleBans(t *testing.T) {
	t.Parallel()
	rule := func(limits string) (*Rule, error) {
		c, err := load(t, false, "domain: d\ndescriptors:\n- key: login\n  limits: ["+limits+"]\n")
		if err != nil {
			return nil, err
		}
		return c.Domains["d"].Match([]Entry{{Key: "login", Value: "x"}}).Rule, nil
	}
	for limits, want := range map[string]Rule{
		"RATE 5/m BAN 1h":                             {Ban: time.Hour},
		"RATE 5/m ban 1.5m after 10/1h":               {Ban: 90 * time.Second, BanAfter: "10/1h"},
		"RATE 5/m NAME ban":                           {},
		"RATE 5/m NAME ban UNIT after BAN 1h":         {Ban: time.Hour},
		"RATE 5/m, BAN 1h AFTER 10/1h":                {Ban: time.Hour, BanAfter: "10/1h"},
		"'RATE 5/m; FIXED 9/d BAN 1h'":                {Ban: time.Hour},
		"'RATE 5/m NAME \"a BAN 1h\" BAN 2d'":         {Ban: 48 * time.Hour},
		"RATE 5/m, FIXED 100/d BAN 15m AFTER 3/10m":   {Ban: 15 * time.Minute, BanAfter: "3/10m"},
		"RATE 5/m BAN 15m AFTER 3/10m, 'FIXED 100/d'": {Ban: 15 * time.Minute, BanAfter: "3/10m"},
	} {
		got, err := rule(limits)
		if assert.NoError(t, err, limits) {
			assert.Equal(t, want.Ban, got.Ban, limits)
			assert.Equal(t, want.BanAfter, got.BanAfter, limits)
		}
	}
	for limits, says := range map[string]string{
		"RATE 5/m BAN":                      "BAN takes a length of time",
		"RATE 5/m BAN 0s":                   "BAN takes a length of time",
		"RATE 5/m BAN 10":                   "10 needs a unit",
		"RATE 5/m BAN 36501d":               "BAN takes a length of time",
		"RATE 5/m BAN 1h AFTER":             "AFTER takes count/period",
		"RATE 5/m BAN 1h BURST 3":           "near 'BURST'",
		"RATE 5/m AFTER 3/1h":               "AFTER",
		"BAN 1h":                            "near 'BAN'",
		"RATE 5/m BAN 1h NAME x":            "directly behind a limit",
		"RATE 5/m NAME":                     "NAME needs a value",
		"'RATE 5/m BURST; 3'":               "near 'BURST'",
		"'RATE 5/m NAME \"x'":               "without an end",
		"RATE 5/m BAN 1h AFTER 0/1h":        "AFTER takes count/period",
		"RATE 5/m BAN 1h AFTER 10/1":        "1 needs a unit",
		"RATE 5/m BAN 1h, RATE 50/h BAN 2h": "near 'BAN': given twice",
		strings.Repeat("RATE 5/m, ", 7) + "RATE 5/m BAN 1h AFTER 10/1h": "near 'AFTER'",
	} {
		_, err := rule(limits)
		assert.ErrorContains(t, err, says, limits)
	}
}

// A word that is added to CL.LIMIT is one that a file may have, or its error names it. So is a kind of limit.
func TestEveryWordOfALimitIsKnownOrRefusedByItsName(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../spec/commands.json")
	require.NoError(t, err)
	type row struct {
		Word, Value string
		Own         []string
	}
	var table struct {
		Words    []row
		Commands []struct {
			Command                string
			Limits, Terms, Options []string
		}
	}
	require.NoError(t, json.Unmarshal(text, &table))
	values := map[string]string{
		"": "", "units": " 1", "quota": " 5/d", "calendar_quota": " 5/d", "capacity": " 9", "offset": " 1h", "zone": " UTC", "duration": " 1h", "denials": " 3/1h",
	}
	known := []string{"RATE", "WINDOW", "FIXED", "BURST", "FIRST", "OFFSET", "TZ", "SPARE", "SHADOW", "BAN"}
	seen := 0
	try := func(before, word string) (own []string) {
		t.Helper()
		at := slices.IndexFunc(table.Words, func(r row) bool { return r.Word == word })
		require.GreaterOrEqual(t, at, 0, word)
		value, ok := values[table.Words[at].Value]
		require.True(t, ok, "say here what follows %s", word)
		_, err := load(t, false, "domain: d\ndescriptors:\n- {key: a, limits: ["+before+word+value+"]}\n")
		if slices.Contains(known, word) {
			assert.NoError(t, err, word)
		} else {
			assert.ErrorContains(t, err, word)
		}
		seen++
		return table.Words[at].Own
	}
	for _, c := range table.Commands {
		if c.Command != "CL.LIMIT" {
			continue
		}
		for _, kind := range c.Limits {
			for _, own := range try("", kind) {
				try(kind+" 5/d ", own)
			}
		}
		for _, word := range append(c.Terms, c.Options...) {
			try("RATE 5/m ", word)
		}
	}
	assert.Greater(t, seen, len(known))
}

// Many routes to a level with many values are loaded in a time that a person waits for, and each knows what it leads
// to.
func TestThousandsOfRoutesLoadShortly(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("domain: d\nroutes:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "- {match: /p%d, descriptors: [[{key: user, value: \"{header:X-User}\"}]]}\n", i)
	}
	text.WriteString("- {match: /closed, descriptors: [[{key: closed, value: \"{path}\"}]]}\n- {match: /nothing, descriptors: [[{key: nothing}]]}\ndescriptors:\n- {key: closed, value: a, limits: [FIXED 1/d]}\n- {key: closed, value: b, limits: [FIXED 0/d]}\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "- {key: user, value: \"u%d*\", limits: [RATE 5/s]}\n", i)
	}
	c, err := load(t, false, text.String())
	require.NoError(t, err)
	began := time.Now()
	routes := c.Domains["d"].Routes
	routes.loose = newPatterns()
	doubts, err := routes.finish(c.Domains["d"].root)
	require.NoError(t, err)
	assert.Less(t, time.Since(began), 5*time.Second, "each route looked through all values")
	require.Len(t, doubts, 1)
	assert.Contains(t, doubts[0], "no rule below descriptors is for this descriptor")
	for _, route := range routes.all {
		assert.Equal(t, route.pattern == "/closed", route.loose, route.pattern)
	}
}
