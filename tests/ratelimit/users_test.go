package ratelimit_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/inspect"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// A client of the user goclient of docs/operating.md can do everything that the package does.
func TestTheUserOfThePageSufficesForTheGoClient(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/operating.md"))
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^user goclient on >(\S+) (.*)$`).FindStringSubmatch(string(page))
	require.NotNil(t, rule)
	s := server.Start(t)
	s.MustDo(append([]string{"ACL", "SETUSER", "goclient", "on", ">" + rule[1]}, strings.Fields(rule[2])...)...)
	ctx := t.Context()
	client := s.Client(server.User("goclient", rule[1]))
	limiter := ratelimit.New(client, ratelimit.Options{})
	require.NoError(t, client.Ping(ctx).Err())
	for _, call := range everyVerb("rl:") {
		calls.Ask(t, limiter, call)
	}
	_, err = leases.List(ctx, client, "rl:jobs", 5)
	require.NoError(t, err)
	_, err = inspect.Key(ctx, client, "rl:jobs")
	require.NoError(t, err)
	lease, err := leases.Take(ctx, limiter, leases.Options{Key: "rl:j", Slots: 1, TTL: time.Minute})
	require.NoError(t, err)
	require.NoError(t, lease.Release(ctx))
	_, err = limiter.Limit(ctx, "other", fiveADay, 1)
	assert.ErrorContains(t, err, "NOPERM")
}
