package durability

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// admissions take a unit and a lease together, and a settlement gives both back. So there are as many leases as units
// are taken, for as long as no call is carried out by half.
type admissions struct{ tatAtNone int64 }

const (
	admission  = "CL.MLIMIT 2 units leases RATE 1/h BURST 1000000 NEXT SLOTS 1000000 TTL 1d ID %s COMPACT"
	settlement = "CL.SETTLE 2 units leases RATE 1/h BURST 1000000 TAKE 1 USED 0 NEXT SLOTS ID %s COMPACT"
)

// send sends a call about an id, and returns the first integer of the reply.
func send(c *resp.Conn, call, id string) (int64, error) {
	v, err := c.Do(strings.Fields(fmt.Sprintf(call, id))...)
	if err != nil {
		return 0, err
	}
	n, err := v.Ints()
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

func (a admissions) requireWhole(t *testing.T, units string, leases int, what string) {
	t.Helper()
	taken := int64(0)
	if units != "" {
		taken = (tatIn(t, units) - a.tatAtNone) / hourNs
	}
	require.EqualValues(t, taken, leases, "%s: half of a call", what)
}

func (a admissions) requireWholeServer(t *testing.T, s *server.Server, what string) {
	t.Helper()
	v := s.MustDo("EVAL", "return {redis.call('GET', KEYS[1]), redis.call('ZCARD', KEYS[2])}", "2", "units", "leases")
	a.requireWhole(t, v.Elems[0].Text, int(v.Elems[1].Int), what)
}

// A master dies by kill -9 amid admissions and settlements, again and again. No replica has the units without the lease or the lease without
// the units, nor has the append-only file, wherever it ends.
func TestKilledAmidAdmissionsLeavesNoHalf(t *testing.T) {
	begin(t)
	const callers, most = 6, 400
	s := server.Start(t, server.AppendOnly("always"))
	s.Program.NeedsCountedKeys(t)
	replicas := []*server.Server{server.Start(t, server.ReplicaOf(s)), server.Start(t, server.ReplicaOf(s), server.WithoutModule())}
	c := s.Raw()
	for i := range 3 { // that stay, so that the units never begin anew
		limited, err := send(c, admission, fmt.Sprint("stays", i))
		require.NoError(t, err)
		require.Zero(t, limited)
	}
	a := admissions{tatIn(t, s.MustDo("GET", "units").Text) - 3*hourNs}
	var admitted, settled atomic.Int64
	judged, cycles := 0, size.Of(3, 12)
	for cycle := range cycles {
		topology.AwaitReplicas(t, s, replicas...)
		goal := admitted.Load() + 1 + rand.Int64N(most)
		reached := make(chan struct{})
		stop := sync.OnceFunc(func() { close(reached) })
		var running sync.WaitGroup
		for caller := range callers {
			c := s.Raw()
			running.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprint(cycle, "-", caller, "-", i)
					if limited, err := send(c, admission, id); err != nil || limited != 0 {
						return // killed
					}
					if admitted.Add(1) >= goal {
						stop()
					}
					if i%3 == 0 {
						continue // dies, too
					}
					if done, err := send(c, settlement, id); err != nil || done != 1 {
						return
					}
					settled.Add(1)
				}
			})
		}
		go func() { running.Wait(); stop() }()
		<-reached
		s.Kill()
		running.Wait()
		for _, replica := range replicas {
			require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "down" }, time.Minute, time.Millisecond)
			a.requireWholeServer(t, replica, fmt.Sprintf("replica on port %d", replica.Port))
		}
		judged += a.requireWholePrefixes(t, s)
		s.Restart()
		a.requireWholeServer(t, s, "the server that loaded its file")
		left := s.MustDo("ZCARD", "leases").Int
		require.GreaterOrEqual(t, left, 3+admitted.Load()-settled.Load()-callers, "a lease that was granted")
		require.LessOrEqual(t, left, 3+admitted.Load()-settled.Load()+callers*int64(cycle+1), "a settlement that was answered")
	}
	require.Positive(t, settled.Load())
	t.Logf("%d kills, %d admissions, %d settlements; %d prefixes of the file judged", cycles, admitted.Load(), settled.Load(), judged)
}

// requireWholePrefixes reads the file as a server would, and judges what it would hold after each command that is in no transaction, and
// after each transaction.
func (a admissions) requireWholePrefixes(t *testing.T, s *server.Server) (judged int) {
	t.Helper()
	file, err := os.ReadFile(aofPath(t, s))
	require.NoError(t, err)
	units, leases, inMulti := "", map[string]bool{}, false
	for r := resp.NewReader(bytes.NewReader(file)); ; {
		v, err := r.Read()
		if err != nil {
			return judged // the end, maybe amid a command
		}
		switch name := strings.ToUpper(v.Elems[0].Text); name {
		case "MULTI", "EXEC":
			require.Equal(t, inMulti, name == "EXEC")
			inMulti = name == "MULTI"
		case "SET":
			units = v.Elems[2].Text
		case "ZADD":
			leases[v.Elems[3].Text] = true
		case "ZREM":
			for _, id := range v.Elems[2:] {
				delete(leases, id.Text)
			}
		case "PEXPIREAT", "SELECT":
		default:
			require.Fail(t, "unexpected in the file", "%v", v)
		}
		if !inMulti {
			a.requireWhole(t, units, len(leases), "a prefix of the file")
			judged++
		}
	}
}

// A slot changes hands while callers are admitted, renew their leases and settle, each twice. A settlement happens once, and in the end there are
// as many leases as units.
func TestSlotChangesHandsUnderAdmissions(t *testing.T) {
	program := begin(t)
	cluster := topology.StartCluster(t)
	for _, way := range waysToMove(program) {
		t.Run(way.name, func(t *testing.T) {
			if way.missing != "" {
				t.Skip(way.missing)
			}
			cluster.AwaitAgreement()
			masters := cluster.Masters()
			from, to := masters[0], masters[1]
			tag, slot := tagAmongLowest(cluster, from)
			prefix := fmt.Sprintf("%s{%s}", strings.ReplaceAll(way.name, " ", "-"), tag)
			units, leases := prefix+"units", prefix+"leases"
			var sent redirections
			about := func(f *follower, call, id string) (int64, error) {
				call = strings.ReplaceAll(strings.ReplaceAll(call, "units", units), "leases", leases)
				v, err := f.do(strings.Fields(fmt.Sprintf(call, id)))
				if err != nil {
					return 0, err
				}
				return v.Elems[0].Int, nil
			}
			first := newFollower(t, cluster, &sent)
			for i := range 3 { // that stay, so that no key is ever missing
				limited, err := about(first, admission, fmt.Sprint("stays", i))
				require.NoError(t, err)
				require.Zero(t, limited)
			}
			a := admissions{tatIn(t, from.MustDo("GET", units).Text) - 3*hourNs}
			var stopping atomic.Bool
			var calls, left atomic.Int64
			var running sync.WaitGroup
			for caller := range 8 {
				f := newFollower(t, cluster, &sent)
				running.Go(func() {
					for i := 0; !stopping.Load(); i++ {
						id := fmt.Sprint(caller, "-", i)
						steps := []struct {
							call string
							want int64
						}{{admission, 0}, {admission, 0}, {"CL.RENEW leases ID %s TTL 1d COMPACT", 0}, {settlement, 1}, {settlement, 0}, {"CL.RENEW leases ID %s TTL 1d COMPACT", 1}}
						if i%10 == 0 { // stays
							steps = steps[:3]
							left.Add(1)
						}
						for _, step := range steps {
							answer, err := about(f, step.call, id)
							if !assert.NoError(t, err) || !assert.Equal(t, step.want, answer, "%s of %s", step.call, id) {
								return
							}
							calls.Add(1)
						}
					}
				})
			}
			await := func(more int64) {
				goal := calls.Load() + more
				require.Eventually(t, func() bool { return calls.Load() >= goal || t.Failed() }, time.Minute, time.Millisecond)
			}
			await(300)
			way.pass(t, cluster, slot, from, to)
			await(300)
			stopping.Store(true)
			running.Wait()
			cluster.AwaitAgreement()
			owner := cluster.Owner(slot)
			require.NotSame(t, from, owner, "the slot stayed where it was")
			have := owner.MustDo("ZCARD", leases).Int
			assert.Equal(t, 3+left.Load(), have)
			a.requireWhole(t, owner.MustDo("GET", units).Text, int(have), "the slot's owner")
			replica := cluster.ReplicaOf(owner)
			topology.AwaitReplicas(t, owner, replica)
			topology.RequireCopies(t, owner, replica)
			t.Logf("%d calls; %s", calls.Load(), &sent)
		})
	}
}
