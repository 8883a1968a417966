package window

import (
	"encoding/binary"
	"math"
	"slices"
)

const (
	headerLen = 2

	// MaxEncodedLen is the largest number of bytes Append appends. It takes a period of
	// more than 2 years together with a charge of 2^56 units or more: at periods up to
	// 18 minutes and fewer than 65,536 units a slot it is 460 bytes.
	MaxEncodedLen = headerLen + (maxEntries-1)*wordLen + maxEntries*wordLen + wordLen
)

// Append appends the state's encoding to dst, up to MaxEncodedLen bytes and none for a state
// without entries. It allocates only when dst has no room for them.
func (s *entries) Append(dst []byte) []byte {
	n := s.end - s.first
	if n == 0 {
		return dst
	}
	if s.unitWidth > 1 {
		s.narrow()
	}
	start, length := len(dst), encodedLen(n, s.timeWidth, s.unitWidth)
	dst = slices.Grow(dst, length)[:start+length]
	to := dst[start:]
	to[0], to[1] = byte(n), byte(s.unitWidth)
	units := to[headerLen+copy(to[headerLen:], s.instants[s.first*s.timeWidth:(s.end-1)*s.timeWidth]):]
	copy(units, s.units[s.first*s.unitWidth:s.end*s.unitWidth])
	binary.LittleEndian.PutUint64(to[length-wordLen:], uint64(s.last))
	return dst
}

// narrow leaves as many bytes for units as the largest number needs.
//
//go:noinline
func (s *entries) narrow() {
	unitWidth := s.widestUnits()
	if unitWidth == s.unitWidth {
		return
	}
	for i := s.first; i < s.end; i++ { // from the first: fields move towards it
		putField(s.units[i*unitWidth:], uint64(s.unitsOf(i)), unitWidth)
	}
	s.unitWidth = unitWidth
}

// widestUnits is the number of bytes that the largest number of units needs.
func (s *entries) widestUnits() int {
	widest := 1
	for i := s.first; i < s.end && widest < s.unitWidth; i++ {
		widest = max(widest, width(uint64(s.unitsOf(i))))
	}
	return widest
}

// Decode reads what Append wrote for a limit of this period, whatever its count.
// Anything else is refused with ErrEncoding, and w is then without entries.
func (w *Window) Decode(encoded []byte) error {
	w.Clear()
	if len(encoded) == 0 {
		return nil
	}
	if len(encoded) < headerLen+wordLen {
		return ErrEncoding
	}
	n, timeWidth, unitWidth := int(encoded[0]), w.instantWidth(), int(encoded[1])
	if n < 1 || n > maxEntries || unitWidth < 1 || unitWidth > wordLen ||
		len(encoded) != encodedLen(n, timeWidth, unitWidth) {
		return ErrEncoding
	}
	// The columns are checked where they are kept: there is room for a word behind every field of theirs.
	// What is copied beyond them is never read.
	copy(w.instants[:], encoded[headerLen:])
	copy(w.units[:], encoded[headerLen+(n-1)*timeWidth:])
	last := binary.LittleEndian.Uint64(encoded[len(encoded)-wordLen:])

	if last > math.MaxInt64 || !w.checkInstants(n-1, timeWidth, last, w.span()) ||
		n == maxEntries && int64(last) != w.lastOfSlot(int64(last)) {
		return ErrEncoding
	}
	total, ok := w.checkUnits(n, unitWidth)
	if !ok {
		return ErrEncoding
	}

	putField(w.instants[(n-1)*timeWidth:], last, timeWidth)
	w.end, w.total, w.last = n, total, int64(last)
	w.timeWidth, w.unitWidth = timeWidth, unitWidth
	return nil
}

// checkInstants checks that the ages of n entries before the last fall strictly, from at
// most span and the last instant to above 0: it looks at ages less than nothing, which rise.
func (s *entries) checkInstants(n, timeWidth int, last, span uint64) bool {
	timeMask := mask(timeWidth)
	at, before := 0, timeMask-min(span, last)
	if n&1 != 0 {
		first := (binary.LittleEndian.Uint64(s.instants[:]) - last) & timeMask
		if first <= before {
			return false
		}
		at, before = timeWidth, first
	}
	for n >>= 1; n > 0; n-- {
		next := (binary.LittleEndian.Uint64(s.instants[at&inColumn:]) - last) & timeMask
		if next <= before {
			return false
		}
		at += timeWidth
		before = (binary.LittleEndian.Uint64(s.instants[at&inColumn:]) - last) & timeMask
		if before <= next {
			return false
		}
		at += timeWidth
	}
	return true
}

// checkBytes is checkUnits where units have one byte: for eight entries at a time.
func (s *entries) checkBytes(n int) (total int64, ok bool) {
	const (
		each   = 0x0101010101010101
		pairs  = 0x00FF00FF00FF00FF
		topBit = 0x8080808080808080
	)
	var sums, zero uint64 // of up to nine words, four sums below 2^16; and where a byte is 0, its top bit
	at := 0
	for ; n >= wordLen; n -= wordLen {
		units := binary.LittleEndian.Uint64(s.units[at&inColumn:])
		zero |= (units - each) &^ units
		sums += units&pairs + units>>8&pairs
		at += wordLen
	}
	beyond := ^uint64(0) << (8 * uint(n)) // the last of them
	units := binary.LittleEndian.Uint64(s.units[at&inColumn:])
	zero |= ((units | beyond) - each) &^ (units | beyond)
	units &^= beyond
	sums += units&pairs + units>>8&pairs
	return int64(sums * 0x0001000100010001 >> 48), zero&topBit == 0
}

// checkUnits checks that n entries have units, fewer than 2^63 together, and need their
// width; it returns the sum.
func (s *entries) checkUnits(n, unitWidth int) (total int64, ok bool) {
	if unitWidth == 1 {
		return s.checkBytes(n)
	}
	unitMask := mask(unitWidth)
	var sum, all uint64
	for at := 0; n > 0; n-- {
		units := binary.LittleEndian.Uint64(s.units[at:]) & unitMask
		if units == 0 || units > math.MaxInt64-sum {
			return 0, false
		}
		sum += units
		all |= units
		at += unitWidth
	}
	return int64(sum), width(all) == unitWidth
}

// encodedLen returns the length of n entries whose times have timeWidth bytes and whose units have unitWidth.
func encodedLen(n, timeWidth, unitWidth int) int {
	return headerLen + (n-1)*timeWidth + n*unitWidth + wordLen
}
