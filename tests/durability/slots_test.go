package durability

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func (a admissions) requireWhole(t *testing.T, units string, leases int, what string) {
	t.Helper()
	taken := int64(0)
	if units != "" {
		taken = (tatIn(t, units) - a.tatAtNone) / hourNs
	}
	require.EqualValues(t, taken, leases, "%s: half of a call", what)
}

// A slot changes hands while callers are admitted, renew their leases and settle, each twice. A settlement happens
// once, and in the end there are as many leases as units.
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
		l.crowd = gather(t, 8, func(caller int) func() error {
			f, i := newFollower(t, c, &l.sent), -1
			return func() error {
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
						return errWrong
					}
				}
				return nil
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

func (l *admissionLoad) await() { l.awaitAnswers(60) }

func (l *admissionLoad) settle(owner *server.Server) {
	admitted := l.disperse()
	have := owner.MustDo("ZCARD", l.leases).Int
	assert.Equal(l.t, 3+l.left.Load(), have)
	l.requireWhole(l.t, owner.MustDo("GET", l.units).Text, int(have), "the slot's owner")
	l.t.Logf("%d admissions; %s", admitted, &l.sent)
}
