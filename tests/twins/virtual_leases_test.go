package twins_test

import (
	"fmt"
	"strconv"
	"time"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
)

// virtualLeases is a key with leases that nobody but the run uses.
type virtualLeases struct {
	key   string // "" in a season without
	model naive.Leases
	past  past
	slots int64
	ids   int
	// crowded is a season with more leases than are removed at once.
	crowded bool

	made, granted, limited, renewed, lost, released, mostLapsed int
}

// beginLeases makes up those of a season. A score of the time before September 2001 is none of a lease.
func (r *virtualRun) beginLeases() {
	l := &r.leases
	l.key, l.model, l.past, l.crowded = "", naive.Leases{}, nil, false
	if time.Unix(0, r.now).UTC().Year() < 2020 || r.crowded {
		return
	}
	l.key = fmt.Sprintf("season%d:leases", r.seasons)
	l.slots, l.ids = 1+r.Int64N(5), 2+r.IntN(10)
	if l.crowded = r.IntN(2) == 0; l.crowded { // so many that some that have lapsed are left
		l.slots, l.ids = 10+r.Int64N(60), 100
	}
}

func (r *virtualRun) id() string { return fmt.Sprint("id", r.IntN(r.leases.ids)) }

// ttl is how long a lease is to last. One that outlasts the others keeps those that have lapsed.
func (r *virtualRun) ttl() time.Duration {
	ns := r.upTo(2 * r.scale)
	switch r.IntN(8) {
	case 0:
		ns = 2*r.scale + r.Int64N(6*r.scale)
	case 1, 2, 3:
		ns = 1 + r.Int64N(r.scale)
	case 4, 5:
		if r.leases.crowded {
			ns = r.scale
		}
	}
	return time.Duration(max(ns/int64(time.Millisecond), 1)) * time.Millisecond
}

// untilLapse is how long until the next lease lapses, in ns.
func (r *virtualRun) untilLapse() int64 {
	if r.leases.key == "" {
		return 0
	}
	return r.leases.model.UntilLapse(r.now)
}

// callOfLeases makes up a call, and asks the model.
func (r *virtualRun) callOfLeases() virtualCall {
	l := &r.leases
	l.made++
	_, lapsed := l.model.Stored(r.now)
	l.mostLapsed = max(l.mostLapsed, lapsed)
	c := virtualCall{pasts: []*past{&l.past}, shown: shownLease}
	kind := r.IntN(12)
	if l.crowded && r.IntN(2) == 0 {
		kind = 6
	}
	switch kind {
	case 0, 1:
		ids := []string{r.id()}
		for r.IntN(3) == 0 {
			ids = append(ids, r.id())
		}
		released := l.model.Release(r.now, ids...)
		l.released += int(released)
		c.words, c.want = append([]string{"CL.RELEASE", l.key, "ID"}, ids...), fmt.Sprint(released)
	case 2, 3, 4:
		id, ttl := r.id(), r.ttl()
		reply := l.model.Renew(r.now, ttl, id)
		l.lost += int(reply.Limited)
		l.renewed += int(1 - reply.Limited)
		c.words, c.want = []string{"CL.RENEW", l.key, "ID", id, "TTL", naive.Duration(ttl)}, fmt.Sprint(reply.Fields())
	case 5:
		count := 1 + r.IntN(12)
		c.words = []string{"CL.LEASES", l.key, "COUNT", strconv.Itoa(count)}
		held, waiting, holders := l.model.List(r.now, count)
		c.want, c.shown = fmt.Sprint(held, waiting, holders), shownLeases
	default:
		slots, id, ttl := l.slots, r.id(), r.ttl()
		if r.IntN(5) == 0 {
			slots = r.Int64N(2 * l.slots)
		}
		reply := l.model.Lease(r.now, slots, ttl, id)
		l.limited += int(reply.Limited)
		l.granted += int(1 - reply.Limited)
		c.words, c.want = []string{"CL.LEASE", l.key, "SLOTS", strconv.FormatInt(slots, 10), "TTL", naive.Duration(ttl), "ID", id}, fmt.Sprint(reply.Fields())
	}
	return c
}

// looksAtLeases asks what is stored, and until when.
func (r *virtualRun) looksAtLeases() []virtualCall {
	l := &r.leases
	if l.key == "" {
		return nil
	}
	expires := fmt.Sprint(l.model.ExpiresMs(r.now))
	stored, _ := l.model.Stored(r.now)
	return []virtualCall{
		{[]*past{&l.past}, []string{"PEXPIRETIME", l.key}, expires, shown},
		{[]*past{&l.past}, []string{"ZRANGE", l.key, "0", "-1", "WITHSCORES"}, stored, func(v resp.Value) (s string) {
			for i := 0; i+1 < len(v.Elems); i += 2 {
				s += v.Elems[i].Text + " until " + v.Elems[i+1].Text + " "
			}
			return s
		}},
	}
}

// shownLease is a reply as the model shows it.
func shownLease(v resp.Value) string {
	l, err := kit.LeasedIn(v)
	if err != nil {
		return shown(v)
	}
	return fmt.Sprint([6]int64{l.Limited, l.Limit, l.Remaining, l.RetryAfterMs, l.LeaseMs, l.WaitMs})
}

// shownLeases is a reply of CL.LEASES as the model shows it.
func shownLeases(v resp.Value) string {
	if v.IsError() || len(v.Elems) != 10 {
		return v.String()
	}
	var holders []naive.Holder
	for _, e := range v.Elems[5].Elems {
		holders = append(holders, naive.Holder{ID: e.Elems[1].Text, LeaseMs: e.Elems[3].Int})
	}
	return fmt.Sprint(v.Elems[1].Int, v.Elems[3].Int, holders)
}
