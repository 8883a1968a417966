package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// What a server over maxmemory does with every command: it refuses those that may make a key longer, or add one. The others are called
// on keys of every kind.
var overMaxmemory = map[string]struct {
	isRefused bool
	calls     []string
}{
	"cl.ban":      {true, []string{"CL.BAN %s 1h", "CL.BAN %s 0"}},
	"cl.lease":    {true, []string{"CL.LEASE %s SLOTS 5 TTL 1d ID a", "CL.LEASE %s SLOTS 5 TTL 1d ID new"}},
	"cl.leases":   {false, []string{"CL.LEASES %s"}},
	"cl.limit":    {true, []string{"CL.LIMIT %s RATE 5/d", "CL.LIMIT %s RATE 5/d COST 0"}},
	"cl.mlimit":   {true, []string{"CL.MLIMIT 1 %s RATE 5/d", "CL.MLIMIT 1 %s RATE 5/d COST 0"}},
	"cl.peek":     {false, []string{"CL.PEEK %s RATE 5/d", "CL.PEEK %s WINDOW 5/d"}},
	"cl.refund":   {false, []string{"CL.REFUND %s RATE 5/d", "CL.REFUND %s WINDOW 5/d", "CL.REFUND %s FIXED 5/d"}},
	"cl.release":  {false, []string{"CL.RELEASE %s ID a", "CL.RELEASE %s ID new"}},
	"cl.renew":    {false, []string{"CL.RENEW %s ID b TTL 2d", "CL.RENEW %s ID new TTL 2d"}},
	"cl.throttle": {true, []string{"CL.THROTTLE %s 4 5 1d", "CL.THROTTLE %s 4 5 1d 0"}},
	"cl.top":      {false, []string{"CL.TOP"}},
	"cl.wait":     {true, []string{"CL.WAIT %s RATE 5/d TIMEOUT 0", "CL.WAIT %s FIXED 5/d TIMEOUT 0"}},
}

// Nobody fills a server through this module: over maxmemory no call adds a key or makes one longer.
func TestNoCommandGrowsAKeyOverMaxmemory(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("top", "10"))
	c := s.Raw()
	if s.Program.AtLeast(7, 0) {
		var names []string
		for name := range overMaxmemory {
			names = append(names, name)
		}
		assert.ElementsMatch(t, names, textsOf(s.MustDo("COMMAND", "LIST", "FILTERBY", "MODULE", "throttle")), "every command is in the table")
	}
	mustDoAll(t, c, "CL.THROTTLE tat 4 5 1d", "CL.LIMIT rate RATE 5/d", "CL.LIMIT several RATE 5/d WINDOW 5/d FIXED 5/d", "CL.LIMIT window WINDOW 5/d", "CL.LIMIT fixed FIXED 7/d RATE 5/d",
		"CL.LIMIT banned RATE 5/d", "CL.BAN banned 1h", "CL.BAN ban 1h", "CL.LIMIT debt RATE 5/d COST 9 FORCE", "CL.LIMIT reserved RATE 5/d COST 5", "CL.LIMIT reserved RATE 5/d MAXWAIT 30d",
		"CL.LEASE leases SLOTS 5 TTL 1d ID a", "CL.LEASE leases SLOTS 5 TTL 1d ID b", "SET tat:plain 1700000000000000000", "ZADD leases:plain 4000000000000 a 4000000000000 b")
	keys := sortedTexts(do(t, c, "KEYS *"))
	lengths := func() map[string]int64 {
		lengths := map[string]int64{}
		for _, key := range keys {
			if strings.HasPrefix(key, "leases") {
				lengths[key] = do(t, c, "ZCARD %s", key).Int
			} else {
				lengths[key] = do(t, c, "STRLEN %s", key).Int
			}
		}
		return lengths
	}
	before := lengths()
	do(t, c, "CONFIG SET maxmemory 1")
	for name, command := range overMaxmemory {
		for _, call := range command.calls {
			for _, key := range append(keys, "new") {
				v := do(t, c, "%s", strings.ReplaceAll(call, "%s", key))
				assert.Equal(t, command.isRefused, strings.HasPrefix(v.Text, "OOM "), "%s on %s: %v", name, key, v)
			}
		}
	}
	for key, length := range lengths() {
		assert.LessOrEqual(t, length, before[key], "%s is no longer than it was", key)
	}
	require.Subset(t, keys, sortedTexts(do(t, c, "KEYS *")), "no key is new")
}
