package past

import "math/bits"

// Calls are remembered in sets, chosen by a hash of their words: memorySets x memoryWays in
// all. Eight plans rarely meet in one set of 16, and four of them find room there.
const (
	memorySets = 16
	memoryWays = 4
)

// hashOf is a hash of args for variety. Args that share one only push each other out. ok is
// false for words that are not to be remembered.
func hashOf(args [][]byte, by uint16) (hash uint32, ok bool) {
	const odd = 0x9E3779B97F4A7C15 // 2^64 by the golden ratio
	h := uint64(by)
	for _, word := range args {
		if len(word) > maxWordLen {
			return 0, false
		}
		w := pack(word)
		h = (h ^ w.head ^ bits.RotateLeft64(w.tail, 29) ^ w.len) * odd
		h ^= h >> 32 // what is high comes to count below
	}
	return uint32(h * odd >> 32), true
}

// entry is a call that is remembered: words, the command that they were given to (Command.index), and what they
// were read as.
type entry[T any] struct {
	words packedWords
	by    uint16
	read  T
}

// memory is the calls that are remembered, in bounded room. The zero memory remembers none. It must not be copied: it
// points into itself.
type memory[T any] struct {
	latest *entry[T] // the call before, one of calls; nil if there was none
	fits   bool      // what find was asked for last can be remembered, by hash
	hash   uint32
	hashes [memorySets][memoryWays]uint32
	oldest [memorySets]uint8 // the way that is given up next
	calls  [memorySets * memoryWays]entry[T]
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
