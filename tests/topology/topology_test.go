package topology_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

func TestCopiesAreComparedByValueAndExpiry(t *testing.T) {
	t.Parallel()
	a, b := server.Start(t, server.WithoutModule()), server.Start(t, server.WithoutModule())
	a.MustDo("SET", "key", "1", "PXAT", "4000000000000")
	for _, other := range [][]string{{"1", "PXAT", "4000000000001"}, {"2", "PXAT", "4000000000000"}, {"1"}} {
		b.MustDo(append([]string{"SET", "key"}, other...)...)
		inner := &recorder{TB: t}
		inner.run(func() { topology.RequireCopies(inner, a, b) })
		assert.True(t, inner.failed, other)
	}
	b.MustDo("SET", "key", "1", "PXAT", "4000000000000")
	assert.Len(t, topology.RequireCopies(t, a, b), 1)
	b.MustDo("SET", "more", "1")
	inner := &recorder{TB: t}
	inner.run(func() { topology.RequireCopies(inner, a, b) })
	assert.True(t, inner.failed)
}

// recorder is a test within the test, whose failure fails nothing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) FailNow()              { r.failed = true; panic(r) }

func (r *recorder) run(f func()) {
	defer func() {
		if cause := recover(); cause != nil && cause != any(r) {
			panic(cause)
		}
	}()
	f()
}

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
