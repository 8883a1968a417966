package topology_test

import (
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

func TestReadReturnsValuesAndExpiries(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	s.MustDo("SET", "forever", "a\x00b")
	s.MustDo("SET", "future", "1", "PXAT", "4000000000001")
	s.MustDo("SET", "soon", "1", "PXAT", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
	state := topology.Read(t, s)
	assert.Len(t, state, 3)
	assert.Equal(t, topology.Entry{Value: "a\x00b", ExpireAtMs: -1}, state["forever"])
	assert.Equal(t, topology.Entry{Value: "1", ExpireAtMs: 4000000000001}, state["future"])
	lasting := state.Lasting(time.Now().Add(2 * time.Hour))
	assert.Len(t, lasting, 2)
	assert.NotContains(t, lasting, "soon")
}

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

func TestReplicasAreAwaitedThroughEachOther(t *testing.T) {
	t.Parallel()
	master := server.Start(t, server.WithoutModule(), topology.QuietLinks())
	near := server.Start(t, server.WithoutModule(), topology.QuietLinks(), server.ReplicaOf(master))
	far := server.Start(t, server.WithoutModule(), topology.QuietLinks(), server.ReplicaOf(near))
	topology.AwaitReplicas(t, master, near, far)
	for i := range 100 {
		master.MustDo("SET", strconv.Itoa(i), "1")
	}
	topology.AwaitReplicas(t, master, near, far)
	assert.Len(t, topology.RequireCopies(t, master, near, far), 100)
}

func TestHeldLinkCarriesNothingUntilItIsReleased(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	link := topology.LinkTo(t, s)
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(link.Port)))
	require.NoError(t, err)
	defer c.Close()
	ask := func() { _, err := io.WriteString(c, "INCR n\r\n"); require.NoError(t, err) }
	answer := func() string {
		b := make([]byte, 4)
		_, err := io.ReadFull(c, b)
		require.NoError(t, err)
		return string(b)
	}
	ask()
	require.Equal(t, ":1\r\n", answer())
	link.Hold()
	ask()
	assert.Equal(t, "1", s.MustDo("GET", "n").Text)
	link.Release()
	assert.Equal(t, ":2\r\n", answer())
}

func TestSentinelsPromoteAReplica(t *testing.T) {
	t.Parallel()
	master := server.Start(t, server.WithoutModule())
	replica := server.Start(t, server.WithoutModule(), server.ReplicaOf(master))
	topology.AwaitReplicas(t, master, replica)
	sentinels := topology.Watch(t, 3, master, 1)
	master.Kill()
	assert.Same(t, replica, sentinels.AwaitPromotion(t, master, master, replica))
}

func TestClusterHasThreeMastersWithAReplicaEach(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t, server.WithoutModule())
	masters := c.Masters()
	require.Len(t, masters, 3)
	for _, m := range masters {
		assert.NotContains(t, masters, c.ReplicaOf(m))
	}
	require.NoError(t, c.Client().Set(t.Context(), "key", "1", 0).Err())
	assert.Equal(t, "1", c.Owner(c.Slot("key")).MustDo("GET", "key").Text)
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
