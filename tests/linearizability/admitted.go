package linearizability

import (
	"fmt"
	"math/rand/v2"
	"time"

	"redis-throttle/internal/naive"
)

// admission is keys of units and a key of slots, which CL.MLIMIT and CL.SETTLE change together.
type admission struct {
	keys
	leases
}

func (a admission) clone() object {
	return admission{a.keys.clone().(keys), a.leases.clone().(leases)}
}

func (a admission) String() string { return a.keys.String() + a.leases.String() }

func (a admission) stored() string { return a.keys.stored() + a.leases.stored() }

func (a admission) after(takeover object) object {
	t := takeover.(admission)
	return admission{t.keys, a.leases.after(t.leases).(leases)}
}

func (a admission) haunted(before object, nowNs int64) object {
	b := before.(admission)
	return admission{a.keys.haunted(b.keys, nowNs).(keys), a.leases.haunted(b.leases, nowNs).(leases)}
}

func (a admission) expiring(nowNs int64) (all []object) {
	for _, k := range a.keys.expiring(nowNs) {
		for _, l := range a.leases.expiring(nowNs) {
			all = append(all, admission{k.clone().(keys), l.clone().(leases)})
		}
	}
	return all
}

// admitted is what callers ask of an admission: to be admitted and to settle, and what they may ask of each key by
// itself.
type admitted struct {
	members []one
	running *leased
}

// admit makes keys of one slot: one for each of the limits, and one with slots.
func admit(tag string, slots int64, limits ...[]naive.Limit) *admitted {
	a := &admitted{running: &leased{key: tag + ":running", slots: slots}}
	for _, m := range join(tag, limits...).members {
		a.members = append(a.members, one{key: m.key, limits: m.limits})
	}
	return a
}

func (a *admitted) name() string { return a.running.key }

func (a *admitted) begin() object {
	units := keys{}
	for _, m := range a.members {
		units[m.key] = &naive.Model{}
	}
	return admission{units, a.running.begin().(leases)}
}

// admittedIDs are few, so that calls are retried and settled, also twice, and by clients that did not make them.
var admittedIDs = []string{"a", "b", "c"}

func (a *admitted) call(r *rand.Rand) *call {
	id, ttl := admittedIDs[r.IntN(len(admittedIDs))], lasting(r)
	members := a.members
	if r.IntN(4) == 0 {
		members = []one{a.members[r.IntN(len(a.members))]}
	}
	units := func() (all amounts) {
		for _, m := range members {
			var of []int64
			for range m.limits {
				of = append(of, r.Int64N(5))
			}
			all = append(all, of)
		}
		return all
	}
	switch r.IntN(12) {
	case 0, 1, 2, 3:
		return a.admit(members, units(), id, ttl, r.IntN(10) == 0)
	case 4, 5, 6, 7:
		return a.settle(members, units(), units(), id)
	case 8, 9:
		return a.ofUnits(a.members[r.IntN(len(a.members))].call(r))
	}
	return a.ofLeases(a.running.call(r))
}

// amounts are units for each limit, key by key.
type amounts [][]int64

// admit is a CL.MLIMIT with slots.
func (a *admitted) admit(members []one, take amounts, id string, ttl time.Duration, strict bool) *call {
	asked := func(of admission) []naive.Group { return a.groups(of, members, take, nil, ttl) }
	o := naive.Options{Cost: 1, Strict: strict}
	words := append(a.words("CL.MLIMIT", members, asked), append(o.Words(), "ID", id, "COMPACT")...)
	return a.does(words, asked, func(nowNs int64, groups []naive.Group) naive.Reply { return naive.Admit(nowNs, groups, id, o) })
}

// settle is a CL.SETTLE.
func (a *admitted) settle(members []one, take, used amounts, id string) *call {
	asked := func(of admission) []naive.Group { return a.groups(of, members, take, used, 0) }
	words := append(a.words("CL.SETTLE", members, asked), "ID", id, "COMPACT")
	return a.does(words, asked, func(nowNs int64, groups []naive.Group) naive.Reply { return naive.Settle(nowNs, groups, id) })
}

// groups are what a call says about some keys of units, and about the key of slots.
func (a *admitted) groups(of admission, members []one, take, used amounts, ttl time.Duration) (groups []naive.Group) {
	for i, m := range members {
		g := naive.Group{Call: naive.Call{Model: of.keys[m.key], Limits: m.limits}}
		for _, units := range take[i] {
			g.Terms = append(g.Terms, naive.Terms{Take: units, HasTake: true})
		}
		if used != nil {
			g.Used = used[i]
		}
		groups = append(groups, g)
	}
	return append(groups, naive.Group{Leases: of.leases.Leases, Slots: a.running.slots, TTL: ttl})
}

// words are the name of a call, its keys and its groups.
func (a *admitted) words(name string, members []one, asked func(admission) []naive.Group) []string {
	words := []string{name, fmt.Sprint(len(members) + 1)}
	for _, m := range members {
		words = append(words, m.key)
	}
	groups := naive.WordsOfGroups(asked(a.begin().(admission)), name == "CL.SETTLE")
	return append(append(words, a.running.key), groups...)
}

func (a *admitted) does(words []string, asked func(admission) []naive.Group, run func(nowNs int64, groups []naive.Group) naive.Reply) *call {
	return &call{of: a, words: words, run: func(before object, nowNs int64) []result {
		after := before.clone().(admission)
		fields := run(nowNs, asked(after)).FieldsOfKeys()
		return []result{{object: after, reply: fields[:]}}
	}}
}

// ofUnits is a call on one key of units, as one of the admission.
func (a *admitted) ofUnits(c *call) *call {
	return a.lift(c, func(of admission) object { return of.keys }, func(of admission, part object) admission {
		return admission{part.(keys), of.leases}
	})
}

// ofLeases is a call on the key of slots, as one of the admission.
func (a *admitted) ofLeases(c *call) *call {
	return a.lift(c, func(of admission) object { return of.leases }, func(of admission, part object) admission {
		return admission{of.keys, part.(leases)}
	})
}

// lift makes a call on one part a call on the whole admission.
func (a *admitted) lift(c *call, part func(admission) object, with func(admission, object) admission) *call {
	whole := func(run func(o object, nowNs int64) []result) func(o object, nowNs int64) []result {
		return func(before object, nowNs int64) (results []result) {
			of := before.clone().(admission)
			for _, r := range run(part(of), nowNs) {
				r.object = with(of.clone().(admission), r.object)
				results = append(results, r)
			}
			return results
		}
	}
	lifted := *c
	lifted.of, lifted.run = a, whole(c.run)
	if c.wait != nil {
		waits, leaves := *c.wait, *c.wait.leaves
		leaves.of, leaves.run = a, whole(leaves.run)
		waits.leaves, waits.again = &leaves, func() *call { return a.lift(c.wait.again(), part, with) }
		lifted.wait = &waits
	}
	return &lifted
}
