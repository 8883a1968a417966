package commands_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// However many leases have lapsed, all of them are free slots, and each who takes one removes a few.
// While there is room, nobody asks whether the id holds a slot before it is given one. The answer tells all the same.
func TestARetryWhileThereIsRoomTakesNoSecondSlot(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	for _, call := range []string{
		"SLOTS 5 TTL 1m ID a", "ID a SLOTS 5 TTL 30s", "COMPACT TTL 1m TIMEOUT 1s ID a SLOTS 5",
		"ID SLOTS TTL 1m SLOTS 5", "ID ID TTL 1m slots 5", "TTL 2m COMPACT ID COMPACT SLOTS 5",
	} {
		kit.Do(t, c, "FLUSHALL")
		kit.Do(t, c, "CONFIG RESETSTAT")
		before := kit.LeasesOf(s, "granted", "renewed")
		kit.Do(t, c, "CL.LEASE k SLOTS 5 TTL 40s ID other")
		for try, want := range []int64{3, 3, 3} {
			reply := kit.Do(t, c, "CL.LEASE k %s", call)
			require.False(t, reply.IsError(), "%s: %s", call, reply.Text)
			remaining := reply.Elems[2].Int
			if len(reply.Elems) > 6 {
				remaining = reply.Elems[5].Int
			}
			assert.Equal(t, want, remaining, "%s, try %d", call, try)
			assert.EqualValues(t, 2, kit.Do(t, c, "ZCARD k").Int, call)
			assert.Equal(t, kit.Do(t, c, "PEXPIRETIME k").Int, highestOf(t, c, "k"), call)
		}
		after := kit.LeasesOf(s, "granted", "renewed")
		assert.Equal(t, []int{2, 2}, []int{kit.Number(t, after[0]) - kit.Number(t, before[0]), kit.Number(t, after[1]) - kit.Number(t, before[1])}, call)
	}
	kit.Do(t, c, "FLUSHALL")
	for i := range 5 { // up to the last slot, and one more
		assert.EqualValues(t, 0, kit.AskLease(t, c, "CL.LEASE k SLOTS 5 TTL 1m ID a%d", i).Limited)
	}
	for _, call := range []string{ // the numbers of other words are no slots
		"SLOTS 5 TTL 1m ID b", "SLOTS 5 TTL 60s ID b", "TTL 60s SLOTS 5 ID b", "TTL 60s ID 90 SLOTS 5", "TIMEOUT 60s TTL 1m ID b SLOTS 5",
	} {
		replies, err := c.Pipeline([]string{"MULTI"}, strings.Fields("CL.LEASE k "+call), []string{"EXEC"}) // where nobody waits
		require.NoError(t, err)
		l, err := kit.LeasedIn(replies[2].Elems[0])
		require.NoError(t, err, call)
		assert.EqualValues(t, 1, l.Limited, call)
	}
	assert.Equal(t, kit.NewLeased(0, 5, 0, -1, 1000, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 5 TTL 1s ID a3"))
	assert.Equal(t, kit.NewLeased(0, 9, 4, -1, 1000, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 9 TTL 1s ID a3"))
}

// A score that no lease has shows which members a call looks at: those that have lapsed, the next to lapse, the last, and its own ids.
// CL.LEASE looks for its id only if there may be no room, or if a lease has lapsed, which may be its own.
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

func highestOf(t kit.Tester, c *resp.Conn, key string) int64 {
	t.Helper()
	score, err := strconv.ParseInt(kit.Do(t, c, "ZRANGE %s -1 -1 WITHSCORES", key).Elems[1].Text, 10, 64)
	require.NoError(t, err)
	return score
}

func TestLapsedLeasesAreFreeSlots(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, 5*time.Millisecond)
	c := s.Raw()
	for _, size := range []int{15, 16, 17, 100, 1000} {
		kit.Do(t, c, "DEL k")
		now := kit.NowIn(t, c) / int64(time.Millisecond)
		for i := range size {
			kit.Do(t, c, "ZADD k %d lapsed%d", now-int64(i), i)
		}
		for i := range 5 {
			kit.Do(t, c, "ZADD k %d held%d", now+3_600_000, i)
		}
		held := kit.Do(t, c, "CL.LEASES k")
		assert.EqualValues(t, 5, held.Elems[1].Int, size)
		assert.Len(t, held.Elems[5].Elems, 5)
		assert.EqualValues(t, 1, kit.AskLease(t, c, "CL.LEASE k SLOTS 5 TTL 1h ID new").Limited, size)
		assert.EqualValues(t, size+5, kit.Do(t, c, "ZCARD k").Int, "a limited call writes nothing")
		assert.Equal(t, kit.NewLeased(0, 6, 0, -1, 3_600_000, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 6 TTL 1h ID new"), size)
		assert.EqualValues(t, size+6-min(size, 16), kit.Do(t, c, "ZCARD k").Int)
		assert.EqualValues(t, 0, kit.Do(t, c, "CL.RELEASE k ID lapsed%d", size-1).Int)
		assert.EqualValues(t, 1, kit.AskLease(t, c, "CL.RENEW k ID lapsed%d TTL 1h", size-1).Limited)
		kit.RequireReplica(t, s, replica, "k")
		assert.EqualValues(t, 6, kit.Do(t, c, "CL.RELEASE k ID held0 held1 held2 held3 held4 new").Int)
		assert.EqualValues(t, 0, kit.Do(t, c, "EXISTS k").Int, "nobody holds anything")
		kit.RequireReplica(t, s, replica, "k")
	}
	// A holder whose lease has lapsed and is still there gets a new one, and what lapsed at the same instant goes.
	now := kit.NowIn(t, c) / int64(time.Millisecond)
	kit.Do(t, c, "ZADD k %d before %d own %d with %d held", now-2, now-1, now-1, now+7_200_000)
	assert.Equal(t, kit.NewLeased(0, 9, 7, -1, 3_600_000, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 9 TTL 1h ID own"))
	assert.Equal(t, []string{"own", "held"}, kit.TextsOf(kit.Do(t, c, "ZRANGE k 0 -1")))
	kit.RequireReplica(t, s, replica, "k")
	assert.Equal(t, fmt.Sprint(15+16+17+100+1000+3), s.Info("throttle")["throttle_leases_lapsed"])
}

// A replica without the module ends with the same bytes, whatever happens to leases; so does an AOF.
func TestLeasesAreReplicatedAsEffects(t *testing.T) {
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

// A call that changes nothing leaves no trace.
func TestALimitedLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	w := kit.StartWatched(t)
	w.Call(t, "CL.LEASE", "k", "SLOTS", "1", "TTL", "1h", "ID", "a")
	before := w.Traces(t, "k")
	for _, call := range []string{"CL.LEASE k SLOTS 1 TTL 1h ID b", "CL.LEASE k SLOTS 0 TTL 1h ID b TIMEOUT 1ms", "CL.RENEW k ID b TTL 1h", "CL.RELEASE k ID b", "CL.LEASES k",
		"CL.LEASE k SLOTS x TTL 1h ID a", "CL.RENEW k ID a", "CL.RELEASE k a"} {
		kit.Do(t, w.Conn, "%s", call)
		assert.Equal(t, before, w.Traces(t, "k"), call)
	}
	assert.True(t, kit.Do(t, w.Conn, "CL.LEASE gone SLOTS 0 TTL 1h ID a").Elems[1].Int == 1)
	assert.EqualValues(t, 0, kit.Do(t, w.Conn, "EXISTS gone").Int)
}

func TestLeasesInTransactionsAndScripts(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Do(t, c, "MULTI")
	kit.Do(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID a")
	kit.Do(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID b TIMEOUT 0")
	kit.Do(t, c, "CL.RELEASE k ID a")
	kit.Do(t, c, "CL.LEASE k SLOTS 1 TTL 1h ID b TIMEOUT 0")
	replies := kit.Do(t, c, "EXEC").Elems
	require.Len(t, replies, 4)
	var limited []int64
	for _, i := range []int{0, 1, 3} {
		l, err := kit.LeasedIn(replies[i])
		require.NoError(t, err)
		limited = append(limited, l.Limited)
	}
	assert.Equal(t, []int64{0, 1, 0}, limited)
	script := `return redis.call('CL.LEASE', KEYS[1], 'SLOTS', '1', 'TTL', '1h', 'ID', ARGV[1], 'TIMEOUT', '0', 'COMPACT')`
	v, err := c.Do("EVAL", script, "1", "k", "c")
	require.NoError(t, err)
	require.Len(t, v.Elems, 6, "%v", v)
	assert.EqualValues(t, 1, v.Elems[0].Int)
	kit.Do(t, c, "DEL k")
	v, err = c.Do("EVAL", script, "1", "k", "c")
	require.NoError(t, err)
	assert.EqualValues(t, 0, v.Elems[0].Int)
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

func TestLeaseEventsCountersAndTop(t *testing.T) {
	t.Parallel()
	s := kit.StartCheckBuild(t, server.Config("notify-keyspace-events Edgz"))
	c := s.Raw()
	kit.Do(t, c, "CONFIG SET throttle.top 10")
	e := kit.ListenToEvents(t, s)
	for _, step := range []struct{ call, events string }{
		{"CL.LEASE k SLOTS 1 TTL 1h ID a", "zadd k,expire k,leased k"},
		{"CL.LEASE k SLOTS 1 TTL 2h ID a", "zadd k,expire k"},
		{"CL.LEASE k SLOTS 1 TTL 1h ID b", "limited k"},
		{"CL.RENEW k ID a TTL 1h", "zadd k,expire k"},
		{"CL.RENEW k ID b TTL 1h", "limited k"},
		{"CL.RELEASE k ID b", ""},
		{"CL.LEASE k SLOTS 2 TTL 30m ID b", "zadd k,leased k"},
		{"CL.RENEW k ID b TTL 40m", "zadd k"},
		{"CL.RELEASE k ID a", "zrem k,expire k,released k"},
		{"CL.RELEASE k ID b", "del k,released k"},
	} {
		kit.Do(t, c, "%s", step.call)
		assert.Equal(t, step.events, strings.Join(e.Drain(t), ","), step.call)
	}
	assert.Equal(t, []string{"2", "3", "2", "2", "0", "0"}, kit.LeasesOf(s, "granted", "renewed", "limited", "released", "lapsed", "waiting"))
	top := kit.Do(t, c, "CL.TOP").Elems
	require.Len(t, top, 1)
	assert.EqualValues(t, 2, top[0].Elems[5].Int)
}

// Another module's commands in the middle of ours leave master and replica alike, and the leases right.
func TestLeasesWithNestedCalls(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(s))
	require.Eventually(t, func() bool { return kit.LinkIsUp(replica) }, 60*time.Second, 5*time.Millisecond)
	c := s.Raw()
	for _, nested := range []string{"CL.LEASE k SLOTS 9 TTL 1h ID nested", "CL.RELEASE k ID a b nested", "CL.RENEW k ID a TTL 2h", "CL.LEASE other SLOTS 1 TTL 1h ID a TIMEOUT 0", "PEXPIRE k 1000000"} {
		t.Run(nested, func(t *testing.T) {
			neighbour.Do(t, s, "")
			kit.Do(t, c, "FLUSHALL")
			if strings.HasPrefix(nested, "PEXPIRE") && s.Program.MovesValues() { // not in event "new"
				neighbour.On(t, s, "zadd", "k", nested)
			} else {
				neighbour.Do(t, s, nested)
			}
			for _, call := range []string{"CL.LEASE k SLOTS 2 TTL 1h ID a", "CL.LEASE k SLOTS 2 TTL 1h ID b", "CL.LEASE k SLOTS 2 TTL 1h ID c", "CL.RENEW k ID b TTL 1h", "CL.RELEASE k ID b", "CL.RELEASE k ID a c"} {
				assert.False(t, kit.Do(t, c, "%s", call).IsError(), call)
			}
			neighbour.Do(t, s, "")
			kit.RequireReplica(t, s, replica, "k", "other")
		})
	}
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
	wall := clock.New(t, kit.Noon.UnixNano())
	c := wall.Start().Raw()
	for _, lapse := range []int{15, 16, 17, 18} {
		kit.Do(t, c, "DEL k")
		zadd := fmt.Sprintf("ZADD k %d held", kit.Noon.UnixMilli()+1)
		for i := range lapse {
			zadd += fmt.Sprintf(" %d lapses%d", kit.Noon.UnixMilli(), i)
		}
		kit.Do(t, c, "%s", zadd)
		assert.Equal(t, kit.NewLeased(0, 5, 3, -1, 3_600_000, 0), kit.AskLease(t, c, "CL.LEASE k SLOTS 5 TTL 1h ID new"), lapse)
	}
}
