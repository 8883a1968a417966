package linearizability

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"redis-throttle/internal/naive"
	"redis-throttle/tests/resp"
)

// leases are a key with leases, its line, and those of its callers who are no longer in line but have not
// left the history yet: true for one that was never told anything.
//
// Where TIMEOUT goes by the clock that the test moves, deadlines says when it ends for each caller in line, in ns.
type leases struct {
	*naive.Leases
	over      map[uint64]bool
	deadlines map[uint64]int64
}

func (l leases) clone() object {
	return leases{l.Leases.Clone(), maps.Clone(l.over), maps.Clone(l.deadlines)}
}

func (l leases) String() string { return fmt.Sprint(l.Leases, l.over, l.deadlines) }

func (l leases) stored() string { s, _ := l.Stored(0); return s }

// after is with an empty line: it is in nobody's key.
func (l leases) after(takeover object) object {
	c := l.clone().(leases)
	c.Leases = takeover.(leases).Leases.Clone()
	c.LineEnds()
	for _, turn := range l.InLine() {
		c.over[turn.Caller] = true
	}
	return c
}

func (l leases) haunted(before object, nowNs int64) object {
	was := before.(leases)
	if l.stored() == "" && was.Clone().ExpiresMs(nowNs) < 0 {
		l.Leases = l.Haunted(was.Leases)
	}
	return l
}

func (l leases) expiring(nowNs int64) []object {
	c := l.clone().(leases)
	if c.ExpiresMs(nowNs); c.String() != l.String() {
		return []object{l, c}
	}
	return []object{l}
}

// leased is a key with leases and what callers ask of it.
type leased struct {
	key   string
	slots int64
	// movedTimeouts says that TIMEOUT goes by the clock that the test moves, as on throttle-dev, and not by one that no
	// history moves.
	movedTimeouts bool
	// noLine says that nobody waits.
	noLine bool

	mutex  sync.Mutex
	recent []string // ids of callers that waited
	inLine int
}

// mostInLine is how many callers may wait at a time. The checker tries every order of
// the callers that arrive while the server pauses.
const mostInLine = 4

func (l *leased) name() string { return l.key }

func (l *leased) begin() object {
	return leases{&naive.Leases{}, map[uint64]bool{}, map[uint64]int64{}}
}

// does is a call that does not wait.
func (l *leased) does(words []string, run func(m *naive.Leases, nowNs int64) []int64) *call {
	return &call{of: l, words: words, run: func(o object, nowNs int64) []result {
		after := o.clone().(leases)
		reply := run(after.Leases, nowNs)
		return []result{{object: after, reply: reply}}
	}}
}

// lasting is a TTL. Most leases lapse soon, but some last for longer than a slot of a cluster takes to move.
func lasting(r *rand.Rand) time.Duration {
	if r.IntN(10) == 0 {
		return time.Minute
	}
	return time.Duration(3+r.IntN(25)) * time.Millisecond
}

func (l *leased) call(r *rand.Rand) *call {
	slots, ttl, id := l.slots, lasting(r), l.anID(r)
	if r.IntN(10) == 0 {
		slots = r.Int64N(l.slots + 3)
	}
	switch r.IntN(10) {
	case 0, 1:
		return l.renew(id, ttl)
	case 2, 3:
		return l.release(id, l.anID(r))
	case 4:
		return l.list()
	case 5, 6:
		return l.lease([]string{"a", "b", "c", "d"}[r.IntN(4)], slots, ttl)
	}
	id, timeout := l.newID(r), time.Duration(1+r.IntN(20))*time.Millisecond
	ttl = min(ttl, 20*time.Millisecond) // few ask for its end
	if !l.mayWait() {
		return l.lease(id, slots, ttl)
	}
	var place naive.Turn
	if r.IntN(2) == 0 {
		place = naive.Turn{Group: []string{"", "a", "b"}[r.IntN(3)], Priority: r.Int64N(3) - 1}
	}
	if place.Group != "" {
		place.Weight = r.Int64N(4)
	}
	o := l.waits(id, slots, ttl, timeout, place)
	o.wait.done = l.waited
	return o
}

func (l *leased) mayWait() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.noLine || l.inLine == mostInLine {
		return false
	}
	l.inLine++
	return true
}

func (l *leased) waited() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.inLine--
}

// newID is one that nobody else asks for.
func (l *leased) newID(r *rand.Rand) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	id := fmt.Sprintf("%x", r.Uint64())
	l.recent = append(l.recent[max(0, len(l.recent)-5):], id)
	return id
}

func (l *leased) anID(r *rand.Rand) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return append([]string{"a", "b", "c", "d"}, l.recent...)[r.IntN(4+len(l.recent))]
}

func fieldsOf(reply naive.LeaseReply) []int64 { fields := reply.Fields(); return fields[:] }

func (l *leased) lease(id string, slots int64, ttl time.Duration) *call {
	return l.does(l.words(id, slots, ttl), func(m *naive.Leases, nowNs int64) []int64 { return fieldsOf(m.Lease(nowNs, slots, ttl, id)) })
}

func (l *leased) words(id string, slots int64, ttl time.Duration) []string {
	return []string{"CL.LEASE", l.key, "SLOTS", strconv.FormatInt(slots, 10), "TTL", naive.Duration(ttl), "ID", id, "COMPACT"}
}

func (l *leased) renew(id string, ttl time.Duration) *call {
	return l.does([]string{"CL.RENEW", l.key, "ID", id, "TTL", naive.Duration(ttl), "COMPACT"},
		func(m *naive.Leases, nowNs int64) []int64 { return fieldsOf(m.Renew(nowNs, ttl, id)) })
}

func (l *leased) release(ids ...string) *call {
	return l.does(append([]string{"CL.RELEASE", l.key, "ID"}, ids...),
		func(m *naive.Leases, nowNs int64) []int64 { return []int64{m.Release(nowNs, ids...)} })
}

func (l *leased) list() *call {
	o := l.does([]string{"CL.LEASES", l.key}, func(m *naive.Leases, nowNs int64) []int64 {
		held, waiting, holders := m.List(nowNs, 10)
		reply := []int64{held, waiting}
		for _, h := range holders {
			reply = append(reply, asInteger(h.ID), h.LeaseMs)
		}
		return reply
	})
	o.read = func(v resp.Value) ([]int64, error) {
		if len(v.Elems) != 10 {
			return nil, fmt.Errorf("no reply of CL.LEASES: %v", v)
		}
		reply := []int64{v.Elems[1].Int, v.Elems[3].Int}
		for _, e := range v.Elems[5].Elems {
			reply = append(reply, asInteger(e.Elems[1].Text), e.Elems[3].Int)
		}
		return reply, nil
	}
	return o
}

// asInteger tells ids apart.
func asInteger(id string) int64 {
	h := fnv.New64()
	_, _ = h.Write([]byte(id))
	return int64(h.Sum64())
}

// callers counts the callers that may wait.
var callers atomic.Uint64

// waits is a CL.LEASE with TIMEOUT: two operations within one call. It arrives, and is answered or stands in
// line; and it leaves, let in when it is its turn, or not.
func (l *leased) waits(id string, slots int64, ttl, timeout time.Duration, place naive.Turn) *call {
	number, tookNs := callers.Add(1), int64(0)
	w := naive.Waiter{Turn: place, ID: id, TTL: ttl, Timeout: timeout}
	w.Caller = number
	arrives := func(o object, nowNs int64) []result {
		after, never := o.clone().(leases), o.clone().(leases)
		never.over[number] = true
		reply, answered := after.Arrive(nowNs, slots, w)
		if answered {
			after.over[number] = false
			return []result{{object: after, reply: fieldsOf(reply)}, {object: never, lost: true}}
		}
		if l.movedTimeouts {
			after.deadlines[number] = nowNs + int64(timeout)
		}
		return []result{{object: after, open: true}, {object: never, lost: true}}
	}
	leaves := func(o object, nowNs int64) (results []result) {
		after := o.clone().(leases)
		if untold, over := after.over[number]; over {
			delete(after.over, number)
			return []result{{object: after, open: !untold, lost: untold}}
		}
		if !after.Waits(number) {
			return nil // it has not come yet
		}
		isOver := tookNs >= int64(timeout)
		if l.movedTimeouts {
			isOver = nowNs >= after.deadlines[number]
			delete(after.deadlines, number)
		}
		in, out, gone := after.clone().(leases), after.clone().(leases), after.clone().(leases)
		if reply, ok := in.LetIn(nowNs, number); ok {
			results = append(results, result{object: in, reply: withoutWait(fieldsOf(reply))})
		}
		if reply, ok := out.TimesOut(nowNs, number); ok && isOver {
			results = append(results, result{object: out, reply: withoutWait(fieldsOf(reply))})
		}
		gone.Leave(nowNs, number)
		return append(results, result{object: gone, lost: true})
	}
	words := append(l.words(id, slots, ttl), "TIMEOUT", naive.Duration(timeout))
	if place.Group != "" {
		words = append(words, "GROUP", place.Group)
	}
	if place.Weight != 0 {
		words = append(words, "WEIGHT", fmt.Sprint(place.Weight))
	}
	if place.Priority != 0 {
		words = append(words, "PRIORITY", fmt.Sprint(place.Priority))
	}
	return &call{of: l, words: words, run: arrives, wait: &wait{
		leaves: &departure{l, id, leaves},
		took:   func(ns int64) { tookNs = ns },
		again:  func() *call { return l.waits(id, slots, ttl, timeout, place) },
	}}
}

// withoutWait is a reply of CL.LEASE without wait_ms: how long a call waits depends on instants that the
// reply does not tell.
func withoutWait(reply []int64) []int64 { return slices.Clone(reply[:max(len(reply)-1, 0)]) }
