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
	"hash/maphash"
	"slices"
)

const (
	// MaxEntries is the largest table, and MaxKeyLen how much of a key is kept. Longer
	// keys are told apart by a 64-bit hash.
	MaxEntries = 100_000
	MaxKeyLen  = 128

	halfLifeNs = 60 * 1_000_000_000
)

// Table counts hits. The zero Table has no entries and counts nothing.
type Table struct {
	entries []entry
	used    int
	heap    []int32 // entries by count, the lowest first
	slots   []int32 // by hash, linear probing: an entry's index + 1, or 0
	seed    maphash.Seed
	// When the counts were halved last, ns since the epoch.
	halvedNs int64
}

type entry struct {
	hash  uint64
	count uint64
	err   uint64
	db    int32
	place int32 // in heap
	len   int32 // of the whole key
	key   [MaxKeyLen]byte
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
	slots := 4
	for slots < 2*n {
		slots *= 2
	}
	t.entries, t.heap, t.slots = make([]entry, n), make([]int32, n), make([]int32, slots)
	t.seed = maphash.MakeSeed()
}

// Len is the number of entries the table has room for.
func (t *Table) Len() int { return len(t.entries) }

// Hit counts one hit of key in database db at nowNs. It does not allocate.
func (t *Table) Hit(db int, key []byte, nowNs int64) {
	if len(t.entries) == 0 {
		return
	}
	t.fade(nowNs)
	hash := maphash.Bytes(t.seed, key) + uint64(db)
	slot, found := t.find(hash, db, key)
	var e *entry
	switch {
	case found:
		e = &t.entries[t.slots[slot]-1]
	case t.used < len(t.entries):
		e = &t.entries[t.used]
		t.heap[t.used], e.place = int32(t.used), int32(t.used)
		t.used++
		t.slots[slot] = int32(t.used)
		e.set(hash, db, key)
		t.rise(e.place)
	default:
		lowest := t.heap[0]
		t.unlink(lowest)
		e = &t.entries[lowest]
		e.err = e.count
		e.set(hash, db, key)
		slot, _ = t.find(hash, db, key)
		t.slots[slot] = lowest + 1
	}
	e.count++
	t.sink(e.place)
}

// Top appends the up to n keys with the highest counts to dst, the highest first. The
// names are valid until the next Hit.
func (t *Table) Top(dst []Key, n int, nowNs int64) []Key {
	t.fade(nowNs)
	for i := range t.entries[:t.used] {
		if e := &t.entries[i]; e.count > 0 {
			dst = append(dst, Key{DB: int(e.db), Name: e.key[:min(int(e.len), MaxKeyLen)], Count: e.count, Error: e.err})
		}
	}
	slices.SortFunc(dst, func(a, b Key) int {
		switch {
		case a.Count != b.Count:
			return compare(b.Count, a.Count)
		case a.Error != b.Error:
			return compare(a.Error, b.Error)
		}
		return bytes.Compare(a.Name, b.Name)
	})
	return dst[:min(n, len(dst))]
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

func (e *entry) set(hash uint64, db int, key []byte) {
	e.hash, e.db, e.len = hash, int32(db), int32(min(len(key), 1<<30))
	copy(e.key[:], key)
}

func (e *entry) is(hash uint64, db int, key []byte) bool {
	n := min(len(key), MaxKeyLen)
	return e.hash == hash && int(e.db) == db && int(e.len) == len(key) && bytes.Equal(e.key[:n], key[:n])
}

// fade halves all counts for every half-life gone by. Halving keeps their order.
func (t *Table) fade(nowNs int64) {
	if nowNs-t.halvedNs < halfLifeNs && nowNs >= t.halvedNs {
		return
	}
	halvings := (nowNs - t.halvedNs) / halfLifeNs
	if halvings < 0 || t.halvedNs == 0 {
		halvings, t.halvedNs = 0, nowNs // the clock was set back, or this is the first hit
	}
	t.halvedNs += halvings * halfLifeNs
	shift := uint(min(halvings, 63))
	for i := range t.entries[:t.used] {
		t.entries[i].count >>= shift
		t.entries[i].err >>= shift
	}
}

// find returns the slot of a key, or the one to put it in.
func (t *Table) find(hash uint64, db int, key []byte) (slot int, found bool) {
	mask := len(t.slots) - 1
	for slot = int(hash) & mask; t.slots[slot] != 0; slot = (slot + 1) & mask {
		if t.entries[t.slots[slot]-1].is(hash, db, key) {
			return slot, true
		}
	}
	return slot, false
}

// unlink takes an entry out of the slots and closes the gap it leaves.
func (t *Table) unlink(index int32) {
	mask := len(t.slots) - 1
	gap := int(t.entries[index].hash) & mask
	for t.slots[gap] != index+1 {
		gap = (gap + 1) & mask
	}
	for next := (gap + 1) & mask; t.slots[next] != 0; next = (next + 1) & mask {
		home := int(t.entries[t.slots[next]-1].hash) & mask
		if (next-home)&mask >= (next-gap)&mask {
			t.slots[gap] = t.slots[next]
			gap = next
		}
	}
	t.slots[gap] = 0
}

// rise moves the entry at a place of the heap up to where its count belongs.
func (t *Table) rise(place int32) {
	for place > 0 {
		parent := (place - 1) / 2
		if t.count(parent) <= t.count(place) {
			return
		}
		t.swap(place, parent)
		place = parent
	}
}

// sink moves the entry at a place of the heap down to where its count belongs.
func (t *Table) sink(place int32) {
	for {
		child := 2*place + 1
		if int(child) >= t.used {
			return
		}
		if int(child)+1 < t.used && t.count(child+1) < t.count(child) {
			child++
		}
		if t.count(place) <= t.count(child) {
			return
		}
		t.swap(place, child)
		place = child
	}
}

func (t *Table) count(place int32) uint64 { return t.entries[t.heap[place]].count }

func (t *Table) swap(a, b int32) {
	t.heap[a], t.heap[b] = t.heap[b], t.heap[a]
	t.entries[t.heap[a]].place, t.entries[t.heap[b]].place = a, b
}
