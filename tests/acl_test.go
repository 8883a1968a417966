package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

func TestUserMayBeAllowedNothingButTheLimiter(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("ACL", "SETUSER", "web", "on", ">secret", "+cl.throttle", "~rl:*")
	c := s.Client(server.User("web", "secret"), server.Protocol(2))
	ctx := t.Context()

	a, err := throttle(ctx, c, "rl:x", "15 30 60 1")
	require.NoError(t, err)
	assert.Equal(t, firstOf16, a)

	_, err = throttle(ctx, c, "other", "15 30 60 1")
	assert.ErrorContains(t, err, "NOPERM", "a key outside the pattern")
	assert.ErrorContains(t, c.Get(ctx, "rl:x").Err(), "NOPERM", "another command")
	assert.ErrorContains(t, c.Eval(ctx, "return 1", nil).Err(), "NOPERM")
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "other").Int)
}

func TestUserWithoutTheLimiterIsRefused(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.MustDo("ACL", "SETUSER", "web", "on", ">secret", "+@all", "-cl.throttle", "~*")
	c := s.Client(server.User("web", "secret"))
	_, err := throttle(t.Context(), c, "key", "15 30 60 1")
	assert.ErrorContains(t, err, "NOPERM")
	script := "return redis.call('CL.THROTTLE', KEYS[1], 15, 30, 60)"
	assert.Error(t, c.Eval(t.Context(), script, []string{"key"}).Err(), "nor through a script")
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "key").Int)
}

// What the server is told of the command decides what it lets whom do where.
func TestServerKnowsFlagsAndKeyOfTheCommand(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	info := s.MustDo("COMMAND", "INFO", "cl.throttle").Elems[0].Elems
	var flags []string
	for _, f := range info[2].Elems {
		flags = append(flags, f.Text)
	}
	assert.Subset(t, flags, []string{"write", "fast", "denyoom"})
	assert.NotContains(t, flags, "readonly")
	assert.EqualValues(t, []int64{1, 1, 1}, []int64{info[3].Int, info[4].Int, info[5].Int}, "first key, last key, step")
	keys := s.MustDo("COMMAND", "GETKEYS", "CL.THROTTLE", "user:42", "15", "30", "60")
	assert.Equal(t, `*["user:42"]`, keys.String())
}
