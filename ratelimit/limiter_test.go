package ratelimit_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
)

// cluster is a client whose master has died.
type cluster struct {
	err     error
	reloads int
}

func (c *cluster) Process(_ context.Context, cmd redis.Cmder) error {
	cmd.SetErr(c.err)
	return c.err
}

func (c *cluster) ReloadState(context.Context) { c.reloads++ }

// go-redis learns of a new master by repeating a command. Commands that charge are never repeated, so it has to be
// told.
func TestAnOutageOfAMasterMakesTheClientAskForItsSuccessor(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Second)}
	for _, c := range []struct {
		err  error
		want int
	}{{io.EOF, 1}, {ratelimit.ErrNoModule, 0}, {redis.ErrPoolTimeout, 0}} {
		client := &cluster{err: c.err}
		_, err := ratelimit.New(client, ratelimit.Options{}).Limit(t.Context(), "k", limits, 1)
		require.ErrorIs(t, err, c.err)
		assert.Equal(t, c.want, client.reloads, c.err)
	}
}

type deciderFunc func() (ratelimit.Result, error)

func (f deciderFunc) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) { return f() }

// What can decide nothing is found when the program starts, and not by its first request.
func TestWhatCannotDecideIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func()
		want string
	}{
		"no client":              {func() { ratelimit.New(nil, ratelimit.Options{}) }, "ratelimit: New needs a Redis client, not nil"},
		"a client that is nil":   {func() { ratelimit.New((*redis.Client)(nil), ratelimit.Options{}) }, "ratelimit: New needs a Redis client, not nil"},
		"no decider":             {func() { ratelimit.With(nil) }, "ratelimit: With needs a Decider, not nil"},
		"a limiter that is nil":  {func() { ratelimit.With((*ratelimit.Limiter)(nil)) }, "ratelimit: With needs a Decider, not nil"},
		"a function that is nil": {func() { ratelimit.With(deciderFunc(nil)) }, "ratelimit: With needs a Decider, not nil"},
		"a zero limiter":         {func() { ratelimit.With(&ratelimit.Limiter{}) }, "ratelimit: a Limiter is made by New or With"},
	} {
		assert.PanicsWithValue(t, c.want, c.make, name)
	}
	_, err := new(ratelimit.Limiter).Limit(t.Context(), "k", nil, 1)
	require.EqualError(t, err, "ratelimit: a Limiter is made by New or With")
}

// noted is a decider that notes the call.
type noted struct {
	call   ratelimit.Call
	result ratelimit.Result
}

func (n *noted) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	n.call = c
	return n.result, nil
}

func TestTheVerbsInShort(t *testing.T) {
	t.Parallel()
	n := &noted{}
	l := ratelimit.With(n)
	limits := ratelimit.Limits{ratelimit.Rate(1, time.Second)}
	keys := []ratelimit.Key{{Name: "a", Limits: limits}, {Name: "b", Limits: limits}}
	_, err := l.LimitAll(t.Context(), keys, 2)
	require.NoError(t, err)
	assert.Equal(t, ratelimit.Call{Keys: keys, Cost: 2}, n.call)
	_, err = l.LimitAny(t.Context(), keys, 0)
	require.NoError(t, err)
	assert.Equal(t, ratelimit.Call{Keys: keys, Any: true, NoCost: true}, n.call)

	n.result = ratelimit.Result{Granted: -3}
	units, err := l.Refund(t.Context(), "a", limits, 5)
	require.NoError(t, err)
	assert.EqualValues(t, 3, units, "how many came back")

	for granted, wanted := range map[int64]bool{-1: true, 0: false} {
		n.result = ratelimit.Result{Granted: granted}
		found, err := l.Reset(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, ratelimit.Call{Verb: ratelimit.VerbReset, Keys: []ratelimit.Key{{Name: "a"}}}, n.call)
		assert.Equal(t, wanted, found, "whether there was a key")
	}

	n.result = ratelimit.Result{Limited: true, RetryAfter: time.Second}
	result, err := l.Wait(t.Context(), "a", limits, 1)
	require.ErrorIs(t, err, ratelimit.ErrLimited, "an act that waits has what it waits for, or an error")
	assert.Equal(t, n.result, result)
	_, err = l.Limit(t.Context(), "a", limits, 1)
	require.NoError(t, err, "an act that does not wait returns its result")
}
