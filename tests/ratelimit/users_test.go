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
	limiter := ratelimit.New(client)
	five := ratelimit.Limits{ratelimit.Rate(5, time.Second)}
	keys := []ratelimit.KeyLimits{{Key: "rl:a", Limits: five}, {Key: "rl:b", Limits: five}}

	require.NoError(t, client.Ping(ctx).Err())
	for what, err := range map[string]error{
		"Throttle":  errorOf(limiter.Throttle(ctx, "rl:t", ratelimit.Rate(5, time.Second)).Result()),
		"Limit":     errorOf(limiter.Limit(ctx, "rl:l", five).Result()),
		"Peek":      errorOf(limiter.Peek(ctx, "rl:l", five).Result()),
		"Refund":    errorOf(limiter.Refund(ctx, "rl:l", five).Result()),
		"Wait":      errorOf(limiter.Wait(ctx, "rl:l", five, time.Second).Result()),
		"LimitKeys": errorOf(limiter.LimitKeys(ctx, keys).Result()),
		"LimitAny":  errorOf(limiter.LimitAny(ctx, keys).Result()),
		"Ban":       errorOf(limiter.Ban(ctx, "rl:x", time.Second).Result()),
		"Leases":    errorOf(limiter.Leases(ctx, "rl:j", 5).Result()),
	} {
		assert.NoError(t, err, what)
	}
	lease, err := limiter.Lease(ctx, "rl:j", 1, time.Minute)
	require.NoError(t, err)
	require.NoError(t, errorOf(limiter.RenewLease(ctx, "rl:k", "nobody", time.Minute).Result()))
	require.NoError(t, lease.Release(ctx))
	assert.ErrorContains(t, errorOf(limiter.Limit(ctx, "other", five).Result()), "NOPERM")
}

func errorOf[T any](_ T, err error) error { return err }
