package gcra

import "math"

// Bucket is a limit and the state that belongs to it: a limit of kind RATE, as package stack
// asks for it. Its methods are those of Limit on State.
type Bucket struct {
	Limit Limit
	State State
}

func (b *Bucket) Settle(nowNs int64) (corrected bool) { return b.Limit.Settle(&b.State, nowNs) }

func (b *Bucket) Available(nowNs int64) int64 { return b.Limit.Available(&b.State, nowNs) }

func (b *Bucket) RetryAfter(nowNs, quantity int64) int64 {
	return b.Limit.RetryAfter(&b.State, nowNs, quantity)
}

// Standing is Capacity, Available, ResetAfter and NextAfter.
func (b *Bucket) Standing(nowNs int64) (capacity, available, resetNs, nextNs int64) {
	l := &b.Limit
	resetNs = l.backlog(&b.State, nowNs)
	available = l.units(max(l.tolerance-resetNs, 0))
	if resetNs > 0 {
		nextNs = resetNs - (l.tolerance - (available+1)*l.emission)
	}
	return l.capacity, available, resetNs, nextNs
}

// LongestWait is the longest time that a request may wait without leaving a backlog of 2^63 ns
// or more.
func (b *Bucket) LongestWait() int64 { return math.MaxInt64 - b.Limit.tolerance }

func (b *Bucket) ExpireAt() uint64 { return b.Limit.ExpireAt(&b.State) }

func (b *Bucket) Charge(nowNs, quantity, waitNs int64) {
	b.Limit.Charge(&b.State, nowNs, quantity, waitNs)
}

func (b *Bucket) Force(nowNs, quantity int64) int64 { return b.Limit.Force(&b.State, nowNs, quantity) }

// ChargeDenied leaves spare units behind.
func (b *Bucket) ChargeDenied(nowNs, quantity, spare int64) int64 {
	return b.Limit.chargeDenied(&b.State, nowNs, quantity, spare)
}

func (b *Bucket) Refund(nowNs, quantity int64) int64 {
	return b.Limit.Refund(&b.State, nowNs, quantity)
}

func (b *Bucket) Append(dst []byte) []byte { return b.State.Append(dst) }

func (b *Bucket) Decode(encoded []byte) error { return b.State.Decode(encoded) }

func (b *Bucket) Clear() { b.State.Clear() }
