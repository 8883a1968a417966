package ratelimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/tests/server"
)

// partner is a service that counts its requests.
func partner(t *testing.T) (site *httptest.Server, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	site = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(site.Close)
	return site, asked
}

// closing says when a body was closed.
type closing struct {
	io.Reader
	closed *bool
}

func (c closing) Close() error { *c.closed = true; return nil }

func TestRequestsToAPartnerKeepToItsLimit(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	site, asked := partner(t)
	o := httplimit.TransportOptions{
		Limits: ratelimit.Limits{ratelimit.Fixed(5, 365*day)},
		Key: func(r *http.Request) string {
			if r.URL.Path == "/free" {
				return ""
			}
			return "partner"
		},
		Cost: func(r *http.Request) int64 { return r.ContentLength },
	}
	post := func(path, body string) (closed bool, _ error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site.URL+path, closing{strings.NewReader(body), &closed})
		require.NoError(t, err)
		r.ContentLength = int64(len(body))
		// Each request is of a process of its own.
		client := &http.Client{Transport: httplimit.NewTransport(ratelimit.New(s.Client(), ratelimit.Options{}), o)}
		response, err := client.Do(r)
		if err == nil {
			response.Body.Close()
		}
		client.CloseIdleConnections()
		return closed, err
	}
	for _, body := range []string{"ab", "cde"} {
		_, err := post("/", body)
		require.NoError(t, err)
	}
	closed, err := post("/", "f")
	var limited *ratelimit.LimitedError
	require.ErrorAs(t, err, &limited)
	require.ErrorIs(t, err, ratelimit.ErrLimited)
	assert.Positive(t, limited.RetryAfter)
	assert.True(t, closed, "the body of a request that is not sent")
	assert.EqualValues(t, 2, asked.Load())
	_, err = post("/free", "f")
	require.NoError(t, err)
}

func TestRequestsToAPartnerWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	const every = 200 * time.Millisecond
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	site, asked := partner(t)
	client := &http.Client{Transport: httplimit.NewTransport(l, httplimit.TransportOptions{
		Limits: ratelimit.Limits{ratelimit.Rate(1, every)}, Key: everybody, MaxWait: ratelimit.Forever,
	})}
	ask := func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, site.URL, nil)
		require.NoError(t, err)
		response, err := client.Do(r)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	began := time.Now()
	for range 4 {
		require.NoError(t, ask(t.Context()))
	}
	assert.GreaterOrEqual(t, time.Since(began), 3*every)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, ask(ctx), context.Canceled)
	ctx, cancel = context.WithTimeout(t.Context(), every/20)
	defer cancel()
	require.Error(t, ask(ctx), "its turn comes later")
	assert.EqualValues(t, 4, asked.Load())
}

func TestRequestsToAPartnerDuringAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.Kill()
	site, asked := partner(t)
	l := ratelimit.New(s.Client(quick, func(o *redis.Options) { o.DialTimeout = time.Second }), ratelimit.Options{})
	for failClosed, requests := range map[bool]int64{false: 1, true: 0} {
		var errs []error
		client := &http.Client{Transport: httplimit.NewTransport(l, httplimit.TransportOptions{
			Limits: ratelimit.Limits{ratelimit.Rate(1, day)}, Key: everybody,
			Failures: httplimit.Failures{Outage: answerOf(failClosed), OnError: func(_ *http.Request, err error) { errs = append(errs, err) }},
		})}
		asked.Store(0)
		response, err := client.Get(site.URL) //nolint:noctx // it ends with the server
		if err == nil {
			response.Body.Close()
		}
		assert.Equal(t, failClosed, ratelimit.IsOutage(err), err)
		assert.Equal(t, requests, asked.Load())
		require.Len(t, errs, 1)
		assert.True(t, ratelimit.IsOutage(errs[0]), errors.Join(errs...))
	}
	for _, wrong := range []httplimit.TransportOptions{{}, {Key: everybody}, {Limits: ratelimit.Limits{ratelimit.Rate(1, day)}}} {
		assert.Panics(t, func() { httplimit.NewTransport(l, wrong) })
	}
	assert.Panics(t, func() {
		httplimit.NewTransport(nil, httplimit.TransportOptions{Limits: ratelimit.Limits{ratelimit.Rate(1, day)}, Key: everybody})
	})
}
