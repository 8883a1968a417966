package exhaustive

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"redis-throttle/command"
)

// LeaseWorld is one key with slots, the ids that ask for them, and the steps that the clock may take.
type LeaseWorld struct {
	Name    string
	Slots   int64
	TTLs    []string
	IDs     []string
	StepsNs []int64
	// Promised is the number of slots that the log holds the key to.
	Promised int64
}

// leases is where a history has come to.
type leases struct {
	nowNs, elapsedNs int64
	members          map[string]int64 // the sorted set: when each lapses, ms by the clock
	// held are the leases as their holders know them: until when in time elapsed, and by the clock.
	held map[string]held
	back bool // the clock was set back
	from *leases
	how  string
}

type held struct{ untilNs, byClockMs int64 }

func (s *leases) key() string {
	var b strings.Builder
	fmt.Fprint(&b, s.nowNs-begin, s.back)
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		fmt.Fprint(&b, " ", id, s.members[id]-begin/ms)
	}
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		fmt.Fprint(&b, " ", id, s.held[id].untilNs-s.elapsedNs, " ", s.held[id].byClockMs-begin/ms)
	}
	return b.String()
}

func (s *leases) history() string {
	if s.from == nil {
		return ""
	}
	return s.from.history() + "\n  " + s.how
}

func (w *LeaseWorld) moves() (all []Move) {
	add := func(cmd *command.Command, line string) {
		m := Move{Command: cmd}
		for _, word := range strings.Fields(line) {
			m.args = append(m.args, []byte(word))
		}
		all = append(all, m)
	}
	for _, id := range w.IDs {
		for _, ttl := range w.TTLs {
			add(command.Lease, fmt.Sprintf("k SLOTS %d TTL %s ID %s", w.Slots, ttl, id))
			add(command.Renew, fmt.Sprintf("k TTL %s ID %s", ttl, id))
		}
		add(command.Release, "k ID "+id)
	}
	return all
}

// Explore tries all sequences of up to depth moves, as World.Explore does.
func (w *LeaseWorld) Explore(depth int) (r Result) {
	moves := w.moves()
	r.Moves = len(w.StepsNs) * len(moves)
	call, start := newLeaseCall(), newLeases()
	seen := newSet()
	seen.add([]byte(start.key()))
	level := []*leases{start}
	for r.Depth < depth {
		var next []*leases
		for _, s := range level {
			for _, step := range w.StepsNs {
				for i := range moves {
					child := &leases{s.nowNs, s.elapsedNs, maps.Clone(s.members), maps.Clone(s.held), s.back, s, ""}
					if r.Problem = w.move(child, step, &moves[i], call, &r); r.Problem != "" {
						r.Problem += " after" + child.history()
						return r
					}
					if seen.add([]byte(child.key())) && r.Depth+1 < depth {
						next = append(next, child)
					}
				}
			}
		}
		r.Depth++
		r.States, r.Sequences = len(seen.hashes), power(r.Moves, r.Depth)
		level = next
	}
	return r
}

func newLeases() *leases {
	return &leases{nowNs: begin, members: map[string]int64{}, held: map[string]held{}}
}

func newLeaseCall() *command.Call {
	return &command.Call{Key: &command.Key{}, Past: &command.Past{}, Members: &command.Members{}}
}

// run decides a move as the server does: it shows the call the members, and changes them as the call says.
func (s *leases) run(m *Move, nowNs int64, c *command.Call) (id string) {
	id = string(m.args[slices.IndexFunc(m.args, func(word []byte) bool { return string(word) == "ID" })+1])
	type member struct {
		id string
		ms int64
	}
	var all []member
	for id, until := range s.members {
		all = append(all, member{id, until})
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].ms < all[j].ms || all[i].ms == all[j].ms && all[i].id < all[j].id
	})
	if len(all) > 0 && all[len(all)-1].ms <= nowNs/ms { // the key expires with its last member
		clear(s.members)
		all = nil
	}
	lapsed := 0
	for lapsed < len(all) && all[lapsed].ms <= nowNs/ms {
		lapsed++
	}
	*c.Key = command.Key{}
	if len(all) > 0 {
		c.Kind = command.SortedSet
	}
	c.NowNs, c.Args, c.ArgCount = nowNs, m.args, len(m.args)
	set := c.Members
	set.Reset(int64(len(all)), int64(lapsed), lapsed, 1)
	for i := range lapsed {
		set.Lowest[i] = float64(all[i].ms)
	}
	set.Next, set.Named[0] = math.NaN(), math.NaN()
	if lapsed < len(all) {
		set.Next = float64(all[lapsed].ms)
	}
	if until, ok := s.members[id]; ok {
		set.Named[0] = float64(until)
	}
	c.Run(m.Command)
	switch c.Effect {
	case command.Delete:
		clear(s.members)
	case command.ChangeMembers:
		for _, one := range all[:set.RemoveLowest] {
			delete(s.members, one.id)
		}
		if set.Remove[0] {
			delete(s.members, id)
		}
		if set.Add {
			s.members[id] = int64(set.AddScore)
		}
	}
	return id
}

func (w *LeaseWorld) move(s *leases, stepNs int64, m *Move, c *command.Call, r *Result) (problem string) {
	s.nowNs += stepNs
	s.elapsedNs += max(stepNs, 0)
	s.back = s.back || stepNs < 0
	for id, h := range s.held {
		if h.untilNs <= s.elapsedNs && h.byClockMs <= s.nowNs/ms {
			delete(s.held, id)
		}
	}
	id := s.run(m, s.nowNs, c)
	r.Calls++
	s.how = "+" + strconv.FormatInt(stepNs/1000, 10) + "us " + joined(m) + fmt.Sprintf(" -> %v", c.Integers)
	if c.Reply == command.ReplyError {
		return "error: " + string(c.Error)
	}
	if m.Command == command.Release {
		h, has := s.held[id]
		delete(s.held, id)
		if !s.back && (c.Integers[0] == 1) != (has && h.byClockMs > s.nowNs/ms) {
			return "a lease that was held was not released, or one that was not was"
		}
		return ""
	}
	limited, retryMs, leaseMs := c.Integers[0] != 0, c.Integers[3], c.Integers[4]
	others, taken, own := int64(0), int64(0), false
	for other, h := range s.held {
		if h.byClockMs > s.nowNs/ms { // up to 1 ms longer than the holder was told
			taken++
		}
		if h.untilNs > s.elapsedNs {
			if other == id {
				own = true
			} else {
				others++
			}
		}
	}
	if limited {
		r.Limited++
		return w.checkLimited(s, m, c, taken, own, retryMs)
	}
	r.Granted++
	_, lasts := s.held[id]
	switch {
	case m.Command == command.Renew && !lasts && !s.back: // a clock that is set back may find it again, as long as there is a slot
		return "a lease that had lapsed was revived"
	case others >= w.Promised:
		return "one holder too many"
	case leaseMs < 0:
		return "a lease of no time"
	}
	s.held[id] = held{s.elapsedNs + leaseMs*ms, s.members[id]}
	return ""
}

// checkLimited holds a call that was limited to what is promised where the clock was never set back: there was no slot, and
// there is one after the retry after, no ms earlier.
func (w *LeaseWorld) checkLimited(s *leases, m *Move, c *command.Call, taken int64, own bool, retryMs int64) (problem string) {
	if own {
		return "limited, though it holds a lease"
	}
	if m.Command == command.Renew {
		return ""
	}
	if !s.back && taken < w.Promised {
		return "limited, though there are slots"
	}
	for _, early := range []int64{0, 1} {
		again := &leases{members: maps.Clone(s.members)}
		again.run(m, s.nowNs+(retryMs-early)*ms, c)
		if limited := c.Integers[0] != 0; limited != (early == 1) {
			return fmt.Sprintf("told to come back after %d ms, and limited %v %d ms earlier", retryMs, limited, early)
		}
	}
	return ""
}
