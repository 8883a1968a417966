package exhaustive

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/positions"
	"redis-throttle/limiter/embedded"
)

// AdmissionWorld is keys of units and keys of slots that CL.MLIMIT takes together and CL.SETTLE settles, the ids that
// ask for them, and the steps that the clock may take.
type AdmissionWorld struct {
	Name  string
	Units []Limit // one for each key of units
	Slots []int64 // one for each key of slots
	TTLMs int64
	// Take is what an admission takes of each key of units, and Used what settlements say that it used. With several
	// keys of units that is no less, since the answer tells what only one of them got back.
	Take    int64
	Used    []int64
	IDs     []string
	StepsNs []int64
	// Alone adds CL.LEASE on the last key of slots and CL.RELEASE on the first, so that ids may hold only some of their
	// leases.
	Alone bool
	// More is by how many slots the log promises more than there are.
	More int64
	// Spoil breaks what a call comes to, to see that it is found.
	Spoil func(*command.Command, *command.Call)
}

// AdmissionResult is what was explored, and how often calls were retries, settled, or came too late to settle.
type AdmissionResult struct {
	Result
	Retried, Settled, TooLate int
}

// admissions is where a history has come to.
type admissions struct {
	nowNs, elapsedNs int64
	keys             []embedded.Key // of units, then of slots
	ledgers          []ledger
	held             map[holder]held
	// back says that the clock was set back. late says that it was, or that units were given back, after which a
	// limiter may be late.
	back, late bool
	from       *admissions
	how        string
}

// holder is an id at a key.
type holder struct {
	key int
	id  string
}

func (s *admissions) clone() *admissions {
	other := *s
	other.keys, other.held, other.from = slices.Clone(s.keys), maps.Clone(s.held), s
	other.ledgers = nil
	for _, l := range s.ledgers {
		other.ledgers = append(other.ledgers, l.clone())
	}
	return &other
}

func (s *admissions) key(b []byte) []byte {
	b = fmt.Append(b[:0], s.nowNs-begin, s.back, s.late)
	for i := range s.keys {
		b = fmt.Appendf(b, "|%q %d", s.keys[i].Value, s.keys[i].ExpireAtMs)
		for _, l := range s.keys[i].Leases {
			b = fmt.Append(b, " ", l.ID, int64(l.Score)-begin/ms)
		}
	}
	for _, l := range s.ledgers {
		b = l.key(append(b, ';'))
	}
	var all []string
	for at, h := range s.held {
		all = append(all, fmt.Sprint(at.key, at.id, h.untilNs-s.elapsedNs, " ", h.byClockMs-begin/ms))
	}
	slices.Sort(all)
	return fmt.Append(b, all)
}

func (s *admissions) history() string {
	if s.from == nil {
		return ""
	}
	return s.from.history() + "\n  " + s.how
}

// admissionMove is a call about an id. used is what a settlement says, on the keys that it names.
type admissionMove struct {
	Move
	id   string
	used int64
	on   []int
}

func (w *AdmissionWorld) moves() (all []admissionMove) {
	var every []int
	for i := range len(w.Units) + len(w.Slots) {
		every = append(every, i)
	}
	add := func(cmd *command.Command, on []int, id string, used int64, line string) {
		all = append(all, admissionMove{Move{Command: cmd, words: wordsOf(cmd, line)}, id, used, on})
	}
	for _, id := range w.IDs {
		add(command.MLimit, every, id, 0, w.words(id, fmt.Sprint("TAKE ", w.Take), true))
		for _, used := range w.Used {
			add(command.Settle, every, id, used, w.words(id, fmt.Sprint("TAKE ", w.Take, " USED ", used), false))
		}
		if w.Alone {
			first, last := len(w.Units), len(every)-1
			add(command.Release, []int{first}, id, 0, fmt.Sprintf("k%d ID %s", first, id))
			add(command.Lease, []int{last}, id, 0, fmt.Sprintf("k%d SLOTS %d TTL %dms ID %s", last, w.Slots[len(w.Slots)-1], w.TTLMs, id))
		}
	}
	return all
}

// words returns the words of a call on all keys.
func (w *AdmissionWorld) words(id, units string, takes bool) string {
	var names, groups []string
	for _, l := range w.Units {
		groups = append(groups, l.Words+" "+units)
	}
	for _, n := range w.Slots {
		slots := "SLOTS"
		if takes {
			slots = fmt.Sprintf("SLOTS %d TTL %dms", n, w.TTLMs)
		}
		groups = append(groups, slots)
	}
	for i := range groups {
		names = append(names, fmt.Sprint("k", i))
	}
	return fmt.Sprint(len(names), " ", strings.Join(names, " "), " ", strings.Join(groups, " NEXT "), " ID ", id)
}

// Explore tries all sequences of up to depth moves.
func (w *AdmissionWorld) Explore(depth int) (r AdmissionResult) {
	moves := w.moves()
	r.Moves = len(w.StepsNs) * len(moves)
	x := &admissionExplorer{w, &r, embedded.Runner{}}
	start := &admissions{nowNs: begin, keys: make([]embedded.Key, len(w.Units)+len(w.Slots)), held: map[holder]held{}}
	for _, l := range w.Units {
		start.ledgers = append(start.ledgers, l.ledger.clone())
	}
	search(start, depth, &r.Result, func(from *admissions) iter.Seq[*admissions] {
		return func(yield func(*admissions) bool) {
			for _, step := range w.StepsNs {
				for i := range moves {
					to := from.clone()
					r.Problem = x.move(to, step, &moves[i])
					if !yield(to) {
						return
					}
				}
			}
		}
	})
	return r
}

type admissionExplorer struct {
	*AdmissionWorld
	result *AdmissionResult
	runner embedded.Runner
}

// isSlots says whether a key is one of slots.
func (x *admissionExplorer) isSlots(key int) bool { return key >= len(x.Units) }

func (x *admissionExplorer) run(keys []embedded.Key, m *admissionMove, nowNs int64) *command.Call {
	var named []*embedded.Key
	for _, i := range m.on {
		named = append(named, &keys[i])
	}
	c := x.runner.Decide(m.Command, &embedded.Call{NowNs: nowNs, Words: m.words}, named...)
	if x.Spoil != nil {
		x.Spoil(m.Command, c)
	}
	x.runner.Apply(named...)
	return c
}

// pass makes a step of the clock.
func (s *admissions) pass(stepNs int64) {
	fromNs := s.nowNs
	s.nowNs += stepNs
	s.elapsedNs += max(stepNs, 0)
	s.back, s.late = s.back || stepNs < 0, s.late || stepNs < 0
	for _, l := range s.ledgers {
		l.pass(fromNs, s.nowNs, s.elapsedNs)
	}
	for at, h := range s.held {
		if h.untilNs <= s.elapsedNs && h.byClockMs <= s.nowNs/ms {
			delete(s.held, at)
		}
	}
}

// stored is the instant in ms at which the lease of an id lapses, 0 if the key holds none.
func (s *admissions) stored(key int, id string) int64 {
	for _, l := range s.keys[key].Leases {
		if l.ID == id {
			return int64(l.Score)
		}
	}
	return 0
}

// holds says whether the id of a call holds a lease at each of its keys of slots: as stored, and by the log.
func (x *admissionExplorer) holds(s *admissions, m *admissionMove) (stored, logged bool) {
	stored, logged = true, true
	for _, key := range m.on {
		if x.isSlots(key) {
			stored = stored && s.stored(key, m.id)*ms > s.nowNs
			logged = logged && s.held[holder{key, m.id}].byClockMs > s.nowNs/ms
		}
	}
	return stored, logged
}

// move makes a step of the clock and a call, and says what is wrong with what came of it.
func (x *admissionExplorer) move(s *admissions, stepNs int64, m *admissionMove) (problem string) {
	s.pass(stepNs)
	for _, key := range m.on {
		s.keys[key].Expire(s.nowNs)
	}
	own, logged := x.holds(s, m)
	if !s.back && own != logged {
		return "a lease that was taken is gone, or one that ended is there"
	}
	room := !s.late && x.hasRoom(s, m)
	before := slices.Clone(s.keys)
	c := x.run(s.keys, m, s.nowNs)
	x.result.Calls++
	s.how = fmt.Sprintf("%+dus %s -> %v", stepNs/1000, joined(&m.Move), c.Integers)
	if c.Reply == command.ReplyError {
		return "error: " + string(c.Error)
	}
	switch m.Command {
	case command.Release:
		delete(s.held, holder{m.on[0], m.id})
		return ""
	case command.Settle:
		return x.checkSettled(s, before, m, c, own)
	}
	if !isLimited(m, c) {
		return x.checkAdmitted(s, before, m, own)
	}
	return x.checkDenied(s, before, m, c, own, room)
}

// changed says whether a call has changed a key.
func changed(before, after *embedded.Key) bool {
	return string(before.Value) != string(after.Value) || before.ExpireAtMs != after.ExpireAtMs || !slices.Equal(before.Leases, after.Leases)
}

// hasRoom says whether an exact limiter would let a call through.
func (x *admissionExplorer) hasRoom(s *admissions, m *admissionMove) bool {
	for _, key := range m.on {
		if !x.isSlots(key) {
			if !s.ledgers[key].room(x.Take) {
				return false
			}
			continue
		}
		others := int64(0)
		for at, h := range s.held {
			if at.key == key && at.id != m.id && h.byClockMs > s.nowNs/ms { // up to 1 ms longer than the holder was told
				others++
			}
		}
		if others >= x.promised(key) {
			return false
		}
	}
	return true
}

func (x *admissionExplorer) promised(key int) int64 { return x.Slots[key-len(x.Units)] + x.More }

// checkAdmitted holds a call that was let through to the promises. own says that its id held all leases: it is a retry.
func (x *admissionExplorer) checkAdmitted(s *admissions, before []embedded.Key, m *admissionMove, own bool) (problem string) {
	x.result.Granted++
	if own {
		x.result.Retried++
	}
	for _, key := range m.on {
		if !x.isSlots(key) {
			charged := changed(&before[key], &s.keys[key])
			switch {
			case own && charged:
				return "a retry was charged"
			case own:
			case !charged:
				return "admitted without its units"
			case !s.ledgers[key].grant(s.elapsedNs, x.Take, false):
				return "one unit too many"
			}
			continue
		}
		others := int64(0)
		for at, h := range s.held {
			if at.key == key && at.id != m.id && h.untilNs > s.elapsedNs {
				others++
			}
		}
		end := s.stored(key, m.id)
		switch {
		case end*ms < s.nowNs+x.TTLMs*ms:
			return "admitted without its lease"
		case others >= x.promised(key):
			return "one holder too many"
		}
		s.held[holder{key, m.id}] = held{s.elapsedNs + x.TTLMs*ms, end}
	}
	return ""
}

// isLimited says whether a call that takes slots or units was limited.
func isLimited(m *admissionMove, c *command.Call) bool {
	if m.Command == command.MLimit {
		return c.Integers[positions.MlimitLimited] != 0
	}
	return c.Integers[positions.LeaseLimited] != 0
}

// checkDenied holds a call that was limited to the promises: there was no room, nothing changes, and the same call
// passes after its retry after and not a millisecond earlier.
func (x *admissionExplorer) checkDenied(s *admissions, before []embedded.Key, m *admissionMove, c *command.Call, own, room bool) (problem string) {
	x.result.Limited++
	retryMs := c.Integers[positions.LeaseRetryAfterMs]
	if m.Command == command.MLimit {
		retryMs = c.Integers[positions.MlimitRetryAfterMs]
	}
	switch {
	case own:
		return "limited, though it holds its leases"
	case room:
		return "limited, though there is room"
	case retryMs <= 0:
		return "limited, to be tried again at once or never"
	}
	for _, key := range m.on {
		// A clock that was set back calls for a correction of the units.
		if changed(&before[key], &s.keys[key]) && (!s.back || x.isSlots(key)) {
			return "denied and written"
		}
	}
	for _, early := range []int64{0, 1} {
		again := slices.Clone(s.keys)
		if limited := isLimited(m, x.run(again, m, s.nowNs+(retryMs-early)*ms)); limited != (early == 1) {
			return fmt.Sprintf("told to come back after %d ms, and limited %v %d ms earlier", retryMs, limited, early)
		}
	}
	return ""
}

// checkSettled holds a settlement to the promises: it counts if the id held all leases, which end, and otherwise
// changes nothing.
func (x *admissionExplorer) checkSettled(s *admissions, before []embedded.Key, m *admissionMove, c *command.Call, own bool) (problem string) {
	settled := c.Integers[positions.SettleSettled] == 1
	switch {
	case settled && !own:
		return "settled without its leases"
	case !settled && own:
		return "not settled, though it held its leases"
	case settled:
		x.result.Settled++
	default:
		x.result.TooLate++
	}
	more := m.used - x.Take
	for _, key := range m.on {
		if !settled {
			if changed(&before[key], &s.keys[key]) {
				return "not settled, and written"
			}
			continue
		}
		if x.isSlots(key) {
			if s.stored(key, m.id) != 0 {
				return "settled, and its lease did not end"
			}
			delete(s.held, holder{key, m.id})
			continue
		}
		switch back := -c.Integers[positions.SettleGranted]; {
		case more > 0 && (back != -more || !changed(&before[key], &s.keys[key])):
			return "settled, and the difference was not charged"
		case more > 0:
			s.ledgers[key].grant(s.elapsedNs, more, true)
		case more < 0 && (back < 0 || back > -more):
			return "gave back what was not taken"
		case back > 0:
			if !changed(&before[key], &s.keys[key]) {
				return "settled, and the difference was not given back"
			}
			s.ledgers[key].refund(back)
			s.late = true
		}
	}
	return ""
}
