package fixed

import (
	"math"

	"redis-throttle/calendar"
)

// Window is a limit and the state that belongs to it: a limit of kind FIXED, as package stack
// asks for it. Its methods are those of Limit on State.
type Window struct {
	limit   Limit
	state   State
	cache   *calendar.Cache
	current calendar.Window // the last that was looked up; of nothing at first
}

// Set makes limit the one to decide by. The windows of a calendar are looked up in cache.
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

func (w *Window) Settle(nowNs int64) (corrected bool) { return w.state.settle(w.at(nowNs).Index) }

func (w *Window) Available(nowNs int64) int64 {
	return w.limit.available(&w.state, w.at(nowNs).Index)
}

func (w *Window) RetryAfter(nowNs, quantity int64) int64 {
	return w.limit.retryAfter(&w.state, w.at(nowNs), nowNs, quantity)
}

// Standing is Count, Available, ResetAfter and NextAfter.
func (w *Window) Standing(nowNs int64) (count, available, resetNs, nextNs int64) {
	current := w.at(nowNs)
	resetNs = w.limit.resetAfter(&w.state, current, nowNs)
	return w.limit.count, w.limit.available(&w.state, current.Index), resetNs, resetNs
}

// LongestWait does not bound a wait: no unit is charged for an instant to come.
func (w *Window) LongestWait() int64 { return math.MaxInt64 }

func (w *Window) ExpireAt() uint64 {
	if w.state.used > 0 && w.state.index == w.current.Index && w.current.End > 0 {
		return uint64(w.current.End)
	}
	return uint64(w.limit.ExpireAt(&w.state))
}

// Charge charges at nowNs, whatever the request waits for.
func (w *Window) Charge(nowNs, quantity, _ int64) {
	w.limit.charge(&w.state, w.at(nowNs).Index, quantity)
}

func (w *Window) Force(nowNs, quantity int64) int64 {
	return w.state.force(w.at(nowNs).Index, quantity)
}

// ChargeDenied takes as many units as are left, and leaves spare ones behind.
func (w *Window) ChargeDenied(nowNs, quantity, spare int64) int64 {
	return w.limit.charge(&w.state, w.at(nowNs).Index, min(quantity, w.Available(nowNs)-spare))
}

func (w *Window) Refund(nowNs, quantity int64) int64 {
	return w.state.refund(w.at(nowNs).Index, quantity)
}

func (w *Window) Append(dst []byte) []byte { return w.state.Append(dst) }

func (w *Window) Decode(encoded []byte) error { return w.limit.decode(encoded, &w.state) }

func (w *Window) Clear() { w.state = State{} }
