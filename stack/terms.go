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
	l.Terms, l.special = terms, terms != Terms{}
	return l
}

// SameAs reports whether two limits are the same, whatever their terms.
func (l Limit) SameAs(other Limit) bool {
	return l.With(Terms{}) == other.With(Terms{})
}

func (p *place) isShadow() bool { return p.special && p.terms.Shadow }

// spare is the number of units that have to stay behind.
func (p *place) spare() int64 {
	if p.special {
		return p.terms.Spare
	}
	return 0
}

// units is what a request of this cost asks of the limit.
func (p *place) units(cost int64) int64 {
	if p.special && p.terms.HasTake {
		return p.terms.Take
	}
	return cost
}

// left is the number of units that this caller can have.
func (p *place) left(nowNs int64) int64 {
	if p.special {
		return max(p.Available(nowNs)-p.terms.Spare, 0)
	}
	return p.Available(nowNs)
}

// wait is the time until there are so many units and, unless they are none, the ones to spare; or
// Never. It is for limits with terms.
func (p *place) wait(nowNs, units int64) int64 {
	switch {
	case units == 0:
		return 0
	case units > math.MaxInt64-p.terms.Spare:
		return Never // more than any limit holds
	}
	return p.RetryAfter(nowNs, units+p.terms.Spare)
}

// standing is Standing, as far as this caller is concerned: what is spared is not there for it.
func (p *place) standing(nowNs int64) (capacity, left, resetNs, nextNs int64) {
	capacity, left, resetNs, nextNs = p.Standing(nowNs)
	spare := p.spare()
	switch {
	case spare == 0:
	case spare >= capacity: // it has all that it can ever have
		return capacity, 0, 0, 0
	case left < spare:
		return capacity, 0, resetNs, p.RetryAfter(nowNs, spare+1)
	default:
		left -= spare
	}
	return capacity, left, resetNs, nextNs
}

// granted is what a request of this cost was charged, when it was let through.
func (p *place) granted(cost int64) int64 {
	if p.isShadow() {
		return p.charged
	}
	return p.units(cost)
}

// firstShadow is the number of the first shadow that would limit a request, or 0.
func (d *decision) firstShadow(r *Request, nowNs int64) int {
	for i, p := range d.in {
		if !p.isShadow() {
			continue
		}
		if waitNs := p.shadowWait(r, nowNs); waitNs < 0 || waitNs > min(r.MaxWaitNs, p.LongestWait()) {
			return i + 1
		}
	}
	return 0
}

// shadowWait is how long a request would wait for a shadow, were that enforced.
func (p *place) shadowWait(r *Request, nowNs int64) int64 {
	if r.UpTo {
		return p.wait(nowNs, 1)
	}
	return p.wait(nowNs, p.units(r.Cost))
}

// chargeShadow charges a shadow for a request that the other limits have let through, waitNs from now. It is
// charged as if it were enforced: nothing for a request that it would have limited, unless the request charges
// limits that deny it. For such a request a corrected state is stored, as when a limit denies.
func (p *place) chargeShadow(r *Request, cost, waitNs, nowNs int64, corrected bool) (changed bool) {
	units := p.units(cost)
	p.charged = 0
	if units == 0 {
		return false
	}
	shadowNs := p.shadowWait(r, nowNs)
	switch {
	case shadowNs >= 0 && shadowNs <= min(r.MaxWaitNs, p.LongestWait()):
		if r.UpTo {
			units = min(units, p.left(nowNs))
		}
		p.Charge(nowNs, units, min(max(waitNs, shadowNs), p.LongestWait()))
		p.charged = units
		return units > 0
	case r.Force:
		p.charged = p.Force(nowNs, units)
		return p.charged > 0
	case r.Strict:
		p.charged = p.ChargeDenied(nowNs, units, p.terms.Spare)
	}
	return p.charged > 0 || corrected
}
