package stack

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"redis-throttle/gcra"
	"redis-throttle/limiter/window"
)

// The value of a key is one of two things.
//
// A single rate without reservations is its TAT: ns since the Unix epoch in decimal
// digits, without leading zeros. CL.THROTTLE and redis-cell store the same. A single rate
// remembers no lifts: nothing makes it wait longer than it has to, unless another key does.
//
// Anything else begins with a byte that no digit is, numbers little-endian and
// unsigned:
//
//	offset  size  content
//	0       1     version of the encoding, 1
//	1       1     n, the number of limits, 1 to 8
//	2       ...   n times:
//	        1       kind: 1 rate, 2 window, 3 fixed, 4 fixed from the first unit on
//	        8       period in ns, 1 to 2^63 - 1; of 3 also 2^63 to 2^64 - 1, a hash of a
//	                calendar's windows
//	        2       length of the state that follows
//	        length  the state as the kind's package encodes it; none of an untouched limit
//
// The limits that the latest call named come first, in its order, then those that are kept.
//
// Counts and burst capacities are not part of it: they come with every call. A state
// belongs to the limit of the same kind and period or hash, the first to the first where there
// are several. That of a single rate belongs to the first rate, whatever its period. Beside other limits,
// a rate that was a plain TAT has the period 2^63 - 1, and belongs to the first rate that has no state
// of its own.
const (
	version        = 1
	headerLen      = 2
	limitHeaderLen = 11

	// MaxEncodedLen is the length in bytes of the longest value.
	MaxEncodedLen = headerLen + MaxLimits*(limitHeaderLen+window.MaxEncodedLen)
)

// ErrEncoding is what Decode says of a value that Append did not write.
var ErrEncoding = errors.New("not the state of a rate limiter")

// usualDigits is how many digits a TAT of the years 2001 to 2286 has.
const usualDigits = 19

// ParseTAT reads a plain TAT: decimal digits without leading zeros, below 2^64.
//
// Each byte is looked at once: the compiler makes one load of eight bytes only where nothing else
// reads any of them.
func ParseTAT(value []byte) (tat uint64, ok bool) {
	if len(value) != usualDigits {
		return parseTAT(value)
	}
	first, second := binary.LittleEndian.Uint64(value), binary.LittleEndian.Uint64(value[8:])
	hundreds, tens, ones := uint64(value[16]-'0'), uint64(value[17]-'0'), uint64(value[18]-'0')
	if (notDigits(first)|notDigits(second))&allTopBits != 0 || max(hundreds, tens, ones) > 9 || byte(first) == '0' {
		return 0, false
	}
	return (eightDigits(first)*1e8+eightDigits(second))*1000 + hundreds*100 + tens*10 + ones, true
}

const (
	allZeros   = 0x3030303030303030 // eight digits 0
	allTopBits = 0x8080808080808080
)

// notDigits has the top bit of a byte set where one of eight characters is no digit.
func notDigits(text uint64) uint64 {
	return (text - allZeros) | (text + allTopBits - (allZeros + 0x0A0A0A0A0A0A0A0A)) | text
}

// eightDigits is the number that eight digits are, the first of them in the lowest byte: pairs of
// neighbours make numbers below 100, pairs of those numbers below 10^4, and those the result.
func eightDigits(text uint64) uint64 {
	n := text - allZeros
	n = (n*10 + n>>8) & 0x00FF00FF00FF00FF
	n = (n*100 + n>>16) & 0x0000FFFF0000FFFF
	return (n*10_000 + n>>32) & 0xFFFFFFFF
}

// AppendTAT appends a TAT in decimal digits.
func AppendTAT(dst []byte, tat uint64) []byte {
	const leading = 1e18 // the first of usualDigits, at least
	if tat < leading || tat >= 10*leading {
		return strconv.AppendUint(dst, tat, 10)
	}
	first, second, last := tat/1e11, tat/1000%1e8, tat%1000
	dst = binary.LittleEndian.AppendUint64(dst, digitsOf(first))
	dst = binary.LittleEndian.AppendUint64(dst, digitsOf(second))
	return append(dst, '0'+byte(last/100), '0'+byte(last/10%10), '0'+byte(last%10))
}

// digitsOf is the eight digits of a number below 10^8, the first of them in the lowest byte: the way
// of eightDigits, backwards. Each division is by a multiplication, for two or four numbers at once.
func digitsOf(n uint64) uint64 {
	n = n/10_000 | n%10_000<<32                      // below 10^4 each
	hundreds := n * 5243 >> 19 & 0x0000007F_0000007F // n/100
	n = hundreds | (n-hundreds*100)<<16              // below 100 each
	tens := n * 103 >> 10 & 0x000F_000F_000F_000F    // n/10
	return tens | (n-tens*10)<<8 | allZeros          // below 10 each
}

// parseTAT reads a TAT of any length, digit by digit.
func parseTAT(value []byte) (tat uint64, ok bool) {
	if len(value) == 0 || len(value) > 20 || (value[0] == '0' && len(value) > 1) {
		return 0, false
	}
	for _, c := range value {
		digit := uint64(c - '0')
		if digit > 9 || (len(value) == 20 && tat > (math.MaxUint64-digit)/10) {
			return 0, false
		}
		tat = tat*10 + digit
	}
	return tat, true
}

// HoldsLimits reports whether value begins like one that is no plain TAT. Decode checks the rest.
func HoldsLimits(value []byte) bool { return len(value) > 0 && value[0] == version }

// Decode gives the limits of the stack the states that value holds for them. Limits that value
// does not mention stay full. What it holds of others is kept; so value has to stay as it is until Append.
// The state of a single rate belongs to the first rate, whatever its period.
func (s *Stack) Decode(value []byte) error {
	s.kept = s.kept[:0]
	if tat, ok := ParseTAT(value); ok {
		if first := s.freeRate(); first != nil {
			first.rate.TAT, first.stored = tat, true
		} else {
			s.addKeptTAT(tat)
		}
		return nil
	}
	return s.decodeAll(value)
}

// decodeAll is Decode of a value that is no plain TAT.
func (s *Stack) decodeAll(value []byte) error {
	if len(value) < headerLen || value[0] != version || value[1] < 1 || value[1] > MaxLimits {
		return ErrEncoding
	}
	lone, unknown := value[1] == 1, -1
	rest := value[headerLen:]
	for range value[1] {
		if len(rest) < limitHeaderLen {
			return ErrEncoding
		}
		kind, id := Kind(rest[0]), binary.LittleEndian.Uint64(rest[1:])
		length := int(binary.LittleEndian.Uint16(rest[9:]))
		rest = rest[limitHeaderLen:]
		if len(rest) < length || !kind.hasID(id) {
			return ErrEncoding
		}
		var l *layer
		if lone && kind == Rate {
			if length != gcra.QueuedLen {
				return ErrEncoding // one without reservations is a plain TAT
			}
			l = s.freeRate()
		} else {
			l = s.layerOf(kind, id)
		}
		switch {
		case l == nil:
			if kind == Rate && id == unknownPeriod {
				unknown = len(s.kept)
			}
			if !s.addKeptState(kind, id, rest[:length]) {
				return ErrEncoding
			}
		case l.Decode(rest[:length]) != nil:
			return ErrEncoding
		default:
			l.stored = true
		}
		rest = rest[length:]
	}
	if len(rest) > 0 {
		return ErrEncoding
	}
	if unknown >= 0 {
		s.adoptTAT(unknown)
	}
	return nil
}

// freeRate is the layer of the first rate that the value has shown no state of yet, nil if there is none.
func (s *Stack) freeRate() *layer {
	for _, l := range s.in {
		if l.kind == Rate && !l.stored {
			return l
		}
	}
	return nil
}

// layerOf is the layer of the first limit of a kind and id that the value has shown no state of yet, nil if
// there is none.
func (s *Stack) layerOf(kind Kind, id uint64) *layer {
	for _, l := range s.in {
		if l.kind == kind && l.id == id && !l.stored {
			return l
		}
	}
	return nil
}

// Append appends the value to store. It allocates only when dst has no room for
// MaxEncodedLen bytes. ExpireAt comes first.
func (s *Stack) Append(dst []byte) []byte {
	if rate := s.loneRate(); rate != nil {
		if rate.rate.Plain() {
			return AppendTAT(dst, rate.rate.TAT)
		}
		rate.rate.DropLifts()
	}
	dst = append(dst, version, byte(s.storedLimits()))
	for _, layer := range s.in {
		if !s.stores(layer) {
			continue
		}
		dst = append(dst, byte(layer.kind))
		dst = binary.LittleEndian.AppendUint64(dst, layer.id)
		start := len(dst)
		dst = layer.Append(append(dst, 0, 0))
		binary.LittleEndian.PutUint16(dst[start:], uint16(len(dst)-start-2))
	}
	for i := range s.kept {
		dst = s.kept[i].append(dst)
	}
	return dst
}
