package console

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const token = "0123456789abcdef"

// asked is what a console answers to a request that came in at an address. Its Redis is nowhere.
func asked(t *testing.T, o Options, local, method, path, body string, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	mux := http.NewServeMux()
	New(client, o).Handle(mux)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = local
	for i := 0; i < len(fields); i += 2 {
		if r.Header.Set(fields[i], fields[i+1]); fields[i] == "Host" {
			r.Host = fields[i+1]
		}
	}
	at, err := net.ResolveTCPAddr("tcp", local)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at))))
	return w
}

var own = []string{"Content-Type", "application/json", "X-Throttle-Console", "1"}

func TestThePageRunsNothingButItsOwnFiles(t *testing.T) {
	for path, kind := range types {
		w := asked(t, Options{}, "127.0.0.1:6070", "GET", "/console"+path, "")
		require.Equal(t, 200, w.Code, path)
		assert.Equal(t, kind, w.Header().Get("Content-Type"))
		policy := w.Header().Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'")
		assert.Contains(t, policy, "frame-ancestors 'none'")
		assert.NotContains(t, policy, "unsafe")
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		for _, elsewhere := range []string{"https://", "//cdn", "innerHTML", "<style", " style=", "onclick=", "eval("} {
			assert.NotContains(t, w.Body.String(), elsewhere, path)
		}
	}
	assert.Equal(t, 404, asked(t, Options{}, "127.0.0.1:6070", "GET", "/console/guard.go", "").Code)
	assert.Equal(t, "/console/", asked(t, Options{}, "127.0.0.1:6070", "GET", "/", "").Header().Get("Location"))
}

func TestItIsServedUnderItsOwnNamesAlone(t *testing.T) {
	o := Options{Token: token, Hosts: []string{"limits.example"}}
	for _, c := range []struct {
		local, host string
		code        int
	}{
		{"127.0.0.1:6070", "127.0.0.1:6070", 200},
		{"127.0.0.1:6070", "localhost:6070", 200},
		{"127.0.0.1:6070", "LOCALHOST.", 200},
		{"[::1]:6070", "[::1]:6070", 200},
		{"127.0.0.1:6070", "limits.example", 200},
		{"10.0.0.5:6070", "10.0.0.5:6070", 200},
		{"10.0.0.5:6070", "limits.example:6070", 200},
		{"127.0.0.1:6070", "evil.example:6070", 403}, // whose name leads here
		{"127.0.0.1:6070", "localhost.evil.example", 403},
		{"127.0.0.1:6070", "10.0.0.5", 403},
		{"127.0.0.1:6070", "", 403},
	} {
		w := asked(t, o, c.local, "GET", "/console/", "", "Host", c.host)
		assert.Equal(t, c.code, w.Code, "%s at %s", c.host, c.local)
	}
}

func TestWithoutATokenItIsForThisMachineAlone(t *testing.T) {
	w := asked(t, Options{}, "10.0.0.5:6070", "GET", "/console/", "")
	assert.Equal(t, 403, w.Code)
	assert.Contains(t, w.Body.String(), "The console is off at this address")
	assert.Equal(t, 200, asked(t, Options{}, "127.0.0.1:6070", "GET", "/console/", "").Code)
}

func TestQuestionsOfOtherSitesAreRefused(t *testing.T) {
	for _, c := range []struct {
		why    string
		method string
		fields []string
		code   int
	}{
		{"the page", "POST", append(own, "Origin", "http://127.0.0.1:6070", "Sec-Fetch-Site", "same-origin"), 200},
		{"a program", "POST", own, 200},
		{"a link", "GET", own, 405},
		{"another site", "POST", append(own, "Origin", "https://evil.example"), 403},
		{"another port", "POST", append(own, "Origin", "http://127.0.0.1:6071"), 403},
		{"a page without an origin", "POST", append(own, "Origin", "null"), 403},
		{"another site, as the browser says", "POST", append(own, "Sec-Fetch-Site", "cross-site"), 403},
		{"another port, as the browser says", "POST", append(own, "Sec-Fetch-Site", "same-site"), 403},
		{"a form", "POST", []string{"Content-Type", "text/plain", "X-Throttle-Console", "1"}, 415},
		{"a request that needs no preflight", "POST", []string{"Content-Type", "application/json"}, 403},
	} {
		w := asked(t, Options{}, "127.0.0.1:6070", c.method, "/console/api/state", "{}", c.fields...)
		assert.Equal(t, c.code, w.Code, c.why)
		assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
	}
}

func TestActsNeedTheToken(t *testing.T) {
	with := func(token string) []string { return append(own, "Authorization", "Bearer "+token) }
	const body = `{"act": "nothing", "key": "a2V5"}`
	for _, c := range []struct {
		why    string
		o      Options
		local  string
		path   string
		fields []string
		code   int
	}{
		{"started without one", Options{}, "127.0.0.1:6070", "act", with(""), 403},
		{"none sent", Options{Token: token}, "127.0.0.1:6070", "act", own, 401},
		{"a wrong one", Options{Token: token}, "127.0.0.1:6070", "act", with("0123456789abcdeF"), 401},
		{"a part", Options{Token: token}, "127.0.0.1:6070", "act", with(token[:15]), 401},
		{"the right one", Options{Token: token}, "127.0.0.1:6070", "act", with(token), 422}, // Redis is nowhere
		{"reading here", Options{Token: token}, "127.0.0.1:6070", "state", own, 200},
		{"reading from elsewhere", Options{Token: token}, "10.0.0.5:6070", "state", own, 401},
		{"reading from elsewhere with it", Options{Token: token}, "10.0.0.5:6070", "state", with(token), 200},
	} {
		w := asked(t, c.o, c.local, "POST", "/console/api/"+c.path, body, c.fields...)
		assert.Equal(t, c.code, w.Code, "%s: %s", c.why, w.Body)
	}
	assert.Error(t, CheckToken("short"))
}

// The page of a Redis that was never reached has lists without rows.
func TestAnOutageFromTheBeginningIsAState(t *testing.T) {
	w := asked(t, Options{}, "127.0.0.1:6070", "POST", "/console/api/state", "{}", own...)
	assert.NotContains(t, w.Body.String(), "null")
	assert.Contains(t, w.Body.String(), "Redis cannot be read")
}

func TestABodyHasAnEnd(t *testing.T) {
	w := asked(t, Options{}, "127.0.0.1:6070", "POST", "/console/api/state", `{"filter": "`+strings.Repeat("x", longestBody)+`"}`, own...)
	assert.Equal(t, 400, w.Code)
}

// What turns text around, ends a line or is no text at all is escaped.
func TestKeysAreShownOnOneLine(t *testing.T) {
	for key, text := range map[string]string{
		"user:42":                   "user:42",
		`say "hi"`:                  `say "hi"`,
		"<b>&amp;":                  "<b>&amp;",
		"a\x00b\r\n\x1b[31m":        `a\x00b\r\n\x1b[31m`,
		"\xff\xfe":                  `\xff\xfe`,
		"a\u202egnp.exe":            `a\u202egnp.exe`,
		"zero\u200bwidth":           `zero\u200bwidth`,
		`back\slash`:                `back\\slash`,
		"日本 שלום":                   "日本 שלום",
		strings.Repeat("k", 10_000): strings.Repeat("k", shownKey) + "…",
	} {
		k := keyOf(key)
		assert.Equal(t, text, k.Text)
		assert.Equal(t, key, string(k.Raw))
	}
	assert.Empty(t, keyOfTop(strings.Repeat("k", topName)).Raw, "the rest of the key is not known")
}

// What is beside the console is read by programs, and by no page of another site.
func TestWhatIsBesideItIsNotForOtherSites(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, c := range []struct {
		local, host, origin string
		code                int
	}{
		{"127.0.0.1:6070", "127.0.0.1:6070", "", 200},
		{"127.0.0.1:6070", "localhost:6070", "http://localhost:6070", 200},
		{"127.0.0.1:6070", "[::1]:6070", "", 200},
		{"127.0.0.1:6070", "limits.example", "", 200},
		{"127.0.0.1:6070", "10.0.0.5:6070", "", 200}, // Prometheus asks a pod, and a sidecar passes it on
		{"127.0.0.1:6070", "", "", 200},              // HTTP/1.0
		{"10.0.0.5:6070", "gateway:6070", "", 200},
		{"127.0.0.1:6070", "evil.example:6070", "", 403},
		{"[::1]:6070", "evil.example", "", 403},
		{"127.0.0.1:6070", "10.0.0.5.evil.example", "", 403},
		{"127.0.0.1:6070", "evil.example", "http://evil.example", 403},
		{"127.0.0.1:6070", "127.0.0.1:6070", "http://evil.example", 403},
		{"10.0.0.5:6070", "10.0.0.5:6070", "null", 403},
	} {
		at, err := net.ResolveTCPAddr("tcp", c.local)
		require.NoError(t, err)
		r := httptest.NewRequest("GET", "/rlconfig", nil)
		if r.Host = c.host; c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		Guard(next, []string{"limits.example"}).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at))))
		assert.Equal(t, c.code, w.Code, "%+v", c)
	}
}
