package adapters

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/functions"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/commands"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// Servers without the module get the function library, or scripts, by rueidis as by go-redis.
func TestRueidisWithoutTheModule(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	five := ratelimit.Limits{ratelimit.Rate(5, 24*time.Hour)}
	plain := server.Start(t, server.WithoutModule())
	old := server.Start(t, server.WithoutModule())
	older := strings.Replace(functions.Library, fmt.Sprintf("\nlocal VERSION = %d", functions.Version()), "\nlocal VERSION = 100", 1)
	old.MustDo("FUNCTION", "LOAD", older)
	scripts := server.Start(t, server.WithoutModule())
	scripts.MustDo("ACL", "SETUSER", "default", "-function")
	for says, s := range map[string]*server.Server{"was loaded, and": plain, "in place of 0.1.0": old, "are sent as scripts": scripts} {
		var log bytes.Buffer
		client := rueidislimit.Client(connect(t, on(s)))
		l := ratelimit.New(commands.On(client, commands.Options{Poll: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))}), ratelimit.Options{})
		for left := int64(4); left > 1; left-- {
			result, err := l.Limit(t.Context(), "k", five, 1)
			require.NoError(t, err)
			assert.Equal(t, left, result.Remaining)
			if left == 3 {
				s.Do("FUNCTION", "FLUSH")
				s.MustDo("SCRIPT", "FLUSH")
			}
		}
		assert.Contains(t, log.String(), says)
		result, err := l.Peek(t.Context(), "k", five, 1)
		require.NoError(t, err)
		assert.EqualValues(t, 2, result.Remaining)
		result, err = l.Wait(t.Context(), "k", five, 1)
		require.NoError(t, err)
		assert.False(t, result.Limited)
	}
}

func TestRueidisInAClusterWithoutTheModule(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	c := topology.StartCluster(t, server.WithoutModule())
	client := connect(t, rueidis.ClientOption{InitAddress: []string{c.Nodes[0].Addr()}})
	l := rueidislimit.New(client)
	five := ratelimit.Limits{ratelimit.Rate(5, 24*time.Hour)}
	for i := range 30 {
		result, err := l.Limit(t.Context(), fmt.Sprintf("user:%d", i), five, 1)
		require.NoError(t, err)
		assert.EqualValues(t, 4, result.Remaining)
	}
	for _, master := range c.Masters() {
		assert.EqualValues(t, functions.Version(), master.Do("FCALL_RO", "cl_version", "0").Int)
	}
}
