// Table compared with Space-Saving as the paper has it: a list of counters, searched from
// one end to the other.
package top

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type naiveTable struct {
	room     int
	keys     []Key
	halvedNs int64
}

// add counts hits. Any of the keys with the lowest count may go: it is the one that is
// missing from listed, the table's list after the same hits.
func (m *naiveTable) add(t require.TestingT, db int, name string, hits uint64, listed []Key) {
	same := func(k Key) bool { return k.DB == db && string(k.Name) == name }
	i := slices.IndexFunc(m.keys, same)
	switch {
	case i >= 0:
	case len(m.keys) < m.room:
		i = len(m.keys)
		m.keys = append(m.keys, Key{DB: db, Name: []byte(name)})
	default:
		lowest := slices.MinFunc(m.keys, func(a, b Key) int { return int(a.Count) - int(b.Count) }).Count
		i = slices.IndexFunc(m.keys, func(k Key) bool {
			return !slices.ContainsFunc(listed, func(l Key) bool { return l.DB == k.DB && string(l.Name) == string(k.Name) })
		})
		require.GreaterOrEqual(t, i, 0, "a key was counted without a place of its own")
		require.Equal(t, lowest, m.keys[i].Count, "the key that went is not one of the lowest")
		m.keys[i] = Key{DB: db, Name: []byte(name), Count: lowest, Error: lowest}
	}
	m.keys[i].Count += hits
}

// setClock halves all counts for each minute that has passed. A clock that is set back begins a new one.
func (m *naiveTable) setClock(nowNs int64) {
	for ; nowNs-m.halvedNs >= int64(time.Minute); m.halvedNs += int64(time.Minute) {
		for i := range m.keys {
			m.keys[i].Count /= 2
			m.keys[i].Error /= 2
		}
		m.keys = slices.DeleteFunc(m.keys, func(k Key) bool { return k.Count == 0 })
	}
	m.halvedNs = min(m.halvedNs, nowNs)
}

func TestEveryHitDoesWhatTheNaiveTableDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 40).Draw(t, "entries")
		keys := rapid.IntRange(1, 3*room).Draw(t, "keys")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		model, now := naiveTable{room: room, keys: []Key{}, halvedNs: nowNs}, nowNs
		var table Table
		table.Resize(room)
		require.Empty(t, table.Top(nil, room, now))
		for range rapid.IntRange(1, 400).Draw(t, "hits") {
			if random.IntN(50) == 0 {
				steps := []int64{1, halfLifeNs - 1, halfLifeNs, halfLifeNs + 1, 3 * halfLifeNs, 100 * halfLifeNs, -1, 1 - halfLifeNs, -100 * halfLifeNs}
				now += steps[random.IntN(len(steps))]
				model.setClock(now)
			}
			// The square makes small numbers common, so that counts differ.
			db, name := random.IntN(2), fmt.Sprint(random.IntN(keys)*random.IntN(keys)/keys)
			hits := uint64(1)
			if random.IntN(4) == 0 {
				hits += uint64(random.IntN(1 + random.IntN(20)))
			}
			table.Add(db, []byte(name), hits, now)
			listed := table.Top([]Key{}, room, now)
			model.add(t, db, name, hits, listed)

			slices.SortFunc(model.keys, compare)
			require.Equal(t, model.keys, listed)
			n := random.IntN(room + 2)
			require.Equal(t, listed[:min(n, len(listed))], table.Top([]Key{}, n, now))
		}
	})
}

// Hits on the largest table are too many to list it after each: its parts have to agree.
func TestALargeTableStaysInOrder(t *testing.T) {
	for _, n := range []int{1, 2, 100, 4096, 10_000} {
		random := rand.New(rand.NewPCG(uint64(n), 3))
		var table Table
		table.Resize(n)
		for i := range 10 * n {
			table.Hit(0, fmt.Append(nil, random.IntN(3*n)), table.halvedNs+1)
			if i%n != 0 {
				continue
			}
			requireOrder(t, &table)
			if i%(3*n) == 0 {
				table.fade(nowNs + int64(i/n)*halfLifeNs)
				requireOrder(t, &table)
			}
		}
		require.Len(t, table.index, n)
		for hash, e := range table.index {
			require.Equal(t, hash, table.entries[e].hash)
		}
	}
}

func requireOrder(t *testing.T, table *Table) {
	runs := 1
	for at, place := range table.order {
		require.Equal(t, int32(at), table.entries[place.entry].place)
		own := table.runs[place.run]
		if at == len(table.order)-1 {
			require.Equal(t, int32(at), own.last)
			break
		}
		if next := table.order[at+1].run; next != place.run {
			runs++
			require.Equal(t, int32(at), own.last)
			require.Less(t, own.count, table.runs[next].count, "runs of one count are one")
		}
	}
	require.Len(t, table.unused, len(table.runs)-runs)
}

func TestTheListIsInOrder(t *testing.T) {
	list := []Key{
		{Count: 9, Error: 9, Name: []byte("z"), DB: 9},
		{Count: 8, Error: 1, Name: []byte("z"), DB: 9},
		{Count: 8, Error: 2, Name: []byte("a"), DB: 9},
		{Count: 8, Error: 2, Name: []byte("b"), DB: 0},
		{Count: 8, Error: 2, Name: []byte("b"), DB: 1},
	}
	for i := range list {
		for j := range list {
			assert.Equal(t, i < j, compare(list[i], list[j]) < 0, "%d before %d", i, j)
		}
	}
}

// The collector does not run for less than 256 MB of garbage. New keys may leave none, or
// an attacker with many names would fill that.
func TestKeysThatComeAndGoDoNotAllocate(t *testing.T) {
	for _, n := range []int{1, 4, 7, 8, 100, 1000, 5000, 10_000, MaxEntries} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var table Table
			table.Resize(n)
			var key [8]byte
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range 20*n + 1000 {
				binary.LittleEndian.PutUint64(key[:], uint64(i))
				table.Hit(i%16, key[:], nowNs)
			}
			runtime.ReadMemStats(&after)
			// The test's own machinery allocates now and then.
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10_000))
		})
	}
}
