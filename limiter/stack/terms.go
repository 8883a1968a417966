package stack

import "math"

// Terms are what a call says of one limit beside its numbers. They belong to the call and are not
// stored. Those of most limits are zero.
type Terms struct {
	// Take is what the request asks of this limit in place of its cost, in units, if
	// HasTake.
	Take int64
	// Spare is the number of units that have to stay behind.
	Spare   int64
	HasTake bool
	// Shadow says that the limit is charged as if it were enforced, but never decides.
	Shadow bool
}

// With returns the limit with other terms.
func (l Limit) With(terms Terms) Limit {
	l.Terms, l.hasTerms = terms, terms != Terms{}
	return l
}

// SameAs reports whether two limits are the same, whatever their terms.
func (l Limit) SameAs(other Limit) bool {
	return l.With(Terms{}) == other.With(Terms{})
}

func (l *layer) isShadow() bool { return l.hasTerms && l.terms.Shadow }

// spare is the number of units that have to stay behind.
func (l *layer) spare() int64 {
	if l.hasTerms {
		return l.terms.Spare
	}
	return 0
}

// units is what a request of this cost asks of the limit.
func (l *layer) units(cost int64) int64 {
	if l.hasTerms && l.terms.HasTake {
		return l.terms.Take
	}
	return cost
}

// left is the number of units that this caller can have.
func (l *layer) left(nowNs int64) int64 {
	if l.hasTerms {
		return max(l.Available(nowNs)-l.terms.Spare, 0)
	}
	return l.Available(nowNs)
}

// wait returns the time until there are units and, unless they are 0, the ones to spare; or
// Never. It is for limits with terms.
func (l *layer) wait(nowNs, units int64) int64 {
	switch {
	case units == 0:
		return 0
	case units > math.MaxInt64-l.terms.Spare:
		return Never // more than any limit holds
	}
	return l.RetryAfter(nowNs, units+l.terms.Spare)
}

// standing is Standing, as far as this caller is concerned: what is spared is not there for it.
func (l *layer) standing(nowNs int64) (capacity, left, resetNs, nextNs int64) {
	capacity, left, resetNs, nextNs = l.Standing(nowNs)
	spare := l.spare()
	switch {
	case spare == 0:
	case spare >= capacity: // it has all that it can ever have
		return capacity, 0, 0, 0
	case left < spare:
		return capacity, 0, resetNs, l.RetryAfter(nowNs, spare+1)
	default:
		left -= spare
	}
	return capacity, left, resetNs, nextNs
}

// granted is what a request of this cost was charged, when it was let through.
func (l *layer) granted(cost int64) int64 {
	if l.isShadow() {
		return l.charged
	}
	return l.units(cost)
}

// firstShadow is the number of the first shadow that would limit a request, or 0.
func (d *decision) firstShadow(r *Request, nowNs int64) int {
	for i, l := range d.in {
		if !l.isShadow() {
			continue
		}
		if l.retryAlone(r, nowNs) != 0 {
			return i + 1
		}
	}
	return 0
}

// chargeShadow charges a shadow for a request that the other limits have let through, waitNs from now. It is
// charged as if it were enforced: nothing for a request that it would have limited, unless the request charges
// limits that deny it. For such a request a corrected state is stored, as when a limit denies.
func (l *layer) chargeShadow(r *Request, cost, waitNs, nowNs int64, corrected bool) (changed bool) {
	units := l.units(cost)
	l.charged = 0
	if units == 0 {
		return false
	}
	shadowNs := l.waitAlone(r, nowNs)
	switch {
	case shadowNs >= 0 && shadowNs <= min(r.MaxWaitNs, l.LongestWait()):
		if r.UpTo {
			units = min(units, l.left(nowNs))
		}
		l.Charge(nowNs, units, min(max(waitNs, shadowNs), l.LongestWait()))
		l.charged = units
		return units > 0
	case r.Force:
		l.charged = l.Force(nowNs, units)
		return l.charged > 0
	case r.Strict:
		l.charged = l.ChargeDenied(nowNs, units, l.terms.Spare)
	}
	return l.charged > 0 || corrected
}
