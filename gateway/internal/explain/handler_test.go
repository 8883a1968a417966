package explain

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The debug address is for whoever is on this machine, and for whoever has the token. No page of another origin gets an
// answer, whatever name it has the address under.
func TestTheDebugAddressIsNotForEverybody(t *testing.T) {
	t.Parallel()
	e := explainer(t, files)
	const ask = `{"http": {"method": "POST", "target": "/login"}}`
	for name, c := range map[string]struct {
		local, host string
		headers     http.Header
		method      string
		body        string
		want        int
	}{
		"here":                        {want: 200},
		"by its name":                 {host: "localhost:6070", want: 200},
		"by IPv6":                     {local: "[::1]:6070", host: "[::1]:6070", want: 200},
		"a page of its own":           {headers: http.Header{"Origin": {"http://127.0.0.1:6070"}}, want: 200},
		"from elsewhere":              {local: "192.0.2.1:6070", host: "192.0.2.1:6070", want: 403},
		"from elsewhere, local host":  {local: "192.0.2.1:6070", want: 403},
		"from elsewhere, with token":  {local: "192.0.2.1:6070", host: "gateway", headers: http.Header{"X-Throttle-Explain": {"0123456789abcdef"}}, want: 200},
		"from elsewhere, wrong token": {local: "192.0.2.1:6070", headers: http.Header{"X-Throttle-Explain": {"0123456789abcdeg"}}, want: 403},
		"a name that leads here":      {host: "attacker.example", want: 403},
		"a page of another origin":    {headers: http.Header{"Origin": {"https://attacker.example"}}, want: 403},
		"a page of a file":            {headers: http.Header{"Origin": {"null"}}, want: 403},
		"a form":                      {headers: http.Header{"Content-Type": {"text/plain"}}, want: 405},
		"a query":                     {method: http.MethodGet, want: 405},
		"no request":                  {body: `{"http": {"target": "login"}}`, want: 400},
		"no JSON":                     {body: `{`, want: 400},
		"too much":                    {body: `{"http": {"target": "/` + strings.Repeat("a", longestBody) + `"}}`, want: 413},
	} {
		if c.method == "" {
			c.method = http.MethodPost
		}
		if c.body == "" {
			c.body = ask
		}
		if c.local == "" {
			c.local = "127.0.0.1:6070"
		}
		r := httptest.NewRequest(c.method, "/explain", strings.NewReader(c.body))
		r.Host = c.host
		if c.host == "" {
			r.Host = "127.0.0.1:6070"
		}
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		for name, values := range c.headers {
			r.Header[name] = values
		}
		at, err := net.ResolveTCPAddr("tcp", c.local)
		assert.NoError(t, err)
		w := httptest.NewRecorder()
		e.Handler(NewToken("0123456789abcdef")).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(at))))
		assert.Equal(t, c.want, w.Code, "%s: %s", name, w.Body)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"), name)
	}
}
