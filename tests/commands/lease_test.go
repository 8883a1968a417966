package commands_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// A score that no lease has shows which members a call looks at: those that have lapsed, the next to lapse, the last,
// and its own ids. CL.LEASE looks for its id only if there may be no room, or if a lease has lapsed, which may be its
// own.
func TestMembersThatDoNotMatterAreNotLookedAt(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	now := kit.NowIn(t, c) / int64(time.Millisecond)
	for _, test := range []struct {
		call  string
		looks bool
	}{
		{"CL.LEASE k SLOTS 5 TTL 1h ID odd", false},
		{"CL.LEASE k ID odd TTL 1h SLOTS 5", false},
		{"CL.LEASE k TTL 1h COMPACT ID odd TIMEOUT 1s SLOTS 5", false},
		{"CL.LEASE k COMPACT SLOTS 5 ID odd TTL 1h", false},
		{"CL.LEASE k SLOTS 4 TTL 1h ID odd", true},
		{"CL.LEASE lapsed SLOTS 9 TTL 1h ID odd", true},
		{"CL.LEASE k SLOTS 4 ID new TTL 1h", false}, // TTL is no id
		{"CL.RENEW k ID first TTL 1h", false},
		{"CL.RENEW k ID odd TTL 1h", true},
		{"CL.RELEASE k ID first new", false},
		{"CL.RELEASE k ID first new odd", true},
	} {
		kit.Do(t, c, "FLUSHALL")
		kit.Do(t, c, "ZADD k %d first %d.5 odd %d.5 TTL %d last", now+3_600_000, now+3_600_001, now+3_600_001, now+7_200_000)
		kit.Do(t, c, "ZADD lapsed %d over %d first %d.5 odd %d last", now-1, now+3_600_000, now+3_600_001, now+7_200_000)
		v := kit.Do(t, c, "%s", test.call)
		assert.Equal(t, test.looks, v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "), "%s: %v", test.call, v)
	}
}

// A server where the command that counts members was renamed away, or is another one, counts all the same.
func TestLapsedLeasesAreFreeSlotsWhateverBecameOfZCOUNT(t *testing.T) {
	t.Parallel()
	for _, renamed := range [][]string{
		{`rename-command ZCOUNT ""`},
		{`rename-command ZCOUNT ""`, "rename-command ZRANGEBYSCORE ZCOUNT"},
	} {
		c := kit.StartCheckBuild(t, server.Config(renamed...)).Raw()
		now := kit.NowIn(t, c) / int64(time.Millisecond)
		for i := range 40 {
			kit.Do(t, c, "ZADD k %d lapsed%d", now-int64(i), i)
		}
		for i := range 5 {
			kit.Do(t, c, "ZADD k %d held%d", now+3_600_000, i)
		}
		held := kit.Do(t, c, "CL.LEASES k")
		require.False(t, held.IsError(), "%v: %v", renamed, held)
		assert.EqualValues(t, 5, held.Elems[1].Int, "%v", renamed)
		assert.EqualValues(t, 1, kit.AskLease(t, c, "CL.LEASE k SLOTS 5 TTL 1h ID new").Limited, "%v", renamed)
		assert.Equal(t, kit.NewLeased(0, 6, 0, -1, 3_600_000, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 6 TTL 1h ID new"), "%v", renamed)
	}
}

// Lapsed leases that nobody has removed yet slow nobody down, however many there are.
func TestLapsedLeasesAreCountedWithoutLookingAtEach(t *testing.T) {
	server.NeedsServer(t, "the time that each command took")
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	now := kit.NowIn(t, c) / int64(time.Millisecond)
	fastest := func(lapsed int) int64 {
		t.Helper()
		_, err := c.Do("EVAL", `
			for i = 1, ARGV[1], 1000 do
				local members = {}
				for j = i, i + 999 do
					table.insert(members, ARGV[2] - j)
					table.insert(members, j)
				end
				redis.call('ZADD', KEYS[1], unpack(members))
			end
			redis.call('ZADD', KEYS[1], ARGV[2] + 3600000, 'held')`, "1", "k", fmt.Sprint(lapsed), fmt.Sprint(now))
		require.NoError(t, err)
		require.EqualValues(t, lapsed+1, kit.Do(t, c, "ZCARD k").Int)
		least := int64(math.MaxInt64)
		for range 20 { // the fastest, because other programs can only slow it down
			kit.Do(t, c, "CONFIG RESETSTAT")
			require.EqualValues(t, 1, kit.Do(t, c, "CL.LEASES k").Elems[1].Int)
			fields := regexp.MustCompile(`usec=(\d+)`).FindStringSubmatch(s.Info("commandstats")["cmdstat_cl.leases"])
			require.NotNil(t, fields)
			least = min(least, int64(kit.Number(t, fields[1])))
		}
		return least
	}
	few, many := fastest(1_000), fastest(100_000)
	t.Logf("%d us with 1,000 lapsed leases, %d us with 100,000", few, many)
	assert.Less(t, many, 10*max(few, 20))
}

// A replica without the module ends with the same bytes, whatever happens to leases and bans; so does an AOF.
func TestLeasesAndBansAreReplicatedAsEffects(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t, server.AppendOnly("always"))
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, 5*time.Millisecond)
	stream := s.Stream()
	c := s.Raw()
	names := func(commands [][]string) (all []string) {
		for _, command := range commands {
			all = append(all, strings.ToUpper(command[0]))
		}
		return all
	}
	stream.Drain()
	for _, step := range []struct{ call, effects string }{
		{"CL.LEASE k SLOTS 3 TTL 1h ID a", "MULTI ZADD PEXPIREAT EXEC"},
		{"CL.LEASE k SLOTS 3 TTL 2h ID b", "MULTI ZADD PEXPIREAT EXEC"},
		{"CL.LEASE k SLOTS 3 TTL 30m ID c", "ZADD"},
		{"CL.LEASE k SLOTS 3 TTL 1h ID d", ""},
		{"CL.RENEW k ID d TTL 1h", ""},
		{"CL.RELEASE k ID d", ""},
		{"CL.LEASES k", ""},
		{"CL.RENEW k ID a TTL 1h", "ZADD"},
		{"CL.RENEW k ID b TTL 1m", "MULTI ZADD PEXPIREAT EXEC"},
		{"CL.RELEASE k ID b", "ZREM"},
		{"CL.RELEASE k ID a", "MULTI ZREM PEXPIREAT EXEC"},
		{"PERSIST k", "PERSIST"},
		{"CL.RENEW k ID c TTL 30m", "MULTI ZADD PEXPIREAT EXEC"},
		{"CL.RELEASE k ID c d", "DEL"},
		{"ZADD k 1700000000000 lapsed 1700000000001 a 1700000000002 b", "ZADD"},
		{"CL.LEASE k SLOTS 3 TTL 1h ID a", "MULTI ZADD ZREM PEXPIREAT EXEC"},
		{"DEL k", "DEL"},
		{"CL.BAN k 1h", "SET"},
		{"CL.BAN k 2h", "SET"},
		{"CL.BAN k 0", "DEL"},
		{"CL.LIMIT k RATE 1/h", "SET"},
		{"CL.LIMIT k RATE 1/h BAN 1d", "SET"},
		{"CL.LIMIT k RATE 1/h BAN 1d", ""},
		{"CL.BAN k 0", "SET"},
		{"DEL k", "DEL"},
		{"CL.LEASE k SLOTS 3 TTL 1h ID " + strings.Repeat("x", 512), "MULTI ZADD PEXPIREAT EXEC"},
	} {
		require.False(t, kit.Do(t, c, "%s", step.call).IsError(), step.call)
		assert.Equal(t, strings.Fields(step.effects), append([]string{}, names(stream.Drain())...), step.call)
		kit.RequireReplica(t, s, replica, "k")
	}
	for i := range 200 {
		kit.Do(t, c, "CL.LEASE many SLOTS 1000 TTL %dms ID id%d", 10+i*i, i*7919%200)
	}
	kit.RequireReplica(t, s, replica, "k")
	before := kit.Do(t, c, "DUMP k").String()
	kit.Do(t, c, "BGREWRITEAOF")
	require.Eventually(t, func() bool { return s.Info("persistence")["aof_rewrite_in_progress"] == "0" }, 60*time.Second, 5*time.Millisecond)
	kit.Do(t, c, "CL.LEASE k2 SLOTS 1 TTL 1h ID a")
	s.Restart()
	assert.Equal(t, before, s.MustDo("DUMP", "k").String())
	c = s.Raw()
	assert.EqualValues(t, 1, kit.AskLease(t, c, "CL.LEASE k2 SLOTS 1 TTL 1h ID b").Limited)
	assert.EqualValues(t, 0, kit.AskLease(t, c, "CL.RENEW k2 ID a TTL 1h").Limited)
}

func TestLeasesRefuseWhatIsNoneOfTheirs(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	far := kit.NowIn(t, c)/int64(time.Millisecond) + 3_600_000
	kit.Do(t, c, "SET string 1")
	kit.Do(t, c, "RPUSH list 1")
	kit.Do(t, c, "ZADD scores 17 player")
	kit.Do(t, c, "ZADD infinite inf a")
	kit.Do(t, c, "ZADD fraction %d.5 a", far)
	kit.Do(t, c, "ZADD micro %d000 a", far)
	kit.Do(t, c, "ZADD mixed -inf a %d b", far)
	kit.Do(t, c, "ZADD beyond %d a inf b", far)
	for _, key := range strings.Fields("string list scores infinite fraction micro mixed beyond") {
		dump := kit.Do(t, c, "DUMP %s", key).String()
		for _, call := range []string{"CL.LEASE %s SLOTS 9 TTL 1s ID a", "CL.RENEW %s ID a TTL 1s", "CL.RELEASE %s ID a", "CL.LEASES %s"} {
			v := kit.Do(t, c, call, key)
			assert.True(t, v.IsError() && strings.HasPrefix(v.Text, "WRONGTYPE "), "%s %s: %v", key, call, v)
		}
		assert.Equal(t, dump, kit.Do(t, c, "DUMP %s", key).String(), key)
	}
	kit.Do(t, c, "ZADD ours %d by-hand", far)
	assert.EqualValues(t, 1, kit.AskLease(t, c, "CL.LEASE ours SLOTS 1 TTL 1s ID a").Limited, "instants are leases, whoever wrote them")
	assert.EqualValues(t, -1, kit.Do(t, c, "PTTL ours").Int)
	kit.AskLease(t, c, "CL.LEASE ours SLOTS 2 TTL 1s ID a")
	assert.Positive(t, kit.Do(t, c, "PTTL ours").Int, "and then the key expires with the last")
}

// While the server adds the set of the first lease, calls on it are refused, and only then.
func TestASetThatIsBeingCreatedIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("event new")
	}
	c := s.Raw()
	for _, nested := range []string{"CL.LEASE k SLOTS 9 TTL 1h ID nested", "CL.RELEASE k ID nobody", "CL.RENEW k ID a TTL 1h", "CL.LEASES k"} {
		for _, step := range []struct{ call, want string }{
			{"CL.LEASE k SLOTS 9 TTL 1h ID a", kit.Refused},
			{"CL.LEASE k SLOTS 9 TTL 1h ID b", ""},
		} {
			neighbour.Do(t, s, nested)
			errors := s.InfoInt("throttle", "throttle_errors_argument")
			assert.EqualValues(t, 0, kit.AskLease(t, c, "%s", step.call).Limited)
			assert.Equal(t, step.want, s.MustDo("NEIGHBOUR.SEEN").Elems[1].Text, "%s in %s", nested, step.call)
			if step.want != "" { // once: the other notifications of the call come when the key is there
				errors++
			}
			assert.Equal(t, errors, s.InfoInt("throttle", "throttle_errors_argument"), "%s in %s", nested, step.call)
		}
		neighbour.Do(t, s, "")
		kit.Do(t, c, "FLUSHALL")
	}
}

// Leases lapse at the very instant of the call, and there are more of them than a call looks at.
func TestManyLeasesLapseAtTheInstantOfACall(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"a server": "", "no ZCOUNT": `rename-command ZCOUNT ""`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clock.New(t, kit.Noon.UnixNano()).Start(server.Config(config)).Raw()
			for _, lapse := range []int{15, 16, 17, 18} {
				kit.Do(t, c, "DEL k")
				zadd := fmt.Sprintf("ZADD k %d held", kit.Noon.UnixMilli()+1)
				for i := range lapse {
					zadd += fmt.Sprintf(" %d lapses%d", kit.Noon.UnixMilli(), i)
				}
				kit.Do(t, c, "%s", zadd)
				assert.Equal(t, kit.NewLeased(1, 1, 0, 1, 0, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID new"), lapse)
				assert.Equal(t, kit.NewLeased(0, 5, 3, -1, 3_600_000, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 5 TTL 1h ID new"), lapse)
			}
		})
	}
}
