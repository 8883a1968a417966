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

// go-redis learns of a new master by repeating a command. Commands that charge are never repeated, so it has to be told.
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
