// Package top finds the keys that are hit most often lately, in bounded memory: the
// Space-Saving algorithm of Metwally, Agrawal and El Abbadi ("Efficient Computation
// of Frequent and Top-k Elements in Data Streams", ICDT 2005), with counts that halve
// once a minute, so that what is over fades.
//
// A table of n entries keeps a count for n keys. A key that is not among them takes
// the place of the one with the lowest count, and inherits that count as its error. So
// a count is never too low, it is too high by at most its error, and every key with more than
// 1/n of all hits is in the table.
package top

import (
	"bytes"
	"cmp"
	"container/heap"
	"hash/maphash"
	"slices"
)

const (
	// MaxEntries is the largest table, and MaxKeyLen how much of a key is kept.
	MaxEntries = 100_000
	MaxKeyLen  = 128

	halfLifeNs = 60 * 1_000_000_000
)

// Table counts hits. The zero Table has no entries and counts nothing.
type Table struct {
	entries []entry
	names   [][MaxKeyLen]byte // of the entries
	order   []place           // a heap of all entries, the one with the lowest count on top
	index   map[uint64]int32  // entries by the hash of database and key
	seed    maphash.Seed
	// When the counts were halved last, ns since the epoch.
	halvedNs int64
	// best is Top's, which would have to allocate it: the heap is handed its address.
	best lastFirst
}

// entry is one key. One whose count is 0 is free, or its hits are long over.
//
// Keys are told apart by their hashes alone. That any two of 100,000 keys share one has a
// probability of 3 in 10^10; they would be counted as one key.
type entry struct {
	hash  uint64
	err   uint64
	db    int32
	len   int32 // of the name
	place int32 // in order, where its count is
}

// place is one of the places of a heap by count.
type place struct {
	count uint64
	entry int32
}

// Key is one of the answers of Top. Name is the first MaxKeyLen bytes of it.
type Key struct {
	DB    int
	Name  []byte
	Count uint64 // hits, at most Error too many
	Error uint64
}

// Resize makes the table one of n entries, 0 to MaxEntries, and empties it.
func (t *Table) Resize(n int) {
	*t = Table{}
	if n == 0 {
		return
	}
	t.entries, t.names = make([]entry, n), make([][MaxKeyLen]byte, n)
	t.order = make([]place, n)
	for i := range t.entries {
		t.entries[i].place, t.order[i].entry = int32(i), int32(i)
	}
	t.index = make(map[uint64]int32, 2*n)
	t.seed = maphash.MakeSeed()
}

// Len is the number of entries the table has room for.
func (t *Table) Len() int { return len(t.entries) }

// Hit counts one hit of key in database db at nowNs. It does not allocate when the key is in
// the table. Keys that come and go make the map grow once, to at most twice its size.
func (t *Table) Hit(db int, key []byte, nowNs int64) {
	if len(t.entries) == 0 {
		return
	}
	t.fade(nowNs)
	hash := maphash.Bytes(t.seed, key) + uint64(db)
	i, found := t.index[hash]
	if !found {
		i = t.order[0].entry
		e := &t.entries[i]
		delete(t.index, e.hash)
		t.index[hash] = i
		e.hash, e.err, e.db = hash, t.order[0].count, int32(db)
		e.len = int32(copy(t.names[i][:], key))
	}
	t.countOne(int(t.entries[i].place))
}

// countOne adds a hit to the entry at a place, which sinks below those with fewer. A heap that
// asks an interface for each comparison takes longer than everything else in Hit.
func (t *Table) countOne(at int) {
	sinking := t.order[at]
	sinking.count++
	for {
		child := 2*at + 1
		if child >= len(t.order) {
			break
		}
		if right := child + 1; right < len(t.order) && t.order[right].count < t.order[child].count {
			child = right
		}
		if t.order[child].count >= sinking.count {
			break
		}
		t.order[at] = t.order[child]
		t.entries[t.order[at].entry].place = int32(at)
		at = child
	}
	t.order[at] = sinking
	t.entries[sinking.entry].place = int32(at)
}

// Top lists the up to n keys with the highest counts, the highest first; of equal counts,
// those with the smaller error. The list takes the place of list, to use its memory again. The
// names are valid until the next Hit.
func (t *Table) Top(list []Key, n int, nowNs int64) []Key {
	t.fade(nowNs)
	t.best = list[:0]
	isHeap := false
	for i := range t.entries {
		e := &t.entries[i]
		count := t.order[e.place].count
		if count == 0 {
			continue
		}
		key := Key{DB: int(e.db), Name: t.names[i][:e.len], Count: count, Error: e.err}
		if len(t.best) < n {
			t.best = append(t.best, key)
			continue
		}
		if !isHeap {
			heap.Init(&t.best)
			isHeap = true
		}
		if n > 0 && compare(key, t.best[0]) < 0 {
			t.best[0] = key
			heap.Fix(&t.best, 0)
		}
	}
	list, t.best = t.best, nil
	slices.SortFunc(list, compare)
	return list
}

// compare is negative when a is listed before b.
func compare(a, b Key) int {
	if a.Count != b.Count {
		return cmp.Compare(b.Count, a.Count)
	}
	if a.Error != b.Error {
		return cmp.Compare(a.Error, b.Error)
	}
	if order := bytes.Compare(a.Name, b.Name); order != 0 {
		return order
	}
	return cmp.Compare(a.DB, b.DB)
}

// fade halves all counts for every half-life gone by. Halving keeps their order.
func (t *Table) fade(nowNs int64) {
	if t.halvedNs == 0 || nowNs < t.halvedNs {
		t.halvedNs = nowNs // the first hit, or the clock was set back
	}
	halvings := (nowNs - t.halvedNs) / halfLifeNs
	if halvings == 0 {
		return
	}
	t.halvedNs += halvings * halfLifeNs
	shift := uint(min(halvings, 63))
	for i := range t.entries {
		t.order[i].count >>= shift
		t.entries[i].err >>= shift
	}
}

// lastFirst is a heap of the keys to list, the last of them on top.
type lastFirst []Key

func (h lastFirst) Len() int           { return len(h) }
func (h lastFirst) Less(a, b int) bool { return compare(h[a], h[b]) > 0 }
func (h lastFirst) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }

// The heap gets neither larger nor smaller, but heap.Interface asks for a Push and a Pop.

func (h *lastFirst) Push(any) {}
func (h *lastFirst) Pop() any { return nil }
