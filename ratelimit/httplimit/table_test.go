package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

// tableLimit is a limit of spec/clients/fields.json.
type tableLimit struct {
	Kind, Period, Name, Unit string
	Count                    int64
	Burst                    *int64
	Shadow                   bool
}

// tableResult is a result of it.
type tableResult struct {
	Limited, Banned           bool
	Rule                      int
	Limit, Remaining, Granted int64
	RetryAfter                int64 `json:"retry_after_ms"`
	ResetAfter                int64 `json:"reset_after_ms"`
	NextAfter                 int64 `json:"next_after_ms"`
	Shadow                    *int
}

func limitsOf(t *testing.T, all []tableLimit) (limits ratelimit.Limits) {
	t.Helper()
	for _, l := range all {
		period := day
		if l.Period != "1d" {
			var err error
			period, err = time.ParseDuration(l.Period)
			require.NoError(t, err)
		}
		kind, known := map[string]func(int64, time.Duration) ratelimit.Limit{
			"RATE": ratelimit.Rate, "WINDOW": ratelimit.Window, "FIXED": ratelimit.Fixed,
		}[l.Kind]
		require.True(t, known, l.Kind)
		limit := kind(l.Count, period).Named(l.Name).Unit(l.Unit)
		if l.Burst != nil {
			limit = limit.Burst(*l.Burst)
		}
		if l.Shadow {
			limit = limit.Shadow()
		}
		limits = append(limits, limit)
	}
	return limits
}

func (r tableResult) result() ratelimit.Result {
	ms := func(n int64) time.Duration {
		if n < 0 {
			return ratelimit.Never
		}
		return time.Duration(n) * time.Millisecond
	}
	result := ratelimit.Result{
		Limited: r.Limited, Banned: r.Banned, Rule: r.Rule, Limit: r.Limit, Remaining: r.Remaining, Granted: r.Granted,
		RetryAfter: ms(r.RetryAfter), ResetAfter: ms(r.ResetAfter), NextAfter: ms(r.NextAfter), By: "server",
	}
	if r.Shadow != nil {
		result.Shadowed, result.Shadow = true, *r.Shadow
	}
	return result
}

// The fields of a response are those of every language, and limits that no field can carry are found when the program
// starts.
func TestFieldsInAllLanguages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../spec/clients/fields.json")
	require.NoError(t, err)
	var table struct {
		Cases []struct {
			Rule   string
			Limits []tableLimit
			Result tableResult
			Fields map[string]string
		}
		Together []struct {
			Rule  string
			Taken []string
			Keys  [][]tableLimit
			Names [][]string
		}
		Refused []struct {
			Why    string
			Limits []tableLimit
		}
	}
	require.NoError(t, json.Unmarshal(text, &table))
	require.NotEmpty(t, table.Cases)
	require.NotEmpty(t, table.Refused)
	key := func(*http.Request) string { return "k" }
	for _, c := range table.Cases {
		for _, form := range []httplimit.XRateLimit{httplimit.NoXRateLimit, httplimit.XRateLimitSeconds} {
			m := httplimit.New(deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) { return c.Result.result(), nil }),
				httplimit.Options{Limits: limitsOf(t, c.Limits), Key: key, XRateLimit: form})
			w := httptest.NewRecorder()
			m(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			want, got := map[string]string{}, map[string]string{}
			for name, value := range c.Fields {
				if form != httplimit.NoXRateLimit || !strings.HasPrefix(name, "X-RateLimit") {
					want[http.CanonicalHeaderKey(name)] = value
				}
			}
			for name := range w.Header() {
				if !strings.HasPrefix(name, "Content-") { // of a denied request
					got[name] = w.Header().Get(name)
				}
			}
			assert.Equal(t, want, got, c.Rule)
		}
	}
	require.NotEmpty(t, table.Together)
	for _, c := range table.Together {
		result := ratelimit.Result{Limited: true, By: "server"}
		all := []*httplimit.Policies{}
		for _, limits := range c.Keys {
			p, err := httplimit.NewPolicies(limitsOf(t, limits))
			require.NoError(t, err)
			all = append(all, p)
		}
		w, h := httptest.NewRecorder(), http.Header{}
		for _, name := range c.Taken { // by an outer middleware
			h.Add("RateLimit-Policy", `"`+name+`";q=1;w=1`)
			w.Header().Add("RateLimit-Policy", `"`+name+`";q=1;w=1`)
		}
		httplimit.SetFields(h, all, result)
		if len(c.Keys) == 1 { // a middleware refuses several that have one name
			m := httplimit.New(deciderFunc(func(string, ratelimit.Limits) (ratelimit.Result, error) { return result, nil }),
				httplimit.Options{Limits: limitsOf(t, c.Keys[0]), Key: key})
			m(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			assert.Contains(t, w.Body.String(), `"violated-policies":["`+c.Names[0][0]+`"]`, c.Rule)
			assert.Equal(t, h.Values("RateLimit-Policy"), w.Header().Values("RateLimit-Policy"), c.Rule)
			assert.Equal(t, h.Values("RateLimit"), w.Header().Values("RateLimit"), c.Rule)
		}
		var want, got []string
		for _, names := range append([][]string{c.Taken}, c.Names...) {
			want = append(want, names...)
		}
		for _, value := range h.Values("RateLimit-Policy") {
			for _, item := range strings.Split(value, ", ") {
				name, _, _ := strings.Cut(item, ";")
				got = append(got, strings.Trim(name, `"`))
			}
		}
		assert.Equal(t, want, got, c.Rule)
		assert.Equal(t, `"`+c.Names[0][0]+`";r=0`, h.Get("RateLimit"), c.Rule)
	}
	for _, c := range table.Refused {
		limits := limitsOf(t, c.Limits)
		assert.Panics(t, func() { httplimit.New(allows{}, httplimit.Options{Limits: limits, Key: key}) }, c.Why)
	}
}

// What becomes of a request that could not be decided is the same in every language.
func TestUndecidedInAllLanguages(t *testing.T) {
	t.Parallel()
	var table struct {
		Defaults map[string]string
		Answers  map[string]struct {
			Served     bool
			Status     int
			RetryAfter string `json:"retry_after"`
		}
	}
	text, err := os.ReadFile("../../spec/clients/undecided.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &table))
	words := map[string]httplimit.Answer{"allow": httplimit.Allow, "deny": httplimit.Deny, "raise": httplimit.Raise}
	errs := map[string]error{"outage": io.EOF, "overload": redis.ErrPoolTimeout, "mistake": errors.New("a mistake")}
	for kind, err := range errs {
		answers := map[httplimit.Answer]string{httplimit.Usual: table.Defaults[kind]}
		for word := range table.Answers {
			answers[words[word]] = word
		}
		for answer, word := range answers {
			failures := httplimit.Failures{OnError: func(*http.Request, error) {}}
			*map[string]*httplimit.Answer{"outage": &failures.Outage, "overload": &failures.Overload, "mistake": &failures.Mistake}[kind] = answer
			served := false
			next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })
			limits, key := ratelimit.Limits{ratelimit.Rate(1, time.Second)}, func(*http.Request) string { return "k" }
			want := table.Answers[word]
			for _, middleware := range []func(http.Handler) http.Handler{
				httplimit.New(failing{err}, httplimit.Options{Limits: limits, Key: key, Failures: failures}),
				httplimit.NewConcurrency(failing{err}, httplimit.ConcurrencyOptions{Slots: 1, Key: key, Failures: failures}),
			} {
				served = false
				w := httptest.NewRecorder()
				middleware(next).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				assert.Equal(t, want.Status, w.Code, "%s: %s", kind, word)
				assert.Equal(t, want.Served, served, "%s: %s", kind, word)
				assert.Equal(t, want.RetryAfter, w.Header().Get("Retry-After"), "%s: %s", kind, word)
			}
			transport := httplimit.NewTransport(failing{err}, httplimit.TransportOptions{Limits: limits, Key: key, Failures: failures, Next: sent{}})
			_, failed := transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil)) //nolint:bodyclose // there is none
			if want.Served {
				assert.NoError(t, failed, "%s: %s", kind, word)
			} else {
				assert.ErrorIs(t, failed, err, "%s: %s", kind, word)
			}
		}
	}
}

// sent answers a request that is sent.
type sent struct{}

func (sent) RoundTrip(*http.Request) (*http.Response, error) { return &http.Response{}, nil }

// failing decides nothing.
type failing struct{ err error }

func (f failing) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{}, f.err
}
