package durability

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/topology"
)

// One key is one slot: keys spread over the masters, a client that knows clusters
// finds each, and one that does not is told where it is.
func TestClusterSpreadsKeysAndClientsFindThem(t *testing.T) {
	begin(t)
	cluster := topology.StartCluster(t)
	client := cluster.Client()
	const keys = 300
	for i := range keys {
		n, err := client.Do(t.Context(), wordsOf(hourly.call(fmt.Sprint("user:", i), 1))...).Int64Slice()
		require.NoError(t, err)
		require.Equal(t, []int64{0, hourly.capacity, hourly.capacity - 1, -1, 3600}, n)
	}

	found := 0
	for _, master := range cluster.Masters() {
		replica := cluster.ReplicaOf(master)
		topology.AwaitReplicas(t, master, replica)
		state := topology.RequireCopies(t, master, replica)
		assert.Greater(t, len(state), keys/6, "keys on the master on port %d", master.Port)
		for key := range state {
			assert.Same(t, master, cluster.Owner(cluster.Slot(key)), key)
		}
		found += len(state)
		t.Logf("master on port %d and its replica: %d keys", master.Port, len(state))
	}
	assert.Equal(t, keys, found)

	const key = "user:0"
	owner := cluster.Owner(cluster.Slot(key))
	for _, node := range cluster.Nodes {
		v := node.Do(hourly.call(key, 0)...)
		if node == owner {
			assert.False(t, v.IsError(), v)
			continue
		}
		assert.Equal(t, fmt.Sprintf("MOVED %d %s", cluster.Slot(key), owner.Addr()), v.Text)
	}
	// The command writes, so a replica sends its callers to the master even where
	// they said that they only read.
	replies, err := cluster.ReplicaOf(owner).Raw().Pipeline([]string{"READONLY"}, hourly.call(key, 0))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(replies[1].Text, "MOVED "), replies[1])
}

// Limits whose keys share a hash tag share a slot, and can be asked in one transaction.
func TestHashTagKeepsLimitsTogether(t *testing.T) {
	begin(t)
	cluster := topology.StartCluster(t)
	const perMinute, perDay = "limit:{user:42}:minute", "limit:{user:42}:day"
	require.Equal(t, cluster.Slot(perMinute), cluster.Slot(perDay))
	replies, err := cluster.Owner(cluster.Slot(perDay)).Raw().Pipeline(
		[]string{"MULTI"}, hourly.call(perMinute, 1), hourly.call(perDay, 1), []string{"EXEC"})
	require.NoError(t, err)
	require.Len(t, replies[3].Elems, 2, "%v", replies[3])
	for _, v := range replies[3].Elems {
		a, err := answerIn(v)
		require.NoError(t, err)
		assert.True(t, a.Allowed)
	}
}

func wordsOf(call []string) []any {
	words := make([]any, len(call))
	for i, word := range call {
		words[i] = word
	}
	return words
}
