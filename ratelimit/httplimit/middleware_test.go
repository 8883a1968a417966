package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

func TestMistakesInTheProgramPanic(t *testing.T) {
	t.Parallel()
	anybody := func(*http.Request) string { return "anybody" }
	l := ratelimit.New(redis.NewClient(&redis.Options{}), ratelimit.Options{})
	good := ratelimit.Limits{ratelimit.Rate(1, day)}
	for i, wrong := range []func(){
		func() { httplimit.New(nil, httplimit.Options{}) },
		func() { httplimit.New(nil, httplimit.Options{Limits: good, Key: anybody}) },
		func() { httplimit.New((*ratelimit.Limiter)(nil), httplimit.Options{Limits: good, Key: anybody}) },
		func() { httplimit.New(l, httplimit.Options{}) },
		func() { httplimit.New(l, httplimit.Options{Key: anybody}) },
		func() { httplimit.New(l, httplimit.Options{Limits: good}) },
		func() { httplimit.New(l, httplimit.Options{Limits: good, Key: anybody})(nil) },
		func() {
			httplimit.New(l, httplimit.Options{Limits: ratelimit.Limits{ratelimit.Rate(-1, day)}, Key: anybody})
		},
		func() {
			httplimit.New(l, httplimit.Options{Limits: ratelimit.Limits{ratelimit.Rate(1, day).Named("täglich")}, Key: anybody})
		},
		func() {
			httplimit.New(l, httplimit.Options{Limits: good, Key: anybody, And: []httplimit.Part{{Limits: good}}})
		},
		func() {
			httplimit.New(l, httplimit.Options{Limits: good, Key: anybody, And: []httplimit.Part{{Limits: good, Key: anybody}}})
		},
		func() { httplimit.New(l, httplimit.Options{Limits: good, Key: anybody, BanAfter: "10/1h"}) },
		func() { httplimit.New(l, httplimit.Options{Limits: good, Key: anybody, Ban: -day}) },
		func() { httplimit.New(l, httplimit.Options{Limits: good, Key: anybody, Ban: day, BanAfter: "often"}) },
		func() { httplimit.NewConcurrency(l, httplimit.ConcurrencyOptions{}) },
		func() { httplimit.NewTransport(nil, httplimit.TransportOptions{Limits: good, Key: anybody}) },
		func() { httplimit.NewTransport(l, httplimit.TransportOptions{Limits: good}) },
		func() { httplimit.NewTransport(l, httplimit.TransportOptions{Key: anybody}) },
		func() { httplimit.NewConcurrency(nil, httplimit.ConcurrencyOptions{Slots: 1, Key: anybody}) },
	} {
		assert.Panics(t, wrong, "%d", i)
	}
}
