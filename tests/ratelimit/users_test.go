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
	"redis-throttle/ratelimit/adaptive"
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
	five := ratelimit.Limits{ratelimit.Rate(5, time.Second)}
	keys := []ratelimit.Key{{Name: "rl:a", Limits: five}, {Name: "rl:b", Limits: five}}

	require.NoError(t, client.Ping(ctx).Err())
	for what, err := range map[string]error{
		"Throttle":  errorOf(limiter.Decide(ctx, calls.Throttle("rl:t", ratelimit.Rate(5, time.Second), 1))),
		"Limit":     errorOf(limiter.Limit(ctx, "rl:l", five, 1)),
		"Peek":      errorOf(limiter.Peek(ctx, "rl:l", five, 1)),
		"Refund":    errorOf(limiter.Refund(ctx, "rl:l", five, 1)),
		"Wait":      errorOf(limiter.Decide(ctx, calls.InLine("rl:l", five, time.Second))),
		"LimitKeys": errorOf(limiter.Decide(ctx, calls.OnKeys(keys))),
		"LimitAny":  errorOf(limiter.Decide(ctx, calls.OnKeys(keys, calls.Any))),
		"Reset":     errorOf(limiter.Reset(ctx, "rl:r")),
		"Ban":       errorOf(limiter.Ban(ctx, "rl:x", time.Second)),
		"Leases":    errorOf(leases.List(ctx, client, "rl:j", 5)),
	} {
		assert.NoError(t, err, what)
	}
	admission := ratelimit.Call{ID: "id", Cost: 1, Keys: []ratelimit.Key{{Name: "rl:u", Limits: five}, {Name: "rl:s", Slots: 1, TTL: time.Minute}}}
	require.NoError(t, errorOf(limiter.Decide(ctx, admission)))
	settlement := ratelimit.Call{Verb: ratelimit.VerbSettle, ID: "id", Keys: []ratelimit.Key{{Name: "rl:s"}}}
	require.NoError(t, errorOf(limiter.Decide(ctx, settlement)))
	adapted := adaptive.New(limiter, adaptive.Options{OnError: func(err error) { t.Error(err) }})
	require.NoError(t, errorOf(adapted.Decide(ctx, calls.Lease("rl:adapted", 5, time.Minute, "id"))))
	lease, err := leases.Take(ctx, limiter, leases.Options{Key: "rl:j", Slots: 1, TTL: time.Minute})
	require.NoError(t, err)
	require.NoError(t, errorOf(limiter.Decide(ctx, calls.Renew("rl:k", "nobody", time.Minute))))
	require.NoError(t, lease.Release(ctx))
	assert.ErrorContains(t, errorOf(limiter.Limit(ctx, "other", five, 1)), "NOPERM")
}

func errorOf[T any](_ T, err error) error { return err }
