package twins_test

import (
	"fmt"
	"slices"

	"redis-throttle/internal/naive"
)

// virtualAdmissions counts what has come of calls with groups of SLOTS.
type virtualAdmissions struct{ admitted, retried, denied, settled, tooLate int }

// groups makes up what a call with slots says of its keys: some of the run's, and the key with leases. before is how
// many leases the id holds.
func (r *virtualRun) groups(id string) (keys []string, groups []naive.Group, pasts []*past) {
	l := &r.leases
	for _, at := range r.Perm(len(r.keys))[:r.IntN(len(r.keys)+1)] {
		k := r.keys[at]
		limits := r.vary(k.limits)
		keys, pasts = append(keys, k.name), append(pasts, &k.past)
		groups = append(groups, naive.Group{Call: naive.Call{Model: &k.model, Limits: limits}})
	}
	slots := l.slots
	if r.IntN(5) == 0 {
		slots = r.Int64N(2 * l.slots)
	}
	at := r.IntN(len(keys) + 1)
	keys, pasts = slices.Insert(keys, at, l.key), append(pasts, &l.past)
	return keys, slices.Insert(groups, at, naive.Group{Leases: &l.model, Slots: slots, TTL: r.ttl()}), pasts
}

// callOfAdmission makes up a CL.MLIMIT with slots or a CL.SETTLE, and asks the model.
func (r *virtualRun) callOfAdmission() virtualCall {
	id := r.id()
	keys, groups, pasts := r.groups(id)
	c := virtualCall{pasts: pasts, shown: shownOfKeys}
	if r.IntN(3) == 0 {
		return r.settlement(c, keys, groups, id)
	}
	var o naive.Options
	o.Cost = r.Int64N(4)
	if r.IntN(10) == 0 {
		o.Strict = true
	}
	for i := range groups {
		if r.IntN(3) == 0 {
			groups[i].Terms = r.terms(groups[i].Limits)
		}
	}
	held := r.holds(id)
	c.words = append(append([]string{"CL.MLIMIT", fmt.Sprint(len(keys))}, keys...), naive.WordsOfGroups(groups, false)...)
	options := append(o.Words(), "ID", id)
	if r.IntN(2) == 0 {
		options = append([]string{"ID", id}, o.Words()...)
	}
	c.words = append(c.words, options...)
	reply, each := naive.EachOfGroups(r.now, groups, id, o, false, func() naive.Reply { return naive.Admit(r.now, groups, id, o) })
	r.made++
	r.limited += int(reply.Limited)
	switch {
	case held:
		r.admissions.retried++
	case reply.Limited == 0:
		r.admissions.admitted++
	default:
		r.admissions.denied++
	}
	c.want = fmt.Sprint(reply.FieldsOfKeys())
	return r.withEach(c, reply, each)
}

func (r *virtualRun) settlement(c virtualCall, keys []string, groups []naive.Group, id string) virtualCall {
	for i := range groups {
		g := &groups[i]
		g.Terms, g.Used = make([]naive.Terms, len(g.Limits)), make([]int64, len(g.Limits))
		for j, l := range g.Limits {
			t := naive.Terms{Take: r.Int64N(6), HasTake: true, Shadow: r.IntN(6) == 0}
			used := r.Int64N(6)
			if !r.mayForce([]naive.Limit{l}, naive.Options{Cost: used}) {
				used = 0
			}
			g.Terms[j], g.Used[j] = t, used
		}
	}
	held := r.holds(id)
	c.words = append(append([]string{"CL.SETTLE", fmt.Sprint(len(keys))}, keys...), naive.WordsOfGroups(groups, true)...)
	c.words = append(c.words, "ID", id)
	reply, each := naive.EachOfGroups(r.now, groups, id, naive.Options{}, true, func() naive.Reply { return naive.Settle(r.now, groups, id) })
	r.made++
	if held {
		r.admissions.settled++
	} else {
		r.admissions.tooLate++
	}
	c.want = fmt.Sprint(reply.FieldsOfKeys())
	seen := r.each
	c = r.withEach(c, reply, each)
	r.each = seen // it counts calls that may be limited
	return c
}

// holds says whether an id holds a lease.
func (r *virtualRun) holds(id string) bool {
	_, _, holders := r.leases.model.List(r.now, 1<<20)
	return slices.ContainsFunc(holders, func(h naive.Holder) bool { return h.ID == id })
}
