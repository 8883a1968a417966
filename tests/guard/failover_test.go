package guard_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// changes are what OnChange was told, by node.
type changes struct {
	mu     sync.Mutex
	byNode map[string][]error
}

func (c *changes) note(node string, outage error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byNode == nil {
		c.byNode = map[string][]error{}
	}
	c.byNode[node] = append(c.byNode[node], outage)
}

// of are the changes of a node.
func (c *changes) of(node string) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byNode[node]
}

// awaitBy decides a call until it is decided there.
func awaitBy(t *testing.T, g *guard.Guard, call ratelimit.Call, by string) ratelimit.Result {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		result := calls.Ask(t, g, call)
		if result.By == by {
			return result
		}
		require.Less(t, time.Since(began), 2*time.Minute, "it hangs")
	}
}

// From the death of a master to the first answer of its successor the policy decides, and no call fails.
func TestTheGuardDecidesUntilSentinelsHaveANewMaster(t *testing.T) {
	t.Parallel()
	master := server.Start(t)
	replica := server.Start(t, server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	sentinels := topology.Watch(t, 3, master, 1)
	var told changes
	g := guard.New(ratelimit.New(sentinels.Client(t), ratelimit.Options{}), guard.Options{
		Policy: guard.Local, Failures: 2, Pause: 50 * time.Millisecond, OnChange: told.note,
	})
	limits := ratelimit.Limits{ratelimit.Window(1_000_000, day)}
	call := calls.On("k", limits, calls.Cost(1000))
	result := calls.Ask(t, g, call)
	require.Equal(t, "server", result.By)
	topology.AwaitReplicas(t, master, replica)

	master.Kill()
	for !g.Out() {
		awaitBy(t, g, call, "local")
	}
	require.Same(t, replica, sentinels.AwaitPromotion(t, master, master, replica))
	result = awaitBy(t, g, call, "server")
	assert.EqualValues(t, 1_000_000-2000, result.Remaining, "what the old master has granted counts, and what was decided here does not")
	if outages := told.of(""); assert.Len(t, outages, 2) {
		assert.True(t, ratelimit.IsOutage(outages[0]), outages[0])
		assert.NoError(t, outages[1])
	}
	assert.False(t, g.Out())
}

// In a cluster only the keys of a master that hangs or has died are left to the policy, until its replica has taken
// over.
func TestTheGuardDecidesUntilAReplicaHasTakenOver(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	masters := c.Masters()
	dies := masters[0]
	successor := c.ReplicaOf(dies)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{masters[1].Addr(), masters[2].Addr()}, DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: time.Second, MaxRetries: -1,
		MaxRedirects:               1,
		ClusterStateReloadInterval: time.Hour, // nobody waits for that
	})
	t.Cleanup(func() { _ = client.Close() })
	var told changes
	g := guard.New(ratelimit.New(client, ratelimit.Options{}), guard.Options{
		Policy: guard.Local, Failures: 2, Pause: 50 * time.Millisecond, Node: guard.Masters(client), OnChange: told.note,
	})
	limits := ratelimit.Limits{ratelimit.Window(1_000_000, day)}
	there, elsewhere := c.KeyOn(dies, "key"), c.KeyOn(masters[2], "key")
	awaitBy(t, g, calls.On(there, limits), "server")
	awaitBy(t, g, calls.On(elsewhere, limits), "server")
	topology.AwaitReplicas(t, dies, successor)

	for _, harm := range []func(){dies.Pause, dies.Kill} {
		harm()
		for range 20 {
			awaitBy(t, g, calls.On(there, limits), "local")
			require.Equal(t, "server", calls.Ask(t, g, calls.On(elsewhere, limits)).By)
		}
		assert.True(t, g.Out())
	}
	successor.MustDo("CLUSTER", "FAILOVER", "TAKEOVER")
	result := awaitBy(t, g, calls.On(there, limits), "server")
	assert.EqualValues(t, 1_000_000-2, result.Remaining)
	assert.NotEmpty(t, told.of(dies.Addr()))
	for _, node := range []*server.Server{successor, masters[1], masters[2]} {
		assert.Empty(t, told.of(node.Addr()))
	}
}

// In an outage each policy decides every verb, or the outage is the answer. Nothing turns into a mistake.
func TestEachPolicyKnowsEveryVerb(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.Kill()
	guards := map[guard.Policy]*guard.Guard{}
	for _, policy := range []guard.Policy{guard.Fail, guard.Open, guard.Closed, guard.Local} {
		guards[policy] = guard.New(ratelimit.New(s.Client(quick), ratelimit.Options{}),
			guard.Options{Policy: policy, Failures: 1, Pause: time.Hour, Logger: silent})
	}
	limits := ratelimit.Limits{ratelimit.Rate(5, day)}
	on := func(verb ratelimit.Verb, opts ...calls.Option) ratelimit.Call {
		c := calls.On("k", limits, opts...)
		c.Verb = verb
		return c
	}
	slots := ratelimit.Key{Name: "slots", Slots: 2, TTL: time.Hour}
	admission := calls.OnKeys([]ratelimit.Key{{Name: "tokens", Limits: ratelimit.Limits{ratelimit.Rate(100, day).Take(10)}}, slots})
	admission.ID = "admission"
	each := admission
	each.ID, each.Each = "each", true
	settlement := calls.OnKeys([]ratelimit.Key{{Name: "tokens", Limits: ratelimit.Limits{ratelimit.Rate(100, day).Take(10).Used(4)}}, {Name: "slots"}})
	settlement.Verb, settlement.ID, settlement.Cost = ratelimit.VerbSettle, "admission", 0
	ban := on(ratelimit.VerbBan, calls.Ban(time.Hour))
	ban.Keys[0].Limits = nil
	window := calls.InLine("window", ratelimit.Limits{ratelimit.Window(1, day)}, time.Hour)
	for _, c := range []struct {
		name     string
		call     ratelimit.Call
		new      bool // it is decided without the server by every policy but Fail
		atLocal  bool // it is decided by Local
		limited  bool // by Local
		granted  int64
		howMany  int
		toldEach int
	}{
		{"limit", on(ratelimit.VerbLimit), true, true, false, 1, 1, 0},
		{"throttle", calls.Throttle("throttled", limits[0], 1), true, true, false, 1, 1, 0},
		{"peek", on(ratelimit.VerbPeek), true, true, false, 0, 1, 0},
		{"several keys", calls.OnKeys([]ratelimit.Key{{Name: "a", Limits: limits}, {Name: "b", Limits: limits}}), true, true, false, 1, 1, 0},
		{"wait", calls.InLine("waits", limits, time.Hour), true, true, false, 1, 1, 0},
		{"wait, of which the second finds nothing", window, true, true, true, 0, 2, 0},
		{"lease", calls.Lease("jobs", 2, time.Hour, "id", calls.MaxWait(time.Hour)), true, true, false, 0, 1, 0},
		{"renew", calls.Renew("jobs", "id", time.Hour), false, true, false, 0, 1, 0},
		{"release", calls.Release("jobs", "id"), false, true, false, -1, 1, 0},
		{"admission", admission, true, true, false, 1, 1, 0},
		{"admission that tells of each", each, true, true, false, 1, 1, 2},
		{"settlement", settlement, false, true, false, -6, 1, 0},
		{"settlement of what is settled", settlement, false, false, false, 0, 1, 0},
		{"refund", on(ratelimit.VerbRefund), false, false, false, 0, 1, 0},
		{"ban", ban, false, false, false, 0, 1, 0},
	} {
		for policy, g := range guards {
			name := fmt.Sprint(c.name, ", ", policy)
			var result ratelimit.Result
			var err error
			for range c.howMany {
				result, err = g.Decide(t.Context(), c.call)
			}
			if policy == guard.Fail || (!c.new && (policy != guard.Local || !c.atLocal)) {
				assert.True(t, ratelimit.IsOutage(err), "%s: %v", name, err)
				continue
			}
			if !assert.NoError(t, err, name) || policy != guard.Local {
				assert.Equal(t, policy == guard.Closed, result.Limited, name)
				continue
			}
			assert.Equal(t, "local", result.By, name)
			assert.Equal(t, c.limited, result.Limited, name)
			assert.Equal(t, c.granted, result.Granted, name)
			assert.Len(t, result.Each, c.toldEach, name)
		}
	}
}
