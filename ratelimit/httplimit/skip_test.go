package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
)

// denying denies each call, and no request that is skipped gets so far.
type denying struct{}

func (denying) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{Limited: true}, nil
}

func TestRequestsFromNetworksAreNotLimited(t *testing.T) {
	t.Parallel()
	skip := keyby.From([]string{"10.0.0.0/8", "2001:db8::/32", "127.0.0.1"}, netip.MustParsePrefix("192.0.2.0/24"))
	all := func(*http.Request) string { return "all" }
	rate := ratelimit.Limits{ratelimit.Rate(1, day)}
	for name, limited := range map[string]func(http.Handler) http.Handler{
		"New": httplimit.New(denying{}, httplimit.Options{
			Limits: rate, Key: all, Skip: skip,
			Routes: []httplimit.Route{{Pattern: "/r", Limits: rate}},
			And:    []httplimit.Part{{Limits: ratelimit.Limits{ratelimit.Rate(2, day).Named("and")}, Key: all}},
		}),
		"NewConcurrency": httplimit.NewConcurrency(denying{}, httplimit.ConcurrencyOptions{Slots: 1, Key: all, Skip: skip}),
	} {
		handler := limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, c := range []struct {
			peer, forwarded string
			status          int
		}{
			{"10.2.3.4:1", "", 200},
			{"[::ffff:10.2.3.4]:1", "", 200},
			{"[2001:db8::1]:1", "", 200},
			{"127.0.0.1:1", "", 200},
			{"127.0.0.2:1", "", 429},
			{"192.0.2.1:1", "10.2.3.4", 200},
			{"192.0.2.1:1", "10.2.3.4, 203.0.113.7", 429},
			{"203.0.113.7:1", "10.2.3.4", 429},
			{"@", "", 429},
		} {
			for _, path := range []string{"/", "/r"} {
				r := httptest.NewRequest("GET", path, nil)
				r.RemoteAddr = c.peer
				if c.forwarded != "" {
					r.Header.Set("X-Forwarded-For", c.forwarded)
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				assert.Equal(t, c.status, w.Code, "%s %s %q", name, c.peer, c.forwarded)
			}
		}
	}
}
