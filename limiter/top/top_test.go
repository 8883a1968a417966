package top

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const nowNs = int64(1_700_000_000_000_000_000)

func names(keys []Key) (all []string) {
	for _, k := range keys {
		all = append(all, string(k.Name))
	}
	return all
}

func TestWhileAllKeysFitCountsAreExact(t *testing.T) {
	var table Table
	table.Resize(10)
	for i := range 10 {
		for range i + 1 {
			table.Hit(0, fmt.Appendf(nil, "k%d", i), nowNs)
		}
	}
	got := table.Top(nil, 3, nowNs)
	assert.Equal(t, []string{"k9", "k8", "k7"}, names(got))
	assert.Equal(t, uint64(10), got[0].Count)
	assert.Zero(t, got[0].Error)
}

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

// The promises of Space-Saving, against exact counts, for crowds of rare keys around
// a few that are common.
func TestACountIsNeverTooLowAndCommonKeysAreNeverMissed(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			var table Table
			table.Resize(n)
			exact := map[string]uint64{}
			const hits = 100_000
			for range hits {
				key := fmt.Sprintf("rare%d", random.IntN(5000))
				if random.IntN(4) == 0 {
					key = fmt.Sprintf("common%d", random.IntN(5))
				}
				exact[key]++
				table.Hit(0, []byte(key), nowNs)
			}
			counted := map[string]Key{}
			var sum uint64
			for _, k := range table.Top(nil, n, nowNs) {
				counted[string(k.Name)] = k
				sum += k.Count
				assert.GreaterOrEqual(t, k.Count, exact[string(k.Name)])
				assert.LessOrEqual(t, k.Count-k.Error, exact[string(k.Name)])
			}
			assert.Equal(t, uint64(hits), sum)
			for key, count := range exact {
				if count > hits/uint64(n) {
					assert.Contains(t, counted, key)
				}
			}
		})
	}
}

func TestCountsHalveOnceAMinute(t *testing.T) {
	var table Table
	table.Resize(4)
	for range 8 {
		table.Hit(0, []byte("k"), nowNs)
	}
	assert.Equal(t, uint64(8), table.Top(nil, 1, nowNs+halfLifeNs-1)[0].Count)
	assert.Equal(t, uint64(4), table.Top(nil, 1, nowNs+60*1_000_000_000)[0].Count)
	assert.Equal(t, uint64(1), table.Top(nil, 1, nowNs+3*halfLifeNs)[0].Count)
	assert.Empty(t, table.Top(nil, 1, nowNs+4*halfLifeNs))
	assert.Empty(t, table.Top(nil, 1, nowNs), "nor does a clock that is set back bring it back")
}

func TestAClockThatIsSetBackStartsTheMinuteAnew(t *testing.T) {
	for _, setBackNs := range []int64{1, halfLifeNs - 1, halfLifeNs, 100 * halfLifeNs} {
		var table Table
		table.Resize(4)
		for range 8 {
			table.Hit(0, []byte("k"), nowNs)
		}
		back := nowNs - setBackNs
		assert.Equal(t, uint64(8), table.Top(nil, 1, back)[0].Count)
		assert.Equal(t, uint64(8), table.Top(nil, 1, back+halfLifeNs-1)[0].Count)
		assert.Equal(t, uint64(4), table.Top(nil, 1, back+halfLifeNs)[0].Count)
	}
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

func TestAHitDoesNotAllocate(t *testing.T) {
	var table Table
	table.Resize(16)
	i := byte(0)
	key := make([]byte, 20)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		i++
		key[0] = i
		table.Hit(0, key, nowNs)
	}))
}

func TestAListInTheMemoryOfAnotherDoesNotAllocate(t *testing.T) {
	table := crowded(100, 1000)
	list := table.Top(nil, 10, nowNs)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { list = table.Top(list, 10, nowNs) }))
}

// crowded is a table with room for entries, after twice as many hits of random keys.
func crowded(entries, keys int) *Table {
	var table Table
	table.Resize(entries)
	random := rand.New(rand.NewPCG(1, 1))
	for range 2 * entries {
		table.Hit(0, fmt.Appendf(nil, "user:%012d", random.IntN(keys)), nowNs)
	}
	return &table
}
