package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

// allows lets everything through.
type allows struct{}

func (allows) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{Limit: 10, Remaining: 9, NextAfter: time.Second, ResetAfter: time.Second, By: "server"}, nil
}

// nowhere is a response that nobody reads.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// requests are those whose cost is bounded: the options, and the allocations of a request at most, without those of
// Redis.
func requests() map[string]struct {
	options httplimit.Options
	most    float64
} {
	limits := ratelimit.Limits{ratelimit.Rate(5, time.Second), ratelimit.FixedMonths(100_000, 1).Named("monthly")}
	key := func(*http.Request) string { return "user:42" }
	return map[string]struct {
		options httplimit.Options
		most    float64
	}{
		"Limits":    {httplimit.Options{Limits: limits, Key: key}, 4},
		"LimitsFor": {httplimit.Options{Limits: limits, Key: key, LimitsFor: func(*http.Request) ratelimit.Limits { return limits }}, 4},
		"Routes":    {httplimit.Options{Routes: []httplimit.Route{{Pattern: "GET /x", Limits: limits, Key: key}}}, 4},
	}
}

func serve(o httplimit.Options) func() {
	handler := httplimit.New(allows{}, o)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, _ := http.NewRequest(http.MethodGet, "http://example.org/x", nil) //nolint:noctx // it is not sent
	w := nowhere{http.Header{}}
	return func() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	}
}

//nolint:paralleltest // others would be counted, too
func TestARequestAllocatesLittle(t *testing.T) {
	for name, c := range requests() {
		got := testing.AllocsPerRun(1000, serve(c.options))
		t.Log(name, got)
		assert.LessOrEqual(t, got, c.most, name)
	}
}

func BenchmarkRequest(b *testing.B) {
	for name, c := range requests() {
		b.Run(name, func(b *testing.B) {
			ask := serve(c.options)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}
