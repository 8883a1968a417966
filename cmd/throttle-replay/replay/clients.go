package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
)

// client is who requests come from, by the key of a limit. It holds the requests since its last block.
type client struct {
	id     uint64 // of its key, for reports
	lines  int64
	units  int64
	baseNs int64 // when the first request in encoded came
	lastNs int64
	blocks int64 // where its last block is, noBlock without one

	agents             uint64 // a bit for each of its user agents, by their hashes
	network            uint32 // of its address, 0 for none
	perMinute, perHour uint32 // units in its fullest minute and hour, once all clients were looked at
	groups             uint16 // that it belongs to, as bits

	encoded []byte
	held    uint8 // requests in encoded
	regular bool  // was not known when the sketch had counted enough of its requests

	isEarlier bool // the first request in encoded came before the last one that is in no block
	isMixed   bool // its requests are of several chapters
}

// nobody is the index of no client.
const nobody = ^uint32(0)

// rare is how many requests make a client one that is not rare.
const rare = blockEvents

// clients are all that are known, up to a number. Beyond that number, of the clients with few requests a sample is
// kept: one in 2^level, by the hash of the key. A client that turns out to make more is kept from then on, whatever its
// hash is.
//
// Clients are told apart by a hash of 64 bits. That any two of a million share one has a probability of 3 in 10^8; they
// would be counted as one.
type clients struct {
	most     int
	hasCosts bool
	salt     []byte
	keepKeys bool

	seed  maphash.Seed
	index map[uint64]uint32
	pages []*[pageClients]client
	keys  map[uint32]string // if keepKeys
	count uint32            // of places in pages that were used
	free  []uint32          // of those, the ones that are free again

	level   uint
	sketch  *sketch
	leftOut int64 // requests of clients that are not in the sample
	spool   spool
	room    []byte
}

const pageClients = 4096

func newClients(o *Options) *clients {
	return &clients{
		most: o.MaxClients, hasCosts: !o.Cost.IsOne(), salt: o.Salt, keepKeys: o.ShowKeys || len(o.Keyed) > 0, seed: maphash.MakeSeed(),
		index: map[uint64]uint32{},
		keys:  map[uint32]string{}, spool: spool{most: o.spoolBytes(), dir: o.TempDir},
	}
}

func (t *clients) at(i uint32) *client { return &t.pages[i/pageClients][i%pageClients] }

// find returns the client of a key, nobody if its requests are left out. thinned says that clients were dropped to make
// room.
func (t *clients) find(key []byte) (index uint32, thinned bool) {
	hash := maphash.Bytes(t.seed, key)
	if i, ok := t.index[hash]; ok {
		return i, false
	}
	id, isRegular := t.idOf(key), false
	if t.level > 0 && !t.isSampled(id) {
		if isRegular = t.sketch.hit(hash, 1); !isRegular {
			t.leftOut++
			return nobody, false
		}
	}
	if len(t.index) >= t.most {
		thinned = t.thin()
		if len(t.index) >= t.most || !isRegular && !t.isSampled(id) {
			t.leftOut++
			return nobody, thinned
		}
	}
	index = t.add(hash, id, key)
	t.at(index).regular = isRegular
	return index, thinned
}

func (t *clients) add(hash, id uint64, key []byte) uint32 {
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		if i = t.count; i%pageClients == 0 {
			t.pages = append(t.pages, new([pageClients]client))
		}
		t.count++
	}
	t.index[hash] = i
	*t.at(i) = client{id: id, blocks: noBlock, network: networkOf(key)}
	if t.keepKeys {
		t.keys[i] = string(key)
	}
	return i
}

// idOf is what reports call a key that they must not show. The salt keeps anybody from trying all addresses.
func (t *clients) idOf(key []byte) uint64 {
	t.room = append(append(t.room[:0], t.salt...), key...)
	sum := sha256.Sum256(t.room)
	return binary.BigEndian.Uint64(sum[:])
}

func (t *clients) isSampled(id uint64) bool { return id&(1<<t.level-1) == 0 }

// weight is how many clients one stands for, 0 for one that is not in the sample.
func (t *clients) weight(c *client) int64 {
	switch {
	case t.level == 0 || c.lines >= rare || c.regular && !t.isSampled(c.id):
		return 1
	case t.isSampled(c.id):
		return 1 << t.level
	}
	return 0
}

// mostLevel bounds the sample.
const mostLevel = 40

// thin makes room. It makes the sample smaller, unless many clients are here because the sketch took them for what they
// are not.
func (t *clients) thin() (dropped bool) {
	if t.sketch == nil {
		t.sketch = newSketch()
	}
	for len(t.index) > t.most/4*3 && t.level < mostLevel {
		doubtful := 0
		for _, i := range t.index {
			if t.isDoubtful(t.at(i)) {
				doubtful++
			}
		}
		isDropped := t.isDoubtful
		if doubtful <= t.most/4 {
			t.level++
			isDropped = func(c *client) bool { return t.weight(c) == 0 }
		}
		for hash, i := range t.index {
			if c := t.at(i); isDropped(c) {
				dropped = true
				t.leftOut += c.lines
				t.sketch.hit(hash, c.lines)
				delete(t.index, hash)
				delete(t.keys, i)
				*c = client{lines: -1, blocks: noBlock}
				t.free = append(t.free, i)
			}
		}
	}
	return dropped
}

// isDoubtful reports whether a client is here only because of the sketch, which may have counted others.
func (t *clients) isDoubtful(c *client) bool {
	return c.regular && c.lines < rare && !t.isSampled(c.id)
}

// isDropped reports whether thin dropped a client. Its place is used again by the next add.
func (t *clients) isDropped(i uint32) bool { return t.at(i).lines < 0 }

// note adds a request. It came after those before, unless a chapter has begun.
func (t *clients) note(i uint32, nowNs, cost int64) error {
	c := t.at(i)
	if c.lines > 0 && nowNs < c.lastNs {
		if err := t.moveOut(c); err != nil {
			return err
		}
		c.isEarlier, c.isMixed = true, true
	}
	c.lines++
	c.units += cost
	if c.held == 0 {
		c.baseNs = nowNs
	} else {
		c.encoded = appendGap(c.encoded, nowNs-c.lastNs)
	}
	c.lastNs = nowNs
	if t.hasCosts {
		c.encoded = binary.AppendUvarint(c.encoded, uint64(cost))
	}
	if c.held++; c.held < blockEvents {
		return nil
	}
	return t.moveOut(c)
}

// moveOut moves the requests of a client that are in memory to a block.
func (t *clients) moveOut(c *client) (err error) {
	if c.held == 0 {
		return nil
	}
	c.blocks, err = t.spool.write(block{before: c.blocks, baseNs: c.baseNs, held: int(c.held), isEarlier: c.isEarlier, encoded: c.encoded})
	c.encoded, c.held, c.isEarlier = c.encoded[:0], 0, false
	return err
}

// history reads the requests of clients. Each goroutine has its own.
type history struct {
	of           *clients
	blocks       []int64
	room         []byte
	times, costs []int64
}

// historyEvents is how many requests are handed on at once.
const historyEvents = 64 * blockEvents

func (t *clients) history() *history {
	return &history{of: t, room: make([]byte, longestBlock), times: make([]int64, 0, historyEvents), costs: make([]int64, 0, historyEvents)}
}

// each hands all requests of a client to feed, the oldest first, some at a time. costs is empty if each takes one unit.
func (h *history) each(c *client, feed func(times, costs []int64)) error {
	h.blocks = h.blocks[:0]
	for at := c.blocks; at != noBlock; {
		b, err := h.of.spool.read(at, h.room)
		if err != nil {
			return err
		}
		h.blocks = append(h.blocks, at)
		at = b.before
	}
	h.times, h.costs = h.times[:0], h.costs[:0]
	if c.isMixed {
		return h.merged(c, feed)
	}
	for i := len(h.blocks) - 1; i >= 0; i-- {
		b, err := h.of.spool.read(h.blocks[i], h.room)
		if err != nil {
			return err
		}
		h.times, h.costs = decode(b.encoded, b.held, b.baseNs, h.of.hasCosts, h.times, h.costs)
		h.feedFull(feed)
	}
	h.times, h.costs = decode(c.encoded, int(c.held), c.baseNs, h.of.hasCosts, h.times, h.costs)
	h.feedRest(feed)
	return nil
}

// feedFull hands on what was read if another block may not fit.
func (h *history) feedFull(feed func(times, costs []int64)) {
	if len(h.times) > historyEvents-blockEvents {
		h.feedRest(feed)
	}
}

func (h *history) feedRest(feed func(times, costs []int64)) {
	if len(h.times) > 0 {
		feed(h.times, h.costs)
	}
	h.times, h.costs = h.times[:0], h.costs[:0]
}

// sketch counts the requests of clients that are not known, in bounded memory: a count-min sketch of two rows. A count
// may be too high, which keeps a rare client for a while, and never too low.
type sketch struct{ rows [2][]uint8 }

const sketchWidth = 1 << 22

func newSketch() *sketch {
	s := &sketch{}
	for i := range s.rows {
		s.rows[i] = make([]uint8, sketchWidth)
	}
	return s
}

// hit counts requests and reports whether their client is no longer rare.
func (s *sketch) hit(hash uint64, requests int64) bool {
	first, second := &s.rows[0][hash%sketchWidth], &s.rows[1][hash>>32%sketchWidth]
	least := min(*first, *second)
	if least >= rare {
		return true
	}
	count := uint8(min(int64(least)+requests, rare))
	*first, *second = max(*first, count), max(*second, count)
	return false
}
