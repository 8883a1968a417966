package command

import (
	"encoding/binary"
	"math"
	"math/bits"

	"redis-throttle/gcra"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// Callers mostly repeat themselves: between two calls the key differs, while the limits are
// those of one of a few plans. Comparing their words with remembered ones takes a fraction of
// the time of reading them.

const (
	// maxWordLen is how many bytes a remembered word has at most. Calls with longer ones are read
	// again.
	maxWordLen = 16
	// Calls are remembered in sets, chosen by a hash of their words: memorySets x memoryWays in
	// all. Eight plans rarely meet in one set of 16, and four of them find room there.
	memorySets = 16
	memoryWays = 4
)

// pastWord is a word of up to maxWordLen bytes: its length, and its first and last eight bytes,
// which overlap where it is shorter.
type pastWord struct{ len, head, tail uint64 }

// wordOf packs a word; different words pack differently. One of more than maxWordLen bytes is packed as what no word is.
func wordOf(word []byte) pastWord {
	switch n := len(word); {
	case n > maxWordLen:
		return pastWord{len: math.MaxUint64}
	case n >= 8:
		return pastWord{uint64(n), binary.LittleEndian.Uint64(word), binary.LittleEndian.Uint64(word[n-8:])}
	case n >= 4:
		return pastWord{uint64(n), uint64(binary.LittleEndian.Uint32(word)), uint64(binary.LittleEndian.Uint32(word[n-4:]))}
	case n > 0:
		return pastWord{uint64(n), uint64(word[0]) | uint64(word[n/2])<<8, uint64(word[n-1])}
	}
	return pastWord{}
}

// pastWords are the words of a call.
type pastWords struct {
	count int // 0: of none, as no call has no words
	words [MaxArgs]pastWord
}

func (p *pastWords) are(args [][]byte) bool {
	return len(args) == p.count && p.haveAt(0, args)
}

// haveAt reports whether args stand at index at. They are compared as wordOf would pack them, without being packed: this is most of what
// a call costs that repeats an earlier one.
func (p *pastWords) haveAt(at int, args [][]byte) bool {
	if len(args) > len(p.words)-at {
		return false
	}
	past := p.words[at:]
	for i, word := range args {
		w, n := &past[i], len(word)
		if uint64(n) != w.len {
			return false
		}
		var head, tail uint64
		switch {
		case n >= 8:
			head, tail = binary.LittleEndian.Uint64(word), binary.LittleEndian.Uint64(word[n-8:])
		case n >= 4:
			head, tail = uint64(binary.LittleEndian.Uint32(word)), uint64(binary.LittleEndian.Uint32(word[n-4:]))
		case n > 0:
			head, tail = uint64(word[0])|uint64(word[n/2])<<8, uint64(word[n-1])
		}
		if head != w.head || tail != w.tail {
			return false
		}
	}
	return true
}

// note makes args the words that are remembered, and add appends some.
func (p *pastWords) note(args [][]byte) {
	p.count = 0
	p.add(args)
}

func (p *pastWords) add(args [][]byte) {
	for i, word := range args {
		p.words[p.count+i] = wordOf(word)
	}
	p.count += len(args)
}

// hashOf is a hash of args for variety. Args that share one only push each other out. ok is
// false for words that are not to be remembered.
func hashOf(args [][]byte, by uint16) (hash uint32, ok bool) {
	const odd = 0x9E3779B97F4A7C15 // 2^64 by the golden ratio
	h := uint64(by)
	for _, word := range args {
		if len(word) > maxWordLen {
			return 0, false
		}
		w := wordOf(word)
		h = (h ^ w.head ^ bits.RotateLeft64(w.tail, 29) ^ w.len) * odd
		h ^= h >> 32 // what is high comes to count below
	}
	return uint32(h * odd >> 32), true
}

// past is a call that is remembered: words, the command that they were given to (Command.index), and what they
// were read as.
type past[T any] struct {
	words pastWords
	by    uint16
	read  T
}

// memory is the calls that are remembered, in bounded room. The zero memory remembers none. It must not be copied: it points into itself.
type memory[T any] struct {
	latest *past[T] // the call before, one of calls; nil if there was none
	fits   bool     // what find was asked for last can be remembered, by hash
	hash   uint32
	hashes [memorySets][memoryWays]uint32
	oldest [memorySets]uint8 // the way that is given up next
	calls  [memorySets * memoryWays]past[T]
}

// find returns what args were read as, or nil. It holds until the next note.
func (m *memory[T]) find(args [][]byte, by uint16) *T {
	if latest := m.latest; latest != nil && latest.by == by && latest.words.are(args) {
		return &latest.read
	}
	return m.findElsewhere(args, by)
}

//go:noinline
func (m *memory[T]) findElsewhere(args [][]byte, by uint16) *T {
	if m.hash, m.fits = hashOf(args, by); !m.fits {
		return nil
	}
	set := m.hash % memorySets
	for way, hash := range m.hashes[set] {
		if hash != m.hash {
			continue
		}
		index := set*memoryWays + uint32(way)
		if call := &m.calls[index]; call.by == by && call.words.are(args) {
			m.latest = call
			return &call.read
		}
	}
	return nil
}

// note makes room for what args were read as, which find has just not found. It returns
// nil when they are not to be remembered.
func (m *memory[T]) note(args [][]byte, by uint16) *T {
	if !m.fits {
		return nil
	}
	set := m.hash % memorySets
	way := m.oldest[set]
	index := uint8(set)*memoryWays + way
	m.oldest[set] = (way + 1) % memoryWays
	m.hashes[set][way] = m.hash
	call := &m.calls[index]
	m.latest = call
	call.words.note(args)
	call.by = by
	return &call.read
}

// Past is what the words of earlier calls were read as.
type Past struct {
	limits   memory[pastLimit]
	requests memory[pastRequest]
	groups   memory[pastGroups]
	leases   pastLeases
}

// pastLimit is what the words of CL.THROTTLE's limit were read as.
type pastLimit struct {
	limit    gcra.Limit
	periodNs int64
}

// pastRequest is what the words of a command of the CL.LIMIT family were read as, limits and
// options.
type pastRequest struct {
	request words.Request
	limits  [stack.MaxLimits]stack.Limit
	count   int
}

// pastGroups is what the words behind the keys of a call with several keys were read as. Calls with more limits than
// there is room for are read again.
type pastGroups struct {
	request words.Request
	limits  [2 * MaxKeys]stack.Limit
	ends    [MaxKeys]int // of the limits of each group
	slots   [MaxKeys]words.SlotGroup
	count   int // of groups
}

// group is what was said of a key: by its own group or, where there is one only, by that.
func (p *pastGroups) group(key int) ([]stack.Limit, words.SlotGroup) {
	if key = min(key, p.count-1); key > 0 {
		return p.limits[p.ends[key-1]:p.ends[key]], p.slots[key]
	}
	return p.limits[:p.ends[0]], p.slots[0]
}

func (p *Past) findLimit(args [][]byte) *pastLimit {
	if p == nil {
		return nil
	}
	return p.limits.find(args, 0)
}

func (p *Past) noteLimit(args [][]byte, limit *pastLimit) {
	if p == nil {
		return
	}
	if past := p.limits.note(args, 0); past != nil {
		*past = *limit
	}
}

func (p *Past) findRequest(args [][]byte, by uint16) *pastRequest {
	if p == nil {
		return nil
	}
	return p.requests.find(args, by)
}

// noteRequest remembers what args were read as: r, and the limits of s.
func (p *Past) noteRequest(args [][]byte, by uint16, r *words.Request, s *stack.Stack) {
	if p == nil {
		return
	}
	if past := p.requests.note(args, by); past != nil {
		past.request = *r
		past.count = len(s.Limits(past.limits[:0]))
	}
}

func (p *Past) findGroups(args [][]byte, by uint16) *pastGroups {
	if p == nil || len(args) > MaxArgs {
		return nil
	}
	return p.groups.find(args, by)
}

// noteGroups remembers what args were read as: r, and the limits or slots of each of groups.
func (p *Past) noteGroups(args [][]byte, by uint16, r *words.Request, groups []stack.Stack, slots []words.SlotGroup) {
	if p == nil || len(args) > MaxArgs {
		return
	}
	limits := 0
	for i := range groups {
		limits += groups[i].Len()
	}
	var past *pastGroups
	if limits > len(past.limits) {
		return
	}
	if past = p.groups.note(args, by); past == nil {
		return
	}
	past.request, past.count = *r, len(groups)
	copy(past.slots[:], slots)
	end := 0
	for i := range groups {
		end += len(groups[i].Limits(past.limits[end:end]))
		past.ends[i] = end
	}
}
