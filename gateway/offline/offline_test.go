package offline_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/gateway/offline"
)

func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

const web = `
domain: web
trusted_proxies: [10.0.0.0/8]
routes:
  - match: /
    descriptors: [[{key: remote_address, value: "{client}"}]]
  - match: POST /login
    headers: {X-Plan: free}
    cost: 2
    descriptors: [[{key: login}], [{key: remote_address, value: "{client}"}]]
  - match: /admin
    descriptors: [[{key: nobody}]]
descriptors:
  - key: remote_address
    limits: [RATE 1/s BURST 3]
  - key: login
    rate_limit: {name: logins, unit: hour, requests_per_unit: 4}
  - key: nobody
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: watched
    limits: [FIXED 1/h SHADOW]
`

const start = int64(1_800_000_000_000_000_000) / 3_600_000_000_000 * 3_600_000_000_000 // at the beginning of an hour

func TestRequestsAreDecidedByTheRoutesOfTheFile(t *testing.T) {
	t.Parallel()
	d, err := offline.Read("", file(t, web))
	require.NoError(t, err)
	assert.Equal(t, "web", d.Name)
	assert.True(t, d.HasRoutes())
	assert.Equal(t, []string{"X-Plan"}, d.Headers())
	ask := func(afterMs int64, method, target, peer string, header http.Header) offline.Outcome {
		o, err := d.DecideRequest(start+afterMs*1e6, offline.Request(method, "example.org", target, peer, header))
		require.NoError(t, err)
		return o
	}
	address := offline.RuleOutcome{Rule: "web.remote_address", Limits: "RATE 1/1s BURST 3"}
	for range 3 {
		o := ask(0, "GET", "/a?b", "198.51.100.1:80", nil)
		assert.False(t, o.Denied)
		require.Len(t, o.Rules, 1)
		o.Rules[0].RetryAfter = 0 // of a request that passes it means nothing
		assert.Equal(t, address, o.Rules[0])
	}
	o := ask(0, "GET", "/", "198.51.100.1:80", nil)
	assert.True(t, o.Denied)
	assert.Equal(t, time.Second, o.RetryAfter)
	o = ask(0, "GET", "/", "10.0.0.1:80", http.Header{"X-Forwarded-For": {"198.51.100.2"}})
	assert.False(t, o.Denied, "another client, behind a proxy")
	assert.False(t, ask(1000, "GET", "/", "198.51.100.1:80", nil).Denied, "a second later")

	free := http.Header{"X-Plan": {"free"}}
	assert.Len(t, ask(2000, "POST", "/login", "198.51.100.3:80", free).Rules, 2)
	assert.False(t, ask(4000, "POST", "/login", "198.51.100.3:80", free).Denied)
	o = ask(9000, "POST", "/login", "198.51.100.3:80", free)
	assert.True(t, o.Denied, "twice two of four logins in this hour")
	assert.Equal(t, time.Hour-9*time.Second, o.RetryAfter)
	for _, rule := range o.Rules {
		assert.Equal(t, rule.Rule == "logins", rule.Denied, rule.Rule)
	}
	assert.Empty(t, ask(20_000, "POST", "/login", "198.51.100.3:80", nil).Rules, "no route of this pattern is for requests without the header")

	o = ask(0, "GET", "/ADMIN", "198.51.100.4:80", nil)
	assert.True(t, o.Denied)
	assert.Equal(t, offline.Never, o.RetryAfter)
}

func TestDescriptorsAreDecidedAsTheyCome(t *testing.T) {
	t.Parallel()
	d, err := offline.Read("web", file(t, web))
	require.NoError(t, err)
	ask := func(key string) offline.Outcome {
		o, err := d.DecideDescriptors(start, [][]offline.Entry{{{Key: key, Value: "x"}}}, 1)
		require.NoError(t, err)
		return o
	}
	assert.Empty(t, ask("unknown").Rules)
	assert.False(t, ask("watched").Denied)
	o := ask("watched")
	assert.False(t, o.Denied, "a shadow denies nothing")
	assert.Equal(t, "FIXED 1/1h SHADOW", o.Rules[0].Limits)
	assert.True(t, o.Rules[0].Denied)
	assert.True(t, o.Rules[0].Shadow)
	o, err = d.DecideDescriptors(start, nil, 1)
	require.NoError(t, err)
	assert.Empty(t, o.Rules)
}

func TestTheDomainIsNamedWhereThereAreSeveral(t *testing.T) {
	t.Parallel()
	first, second := file(t, "domain: a\ndescriptors: []\n"), file(t, "domain: b\ndescriptors: []\n")
	_, err := offline.Read("", first, second)
	assert.ErrorContains(t, err, "which domain? There are a, b")
	_, err = offline.Read("c", first, second)
	assert.ErrorContains(t, err, `no domain "c": there are a, b`)
	d, err := offline.Read("b", first, second)
	require.NoError(t, err)
	assert.False(t, d.HasRoutes())
	_, err = d.DecideRequest(start, offline.Request("GET", "", "/", "", nil))
	assert.ErrorContains(t, err, "has no routes")
	d, err = offline.Read("", first, file(t, web))
	require.NoError(t, err)
	assert.Equal(t, "web", d.Name, "the only one with routes")
	_, err = offline.Read("", file(t, "domain: a\ndescriptors: [{key: x, limits: [RATE 5]}]\n"))
	assert.ErrorContains(t, err, "limits.yaml:2:")
}
