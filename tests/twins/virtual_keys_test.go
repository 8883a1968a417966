package twins_test

import (
	"fmt"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
)

// callOfKeys makes up a CL.MLIMIT of some of the run's keys, and asks the model.
func (r *virtualRun) callOfKeys() virtualCall {
	var c virtualCall
	var keys []string
	var calls []naive.Call
	some := r.Perm(len(r.keys))[:1+r.IntN(len(r.keys))]
	limits, o := r.asked(r.keys[some[0]])
	oneGroup := r.IntN(4) == 0
	var all []naive.Limit
	var terms []naive.Terms
	full := false
	for i, at := range some {
		k := r.keys[at]
		keys, c.pasts = append(keys, k.name), append(c.pasts, &k.past)
		asked := naive.Call{Model: &k.model, Limits: limits, Terms: o.Terms}
		if i > 0 && !oneGroup {
			asked.Limits, asked.Terms = r.vary(k.limits), nil
			if r.IntN(4) == 0 {
				asked.Terms = r.terms(asked.Limits)
			}
		}
		full = full || len(asked.Limits) == 8
		calls, all = append(calls, asked), append(all, asked.Limits...)
		terms = append(terms, asked.Terms...)
		terms = append(terms, make([]naive.Terms, len(all)-len(terms))...)
	}
	o = r.options(all, naive.Options{Cost: o.Cost, Terms: terms})
	if full {
		o.After = naive.After{} // there is no room for it
	}
	anyKey := r.IntN(3) == 0
	take := naive.TakeAll
	if anyKey {
		o.Strict, o.Ban, take = false, 0, naive.TakeAny
		r.withAny++
	}
	c.words = append(append([]string{"CL.MLIMIT", fmt.Sprint(len(keys))}, keys...), naive.WordsOfKeys(calls, oneGroup, anyKey, o)...)
	reply, each := naive.EachOf(r.now, calls, o, func() naive.Reply { return take(r.now, calls, o) })
	r.count(all, reply)
	r.several[reply.Limited]++
	c.want, c.shown = fmt.Sprint(reply.FieldsOfKeys()), shownOfKeys
	return r.withEach(c, reply, each)
}

// shownOfKeys is a reply of CL.MLIMIT as the model shows it.
func shownOfKeys(v resp.Value) string {
	if v.IsError() || len(v.Elems) != 22 {
		return v.String()
	}
	var fields [11]int64
	for i := range fields {
		fields[i] = v.Elems[2*i+1].Int
	}
	return fmt.Sprint(fields)
}
