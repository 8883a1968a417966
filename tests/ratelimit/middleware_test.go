package ratelimit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/ratelimittest"
)

// site is a web server behind a middleware; it says hello.
func site(t *testing.T, m func(http.Handler) http.Handler) *httptest.Server {
	t.Helper()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	s := httptest.NewServer(m(hello))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server, headers ...string) (response *http.Response, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err = s.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(b)
}

func everybody(*http.Request) string { return "everybody" }

func TestRequestsBeyondTheLimitAreAnswered429(t *testing.T) {
	t.Parallel()
	s := site(t, httplimit.New(ratelimittest.New(t), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(24, day).Burst(3)},
		Key:    everybody,
	}))
	for remaining := 2; remaining >= -1; remaining-- {
		response, body := get(t, s)
		assert.Equal(t, `"default";q=3;w=10800`, response.Header.Get("RateLimit-Policy"))
		assert.Equal(t, `"default";r=`+strconv.Itoa(max(remaining, 0))+";t=3600", response.Header.Get("RateLimit"))
		if remaining >= 0 {
			assert.Equal(t, http.StatusOK, response.StatusCode)
			assert.Equal(t, "hello", body)
			assert.Empty(t, response.Header.Get("Retry-After"))
			continue
		}
		assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		assert.Equal(t, "3600", response.Header.Get("Retry-After"))
		assert.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
		var problem map[string]any
		require.NoError(t, json.Unmarshal([]byte(body), &problem))
		assert.Equal(t, map[string]any{
			"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title":             "Quota Exceeded",
			"status":            429.0,
			"violated-policies": []any{"default"},
		}, problem)
	}
}

func TestKeySaysWhoIsLimited(t *testing.T) {
	t.Parallel()
	s := site(t, httplimit.New(ratelimittest.New(t), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(1, day)},
		Key:    func(r *http.Request) string { return r.Header.Get("X-Api-Key") },
		PartitionKey: func(r *http.Request) []byte {
			if r.Header.Get("X-Api-Key") == "bob" {
				return []byte("bob")
			}
			return nil
		},
	}))
	for _, step := range []struct {
		key    string
		status int
	}{{"ann", 200}, {"ann", 429}, {"bob", 200}, {"bob", 429}, {"", 200}, {"", 200}} {
		response, _ := get(t, s, "X-Api-Key", step.key)
		assert.Equal(t, step.status, response.StatusCode, step.key)
		for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
			text := response.Header.Get(field)
			assert.Equal(t, step.key == "", text == "", "%s of %q: %s", field, step.key, text)
			assert.Equal(t, step.key == "bob", strings.Contains(text, ";pk=:Ym9i:"), "%s of %q: %s", field, step.key, text)
		}
	}
}

func TestCostOfARequest(t *testing.T) {
	t.Parallel()
	s := site(t, httplimit.New(ratelimittest.New(t), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(10, day)},
		Key:    everybody,
		Cost: func(r *http.Request) int64 {
			n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
			return n
		},
	}))
	for _, step := range []struct {
		cost   string
		status int
	}{{"8", 200}, {"3", 429}, {"2", 200}, {"1", 429}, {"0", 200}, {"11", 429}} {
		response, _ := get(t, s, "Cost", step.cost)
		assert.Equal(t, step.status, response.StatusCode, step.cost)
		// More than the limit holds: no time to come back at.
		assert.Equal(t, step.status == 429 && step.cost != "11", response.Header.Get("Retry-After") != "", step.cost)
	}
}

func TestDeniedIsUpToTheApplication(t *testing.T) {
	t.Parallel()
	s := site(t, httplimit.New(ratelimittest.New(t), httplimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(1, day)},
		Key:    everybody,
		Denied: func(w http.ResponseWriter, _ *http.Request, result ratelimit.Result) {
			http.Error(w, "come back later", http.StatusServiceUnavailable)
			assert.True(t, result.Limited)
		},
	}))
	get(t, s)
	response, body := get(t, s)
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	assert.Equal(t, "come back later\n", body)
	assert.NotEmpty(t, response.Header.Get("Retry-After"))
}
