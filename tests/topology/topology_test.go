package topology_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// docker compose runs the script at every start.
func TestClusterThatIsFormedStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, server.WithoutModule(), server.AppendOnly("always"))
	slots := func() []string {
		var all []string
		for _, n := range c.Nodes {
			all = append(all, n.MustDo("CLUSTER", "MYID").Text+" "+n.MustDo("CLUSTER", "SLOTS").String())
		}
		return all
	}
	require.NoError(t, c.Client().Set(t.Context(), "key", "1", 0).Err())
	before := slots()
	c.Form()
	assert.Equal(t, before, slots())
	for _, n := range c.Nodes {
		n.Stop()
	}
	for _, n := range c.Nodes {
		n.Restart()
	}
	c.Form()
	c.AwaitAgreement()
	assert.Equal(t, "1", c.Client().Get(t.Context(), "key").Val())
}
