package exhaustive

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/positions"
	"redis-throttle/limiter/embedded"
)

// begin is the reading of the clock when a history begins, a multiple of every small period.
const begin = int64(1_700_000_000_000) * ms

// Limit is a limit as a call says it, with its promise.
type Limit struct {
	Words  string
	ledger ledger
	// longestNs is how long a caller may be told to wait at most, whatever the clock did: the documented bound.
	longestNs func(units int64) int64
}

func Rate(count, periodMs, capacity int64) Limit {
	emissionNs := (periodMs*ms + count - 1) / count
	return Limit{
		Words:     fmt.Sprintf("RATE %d/%dms BURST %d", count, periodMs, capacity),
		ledger:    &rate{count: count, periodNs: periodMs * ms, capacity: capacity},
		longestNs: func(units int64) int64 { return units * emissionNs },
	}
}

// Window may be late by 1/64 of the period, for a clock that was set back by a slot more.
func Window(count, periodMs int64) Limit {
	return Limit{
		Words:     fmt.Sprintf("WINDOW %d/%dms", count, periodMs),
		ledger:    &window{count: count, periodNs: periodMs * ms},
		longestNs: func(int64) int64 { return periodMs*ms + periodMs*ms/64 },
	}
}

// CrowdedWindow is one of which more charges are in a period than are remembered one by one.
func CrowdedWindow(count, periodMs int64) Limit {
	l := Window(count, periodMs)
	l.ledger = &window{count: count, periodNs: periodMs * ms, lateNs: periodMs * ms / 64}
	return l
}

func Fixed(count, periodMs int64) Limit {
	return Limit{
		Words:     fmt.Sprintf("FIXED %d/%dms", count, periodMs),
		ledger:    &fixed{count: count, periodNs: periodMs * ms},
		longestNs: func(int64) int64 { return periodMs * ms },
	}
}

func First(count, periodMs int64) Limit {
	return Limit{
		Words:     fmt.Sprintf("FIXED %d/%dms FIRST", count, periodMs),
		ledger:    &first{count: count, periodNs: periodMs * ms},
		longestNs: func(int64) int64 { return periodMs * ms },
	}
}

// Nobody is a limit of 0: its words, such as FIXED 0/5ms. As a SHADOW it denies nothing.
func Nobody(words string) Limit {
	return Limit{
		Words:     words,
		ledger:    &nobody{idle: strings.HasSuffix(words, "SHADOW")},
		longestNs: func(int64) int64 { return 0 },
	}
}

// Move is one call; its words follow the key and the limits.
type Move struct {
	Command *command.Command
	Words   string
	units   int64
	key     int      // of World.Keys, or allKeys
	ban     int64    // ns, of CL.BAN and of BAN
	after   after    // of AFTER
	words   [][]byte // the command's name and its arguments
	names   []int    // the limits of the key that it names; nil for all
	alone   []Move   // the same call on each key by itself
}

// after is how many calls have to be denied for a ban, and within which time; the zero value for one.
type after struct{ count, periodNs int64 }

// Limits are those that a key is asked with.
type Limits struct {
	Name string
	All  []Limit
}

func (l *Limits) words() string {
	var all []string
	for _, limit := range l.All {
		all = append(all, limit.Words)
	}
	return strings.Join(all, " ")
}

// World is what is explored: keys with their limits, the steps that the clock may take, and the calls.
type World struct {
	Name    string
	Keys    []*Limits
	StepsMs []int64
	Moves   []Move
	// Before is how many calls of the first move there are, a step of 1 ms apart, before the sequences begin.
	Before int
	// Shallower is by how much its sequences are shorter than others'.
	Shallower int
	// AfterBy is added to the counts of AFTER, in the promise alone.
	AfterBy int64
	// Spoil breaks what a call on all keys comes to, to see that it is found.
	Spoil func(*command.Call)
}

// Call adds a call of units.
func (w *World) Call(cmd *command.Command, key int, words string, units int64) {
	line := "k" + strconv.Itoa(key) + " " + w.Keys[key].words()
	if words != "" {
		line += " " + words
	}
	w.add(Move{Command: cmd, Words: words, units: units, key: key, ban: banOf(words), after: afterOf(words)}, line)
}

// Some adds a call of units that names some of a key's limits, in this order.
func (w *World) Some(cmd *command.Command, key int, words string, units int64, names ...int) {
	some := &Limits{}
	for _, i := range names {
		some.All = append(some.All, w.Keys[key].All[i])
	}
	line := "k" + strconv.Itoa(key) + " " + some.words() + " " + words
	w.add(Move{Command: cmd, Words: words, units: units, key: key, ban: banOf(words), names: names}, line)
}

// asks reports whether the call names a limit of its key.
func (m *Move) asks(limit int) bool { return m.names == nil || slices.Contains(m.names, limit) }

// banOf is the time of BAN, in ns.
func banOf(words string) (ns int64) {
	if _, behind, found := strings.Cut(words, "BAN "); found {
		scan(behind, "%dms", &ns)
	}
	return ns * ms
}

func afterOf(words string) (a after) {
	if _, behind, found := strings.Cut(words, "AFTER "); found {
		scan(behind, "%d/%dms", &a.count, &a.periodNs)
	}
	return after{a.count, a.periodNs * ms}
}

func scan(text, format string, numbers ...any) {
	if _, err := fmt.Sscanf(text, format, numbers...); err != nil {
		panic(err)
	}
}

// Ban adds CL.BAN.
func (w *World) Ban(key int, forMs int64) {
	words := strconv.FormatInt(forMs, 10) + "ms"
	w.add(Move{Command: command.Ban, Words: words, key: key, ban: forMs * ms}, "k"+strconv.Itoa(key)+" "+words)
}

func (w *World) add(m Move, line string) {
	m.words = wordsOf(m.Command, line)
	w.Moves = append(w.Moves, m)
}

// state is where a history has come to.
type state struct {
	nowNs, elapsedNs int64
	keys             []keyState
	from             *state // and how
	how              step
}

// step is a move and its answer.
type step struct {
	ns     int64
	move   *Move
	answer [command.MaxFields]int64
	n      int
}

func (s *step) String() string {
	return fmt.Sprintf("%+dms %s -> %v", s.ns/ms, joined(s.move), s.answer[:s.n])
}

type keyState struct {
	embedded.Key
	ledgers []ledger
	// exact says that nothing has happened yet after which a limiter may be late: a clock that was set back, a denied
	// call that was charged, a refund.
	exact    bool
	banUntil int64 // by the clock
	// banStands says that the clock has not come to the end of the ban yet. Afterwards it may be forgotten, also by
	// a clock that is set back then.
	banStands bool
	banSurely int64 // banUntil without what may be forgotten
	// denials is what was denied by calls with AFTER since the latest ban that they began; nil for nothing. They all
	// have one period.
	denials *first
}

func (s *state) clone() *state {
	other := &state{nowNs: s.nowNs, elapsedNs: s.elapsedNs, keys: make([]keyState, len(s.keys)), from: s}
	for i, k := range s.keys {
		other.keys[i] = k
		other.keys[i].ledgers = make([]ledger, len(k.ledgers))
		for j, l := range k.ledgers {
			other.keys[i].ledgers[j] = l.clone()
		}
		if k.denials != nil {
			other.keys[i].denials = k.denials.clone().(*first)
		}
	}
	return other
}

// key is equal for states of which the same follows.
func (s *state) key(b []byte) []byte {
	b = strconv.AppendInt(b[:0], s.nowNs-begin, 36)
	for i := range s.keys {
		k := &s.keys[i]
		b = append(b, '|')
		b = strconv.AppendQuote(b, string(k.Value))
		b = strconv.AppendInt(append(b, ' '), k.ExpireAtMs, 36)
		b = strconv.AppendBool(append(b, ' '), k.exact)
		b = strconv.AppendBool(append(b, ' '), k.banStands)
		b = strconv.AppendInt(append(b, ' '), max(k.banUntil-s.nowNs, 0), 36)
		b = strconv.AppendInt(append(b, ' '), max(k.banSurely-s.nowNs, 0), 36)
		for _, l := range k.ledgers {
			b = l.key(append(b, ';'))
		}
		if k.denials != nil {
			b = k.denials.key(append(b, '#'))
		}
	}
	return b
}

func (s *state) history() string {
	if s.from == nil {
		return ""
	}
	return s.from.history() + "\n  " + s.how.String()
}

// Result is what was explored.
type Result struct {
	Depth     int    // of the sequences that were all tried
	Moves     int    // of which each call is one: a step of the clock and a command
	States    int    // that differ
	Calls     int    // that were decided
	Sequences string // moves to the power of depth
	Granted   int
	Limited   int
	Problem   string
}

func (r Result) String() string {
	return fmt.Sprintf("depth %d: %s sequences, %d states, %d calls (%d granted, %d limited)", r.Depth, r.Sequences, r.States, r.Calls, r.Granted, r.Limited)
}

// Explore tries all sequences of up to depth moves.
func (w *World) Explore(depth int) (r Result) {
	r.Moves = len(w.StepsMs) * len(w.Moves)
	x := &explorer{World: w, result: &r}
	start := &state{nowNs: begin}
	for _, limits := range w.Keys {
		k := keyState{exact: true}
		for _, l := range limits.All {
			k.ledgers = append(k.ledgers, l.ledger.clone())
		}
		start.keys = append(start.keys, k)
	}
	for range w.Before {
		if r.Problem = x.move(start, ms, &w.Moves[0]); r.Problem != "" {
			return r
		}
	}
	search(start, depth, &r, func(from *state) iter.Seq[*state] {
		return func(yield func(*state) bool) {
			for _, stepMs := range w.StepsMs {
				for i := range w.Moves {
					to := from.clone()
					r.Problem = x.move(to, stepMs*ms, &w.Moves[i])
					if !yield(to) {
						return
					}
				}
			}
		}
	})
	return r
}

type explorer struct {
	*World
	result *Result
	one    embedded.Runner
	all    embedded.Runner // of calls on all keys
}

// run makes a call on one key.
func (x *explorer) run(k *keyState, m *Move, nowNs int64) *command.Call {
	return x.one.Run(m.Command, &embedded.Call{NowNs: nowNs, Words: m.words}, &k.Key)
}

// move makes a step of the clock and a call, and says what is wrong with the answer.
func (x *explorer) move(s *state, stepNs int64, m *Move) (problem string) {
	fromNs := s.nowNs
	s.nowNs += stepNs
	s.elapsedNs += max(stepNs, 0)
	for i := range s.keys {
		k := &s.keys[i]
		k.exact = k.exact && stepNs >= 0
		k.banStands = k.banStands && k.banSurely > s.nowNs
		for _, l := range k.ledgers {
			l.pass(fromNs, s.nowNs, s.elapsedNs)
		}
		if k.denials != nil {
			k.denials.pass(fromNs, s.nowNs, s.elapsedNs)
		}
	}
	s.how = step{ns: stepNs, move: m}
	if m.key == allKeys {
		return x.moveAll(s, m)
	}
	k := &s.keys[m.key]
	c := x.run(k, m, s.nowNs)
	x.result.Calls++
	if c.Reply == command.ReplyError {
		return "error: " + string(c.Error)
	}
	s.how.n = copy(s.how.answer[:], c.Integers)
	switch m.Command {
	case command.Ban:
		if m.ban == 0 {
			k.banUntil, k.banSurely, k.banStands = 0, 0, false
		} else {
			k.prolongBan(s.nowNs + m.ban)
		}
		return ""
	case command.Refund:
		if back := -c.Integers[positions.LimitGranted]; back > 0 {
			k.exact = false
			for i, l := range k.ledgers {
				if m.asks(i) {
					l.refund(back)
				}
			}
		}
		return ""
	}
	return x.check(s, k, m, c)
}

// prolongBan never shortens a ban that stands.
func (k *keyState) prolongBan(untilNs int64) {
	if !k.banStands {
		k.banSurely = 0
	}
	k.banUntil, k.banSurely, k.banStands = max(k.banUntil, untilNs), max(k.banSurely, untilNs), true
}

// wordsOf is a call with its arguments in a line.
func wordsOf(cmd *command.Command, line string) [][]byte {
	return bytes.Fields([]byte(cmd.Name + " " + line))
}

func joined(m *Move) string { return string(bytes.Join(m.words, []byte(" "))) }

// answer is what a call on limits answers.
type answer struct {
	limited                                   bool
	rule, remaining, retryMs, granted, waitMs int64
}

func newAnswer(c *command.Call) answer {
	i := c.Integers
	return answer{i[0] != 0, i[1], i[3], i[4], i[7], i[8]}
}

// options are the words of a call.
type options struct{ force, upTo, strict, waits, any bool }

func (m *Move) options() options {
	has := func(word string) bool { return strings.Contains(m.Words, word) }
	return options{has("FORCE"), has("UPTO"), has("STRICT"), has("MAXWAIT"), has("ANY")}
}

// check holds the answer of a decision to the promises.
func (x *explorer) check(s *state, k *keyState, m *Move, c *command.Call) (problem string) {
	a, o := newAnswer(c), m.options()
	if a.limited {
		x.result.Limited++
	} else {
		x.result.Granted++
	}
	peek := m.Command == command.Peek
	banned := k.banStands || a.rule == 0
	switch {
	case banned && (!a.limited || a.rule != 0 || a.granted != 0 && !o.force):
		return "let through in spite of a ban"
	case banned && k.banStands && a.retryMs*ms < k.banSurely-s.nowNs:
		return "told to come back before the ban ends"
	case a.rule == 0 && k.banUntil <= s.nowNs:
		return "a ban that nobody made"
	case a.limited && a.granted != 0 && !o.force:
		return "limited and granted"
	case !a.limited && !peek && !o.upTo && a.granted != m.units:
		return "let through without all of its units"
	}
	if c.First.Effect == command.Keep && a.granted != 0 {
		return "granted and not written"
	}
	if a.limited && k.exact && !o.strict && !o.force && m.ban == 0 && c.First.Effect != command.Keep {
		return "denied and written"
	}
	if peek && c.First.Effect != command.Keep {
		return "a look that writes"
	}
	if a.granted > 0 {
		at := s.elapsedNs + a.waitMs*ms
		for i, l := range k.ledgers {
			if m.asks(i) && !l.grant(at, a.granted, o.force) {
				return fmt.Sprintf("one unit too many of limit %d", i+1)
			}
		}
	}
	if a.limited && o.strict {
		k.exact = false
	}
	if banned {
		if o.strict && m.ban > 0 {
			k.prolongBan(s.nowNs + m.ban)
		}
		if k.exact && a.retryMs > 0 { // a ban writes down nothing that a clock that was set back calls for
			return x.checkRetry(s, k, m, a.retryMs)
		}
		return ""
	}
	if a.limited && m.ban > 0 && a.retryMs >= 0 {
		if problem := x.checkBan(s, k, m, a); problem != "" {
			return problem
		}
	}
	// Never too strict.
	if a.limited && k.exact && !o.waits && a.retryMs >= 0 {
		room := true
		for i, l := range k.ledgers {
			room = room && (!m.asks(i) || l.room(m.needs(o.upTo)))
		}
		if room {
			return "limited, though there is room"
		}
	}
	if a.limited && a.retryMs == 0 {
		return "limited, to be tried again at once"
	}
	// A look after the clock was set back tells times that begin when a decision writes them down.
	if a.limited && a.retryMs > 0 && (k.exact || !peek) {
		if problem := x.checkRetry(s, k, m, a.retryMs); problem != "" {
			return problem
		}
		if !o.waits {
			longest := m.ban
			for i, limit := range x.Keys[m.key].All {
				if m.asks(i) {
					longest = max(longest, limit.longestNs(m.needs(o.upTo)))
				}
			}
			if !x.indebted() && (a.retryMs-1)*ms >= longest {
				return "told to wait longer than is documented"
			}
		}
	}
	if a.remaining < 0 {
		return "fewer than no units remain"
	}
	return ""
}

// checkBan holds a call that was denied, and that bans, to when the ban has to begin.
func (x *explorer) checkBan(s *state, k *keyState, m *Move, a answer) (problem string) {
	if m.after.count > 0 {
		begins := x.isBanned(*k, s.nowNs)
		if problem := k.countDenial(after{m.after.count + x.AfterBy, m.after.periodNs}, s.elapsedNs, begins); problem != "" || !begins {
			return problem
		}
	}
	k.banUntil, k.banSurely, k.banStands = max(k.banUntil, s.nowNs+m.ban), s.nowNs+m.ban, true
	if a.retryMs*ms < m.ban {
		return "told to come back before the ban ends"
	}
	return ""
}

// isBanned asks a copy of a key.
func (x *explorer) isBanned(k keyState, nowNs int64) bool {
	return newAnswer(x.run(&k, &Move{words: wordsOf(command.Peek, "k RATE 1/d"), Command: command.Peek}, nowNs)).rule == 0
}

// countDenial counts a call that was denied, and says whether a ban may begin with it, or may not. The windows that the
// denials may be in are those of a FIXED ... FIRST.
func (k *keyState) countDenial(a after, elapsedNs int64, begins bool) (problem string) {
	if k.denials == nil {
		k.denials = &first{count: 1 << 30, periodNs: a.periodNs}
		k.denials.pass(0, 0, elapsedNs)
	}
	k.denials.grant(elapsedNs, 1, false)
	isLast := func(w grant) bool { return w.units >= a.count }
	if k.exact && begins != isLast(k.denials.exact) {
		return fmt.Sprintf("a ban that begins %v with denial %d of %d", begins, k.denials.exact.units, a.count)
	}
	k.denials.windows = slices.DeleteFunc(k.denials.windows, func(w grant) bool { return isLast(w) != begins })
	if len(k.denials.windows) == 0 {
		return fmt.Sprintf("a ban that begins %v, whatever window the denials are in", begins)
	}
	if begins {
		k.denials = nil
	}
	return ""
}

// indebted reports whether units may have been forced or reserved, after which a wait has no bound but those.
func (x *explorer) indebted() bool {
	for i := range x.Moves {
		if strings.Contains(x.Moves[i].Words, "FORCE") || strings.Contains(x.Moves[i].Words, "MAXWAIT") {
			return true
		}
	}
	return false
}

// needs is how many units have to be there.
func (m *Move) needs(upTo bool) int64 {
	if upTo {
		return min(m.units, 1)
	}
	return m.units
}

// checkRetry repeats a call that was limited: after its retry after it passes, a millisecond before it does not.
func (x *explorer) checkRetry(s *state, k *keyState, m *Move, retryMs int64) (problem string) {
	again := *k // the ledgers are not touched
	if c := x.run(&again, m, s.nowNs+retryMs*ms); c.Integers[positions.LimitLimited] != 0 {
		return fmt.Sprintf("limited again after the %d ms it was told", retryMs)
	}
	again = *k
	if c := x.run(&again, m, s.nowNs+(retryMs-1)*ms); c.Integers[positions.LimitLimited] == 0 {
		return fmt.Sprintf("told to wait %d ms where %d would do", retryMs, retryMs-1)
	}
	return ""
}
