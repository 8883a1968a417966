package ratelimit

import (
	"math/big"

	"redis-throttle/ratelimit/internal/peer"
)

func init() {
	peer.Describe = func(limit any) peer.Limit {
		l := limit.(*Limit)
		return peer.Limit{Rate: l.kind == rate, Fixed: l.kind == fixed, Capacity: l.capacity(), Spare: l.spare, Takes: l.takes, Shadow: l.shadow, Unit: l.unit}
	}
	peer.Check = func(limit any) error { return limit.(*Limit).check() }
	peer.Words = func(limit any) []any {
		l := limit.(*Limit)
		return l.words[:l.size]
	}
	peer.Name = func(limit any) string { return limit.(*Limit).name }
	peer.Quota = func(limit any) (quota, windowSeconds int64) { return limit.(*Limit).quota() }
	peer.Interval = func(limit any) int64 {
		l := limit.(*Limit)
		if _, err := l.throttleWords(); err != nil {
			return 0
		}
		return max(int64(l.period.length)/l.count, 1)
	}
}

// maxFieldInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxFieldInteger = 999_999_999_999_999

// quota is the quota and window to announce: the window is the time in which a full
// limit gets all its units back, in whole seconds, the quota what it gets back in it.
// So their ratio is the rate, and the quota is never less than the capacity.
func (l *Limit) quota() (quota, windowSeconds int64) {
	perSecond := ratOf(l.count)
	perSecond.Quo(perSecond, l.period.seconds())
	refill := ratOf(l.capacity())
	refill.Quo(refill, perSecond)
	windowSeconds = fieldInteger(refill, 1)
	units := ratOf(windowSeconds)
	return fieldInteger(units.Mul(units, perSecond), 0), windowSeconds
}

// fieldInteger is n as a field takes it: a fraction is rounded down, and then up by
// roundUp.
func fieldInteger(n *big.Rat, roundUp int64) int64 {
	i, fraction := new(big.Int).QuoRem(n.Num(), n.Denom(), new(big.Int))
	if fraction.Sign() != 0 {
		i.Add(i, big.NewInt(roundUp))
	}
	if !i.IsInt64() {
		return maxFieldInteger
	}
	return min(i.Int64(), maxFieldInteger)
}
