package fixed

import (
	"encoding/binary"
	"math"

	"redis-throttle/limiter/calendar"
)

// Window is a limit of kind FIXED: the limit and its state, which is a window, and how many units were
// used in it. It is what package stack decides with. The methods that read or write the state take the
// instant as nowNs. Instants and quantities must not be negative.
type Window struct {
	limit Limit
	index int64 // of the window; 0 when nothing is used
	used  int64

	cache   *calendar.Cache
	current calendar.Window // the last that was looked up; of nothing at first
}

// Set makes limit the one to decide by, and keeps the state. The windows of a calendar are looked up in
// cache.
func (w *Window) Set(limit *Limit, cache *calendar.Cache) {
	if w.limit.id != limit.id {
		w.current = calendar.Window{}
	}
	w.limit, w.cache = *limit, cache
}

// Limit is the one that was set.
func (w *Window) Limit() Limit { return w.limit }

// at is the window of nowNs. Mostly that is the last one again, which spares a division, or for a
// calendar much more.
func (w *Window) at(nowNs int64) *calendar.Window {
	if nowNs < w.current.Start || nowNs >= w.current.End {
		w.lookUp(nowNs)
	}
	return &w.current
}

// lookUp is apart so that at is inlined.
//
//go:noinline
func (w *Window) lookUp(nowNs int64) { w.current = w.cache.At(w.limit.windows, nowNs) }

// BringTo brings the state to nowNs: it forgets an earlier window, and rewrites a
// later one, of a clock that was set back since, as the current. It returns true when
// it did the latter: then the state has to be stored, also when the request that found it
// is denied, or it would block for as long as the clock was set back.
func (w *Window) BringTo(nowNs int64) (corrected bool) { return w.bringTo(w.at(nowNs)) }

// bringTo and what follows it are told the current window by the caller that looked it up.
func (w *Window) bringTo(current *calendar.Window) (corrected bool) {
	corrected = w.used > 0 && w.index > current.Index
	switch {
	case corrected:
		w.index = current.Index
	case w.index < current.Index:
		w.Clear()
	}
	return corrected
}

// Available is the number of units that could be charged at nowNs, 0 to count.
func (w *Window) Available(nowNs int64) int64 { return w.available(w.at(nowNs)) }

func (w *Window) available(current *calendar.Window) int64 {
	return max(w.limit.count-w.usedIn(current), 0)
}

// usedIn is the number of units that count in the current window.
func (w *Window) usedIn(current *calendar.Window) int64 {
	if w.index < current.Index {
		return 0
	}
	return w.used
}

// untilEnd is the time until the current window ends, at least 1.
func (w *Window) untilEnd(current *calendar.Window, nowNs int64) int64 {
	switch {
	case current.End < math.MaxInt64:
		return current.End - nowNs
	case w.limit.id <= math.MaxInt64:
		return int64(w.limit.id) - (nowNs - current.Start) // beyond 2^63, too
	default:
		return max(current.End-nowNs, 1)
	}
}

// RetryAfter is the time in ns until quantity units are available if nobody else asks:
// 0 when they are now, Never when quantity is more than count.
func (w *Window) RetryAfter(nowNs, quantity int64) int64 {
	current := w.at(nowNs)
	switch {
	case quantity > w.limit.count:
		return Never
	case quantity <= w.available(current):
		return 0
	default:
		return w.untilEnd(current, nowNs)
	}
}

// Standing is the count, what Available returns, and the time in ns until all of count is available, 0
// when it is. It returns that twice: more units than now are available no earlier.
func (w *Window) Standing(nowNs int64) (count, available, resetNs, nextNs int64) {
	current := w.at(nowNs)
	if w.usedIn(current) > 0 {
		resetNs = w.untilEnd(current, nowNs)
	}
	return w.limit.count, w.available(current), resetNs, resetNs
}

// LongestWait does not bound a wait: no unit is charged for an instant to come.
func (w *Window) LongestWait() int64 { return math.MaxInt64 }

// ExpireAt is the instant from which the state equals no state at all, 0 when it already
// does. It is 2^63 - 1 when it lies beyond that.
func (w *Window) ExpireAt() uint64 {
	if w.used == 0 {
		return 0
	}
	if w.index == w.current.Index && w.current.End > 0 {
		return uint64(w.current.End)
	}
	window, ok := w.limit.windows.Window(w.index)
	if !ok {
		return math.MaxInt64
	}
	return uint64(max(window.End, 1)) // before the epoch: long ago
}

// Charge takes quantity units at nowNs, whatever the request waits for, or as many as are available
// if those are fewer.
func (w *Window) Charge(nowNs, quantity, _ int64) { w.chargeUpTo(w.at(nowNs), quantity, 0) }

// ChargeDenied takes as many of quantity units as are left, but leaves spare ones behind. It returns how
// many it took.
func (w *Window) ChargeDenied(nowNs, quantity, spare int64) int64 {
	return w.chargeUpTo(w.at(nowNs), quantity, spare)
}

func (w *Window) chargeUpTo(current *calendar.Window, quantity, spare int64) int64 {
	quantity = min(quantity, w.available(current)-spare)
	if quantity <= 0 {
		return 0
	}
	w.bringTo(current)
	w.index = current.Index
	w.used += quantity
	return quantity
}

// Force takes quantity units at nowNs, also those that are not available, and returns how many
// it took, which are fewer only where more than 2^63 - 1 would be used.
func (w *Window) Force(nowNs, quantity int64) int64 {
	current := w.at(nowNs)
	w.bringTo(current)
	quantity = min(quantity, math.MaxInt64-w.used)
	if quantity <= 0 {
		return 0
	}
	w.index = current.Index
	w.used += quantity
	return quantity
}

// Refund gives quantity units back, or as many as are used in the window of nowNs if
// those are fewer, and returns how many it gave back. When it returns 0 the state is the
// same in effect.
//
// A refund of what was just charged restores the state byte for byte, as far as the
// state concerned nowNs: what was used in an earlier window stays away.
func (w *Window) Refund(nowNs, quantity int64) int64 {
	if quantity <= 0 {
		return 0
	}
	w.BringTo(nowNs)
	quantity = min(quantity, w.used)
	w.used -= quantity
	if w.used == 0 {
		w.Clear()
	}
	return quantity
}

// Append appends the state's encoding to dst, up to MaxEncodedLen bytes and none for a
// state in which nothing is used. It allocates only when dst has no room for them.
func (w *Window) Append(dst []byte) []byte {
	if w.used == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(w.index))
	return binary.AppendUvarint(dst, uint64(w.used))
}

// Decode reads what Append wrote for a limit with this ID, whatever its count.
// Anything else is refused with ErrEncoding, and nothing is then used in w.
func (w *Window) Decode(encoded []byte) error {
	w.Clear()
	if len(encoded) == 0 {
		return nil
	}
	id := w.limit.id
	index, n := uvarint(encoded)
	if n == 0 || index > math.MaxInt64 || (id <= math.MaxInt64 && index > math.MaxInt64/id) {
		return ErrEncoding
	}
	used, ok := decodeUsed(encoded[n:])
	if !ok {
		return ErrEncoding
	}
	w.index, w.used = int64(index), used
	return nil
}

// Encoded is what Append has written of a state in which units are used: the index of the window, and how many.
func Encoded(state []byte) (index, used int64) {
	at, n := uvarint(state)
	used, _ = decodeUsed(state[n:])
	return int64(at), used
}

// Clear forgets what was used.
func (w *Window) Clear() { w.index, w.used = 0, 0 }
