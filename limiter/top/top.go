// Package top finds the keys that were hit most often lately, in bounded memory. It is the
// Space-Saving algorithm of Metwally, Agrawal and El Abbadi ("Efficient Computation
// of Frequent and Top-k Elements in Data Streams", ICDT 2005). Counts halve once a minute, so
// that old hits fade.
//
// A table of n entries keeps a count for n keys. A new key replaces the one with the lowest
// count, and inherits that count as its error. So a count is never too low and too high by
// at most its error, and every key with more than 1/n of all hits is in the table.
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
	order   []place           // all entries, from the lowest count to the highest
	runs    []run             // of entries with one count
	unused  []int32           // runs that none is of
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

// place is a place in order: the entry there, and the run of neighbours that it is one of.
type place struct{ entry, run int32 }

// run is all entries with one count, up to the last of them in order. A hit moves an entry from the
// end of its run to the beginning of the next, so that nothing has to be sorted.
type run struct {
	count uint64
	last  int32
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
	t.order, t.runs, t.unused = make([]place, n), make([]run, n), make([]int32, 0, n)
	for i := range t.entries {
		t.entries[i].place, t.order[i].entry = int32(i), int32(i)
		if i > 0 {
			t.unused = append(t.unused, int32(i))
		}
	}
	t.runs[0].last = int32(n - 1) // of all that have no hit
	t.index = make(map[uint64]int32, 2*n)
	t.seed = maphash.MakeSeed()
}

// Len is the number of entries the table has room for.
func (t *Table) Len() int { return len(t.entries) }

// Hit counts one hit of key in database db at nowNs.
func (t *Table) Hit(db int, key []byte, nowNs int64) { t.Add(db, key, 1, nowNs) }

// Add counts n hits, at least one, of key in database db at nowNs. It does not allocate when the key is in
// the table. Keys that come and go make the map grow once, to at most twice its size.
func (t *Table) Add(db int, key []byte, n uint64, nowNs int64) {
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
		e.hash, e.err, e.db = hash, t.runs[t.order[0].run].count, int32(db)
		e.len = int32(copy(t.names[i][:], key))
	}
	t.raise(t.entries[i].place, n)
}

// raise adds n hits to the entry at a place: the entry becomes the last of its run, and from there joins the next run
// or begins one. It passes run after run on the way to its count.
func (t *Table) raise(at int32, n uint64) {
	count := t.runs[t.order[at].run].count + n
	for joined := true; joined; {
		own := t.order[at].run
		last := t.runs[own].last
		t.swap(at, last)
		alone := last == 0 || t.order[last-1].run != own
		next := last + 1
		if joined = int(next) < len(t.order) && t.runs[t.order[next].run].count <= count; joined {
			to := t.order[next].run
			t.order[last].run = to
			joined = t.runs[to].count < count
			if alone {
				t.unused = append(t.unused, own)
			}
		} else if alone {
			t.runs[own].count = count
		} else {
			t.order[last].run = t.newRun(count, last)
		}
		if !alone {
			t.runs[own].last--
		}
		at = last
	}
}

func (t *Table) swap(a, b int32) {
	one, other := t.order[a].entry, t.order[b].entry
	t.order[a].entry, t.order[b].entry = other, one
	t.entries[one].place, t.entries[other].place = b, a
}

// newRun returns a run that ends at a place. There are as many as there are entries, so one is left.
func (t *Table) newRun(count uint64, last int32) (index int32) {
	n := len(t.unused) - 1
	index, t.unused = t.unused[n], t.unused[:n]
	t.runs[index] = run{count, last}
	return index
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
		count := t.runs[t.order[e.place].run].count
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
	if halvings == 0 || len(t.order) == 0 {
		return
	}
	t.halvedNs += halvings * halfLifeNs
	shift := uint(min(halvings, 63))
	for i := range t.entries {
		t.entries[i].err >>= shift
		t.runs[i].count >>= shift
	}
	t.joinEqualRuns()
}

// joinEqualRuns makes one run of neighbours that have come to have one count.
func (t *Table) joinEqualRuns() {
	own := t.order[0].run
	for at := range t.order {
		other := t.order[at].run
		switch {
		case other == own:
			continue
		case t.runs[other].count != t.runs[own].count:
			own = other
			continue
		case int(t.runs[other].last) == at:
			t.unused = append(t.unused, other)
		}
		t.order[at].run = own
		t.runs[own].last = int32(at)
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
