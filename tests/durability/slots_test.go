package durability

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
		killUnder(t, s, callers, 1+rand.Int64N(most), func(c *resp.Conn, caller int, acknowledged func()) {
			for i := 0; ; i++ {
				id := fmt.Sprint(cycle, "-", caller, "-", i)
				if limited, err := send(c, admission, id); err != nil || limited != 0 {
					return // killed
				}
				admitted.Add(1)
				acknowledged()
				if i%3 == 0 {
					continue // dies, too
				}
				if done, err := send(c, settlement, id); err != nil || done != 1 {
					return
				}
				settled.Add(1)
			}
		})
		for _, replica := range replicas {
			require.Eventually(t, func() bool { return replica.Info("replication")["master_link_status"] == "down" }, time.Minute, time.Millisecond)
			a.requireWholeServer(t, replica, fmt.Sprintf("replica on port %d", replica.Port))
		}
		units, leases := "", map[string]bool{}
		judged += prefixes(t, s, func(command []string) {
			switch strings.ToUpper(command[0]) {
			case "SET":
				units = command[2]
			case "ZADD":
				leases[command[3]] = true
			case "ZREM":
				for _, id := range command[2:] {
					delete(leases, id)
				}
			case "PEXPIREAT":
			default:
				require.Fail(t, "unexpected in the file", "%v", command)
			}
		}, func() { a.requireWhole(t, units, len(leases), "a prefix of the file") })
		s.Restart()
		a.requireWholeServer(t, s, "the server that loaded its file")
		left := s.MustDo("ZCARD", "leases").Int
		require.GreaterOrEqual(t, left, 3+admitted.Load()-settled.Load()-callers, "a lease that was granted")
		require.LessOrEqual(t, left, 3+admitted.Load()-settled.Load()+callers*int64(cycle+1), "a settlement that was answered")
	}
	require.Positive(t, settled.Load())
	t.Logf("%d kills, %d admissions, %d settlements; %d prefixes of the file judged", cycles, admitted.Load(), settled.Load(), judged)
}

// A slot changes hands while callers are admitted, renew their leases and settle, each twice. A settlement happens once, and in the end there are
// as many leases as units.
func TestSlotChangesHandsUnderAdmissions(t *testing.T) {
	whileASlotMoves(t, func(t *testing.T, c *topology.Cluster, from *server.Server, prefix string) load {
		l := &admissionLoad{units: prefix + "units", leases: prefix + "leases"}
		about := func(f *follower, call, id string) (int64, error) {
			call = strings.ReplaceAll(strings.ReplaceAll(call, "units", l.units), "leases", l.leases)
			v, err := f.do(strings.Fields(fmt.Sprintf(call, id)))
			if err != nil {
				return 0, err
			}
			return v.Elems[0].Int, nil
		}
		first := newFollower(t, c, &l.sent)
		for i := range 3 { // that stay, so that no key is ever missing
			limited, err := about(first, admission, fmt.Sprint("stays", i))
			require.NoError(t, err)
			require.Zero(t, limited)
		}
		l.tatAtNone = tatIn(t, from.MustDo("GET", l.units).Text) - 3*hourNs
		l.crowd = gather(t, 8, func(caller int) ask {
			f, i := newFollower(t, c, &l.sent), -1
			return func() (answer, bool, error) {
				i++
				id := fmt.Sprint(caller, "-", i)
				steps := []struct {
					call string
					want int64
				}{{admission, 0}, {admission, 0}, {renewal, 0}, {settlement, 1}, {settlement, 0}, {renewal, 1}}
				if i%10 == 0 { // stays
					steps = steps[:3]
					l.left.Add(1)
				}
				for _, step := range steps {
					got, err := about(f, step.call, id)
					if !assert.NoError(t, err) || !assert.Equal(t, step.want, got, "%s of %s", step.call, id) {
						return answer{}, false, errWrong
					}
				}
				return answer{Allowed: true}, true, nil
			}
		})
		return l
	})
}

const renewal = "CL.RENEW leases ID %s TTL 1d COMPACT"

type admissionLoad struct {
	*crowd
	admissions
	units, leases string
	left          atomic.Int64
	sent          redirections
}

func (l *admissionLoad) await() { l.awaitAllowed(60) }

func (l *admissionLoad) settle(owner *server.Server) {
	admitted := l.disperse()
	have := owner.MustDo("ZCARD", l.leases).Int
	assert.Equal(l.t, 3+l.left.Load(), have)
	l.requireWhole(l.t, owner.MustDo("GET", l.units).Text, int(have), "the slot's owner")
	l.t.Logf("%d admissions; %s", admitted, &l.sent)
}
