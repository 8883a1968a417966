package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// Where no module can be loaded, the gateway decides by the function library, or by scripts.
func TestTheGatewayWithoutTheModule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		acl, env, says string
		module         bool
	}{
		"library":        {"+@all", "REDIS_COMMANDS=auto", "calls are sent as functions", false},
		"script":         {"-function", "REDIS_COMMANDS=auto", "calls are sent as scripts", false},
		"functions only": {"+@all", "REDIS_COMMANDS=functions", "calls are sent as functions", true},
	} {
		for _, own := range []string{"", "compat: true"} {
			t.Run(name+own, func(t *testing.T) {
				t.Parallel()
				options := []server.Option{server.WithoutModule()}
				if c.module {
					options = nil
				}
				s := server.Start(t, options...)
				s.MustDo("ACL", "SETUSER", "default", c.acl)
				g := start(t, s.Addr(), own+basic, c.env, "REDIS_TIMEOUT=2s", "DENIALS=-1")
				require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
				require.Equal(t, "OK 19 8", g.asks(ask("shop", 0, "path=/", "user=1")))
				s.Do("FUNCTION", "FLUSH")
				s.MustDo("SCRIPT", "FLUSH")
				require.Equal(t, "OK 7", g.asks(ask("shop", 0, "user=1")), "charged once")
				back := ask("shop", 2, "user=1")
				back.Descriptors[0].IsNegativeHits = true
				require.Equal(t, "OK 9", g.asks(back))
				for range 9 {
					g.asks(ask("shop", 0, "user=1"))
				}
				assert.Equal(t, "OVER 0!", g.asks(ask("shop", 0, "user=1")))
				assert.Contains(t, g.Log(), c.says)
				assert.NotContains(t, g.Log(), "Redis does not decide")
				if c.module {
					assert.NotContains(t, strings.ToLower(s.Do("INFO", "commandstats").Text), "cl.limit")
				}
			})
		}
	}
}

func TestTheGatewayInAClusterWithoutTheModule(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, server.WithoutModule())
	g := start(t, c.Nodes[0].Addr(), "compat: true"+basic, "REDIS_TYPE=CLUSTER", "REDIS_TIMEOUT=2s")
	for _, user := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		assert.Regexp(t, "^OK", g.asks(ask("shop", 0, "user="+user, "path=/"+user)))
		assert.Equal(t, "OK 8", g.asks(ask("shop", 0, "user="+user)))
	}
}
