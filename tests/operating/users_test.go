package operating_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// callsOfUsers are a call of every command, on a key that its user may use.
var callsOfUsers = map[string]string{
	"cl.limit": "CL.LIMIT rl:1 RATE 5/s", "cl.mlimit": "CL.MLIMIT 2 rl:2 rl:3 RATE 5/s", "cl.throttle": "CL.THROTTLE rl:4 5 5 1", "cl.peek": "CL.PEEK rl:1 RATE 5/s",
	"cl.wait": "CL.WAIT rl:5 RATE 5/s TIMEOUT 1s", "cl.refund": "CL.REFUND rl:1 RATE 5/s", "cl.ban": "CL.BAN rl:6 1s", "cl.lease": "CL.LEASE rl:7 SLOTS 1 TTL 1m ID a",
	"cl.renew": "CL.RENEW rl:7 ID a TTL 1m", "cl.release": "CL.RELEASE rl:7 ID a", "cl.leases": "CL.LEASES rl:7", "cl.inspect": "CL.INSPECT rl:7", "cl.top": "CL.TOP", "cl.denied": "CL.DENIED rl:1 3",
	"del": "DEL rl:8",
}

// The users of docs/operating.md may call the commands that their rules name, on their keys, and nothing else.
func TestUsersOfThePageMayDoWhatItSays(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/operating.md"))
	require.NoError(t, err)
	rules := regexp.MustCompile(`(?m)^user (\S+) on >(\S+) (.*)$`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rules, 5)
	s := server.Start(t, server.ModuleArgs("top", "5"))
	asked := map[string]bool{}
	for _, rule := range rules {
		name, password := rule[1], rule[2]
		s.MustDo(append([]string{"ACL", "SETUSER", name, "on", ">" + password}, strings.Fields(rule[3])...)...)
		c := s.Raw()
		kit.Do(t, c, "AUTH %s %s", name, password)
		for command, call := range callsOfUsers {
			v := kit.Do(t, c, "%s", call)
			if strings.Contains(rule[0]+" ", "+"+command+" ") {
				asked[command] = true
				assert.False(t, v.IsError(), "%s: %s answers %v", name, call, v)
				if strings.Contains(call, "rl:") {
					assert.Contains(t, kit.Do(t, c, "%s", strings.ReplaceAll(call, "rl:", "other:")).Text, "NOPERM", "%s: %s elsewhere", name, call)
				}
			} else {
				assert.Contains(t, v.Text, "NOPERM", "%s: %s", name, call)
			}
		}
		for _, other := range []string{"SET rl:1 1", "FLUSHALL", "CONFIG GET maxmemory", "EVAL return|1 0"} {
			if name != "monitoring" || !strings.HasPrefix(other, "EVAL") { // whose script may call what its user may
				assert.Contains(t, kit.Do(t, c, "%s", other).Text, "NOPERM", "%s: %s", name, other)
			}
		}
		if name == "monitoring" {
			assert.Contains(t, kit.Do(t, c, "INFO throttle").Text, "throttle_calls")
		}
	}
	assert.Len(t, asked, len(callsOfUsers), "every command has a user")
}
