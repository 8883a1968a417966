package exhaustive

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/positions"
	"redis-throttle/limiter/embedded"
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
	leases           embedded.Key
	// held are the leases as their holders know them: until when in time elapsed, and by the clock.
	held map[string]held
	back bool // the clock was set back
	from *leases
	how  string
}

type held struct{ untilNs, byClockMs int64 }

func (s *leases) key(b []byte) []byte {
	b = fmt.Append(b[:0], s.nowNs-begin, s.back)
	for _, l := range s.leases.Leases {
		b = fmt.Append(b, " ", l.ID, int64(l.Score)-begin/ms)
	}
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		b = fmt.Append(b, " ", id, s.held[id].untilNs-s.elapsedNs, " ", s.held[id].byClockMs-begin/ms)
	}
	return b
}

func (s *leases) history() string {
	if s.from == nil {
		return ""
	}
	return s.from.history() + "\n  " + s.how
}

func (w *LeaseWorld) moves() (all []Move) {
	add := func(cmd *command.Command, line string) {
		all = append(all, Move{Command: cmd, words: wordsOf(cmd, line)})
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
	runner := &embedded.Runner{}
	search(newLeases(), depth, &r, func(from *leases) iter.Seq[*leases] {
		return func(yield func(*leases) bool) {
			for _, step := range w.StepsNs {
				for i := range moves {
					to := &leases{from.nowNs, from.elapsedNs, from.leases, maps.Clone(from.held), from.back, from, ""}
					r.Problem = w.move(to, step, &moves[i], runner, &r)
					if !yield(to) {
						return
					}
				}
			}
		}
	})
	return r
}

func newLeases() *leases { return &leases{nowNs: begin, held: map[string]held{}} }

// run makes a call on a key at an instant. It returns the id that the call names.
func (m *Move) run(key *embedded.Key, nowNs int64, runner *embedded.Runner) (c *command.Call, id string) {
	id = string(m.words[slices.IndexFunc(m.words, func(word []byte) bool { return string(word) == "ID" })+1])
	return runner.Run(m.Command, &embedded.Call{NowNs: nowNs, Words: m.words}, key), id
}

func (w *LeaseWorld) move(s *leases, stepNs int64, m *Move, runner *embedded.Runner, r *Result) (problem string) {
	s.nowNs += stepNs
	s.elapsedNs += max(stepNs, 0)
	s.back = s.back || stepNs < 0
	for id, h := range s.held {
		if h.untilNs <= s.elapsedNs && h.byClockMs <= s.nowNs/ms {
			delete(s.held, id)
		}
	}
	c, id := m.run(&s.leases, s.nowNs, runner)
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
	limited := c.Integers[positions.LeaseLimited] != 0
	retryMs, leaseMs := c.Integers[positions.LeaseRetryAfterMs], c.Integers[positions.LeaseLeaseMs]
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
		return w.checkLimited(s, m, runner, taken, own, retryMs)
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
	s.held[id] = held{s.elapsedNs + leaseMs*ms, int64(s.leases.Score(id))}
	return ""
}

// checkLimited holds a call that was limited to what is promised where the clock was never set back: there was no slot,
// and there is one after the retry after, no ms earlier.
func (w *LeaseWorld) checkLimited(s *leases, m *Move, runner *embedded.Runner, taken int64, own bool, retryMs int64) (problem string) {
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
		again := s.leases
		c, _ := m.run(&again, s.nowNs+(retryMs-early)*ms, runner)
		if limited := c.Integers[positions.LeaseLimited] != 0; limited != (early == 1) {
			return fmt.Sprintf("told to come back after %d ms, and limited %v %d ms earlier", retryMs, limited, early)
		}
	}
	return ""
}
