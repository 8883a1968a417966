package stack

// MaxStacks is how many stacks a Joint holds at most.
const MaxStacks = 8

// Joint is several stacks, each with a state of its own, that are asked at one instant: those of
// the keys of one call. Their limits are numbered in one row, those of the first stack first;
// Result.Rule and Result.Shadow are numbers in this row. Make one with Reset and Join, then call
// Take, or Choose and TakeOne.
type Joint struct {
	decision
	row    [MaxStacks * MaxLimits]*layer
	stacks [MaxStacks]*Stack
	begins [MaxStacks]int // where the limits of each are in the row
	n      int
}

// Reset removes all stacks.
func (j *Joint) Reset() {
	j.in, j.shadows, j.n = j.row[:0], 0, 0
	j.corrected, j.changed = 0, 0
}

// Join adds a stack, which has at least one limit. There must be fewer than MaxStacks.
func (j *Joint) Join(s *Stack) {
	j.stacks[j.n], j.begins[j.n] = s, len(j.in)
	j.n++
	//lint:ignore S1011 there are few, and copying them at once takes longer
	for _, l := range s.in {
		j.in = append(j.in, l)
	}
	j.shadows += s.shadows
}

// Len is the number of stacks.
func (j *Joint) Len() int { return j.n }

// Of is the index of the stack that has the limit with the number rule in the row.
func (j *Joint) Of(rule int) (index int) {
	for index = j.n - 1; rule < j.begins[index]; index-- {
	}
	return index
}

// Changed reports whether the state of a stack has to be stored.
func (j *Joint) Changed(index int) bool {
	of := bit(len(j.stacks[index].in)) - 1
	return j.changed>>j.begins[index]&of != 0
}

// Choose returns the index of the stack to ask if one of them is enough: the first that lets the
// request through at once; if there is none, the one that does so after the shortest wait; else
// the one with the shortest retry after, Never being the longest. Of equal ones it is the first.
// closedNs is how long each stack lets nothing through, whatever its limits say.
func (j *Joint) Choose(r Request, closedNs *[MaxStacks]int64, nowNs int64) (index int) {
	index, _ = j.best(&r, closedNs, nowNs)
	return index
}

// RetryAfterAny is RetryAfter of a request that needs one stack only.
func (j *Joint) RetryAfterAny(r Request, closedNs *[MaxStacks]int64, nowNs int64) int64 {
	_, best := j.best(&r, closedNs, nowNs)
	return best.retryAfter()
}

// best is the stack that Choose returns, and its outlook. Those that it looks at are brought to nowNs.
func (j *Joint) best(r *Request, closedNs *[MaxStacks]int64, nowNs int64) (index int, best outlook) {
	for i, s := range j.stacks[:j.n] {
		s.bringToNow(nowNs)
		o := s.outlook(r, nowNs)
		if closedNs[i] > 0 { // nothing can be reserved behind it
			o = outlook{limited: true, ns: Longer(closedNs[i], o.retryAfter())}
		}
		if i == 0 || o.isBetterThan(best) {
			index, best = i, o
		}
		if !best.limited && best.ns == 0 {
			break
		}
	}
	return index, best
}

// TakeOne is Take for the stack that Choose has just chosen for the same request.
func (j *Joint) TakeOne(index int, r Request, nowNs int64) (result Result) {
	s, begin := j.stacks[index], j.begins[index]
	s.TakeTo(&result, &r, nowNs)
	j.changed = s.changed << begin
	result.Rule += begin
	if result.Shadow > 0 {
		result.Shadow += begin
	}
	return result
}

// outlook says what would happen to a request: it is let through after a wait, or limited and to
// be tried again after a time.
type outlook struct {
	limited bool
	ns      int64
}

// retryAfter is how long to wait before the request is made again, or Never.
func (o outlook) retryAfter() int64 {
	if !o.limited {
		return 0
	}
	return o.ns
}

func (o outlook) isBetterThan(other outlook) bool {
	switch {
	case o.limited != other.limited:
		return other.limited
	case o.ns == Never:
		return false
	}
	return o.ns < other.ns || other.ns == Never
}

// outlook is what Take would do, of limits that were brought to nowNs.
func (d *decision) outlook(r *Request, nowNs int64) outlook {
	needed := r.Cost
	if r.UpTo {
		_, needed = d.upTo(needed, nowNs)
	}
	_, waitNs := d.wait(needed, nowNs)
	longestNs := d.longestWait(r.MaxWaitNs)
	if waitNs >= 0 && waitNs <= longestNs {
		return outlook{ns: waitNs}
	}
	return outlook{limited: true, ns: retryAfter(waitNs, longestNs)}
}

// OnlyShadows reports whether no limit decides.
func (j *Joint) OnlyShadows() bool { return j.shadows == len(j.in) }
