// Package past remembers what the words of earlier calls were read as. Callers mostly repeat themselves: between two
// calls the key differs, while the limits are those of one of a few plans. Comparing their words with remembered ones
// takes a fraction of the time of reading them.
package past

import (
	"redis-throttle/gcra"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

// Calls is what the words of earlier calls were read as.
type Calls struct {
	limits   memory[Limit]
	requests memory[Request]
	groups   memory[Groups]
	leases   leases
}

// Limit is what the words of CL.THROTTLE's limit were read as.
type Limit struct {
	Rate     gcra.Limit
	PeriodNs int64
}

// Request is what the words of a command of the CL.LIMIT family were read as, limits and
// options.
type Request struct {
	Read   words.Request
	limits [stack.MaxLimits]stack.Limit
	count  int
	lone   *gcra.Limit // one of limits
	plain  bool        // see LoneCount
}

// LoneRate is the only limit if that is a rate and there are no other words than COST and COMPACT, or nil.
func (p *Request) LoneRate() *gcra.Limit { return p.lone }

// LoneCount is the only limit if that is one that counts and there are no other words than COST and COMPACT, or nil.
func (p *Request) LoneCount() *stack.Limit {
	if !p.plain {
		return nil
	}
	return &p.limits[0]
}

// findLone finds the LoneRate or the LoneCount.
func (p *Request) findLone() {
	plain := words.Request{Request: stack.Request{Cost: p.Read.Cost}, Compact: p.Read.Compact}
	if p.lone, p.plain = nil, false; p.count == 1 && p.Read == plain {
		p.lone, p.plain = p.limits[0].PlainRate(), p.limits[0].PlainCount()
	}
}

// Limits are the limits among them.
func (p *Request) Limits() []stack.Limit { return p.limits[:p.count] }

// Groups is what the words behind the keys of a call with several keys were read as. Calls with more limits than
// there is room for are read again.
type Groups struct {
	Read   words.Request
	limits [2 * words.MaxKeys]stack.Limit
	ends   [words.MaxKeys]int // of the limits of each group
	slots  [words.MaxKeys]words.SlotGroup
	count  int // of groups
}

// Serve reports whether the groups are those of a call with a number of keys.
func (p *Groups) Serve(keys int) bool { return p.count == 1 || p.count == keys }

// Of returns the limits and slots of a key: those of its own group, or of the only group.
func (p *Groups) Of(key int) ([]stack.Limit, words.SlotGroup) {
	if key = min(key, p.count-1); key > 0 {
		return p.limits[p.ends[key-1]:p.ends[key]], p.slots[key]
	}
	return p.limits[:p.ends[0]], p.slots[0]
}

// Each Find returns what args were read as, or nil; it holds until the next Note. by is the command that they were
// given to: its number, and whatever else tells calls apart. Nil remembers nothing.

func (p *Calls) FindLimit(args [][]byte) *Limit {
	if p == nil {
		return nil
	}
	return p.limits.find(args, 0)
}

func (p *Calls) NoteLimit(args [][]byte, limit *Limit) {
	if p == nil {
		return
	}
	if past := p.limits.note(args, 0); past != nil {
		*past = *limit
	}
}

func (p *Calls) FindRequest(args [][]byte, by uint16) *Request {
	if p == nil {
		return nil
	}
	return p.requests.find(args, by)
}

// NoteRequest remembers what args were read as: r, and the limits of s.
func (p *Calls) NoteRequest(args [][]byte, by uint16, r *words.Request, s *stack.Stack) {
	if p == nil {
		return
	}
	if past := p.requests.note(args, by); past != nil {
		past.Read = *r
		past.count = len(s.Limits(past.limits[:0]))
		past.findLone()
	}
}

func (p *Calls) FindGroups(args [][]byte, by uint16) *Groups {
	if p == nil || len(args) > MaxWords {
		return nil
	}
	return p.groups.find(args, by)
}

// NoteGroups remembers what args were read as: r, and the limits or slots of each of groups.
func (p *Calls) NoteGroups(args [][]byte, by uint16, r *words.Request, groups []stack.Stack, slots []words.SlotGroup) {
	if p == nil || len(args) > MaxWords {
		return
	}
	limits := 0
	for i := range groups {
		limits += groups[i].Len()
	}
	var past *Groups
	if limits > len(past.limits) {
		return
	}
	if past = p.groups.note(args, by); past == nil {
		return
	}
	past.Read, past.count = *r, len(groups)
	copy(past.slots[:], slots)
	end := 0
	for i := range groups {
		end += len(groups[i].Limits(past.limits[end:end]))
		past.ends[i] = end
	}
}
