package stack

// Alone is what one limit says of a request as if no other limit were asked, and its state after the request. As in a
// Result, units that have to stay behind do not count.
type Alone struct {
	Limited      bool  // the limit alone would not have let the request through
	Limit        int64 // capacity or count
	Remaining    int64
	RetryAfterNs int64 // until the limit alone lets the same request through, or Never
	ResetAfterNs int64 // until the limit is full
}

// Judge returns the limits that alone would not let a request through, a bit for each. Call it before the request is
// decided at the same instant. It charges nothing.
func (s *Stack) Judge(r *Request, nowNs int64) (limiting uint64) {
	s.bringToNow(nowNs)
	return s.judge(r, nowNs)
}

// Judge is Judge for the limits of all stacks.
func (j *Joint) Judge(r *Request, nowNs int64) (limiting uint64) {
	for i, s := range j.stacks[:j.n] {
		j.corrected |= s.bringToNow(nowNs) << j.begins[i]
	}
	return j.judge(r, nowNs)
}

func (d *decision) judge(r *Request, nowNs int64) (limiting uint64) {
	for i, l := range d.in {
		if l.retryAlone(r, nowNs) != 0 {
			limiting |= bit(i)
		}
	}
	return limiting
}

// Alone describes a limit after a request was decided, or only looked at. limiting is what Judge returned; limited says
// whether the request was limited as a whole.
func (d *decision) Alone(rule int, r *Request, limiting uint64, limited bool, nowNs int64) (a Alone) {
	l := d.in[rule]
	a.Limited, a.RetryAfterNs = limiting&bit(rule) != 0, Never
	if a.Limited || limited {
		if retryNs := l.retryAlone(r, nowNs); retryNs > 0 {
			a.RetryAfterNs = retryNs
		}
	}
	if l.hasTerms {
		a.Limit, a.Remaining, a.ResetAfterNs, _ = l.standing(nowNs)
	} else {
		a.Limit, a.Remaining, a.ResetAfterNs, _ = l.Standing(nowNs)
	}
	return a
}

// retryAlone is the time until a request is let through if no other limit is asked, 0 if it would be now, or Never.
func (l *layer) retryAlone(r *Request, nowNs int64) int64 {
	waitNs, longestNs := l.waitAlone(r, nowNs), int64(0)
	if waitNs > 0 && r.MaxWaitNs > 0 {
		longestNs = min(r.MaxWaitNs, l.LongestWait())
	}
	if waitNs > 0 && waitNs <= longestNs {
		return 0
	}
	return retryAfter(waitNs, longestNs)
}

// waitAlone is how long a request would wait for its units if no other limit were asked, or Never.
func (l *layer) waitAlone(r *Request, nowNs int64) int64 {
	units := l.units(r.Cost)
	if r.UpTo {
		units = 1
	}
	if l.hasTerms {
		return l.wait(nowNs, units)
	}
	return l.RetryAfter(nowNs, units)
}
