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
	unitWidth := s.widestUnits()
	dst = slices.Grow(dst, encodedLen(n, s.timeWidth, unitWidth))
	dst = append(dst, byte(n), byte(unitWidth))
	dst = append(dst, s.instants[s.first*s.timeWidth:(s.end-1)*s.timeWidth]...)
	if unitWidth == s.unitWidth {
		dst = append(dst, s.units[s.first*unitWidth:s.end*unitWidth]...)
	} else {
		for i := s.first; i < s.end; i++ {
			units := uint64(s.unitsOf(i))
			for range unitWidth {
				dst = append(dst, byte(units))
				units >>= 8
			}
		}
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(s.last))
}

// widestUnits is the number of bytes that the largest number of units needs.
func (s *entries) widestUnits() int {
	if s.unitWidth == 1 {
		return 1
	}
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
	instants := encoded[headerLen:]
	units := instants[(n-1)*timeWidth:]
	last := binary.LittleEndian.Uint64(units[n*unitWidth:])

	if last > math.MaxInt64 || !checkInstants(instants, n-1, timeWidth, last, w.span()) ||
		n == maxEntries && int64(last) != w.lastOfSlot(int64(last)) {
		return ErrEncoding
	}
	total, ok := checkUnits(units, n, unitWidth)
	if !ok {
		return ErrEncoding
	}

	copy(w.instants[:], instants[:(n-1)*timeWidth])
	putField(w.instants[(n-1)*timeWidth:], last, timeWidth)
	copy(w.units[:], units[:n*unitWidth])
	w.end, w.total, w.last = n, total, int64(last)
	w.timeWidth, w.unitWidth = timeWidth, unitWidth
	return nil
}

// checkInstants checks that the ages of n entries before the last fall strictly, from at
// most span and the last instant to above 0. The column is followed by a word, so that
// every field may be read as one.
func checkInstants(column []byte, n, timeWidth int, last, span uint64) bool {
	timeMask := mask(timeWidth)
	above := min(span, last) + 1
	at := 0
	for range n {
		age := (last - binary.LittleEndian.Uint64(column[at:at+wordLen])) & timeMask
		if age >= above {
			return false
		}
		above = age
		at += timeWidth
	}
	return n == 0 || above > 0
}

// checkUnits checks that n entries have units, fewer than 2^63 together, and need their
// width; it returns the sum. The column is followed by a word, so that every field may be
// read as one.
func checkUnits(column []byte, n, unitWidth int) (total int64, ok bool) {
	unitMask := mask(unitWidth)
	var sum, all uint64
	at := 0
	for range n {
		units := binary.LittleEndian.Uint64(column[at:at+wordLen]) & unitMask
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
