package ratelimittest_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/ratelimit/xrate"
)

// Whatever asks with an OnError that is nil: of a flood of requests that fail, one line is logged, and no key.
//
//nolint:paralleltest // it sets the default logger
func TestAFloodOfErrorsIsOneLine(t *testing.T) {
	const secret = "secret-key"
	before := slog.Default()
	defer slog.SetDefault(before)
	key := func(*http.Request) string { return secret }
	served := func(m func(http.Handler) http.Handler) func() {
		return func() { serve(m(http.NotFoundHandler())) }
	}
	unsent := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	for text, fault := range map[string]func(*ratelimittest.Limiter){
		"unknown command": (*ratelimittest.Limiter).NoModule, // such as a replica that has taken over
		"WRONGPASS":       func(l *ratelimittest.Limiter) { l.Fail(ratelimittest.ReplyError("WRONGPASS invalid")) },
	} {
		l := ratelimittest.New(t)
		fault(l)
		transport := httplimit.NewTransport(l, httplimit.TransportOptions{Limits: hourly, Key: key})
		unary := grpclimit.NewClient(l, grpclimit.ClientOptions{Limits: hourly, Key: func(context.Context, string) string { return secret }}).Unary()
		bucket := xrate.New(l, xrate.Options{Key: secret, Limit: ratelimit.Rate(1, day)})
		for name, ask := range map[string]func(){
			"a middleware":   served(httplimit.New(l, httplimit.Options{Limits: hourly, Key: key})),
			"slots":          served(httplimit.NewConcurrency(l, httplimit.ConcurrencyOptions{Slots: 1, Key: key})),
			"a transport":    func() { _, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil)) }, //nolint:bodyclose // it is not sent
			"an interceptor": func() { _ = unary(t.Context(), "/s/m", nil, nil, nil, unsent) },
			"a bucket":       func() { bucket.Allow(); bucket.Reserve() },
		} {
			var logged bytes.Buffer
			slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
			for range 50 {
				ask()
			}
			assert.Equal(t, 1, strings.Count(logged.String(), "\n"), "%s:\n%s", name, logged.String())
			assert.Contains(t, logged.String(), text, name)
			assert.Contains(t, logged.String(), "kind=mistake", name)
			assert.NotContains(t, logged.String(), secret, name)
		}
	}
}
