package ratelimittest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/ratelimittest"
)

// statuses sends requests, each twice, to a handler behind a limit of one a day.
func statuses(t *testing.T, o httplimit.Options, method string, header http.Header) (all []int) {
	t.Helper()
	if o.Limits == nil {
		o.Limits = ratelimit.Limits{ratelimit.Rate(1, 24*time.Hour)}
	}
	o.Key = func(*http.Request) string { return "k" }
	handler := httplimit.New(ratelimittest.New(t), o)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 2 {
		r := httptest.NewRequest(method, "/", nil)
		r.Header = header.Clone()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		all = append(all, w.Code)
	}
	return all
}

func TestPreflightsAreNotCharged(t *testing.T) {
	t.Parallel()
	preflight := http.Header{"Origin": {"https://example.com"}, "Access-Control-Request-Method": {"POST"}}
	charged, free := []int{200, 429}, []int{200, 200}
	assert.Equal(t, free, statuses(t, httplimit.Options{}, http.MethodOptions, preflight))
	assert.Equal(t, charged, statuses(t, httplimit.Options{Preflights: true}, http.MethodOptions, preflight), "if that is wanted")
	assert.Equal(t, charged, statuses(t, httplimit.Options{}, http.MethodOptions, http.Header{"Origin": {"https://example.com"}}), "an OPTIONS that is none")
	assert.Equal(t, charged, statuses(t, httplimit.Options{}, http.MethodPost, preflight), "the request itself")
}

func TestALimitForGetIsForHead(t *testing.T) {
	t.Parallel()
	routes := []httplimit.Route{{Pattern: "GET /", Limits: ratelimit.Limits{ratelimit.Rate(1, 24*time.Hour)}}}
	o := httplimit.Options{Routes: routes, Limits: ratelimit.Limits{ratelimit.Rate(1000, time.Second)}}
	assert.Equal(t, []int{200, 429}, statuses(t, o, http.MethodHead, http.Header{}))
}
