package durability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// stock is hourly with fewer units, so that a crowd can take them all.
var stock = limit{"2999 1 1h", 3000, time.Hour}

const failoverKey = "key"

// at is a caller of one server, who goes home when it is gone.
func at(t *testing.T, s *server.Server, l limit) func(int) ask {
	return func(int) ask {
		c := s.Raw()
		return func() (answer, bool, error) {
			v, err := c.Do(l.call(failoverKey, 1)...)
			if err != nil {
				return answer{}, false, err
			}
			a, err := answerIn(v)
			assert.NoError(t, err)
			return a, true, err
		}
	}
}

// The master dies amid a burst, and a replica takes over. Replication being
// asynchronous, it may not know of the last units its master handed out; those, and
// no others, are handed out twice.
func TestPromotedReplicaContinuesTheBucket(t *testing.T) {
	begin(t)
	for _, tc := range []struct {
		name string
		// behind is how many units are taken after the replica heard its last.
		behind int64
	}{
		{"the replica keeps up", 0},
		{"the network stands still before the master dies", 250},
	} {
		for _, l := range []limit{stock, rapid} {
			t.Run(tc.name+", limit "+l.args, func(t *testing.T) {
				t.Parallel()
				// The files tell afterwards who knew what.
				master := server.Start(t, replicated(server.AppendOnly("no"))...)
				network := topology.LinkTo(t, master)
				replica := server.Start(t, replicated(server.AppendOnly("no"), server.Config(fmt.Sprintf("replicaof 127.0.0.1 %d", network.Port)))...)
				topology.AwaitReplicas(t, master, replica)
				topology.AwaitNoRewrite(t, replica)

				from := serverTime(t, master)
				const callers = 20
				before := gather(t, callers, at(t, master, l))
				before.awaitAllowed(1000)
				if tc.behind > 0 {
					network.Hold()
					before.awaitAllowed(tc.behind)
				}
				master.Kill()
				admitted := before.disperse()

				replica.MustDo("REPLICAOF", "NO", "ONE")
				forgotten := (lastTAT(t, master) - lastTAT(t, replica)) / int64(l.emission)
				known := l.capacity - remaining(t, replica, l, failoverKey)
				after := gather(t, callers, at(t, replica, l))
				after.awaitAllowed(500)
				after.awaitDenied(100)
				admittedAfter := after.disperse()

				// However much was forgotten, a bucket is full at most.
				assertWithinLimit(t, l, admitted+admittedAfter, min(forgotten, l.capacity), from, serverTime(t, replica))
				if l == stock {
					assert.Equal(t, l.capacity-known, admittedAfter, "the promoted replica hands out what it knows to be left")
				}
				if tc.behind > 0 {
					// Whose answer was under way then may have been replicated before.
					assert.GreaterOrEqual(t, forgotten, tc.behind-callers, "the network did not stand still")
				}
				t.Logf("%d units acknowledged by the old master; %d of what it handed out forgotten; %d more from the promoted replica",
					admitted, forgotten, admittedAfter)
			})
		}
	}
}

// lastTAT is the last one that a server wrote to its append-only file.
func lastTAT(t *testing.T, s *server.Server) int64 {
	t.Helper()
	last := int64(0)
	for _, command := range s.AOF() {
		if len(command) > 2 && strings.EqualFold(command[0], "SET") && command[1] == failoverKey {
			last = tatIn(t, command[2])
		}
	}
	require.NotZero(t, last, "nothing was written")
	return last
}

// A caller who waits until a replica has it as well keeps what it was told, whichever
// server dies. Where no replica answers, it has no word and must not go ahead.
func TestNothingIsForgottenThatWasWaitedFor(t *testing.T) {
	begin(t)
	const rounds = 5
	var confirmed, unconfirmed atomic.Int64
	for round := range rounds {
		standsStill := round == rounds-1
		master := server.Start(t, replicated()...)
		network := topology.LinkTo(t, master)
		replica := server.Start(t, replicated(server.Config(fmt.Sprintf("replicaof 127.0.0.1 %d", network.Port)))...)
		topology.AwaitReplicas(t, master, replica)

		before := gather(t, 20, func(int) ask {
			c := master.Raw()
			return func() (answer, bool, error) {
				replies, err := c.Pipeline(stock.call(failoverKey, 1), []string{"WAIT", "1", "200"})
				if err != nil {
					return answer{}, false, err
				}
				a, err := answerIn(replies[0])
				assert.NoError(t, err)
				if replies[1].Int < 1 {
					unconfirmed.Add(1)
					return answer{}, false, nil
				}
				return a, true, nil
			}
		})
		before.awaitAllowed(100 + rand.Int64N(200))
		if standsStill {
			network.Hold()
			unanswered := unconfirmed.Load()
			require.Eventually(t, func() bool { return unconfirmed.Load() >= unanswered+40 }, time.Minute, time.Millisecond)
		}
		master.Kill()
		admitted := before.disperse()
		confirmed.Add(admitted)

		replica.MustDo("REPLICAOF", "NO", "ONE")
		known := stock.capacity - remaining(t, replica, stock, failoverKey)
		require.GreaterOrEqual(t, known, admitted, "the replica knows of all that was waited for")
		after := gather(t, 20, at(t, replica, stock))
		after.awaitDenied(20)
		assert.LessOrEqual(t, admitted+after.disperse(), stock.capacity, "nothing is handed out twice")
	}
	t.Logf("%d failovers, %d units confirmed by a replica, 0 forgotten; %d calls that no replica confirmed", rounds, confirmed.Load(), unconfirmed.Load())
}

// FAILOVER holds writes back until the replica has them all. Callers see no more of
// it than a read-only master.
func TestPlannedFailoverForgetsNothing(t *testing.T) {
	begin(t)
	for _, l := range []limit{stock, rapid} {
		t.Run("limit "+l.args, func(t *testing.T) {
			t.Parallel()
			servers := []*server.Server{server.Start(t, replicated()...)}
			servers = append(servers, server.Start(t, replicated(server.ReplicaOf(servers[0]))...))
			topology.AwaitReplicas(t, servers[0], servers[1])
			var redirected atomic.Int64
			from := serverTime(t, servers[0])
			cr := gather(t, 20, func(int) ask {
				conns := [...]*resp.Conn{servers[0].Raw(), servers[1].Raw()}
				master := 0
				return func() (answer, bool, error) {
					v, err := conns[master].Do(l.call(failoverKey, 1)...)
					if !assert.NoError(t, err) {
						return answer{}, false, err
					}
					if v.IsError() && strings.HasPrefix(v.Text, "READONLY ") {
						redirected.Add(1)
						master = 1 - master
						return answer{}, false, nil
					}
					a, err := answerIn(v)
					assert.NoError(t, err)
					return a, true, err
				}
			})
			cr.awaitAllowed(1000)
			servers[0].MustDo("FAILOVER", "TO", "127.0.0.1", strconv.Itoa(servers[1].Port))
			topology.AwaitRole(t, servers[1], "master")
			cr.awaitAllowed(500)
			cr.awaitDenied(100)
			admitted := cr.disperse()
			assertWithinLimit(t, l, admitted, 0, from, serverTime(t, servers[1]))
			if l == stock {
				assert.Equal(t, l.capacity, admitted, "none lost and none handed out twice")
			}
			assert.Positive(t, redirected.Load())
			topology.AwaitReplicas(t, servers[1], servers[0])
			topology.RequireCopies(t, servers[1], servers[0])
			t.Logf("%d units from both, 0 forgotten", admitted)
		})
	}
}

// Sentinels notice that the master is gone and promote a replica; a standard client
// finds it.
func TestSentinelFailover(t *testing.T) {
	begin(t)
	master := server.Start(t, replicated(server.AppendOnly("no"))...)
	replicas := []*server.Server{
		server.Start(t, replicated(server.ReplicaOf(master))...),
		server.Start(t, replicated(server.ReplicaOf(master))...),
	}
	topology.AwaitReplicas(t, master, replicas...)
	sentinels := topology.Watch(t, 3, master, len(replicas))
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:      topology.MasterName,
		SentinelAddrs:   sentinels.Addrs(),
		MaxRetries:      -1,
		DisableIdentity: true,
	})
	defer client.Close()
	const callers = 20
	var unanswered [callers]atomic.Int64
	cr := gather(t, callers, func(caller int) ask {
		return func() (answer, bool, error) {
			n, err := client.Do(context.Background(), wordsOf(stock.call(failoverKey, 1))...).Int64Slice()
			if err != nil {
				unanswered[caller].Add(1)
				time.Sleep(10 * time.Millisecond) // a caller has other things to do, too
				return answer{}, false, nil
			}
			return answer{Allowed: n[0] == 0}, true, nil
		}
	})
	cr.awaitAllowed(1000)
	master.Kill()
	for caller := range callers {
		require.Eventually(t, func() bool { return unanswered[caller].Load() > 0 }, time.Minute, time.Millisecond)
	}
	acknowledged := cr.allowed.Load() // by the old master, since everybody has missed it by now
	promoted := sentinels.AwaitPromotion(t, master, replicas...)
	cr.awaitDenied(100)
	admitted := cr.disperse()

	// The promoted replica handed out all units but those it knew to be taken.
	known := stock.capacity - (admitted - acknowledged)
	end := tatIn(t, promoted.MustDo("GET", failoverKey).Text)
	taken := stock.capacity - (end-lastTAT(t, master))/int64(stock.emission)
	forgotten := taken - known
	assert.GreaterOrEqual(t, forgotten, int64(0), "a replica knew more than its master")
	assert.LessOrEqual(t, admitted, stock.capacity+forgotten)
	t.Logf("%d units acknowledged by the old master; %d of what it handed out forgotten; %d more from the promoted replica",
		acknowledged, forgotten, admitted-acknowledged)

	// It comes back as a replica and forgets what it alone knew.
	master.Configure(server.ReplicaOf(promoted))
	master.Restart()
	for _, s := range append(replicas, master) {
		if s != promoted {
			topology.AwaitReplicas(t, promoted, s)
			topology.RequireCopies(t, promoted, s)
		}
	}
	topology.AwaitNoRewrite(t, master) // until its first file is written, it does not shut down
}
