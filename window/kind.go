package window

import "math"

// Window is a limit and the state that belongs to it: a limit of kind WINDOW, as package stack
// asks for it. Its methods are those of Limit on State.
type Window struct {
	Limit Limit
	State State
}

func (w *Window) Settle(nowNs int64) (corrected bool) { return w.Limit.Settle(&w.State, nowNs) }

func (w *Window) Available(nowNs int64) int64 { return w.Limit.Available(&w.State, nowNs) }

func (w *Window) RetryAfter(nowNs, quantity int64) int64 {
	return w.Limit.RetryAfter(&w.State, nowNs, quantity)
}

// Standing is Count, Available, ResetAfter and NextAfter.
func (w *Window) Standing(nowNs int64) (count, available, resetNs, nextNs int64) {
	l, s := w.Limit, &w.State
	return l.count, l.Available(s, nowNs), l.ResetAfter(s, nowNs), l.NextAfter(s, nowNs)
}

// LongestWait does not bound a wait: no unit is charged for an instant to come.
func (w *Window) LongestWait() int64 { return math.MaxInt64 }

func (w *Window) ExpireAt() uint64 { return uint64(w.Limit.ExpireAt(&w.State)) }

// Charge charges at nowNs, whatever the request waits for.
func (w *Window) Charge(nowNs, quantity, _ int64) { w.Limit.Charge(&w.State, nowNs, quantity) }

func (w *Window) Force(nowNs, quantity int64) int64 {
	return w.Limit.Force(&w.State, nowNs, quantity)
}

// ChargeDenied leaves spare units behind.
func (w *Window) ChargeDenied(nowNs, quantity, spare int64) int64 {
	return w.Limit.chargeDenied(&w.State, nowNs, quantity, w.Limit.count-spare)
}

func (w *Window) Refund(nowNs, quantity int64) int64 {
	return w.Limit.Refund(&w.State, nowNs, quantity)
}

func (w *Window) Append(dst []byte) []byte { return w.State.Append(dst) }

func (w *Window) Decode(encoded []byte) error { return w.Limit.Decode(encoded, &w.State) }

// Clear forgets all entries. What is beyond them is never read, and there is much of it.
func (w *Window) Clear() { w.State.first, w.State.end, w.State.total = 0, 0, 0 }
