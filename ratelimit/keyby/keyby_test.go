package keyby_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit/keyby"
)

func request(fields ...string) *http.Request {
	r := &http.Request{Header: http.Header{}, RemoteAddr: "203.0.113.7:4711"}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

func TestKeysOfARequest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 129)
	for _, c := range []struct {
		rule string
		key  keyby.Func
		r    *http.Request
		want string
	}{
		{"a header field", keyby.Header("x-tenant"), request("X-Tenant", "7"), "7"},
		{"the first of several", keyby.Header("X-Tenant"), request("X-Tenant", "7", "X-Tenant", "8"), "7"},
		{"none", keyby.Header("X-Tenant"), request(), ""},
		{"the host, which is no field", keyby.Header("host"), &http.Request{Host: "API.example.org:8080"}, "api.example.org:8080"},
		{"a prefix", keyby.Prefixed("tenant:", keyby.Header("X-Tenant")), request("X-Tenant", "7"), "tenant:7"},
		{"no prefix of nothing", keyby.Prefixed("tenant:", keyby.Header("X-Tenant")), request(), ""},
		{"the first there is", keyby.First(keyby.Header("X-Tenant"), keyby.RemoteHost), request("X-Tenant", "7"), "7"},
		{"or the next", keyby.First(keyby.Header("X-Tenant"), keyby.RemoteHost), request(), "203.0.113.7"},
		{"or none", keyby.First(keyby.Header("X-Tenant")), request(), ""},
		// printf %s abc | sha256sum
		{"a hash", keyby.SHA256(keyby.Header("K")), request("K", "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"no hash of nothing", keyby.SHA256(keyby.Header("K")), request(), ""},
		// RFC 4231, test case 2
		{"a keyed hash", keyby.HMAC([]byte("Jefe"), keyby.Header("K")), request("K", "what do ya want for nothing?"),
			"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{"no keyed hash of nothing", keyby.HMAC([]byte("Jefe"), keyby.Header("K")), request(), ""},
		{"a short key", keyby.AtMost(128, keyby.Header("K")), request("K", long[:128]), long[:128]},
		{"a long key", keyby.AtMost(128, keyby.Header("K")), request("K", long), "sha256:" + keyby.Hash(long)},
		{"a key that looks like a long one", keyby.AtMost(128, keyby.Header("K")), request("K", "sha256:"+keyby.Hash(long)),
			"sha256:" + keyby.Hash("sha256:"+keyby.Hash(long))},
		{"no key is short", keyby.AtMost(128, keyby.Header("K")), request(), ""},
	} {
		assert.Equal(t, c.want, c.key(c.r), c.rule)
	}
	assert.Panics(t, func() { keyby.HMAC(nil, keyby.RemoteHost) })
}
