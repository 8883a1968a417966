package gcra

import "math"

// Bucket is a limit of kind RATE: the limit and its state. It is what package stack decides with. The
// methods that read or write the state take the instant as nowNs. Instants and quantities must not be
// negative.
type Bucket struct {
	Limit
	State
}

// BringTo brings the state to nowNs: it drops a TAT in the past, and corrects
// one that is out of reach for this limit, as TakeTo describes. If it corrected the TAT it
// returns true: the state then has to be stored, even if the request is denied.
func (b *Bucket) BringTo(nowNs int64) (corrected bool) {
	backlog, corrected := backlogUpTo(b.ceiling(), b.TAT, nowNs)
	if corrected || backlog == 0 {
		b.DropLifts()
		b.setBacklog(nowNs, backlog)
	}
	return corrected
}

// Available is the number of units that could be charged at nowNs, 0 to capacity.
func (b *Bucket) Available(nowNs int64) int64 {
	return b.units(max(b.tolerance-b.backlog(nowNs), 0))
}

// RetryAfter is the time in ns until quantity units are available if nobody else
// asks: 0 when they are now, Never when quantity is more than the capacity.
func (b *Bucket) RetryAfter(nowNs, quantity int64) int64 {
	increment, ok := b.increment(quantity)
	switch {
	case !ok:
		return Never
	case quantity == 0:
		return 0
	}
	return max(b.backlog(nowNs)-(b.tolerance-increment), 0)
}

// Standing is the capacity, what Available returns, and the times in ns until the bucket is full and
// until it has a unit more, both 0 when it is full.
func (b *Bucket) Standing(nowNs int64) (capacity, available, resetNs, nextNs int64) {
	resetNs = b.backlog(nowNs)
	available = b.units(max(b.tolerance-resetNs, 0))
	if resetNs > 0 {
		nextNs = resetNs - (b.tolerance - (available+1)*b.emission)
	}
	return b.capacity, available, resetNs, nextNs
}

// LongestWait is the longest time that a request may wait without leaving a backlog of 2^63 ns
// or more.
func (b *Bucket) LongestWait() int64 { return math.MaxInt64 - b.tolerance }

// ExpireAt is the instant from which the state equals no state at all.
func (b *Bucket) ExpireAt() uint64 { return b.TAT }

// Charge takes quantity units that are available waitNs from now. waitNs is RetryAfter (0 for units
// that are available now), or longer if another limit makes the request wait. The
// bucket counts the units as of then, so they are not granted a second time before.
//
// quantity must not exceed the capacity, waitNs must not be below RetryAfter, nor above LongestWait.
func (b *Bucket) Charge(nowNs, quantity, waitNs int64) {
	backlog := b.backlog(nowNs)
	idle, increment := max(waitNs-backlog, 0), quantity*b.emission
	if idle > 0 || b.lifted > 0 {
		b.noteCharge(nowNs, idle, increment)
	}
	b.setBacklog(nowNs, backlog+idle+increment)
}

// Force takes quantity units, even if the bucket does not have them. Missing units are a debt, which
// is paid before a unit is available again. It returns how many units it took: fewer than quantity only
// if the bucket would be full 2^63 ns from now or later.
func (b *Bucket) Force(nowNs, quantity int64) int64 {
	backlog := b.backlog(nowNs)
	increment := math.MaxInt64 - backlog
	if quantity <= increment/b.emission {
		increment = quantity * b.emission
	} else {
		quantity = increment / b.emission
		if increment%b.emission > 0 {
			quantity++
		}
	}
	if b.lifted > 0 && increment > 0 {
		b.noteCharge(nowNs, 0, increment)
	}
	b.setBacklog(nowNs, backlog+increment)
	return quantity
}

// ChargeDenied takes up to quantity units for a request that was denied, as many as the bucket
// has, including a fraction of a unit, but leaves spare units behind. Retries keep the bucket empty, but
// cause no debt. It returns how many units it took; a fraction counts as one.
func (b *Bucket) ChargeDenied(nowNs, quantity, spare int64) int64 {
	if spare >= b.capacity {
		return 0
	}
	backlog := b.backlog(nowNs)
	increment, ok := b.increment(quantity)
	if left := max(b.tolerance-backlog-spare*b.emission, 0); !ok || increment > left {
		increment = left
		if quantity = left / b.emission; left%b.emission > 0 {
			quantity++
		}
	}
	if increment == 0 {
		return 0
	}
	if b.lifted > 0 {
		b.noteCharge(nowNs, 0, increment)
	}
	b.setBacklog(nowNs, backlog+increment)
	return quantity
}

// Refund returns up to quantity units, as many as the bucket lacks, and reports how
// many it lacked: a fraction counts as one. Units charged last are returned first. With the
// last unit of a reservation, its lift is undone.
func (b *Bucket) Refund(nowNs, quantity int64) int64 {
	backlog := b.backlog(nowNs)
	b.dropPastLifts(nowNs)
	charged := backlog - b.idle(backlog)
	if lacks := charged / b.emission; quantity > lacks {
		quantity = lacks
		if charged%b.emission > 0 {
			quantity++
		}
		backlog = 0
	} else {
		backlog = b.refundFrom(backlog, quantity*b.emission)
	}
	b.setBacklog(nowNs, backlog)
	return quantity
}

// Restore makes the state equal to was, as if that had been written at nowNs.
func (b *Bucket) Restore(was State, nowNs int64) {
	b.State = was
	b.setBacklog(nowNs, was.FullIn(nowNs))
}

func (b *Bucket) backlog(nowNs int64) int64 {
	backlog, _ := backlogUpTo(b.ceiling(), b.TAT, nowNs)
	return backlog
}

// ceiling is the longest backlog that is no error, kept to 63 bits.
func (b *Bucket) ceiling() int64 {
	if b.queue > math.MaxInt64-b.tolerance {
		return math.MaxInt64
	}
	return b.tolerance + b.queue
}

func (b *Bucket) setBacklog(nowNs, backlog int64) {
	if backlog == 0 {
		b.Clear()
		return
	}
	b.TAT = uint64(nowNs) + uint64(backlog)
	b.queue = max(backlog-b.tolerance, 0)
}
