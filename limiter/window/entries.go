package window

import (
	"encoding/binary"
	"math/bits"
)

const (
	wordLen   = 8
	columnLen = (maxEntries + 1) * wordLen
	inColumn  = 511 // bits of an index in a column behind which there is room for a word
)

// entries is what a window remembers of the units it granted. The zero value remembers none.
//
// Entries are kept as they are encoded, since a command touches only the first few and
// the last: a column of instants, each cut to its lowest bytes, and one of units.
// They are at first <= i < end, in strictly increasing order of instant, and at most
// maxEntries; the spare place lets a charge follow a Decode without moving any.
type entries struct {
	first, end int
	total      int64 // the sum of units over all entries
	last       int64 // the instant of the last entry
	timeWidth  int   // bytes per entry in the column of instants
	unitWidth  int   // bytes per entry in the column of units

	instants [columnLen]byte
	units    [columnLen]byte
}

func (s *entries) empty() bool { return s.first == s.end }

// instant is when entry i counts from: its age is in the bytes that the column keeps.
func (s *entries) instant(i int) int64 {
	kept := binary.LittleEndian.Uint64(s.instants[i*s.timeWidth:])
	return s.last - int64((uint64(s.last)-kept)&mask(s.timeWidth))
}

// unitsOf is the number of units in entry i.
func (s *entries) unitsOf(i int) int64 {
	return int64(binary.LittleEndian.Uint64(s.units[i*s.unitWidth:]) & mask(s.unitWidth))
}

// setUnits makes entry i hold units.
func (s *entries) setUnits(i int, units int64) {
	if width(uint64(units)) > s.unitWidth {
		s.widen()
	}
	putField(s.units[i*s.unitWidth:], uint64(units), s.unitWidth)
}

// widen makes room for any number of units in every entry.
func (s *entries) widen() {
	for i := s.end - 1; i >= s.first; i-- { // from the end: fields move towards it
		binary.LittleEndian.PutUint64(s.units[i*wordLen:], uint64(s.unitsOf(i)))
	}
	s.unitWidth = wordLen
}

// push adds an entry after the last. Its instant is later, by no more than timeWidth
// bytes hold from the first entry on.
func (s *entries) push(instant, units int64, timeWidth int) {
	switch {
	case s.empty():
		s.first, s.end, s.timeWidth, s.unitWidth = 0, 0, timeWidth, 1
	case s.end == columnLen/wordLen:
		copy(s.instants[:], s.instants[s.first*s.timeWidth:])
		copy(s.units[:], s.units[s.first*s.unitWidth:])
		s.first, s.end = 0, s.end-s.first
	}
	s.end++
	s.last = instant
	putField(s.instants[(s.end-1)*s.timeWidth:], uint64(instant), s.timeWidth)
	s.setUnits(s.end-1, units)
}

// pop removes the last entry.
func (s *entries) pop() {
	s.end--
	if !s.empty() {
		s.last = s.instant(s.end - 1)
	}
}

// remove removes entry i, which is not the last.
func (s *entries) remove(i int) {
	moveUp := func(column []byte, width int) {
		copy(column[(s.first+1)*width:], column[s.first*width:i*width])
	}
	moveUp(s.instants[:], s.timeWidth)
	moveUp(s.units[:], s.unitWidth)
	s.first++
}

// putField writes the lowest width bytes of v and leaves those after them alone.
func putField(to []byte, v uint64, width int) {
	rest := binary.LittleEndian.Uint64(to) &^ mask(width)
	binary.LittleEndian.PutUint64(to, rest|v&mask(width))
}

// width is the number of bytes that hold v; 0 for 0.
func width(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// mask is the largest number that width bytes hold.
func mask(width int) uint64 { return 1<<(8*width) - 1 }

// Clear forgets all entries. What is beyond them is never read, and there is much of it.
func (s *entries) Clear() { s.first, s.end, s.total = 0, 0, 0 }
