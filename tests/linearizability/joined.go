package linearizability

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"redis-throttle/internal/naive"
)

// keys are one or several, by their names.
type keys map[string]*naive.Model

func (k keys) clone() object {
	c := maps.Clone(k)
	for key, m := range c {
		c[key] = m.Clone()
	}
	return c
}

func (k keys) String() (s string) {
	for _, key := range slices.Sorted(maps.Keys(k)) {
		s += key + " " + k[key].String() + "\n"
	}
	return s
}

func (k keys) stored() string { return k.String() }

func (k keys) after(takeover object) object { return takeover }

func (k keys) haunted(before object, nowNs int64) object {
	for key, was := range before.(keys) {
		if k[key].String() == "" && was.Clone().ExpiresMs(nowNs) < 0 {
			k[key] = was.Clone()
		}
	}
	return k
}

func (k keys) expiring(nowNs int64) []object {
	all := []object{k}
	for _, key := range slices.Sorted(maps.Keys(k)) {
		for _, o := range all {
			c := o.clone().(keys)
			if c[key].ExpiresMs(nowNs); c.String() != o.String() {
				all = append(all, c)
			}
		}
	}
	return all
}

// joined are keys that CL.MLIMIT asks together, and single calls one by one. All of them are one object.
type joined struct{ members []one }

// join makes keys of one slot, whose limits they are.
func join(tag string, limits ...[]naive.Limit) *joined {
	j := &joined{}
	for i, l := range limits {
		j.members = append(j.members, one{key: fmt.Sprint(tag, ":", i), limits: l, group: j})
	}
	return j
}

func (j *joined) name() string { return j.members[0].key }

func (j *joined) begin() object {
	all := keys{}
	for _, m := range j.members {
		all[m.key] = &naive.Model{}
	}
	return all
}

func (j *joined) call(r *rand.Rand) *call {
	if r.IntN(3) == 0 {
		return j.members[r.IntN(len(j.members))].call(r)
	}
	order := r.Perm(len(j.members))[:2+r.IntN(len(j.members)-1)]
	var members []one
	var all []naive.Terms
	calls, onlyRates := make([]naive.Call, len(order)), true
	for i, at := range order {
		m := j.members[at]
		members = append(members, m)
		calls[i].Limits = m.limits
		if r.IntN(3) == 0 {
			calls[i].Terms = terms(r, m.limits)
			all = append(all, calls[i].Terms...)
		}
		onlyRates = onlyRates && !slices.ContainsFunc(m.limits, func(l naive.Limit) bool { return l.Kind != naive.Rate })
	}
	o := options(r, naive.Options{Cost: r.Int64N(4), Terms: all}, onlyRates)
	anyKey := r.IntN(3) == 0
	if anyKey {
		o.Strict, o.Ban = false, 0
	}
	return j.asks(members, calls, anyKey, o)
}

// asks is a CL.MLIMIT of some of the keys.
func (j *joined) asks(members []one, calls []naive.Call, anyKey bool, o naive.Options) *call {
	words := []string{"CL.MLIMIT", fmt.Sprint(len(members))}
	for _, m := range members {
		words = append(words, m.key)
	}
	words = append(append(words, naive.WordsOfKeys(calls, false, anyKey, o)...), "COMPACT")
	return &call{of: j, words: words, run: func(before object, nowNs int64) []result {
		after := before.clone().(keys)
		asked := slices.Clone(calls)
		for i, m := range members {
			asked[i].Model = after[m.key]
		}
		take := naive.TakeAll
		if anyKey {
			take = naive.TakeAny
		}
		fields := take(nowNs, asked, o).FieldsOfKeys()
		return []result{{object: after, reply: fields[:]}}
	}}
}

// isOfSeveral says whether a call wants units of several keys.
func isOfSeveral(words []string) bool {
	return words[0] == "CL.MLIMIT" && words[1] != "1" && !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, "ANY") })
}
