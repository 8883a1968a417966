package ratelimit_test

import (
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
)

func TestMistakesInTheProgramPanic(t *testing.T) {
	t.Parallel()
	anybody := func(*http.Request) string { return "anybody" }
	l := ratelimit.New(redis.NewClient(&redis.Options{}))
	good := ratelimit.Limits{ratelimit.Rate(1, day)}
	for _, m := range []ratelimit.Middleware{
		{},
		{Limits: good, Key: anybody},
		{Limiter: l, Key: anybody},
		{Limiter: l, Limits: good},
		{Limiter: l, Limits: ratelimit.Limits{ratelimit.Rate(0, day)}, Key: anybody},
		{Limiter: l, Limits: ratelimit.Limits{ratelimit.Rate(1, day).Named("täglich")}, Key: anybody},
	} {
		assert.Panics(t, func() { m.Wrap(http.NotFoundHandler()) })
	}
}

func TestRemoteHostIsAnAddressOrTheNetworkOfAHost(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"203.0.113.7:4711":            "203.0.113.7",
		"[2001:db8:1:2:3:4:5:6]:4711": "2001:db8:1:2::/64",
		"[::ffff:203.0.113.7]:4711":   "203.0.113.7",
		"[fe80::1%eth0]:4711":         "fe80::/64",
		"@":                           "@", // a Unix socket
		"name:80":                     "name",
	} {
		assert.Equal(t, want, ratelimit.RemoteHost(&http.Request{RemoteAddr: remote}))
	}
}
