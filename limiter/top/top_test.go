package top

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const nowNs = int64(1_700_000_000_000_000_000)

func TestATableOfNoEntriesCountsNothing(t *testing.T) {
	var table Table
	table.Hit(0, []byte("k"), nowNs)
	assert.Empty(t, table.Top(nil, 10, nowNs))
	table.Resize(1)
	table.Hit(0, []byte("k"), nowNs)
	table.Resize(0)
	table.Hit(0, []byte("k"), nowNs)
	assert.Empty(t, table.Top(nil, 10, nowNs))
}

func TestDatabasesAndLongKeysAreToldApart(t *testing.T) {
	var table Table
	table.Resize(8)
	long := make([]byte, 1000)
	table.Hit(0, []byte("k"), nowNs)
	table.Hit(1, []byte("k"), nowNs)
	table.Hit(0, long, nowNs)
	table.Hit(0, append(long[:999:999], 1), nowNs)
	table.Hit(0, []byte{}, nowNs)
	got := table.Top(nil, 8, nowNs)
	require.Len(t, got, 5)
	for _, k := range got {
		assert.Equal(t, uint64(1), k.Count)
		assert.LessOrEqual(t, len(k.Name), MaxKeyLen)
	}
}

func TestAListInTheMemoryOfAnotherDoesNotAllocate(t *testing.T) {
	var table Table
	table.Resize(100)
	for i := range 200 {
		table.Hit(0, fmt.Append(nil, i), nowNs)
	}
	list := table.Top(nil, 10, nowNs)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { list = table.Top(list, 10, nowNs) }))
}
