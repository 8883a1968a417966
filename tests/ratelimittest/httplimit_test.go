package ratelimittest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/ratelimittest"
)

// serve has a handler serve a request with header fields, given as names and values.
func serve(handler http.Handler, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

var empty = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func TestWhoIsLimitedAndWhatARequestCosts(t *testing.T) {
	t.Parallel()
	handler := httplimit.New(ratelimittest.New(t), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(10, day)}, Key: keyby.Header("User"),
		Cost: func(r *http.Request) int64 {
			n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
			return n
		},
		PartitionKey: func(r *http.Request) []byte { return []byte(r.Header.Get("Partition")) },
		Denied: func(w http.ResponseWriter, _ *http.Request, result ratelimit.Result) {
			assert.True(t, result.Limited)
			http.Error(w, "come back later", http.StatusServiceUnavailable)
		},
	})(empty)
	for i, step := range []struct {
		user, cost, partition string
		status                int
		retryAfter            bool
	}{
		{"ann", "8", "", 200, false}, {"ann", "3", "", 503, true}, {"ann", "2", "", 200, false}, {"ann", "1", "", 503, true}, {"ann", "0", "", 200, false},
		{"ann", "11", "", 503, false}, // more than the limit holds: no time to come back at
		{"bob", "10", "bob", 200, false}, {"bob", "1", "bob", 503, true},
		{"", "11", "", 200, false}, // nobody
	} {
		w := serve(handler, "User", step.user, "Cost", step.cost, "Partition", step.partition)
		assert.Equal(t, step.status, w.Code, i)
		assert.Equal(t, step.status == 503, w.Body.String() == "come back later\n", i)
		assert.Equal(t, step.retryAfter, w.Header().Get("Retry-After") != "", i)
		for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
			text := w.Header().Get(field)
			assert.Equal(t, step.user == "", text == "", i)
			assert.Equal(t, step.partition == "bob", strings.Contains(text, ";pk=:Ym9i:"), i)
		}
	}
}

// A request that counts for a user and an organisation is one call on two keys.
func TestMiddlewareOnSeveralKeys(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	handler := httplimit.New(l, httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(2, day).Named("user")}, Key: keyby.Prefixed("{acme}:", keyby.Header("User")),
		And: []httplimit.Part{{Limits: ratelimit.Limits{ratelimit.Rate(3, day).Named("acme")}, Key: func(*http.Request) string { return "{acme}" }}},
	})(empty)
	for i, c := range []struct {
		user   string
		status int
		limit  string
	}{
		{"ann", 200, `"user";r=1`}, {"ann", 200, `"user";r=0`}, {"ann", 429, `"user";r=0`}, {"bob", 200, `"acme";r=0`}, {"bob", 429, `"acme";r=0`},
		{"", 429, `"acme";r=0`},
	} {
		w := serve(handler, "User", c.user)
		assert.Equal(t, c.status, w.Code, i)
		assert.Contains(t, w.Header().Get("RateLimit"), c.limit, i)
	}
	left, err := l.Peek(t.Context(), "{acme}:bob", ratelimit.Limits{ratelimit.Rate(2, day)}, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 1, left.Remaining, "all or nothing")
}

// A middleware inside of another adds its fields to those of the outer one. It leaves the path values to the handler.
func TestMiddlewareInsideOfAnother(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	options := func(policy string, o httplimit.Options) httplimit.Options {
		o.Key = func(*http.Request) string { return policy }
		o.XRateLimit = httplimit.XRateLimitSeconds
		return o
	}
	outer := httplimit.New(l, options("address", httplimit.Options{Limits: ratelimit.Limits{ratelimit.Rate(6, day).Named("address")}}))
	inner := httplimit.New(l, options("order", httplimit.Options{
		Routes: []httplimit.Route{{Pattern: "/orders/{id}", Limits: ratelimit.Limits{ratelimit.Rate(1, day).Named("orders")}}},
	}))
	mux := http.NewServeMux()
	mux.HandleFunc("/orders/{number}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.PathValue("number")+r.PathValue("id"))
	})
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		outer(inner(mux)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/17", nil))
		assert.Equal(t, status, w.Code)
		assert.Equal(t, status == http.StatusOK, w.Body.String() == "17", w.Body)
		assert.Equal(t, []string{`"address";q=6;w=86400`, `"orders";q=1;w=86400`}, w.Header().Values("RateLimit-Policy"))
		assert.Len(t, w.Header().Values("RateLimit"), 2)
		assert.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"), "that of the limit with fewer units left")
	}
}

// At most two requests of a tenant at a time. A response does not wait until its slot is given back.
func TestAResponseDoesNotWaitForItsSlotToBeGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimittest.New(t)
		end := make(chan struct{})
		handler := httplimit.NewConcurrency(l, httplimit.ConcurrencyOptions{
			Slots: 2, Key: keyby.Header("Tenant"), Failures: httplimit.Failures{OnError: func(_ *http.Request, err error) { t.Error(err) }},
		})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
		answers := make(chan *httptest.ResponseRecorder, 6)
		for _, tenant := range []string{"7", "7", "7", "8", "", ""} {
			go func() { answers <- serve(handler, "Tenant", tenant) }()
		}
		synctest.Wait()
		require.Len(t, answers, 1)
		denied := <-answers
		assert.Equal(t, http.StatusTooManyRequests, denied.Code)
		assert.Equal(t, "1", denied.Header().Get("Retry-After"))
		l.Hang()
		close(end)
		for range 5 {
			assert.Equal(t, http.StatusOK, (<-answers).Code)
		}
		l.Heal()
		synctest.Wait()
		for _, tenant := range []string{"7", "8"} {
			held, err := leases.List(t.Context(), l, tenant, 1)
			require.NoError(t, err)
			assert.Zero(t, held.Held)
		}
	})
}

// sender counts the requests that are sent.
type sender struct{ sent int }

func (s *sender) RoundTrip(*http.Request) (*http.Response, error) {
	s.sent++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// closing says when a body was closed.
type closing struct {
	io.Reader
	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

func TestRequestsToAPartnerKeepToItsLimit(t *testing.T) {
	t.Parallel()
	partner := &sender{}
	client := &http.Client{Transport: httplimit.NewTransport(ratelimittest.New(t), httplimit.TransportOptions{
		Limits: ratelimit.Limits{ratelimit.Fixed(5, 365*day)}, Next: partner,
		Key: func(r *http.Request) string {
			if r.URL.Path == "/free" {
				return ""
			}
			return "partner"
		},
		Cost: func(r *http.Request) int64 { return r.ContentLength },
	})}
	for _, step := range []struct {
		path, body string
		limited    bool
	}{{"/", "ab", false}, {"/", "cde", false}, {"/", "f", true}, {"/free", "abcdef", false}} {
		closed := false
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://partner"+step.path, closing{strings.NewReader(step.body), &closed})
		require.NoError(t, err)
		r.ContentLength = int64(len(step.body))
		response, err := client.Do(r)
		if !step.limited {
			require.NoError(t, err)
			response.Body.Close()
			continue
		}
		var limited *ratelimit.LimitedError
		require.ErrorAs(t, err, &limited)
		assert.Positive(t, limited.RetryAfter)
		assert.True(t, closed, "the body of a request that is not sent")
	}
	assert.Equal(t, 3, partner.sent)
}

func TestRequestsToAPartnerWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	const every = 200 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		partner := &sender{}
		transport := httplimit.NewTransport(ratelimittest.New(t), httplimit.TransportOptions{
			Limits: ratelimit.Limits{ratelimit.Rate(1, every)}, Key: func(*http.Request) string { return "partner" }, MaxWait: ratelimit.Forever, Next: partner,
		})
		ask := func(ctx context.Context) error {
			response, err := transport.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			if err == nil {
				response.Body.Close()
			}
			return err
		}
		began := time.Now()
		for range 4 {
			require.NoError(t, ask(t.Context()))
		}
		assert.Equal(t, 3*every, time.Since(began))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, ask(ctx), context.Canceled)
		ctx, cancel = context.WithTimeout(t.Context(), every/20)
		defer cancel()
		require.ErrorIs(t, ask(ctx), ratelimit.ErrLimited, "its turn comes later")
		assert.Equal(t, 4, partner.sent)
	})
}
