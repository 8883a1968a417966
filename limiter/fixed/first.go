package fixed

import (
	"encoding/binary"
	"math"
)

// First is a limit of kind FIXED ... FIRST and its state, as package stack uses it: at most count
// units in each window, which begins with the first unit taken, like a counter that gets its expiry
// when it is created. When all units taken in a window are returned, the window is over.
type First struct {
	Limit   Limit // made by New
	startNs int64 // of the window; 0 when nothing is used
	used    int64
}

// MaxFirstLen is the length in bytes of the longest state of a First.
const MaxFirstLen = firstHeader + 9

// firstHeader is the length of a state's first number, in bytes.
const firstHeader = 8

// BringTo forgets a window that is over. One that begins later than now, of a clock that was
// set back since, begins now instead; that has to be stored.
func (f *First) BringTo(nowNs int64) (corrected bool) {
	switch {
	case f.used == 0:
	case f.startNs > nowNs:
		f.startNs, corrected = nowNs, true
	case nowNs-f.startNs >= f.Limit.Period():
		f.Clear()
	}
	return corrected
}

// at is what BringTo would leave: when the window began and what is used in it.
func (f *First) at(nowNs int64) (startNs, used int64) {
	switch {
	case f.startNs > nowNs:
		return nowNs, f.used
	case nowNs-f.startNs >= f.Limit.Period():
		return nowNs, 0
	default:
		return f.startNs, f.used
	}
}

func (f *First) Available(nowNs int64) int64 {
	_, used := f.at(nowNs)
	return max(f.Limit.count-used, 0)
}

func (f *First) RetryAfter(nowNs, quantity int64) int64 {
	startNs, used := f.at(nowNs)
	switch {
	case quantity > f.Limit.count:
		return Never
	case quantity <= max(f.Limit.count-used, 0):
		return 0
	default:
		return f.Limit.Period() - (nowNs - startNs)
	}
}

func (f *First) Standing(nowNs int64) (count, available, resetNs, nextNs int64) {
	startNs, used := f.at(nowNs)
	if used > 0 {
		resetNs = f.Limit.Period() - (nowNs - startNs)
	}
	return f.Limit.count, max(f.Limit.count-used, 0), resetNs, resetNs
}

// LongestWait does not bound a wait: no unit is charged for an instant to come.
func (f *First) LongestWait() int64 { return math.MaxInt64 }

// ExpireAt is the end of the window, at most 2^63 - 1; 0 when nothing is used.
func (f *First) ExpireAt() uint64 {
	if f.used == 0 {
		return 0
	}
	return min(uint64(f.startNs)+uint64(f.Limit.Period()), math.MaxInt64)
}

// Charge charges at nowNs, whatever the request waits for.
func (f *First) Charge(nowNs, quantity, _ int64) { f.ChargeDenied(nowNs, quantity, 0) }

// ChargeDenied takes as many units as are left, and leaves spare ones behind.
func (f *First) ChargeDenied(nowNs, quantity, spare int64) int64 {
	return f.Force(nowNs, min(quantity, f.Available(nowNs)-spare))
}

// Force takes quantity units, also those that are not available, and returns how many it took, which
// are fewer only where more than 2^63 - 1 would be used.
func (f *First) Force(nowNs, quantity int64) int64 {
	_, used := f.at(nowNs)
	quantity = min(quantity, math.MaxInt64-used)
	if quantity <= 0 {
		return 0
	}
	f.BringTo(nowNs)
	if f.used == 0 {
		f.startNs = nowNs
	}
	f.used += quantity
	return quantity
}

func (f *First) Refund(nowNs, quantity int64) int64 {
	if quantity <= 0 {
		return 0
	}
	f.BringTo(nowNs)
	quantity = min(quantity, f.used)
	f.used -= quantity
	if f.used == 0 {
		f.Clear()
	}
	return quantity
}

// Append appends the state: when the window began, 8 bytes, little-endian, below 2^63; then the
// units used, a varint, at least 1. A state in which nothing is used is no bytes.
func (f *First) Append(dst []byte) []byte {
	if f.used == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.startNs))
	return binary.AppendUvarint(dst, uint64(f.used))
}

// Decode reads what Append wrote. Anything else is refused with ErrEncoding, and nothing is then
// used.
func (f *First) Decode(encoded []byte) error {
	f.Clear()
	if len(encoded) == 0 {
		return nil
	}
	if len(encoded) < firstHeader {
		return ErrEncoding
	}
	start := binary.LittleEndian.Uint64(encoded)
	used, ok := decodeUsed(encoded[firstHeader:])
	if !ok || start > math.MaxInt64 {
		return ErrEncoding
	}
	f.startNs, f.used = int64(start), used
	return nil
}

func (f *First) Clear() { f.startNs, f.used = 0, 0 }
