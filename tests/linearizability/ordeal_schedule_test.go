package linearizability

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASeedRepeatsTheFaultsOfAnOrdeal(t *testing.T) {
	t.Parallel()
	const rounds = 500
	for _, s := range []setup{withReplicas, inCluster} {
		seen, others := map[kind]int{}, 0
		for round := range rounds {
			p := s.plan(42, round)
			require.Equal(t, p, s.plan(42, round), "round %d", round)
			if p.String() != s.plan(43, round).String() {
				others++
			}
			for _, f := range append(slices.Clone(p.inTurn), p.besides...) {
				seen[f.kind]++
				if f.kind == partition || f.kind == deafness {
					require.NotEqual(t, f.shard*(1+s.replicas)+f.place, f.other, "no network from a server to itself: %v", f)
				}
			}
			requireInTurn(t, p)
		}
		assert.Greater(t, others, rounds*9/10, "another seed gives other faults")
		for _, k := range slices.Concat(s.inTurn, s.last, s.besides) {
			assert.GreaterOrEqual(t, seen[k], rounds/50, "%s: %s", s.name, k)
		}
	}
	// The same on every machine.
	assert.Equal(t, `clocks [0s 0s 0s 10.862ms -1.761ms 0s]
198ms: no network from another server, server 2.1 and 4, for 168ms
521ms: master dies, replica takes over, server 1.1, for 116ms
66ms: out of memory, server 1.0, for 229ms
83ms: BGREWRITEAOF, server 2.1
1.004s: out of memory, server 2.0, for 364ms`, inCluster.plan(1, 7).String())
}

// requireInTurn checks that no fault of those in turn begins before the last one has ended, and that none follows a
// takeover.
func requireInTurn(t *testing.T, p plan) {
	t.Helper()
	free := time.Duration(0)
	for i, f := range p.inTurn {
		require.GreaterOrEqual(t, f.at, free, "%v", p)
		free = f.at + f.lasts
		takesOver := slices.Contains([]kind{deadMaster, splitBrain, lateMaster}, f.kind)
		require.False(t, takesOver && i < len(p.inTurn)-1, "%v", p)
	}
}
