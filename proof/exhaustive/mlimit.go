package exhaustive

import (
	"fmt"
	"strconv"
	"strings"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/positions"
	"redis-throttle/limiter/embedded"
)

// allKeys stands for the key of a move that asks all of them.
const allKeys = -1

// All adds a call of units on all keys. Keys with the same limits are asked with one group.
func (w *World) All(words string, units int64) {
	line, limits := strconv.Itoa(len(w.Keys)), w.Keys[0].words()
	for key := range w.Keys {
		line += " k" + strconv.Itoa(key)
		if key > 0 && w.Keys[key] != w.Keys[0] {
			limits += " NEXT " + w.Keys[key].words()
		}
	}
	m := Move{Command: command.MLimit, Words: words, units: units, key: allKeys, ban: banOf(words), after: afterOf(words)}
	w.add(m, strings.TrimSpace(line+" "+limits+" "+words))
}

// runAll makes a call on all keys.
func (x *explorer) runAll(keys []keyState, m *Move, nowNs int64) *command.Call {
	all := make([]*embedded.Key, len(keys))
	for i := range keys {
		all[i] = &keys[i].Key
	}
	c := x.all.Decide(m.Command, &embedded.Call{NowNs: nowNs, Words: m.words}, all...)
	if x.Spoil != nil {
		x.Spoil(c)
	}
	x.all.Apply(all...)
	return c
}

// moveAll is move of a call on all keys, whose clock has gone on already.
func (x *explorer) moveAll(s *state, m *Move) (problem string) {
	before := make([]keyState, len(s.keys))
	copy(before, s.keys)
	c := x.runAll(s.keys, m, s.nowNs)
	x.result.Calls++
	s.how.n = copy(s.how.answer[:], c.Integers)
	if c.Reply == command.ReplyError {
		return "error: " + string(c.Error)
	}
	return x.checkAll(s, before, m, c)
}

// checkAll holds the answer of a call on all keys to the promises.
func (x *explorer) checkAll(s *state, before []keyState, m *Move, c *command.Call) (problem string) {
	a := newAnswer(c)
	key := int(c.Integers[positions.MlimitKey]) - 1
	o := m.options()
	if a.limited {
		x.result.Limited++
	} else {
		x.result.Granted++
	}
	if key < 0 || key >= len(s.keys) {
		return "the answer of no key"
	}
	k := &s.keys[key]
	// Whether each key stands still for sure, and which are charged.
	banned, exact := false, true
	longestBan := int64(0)
	for i := range s.keys {
		banned = banned || s.keys[i].banStands
		longestBan = max(longestBan, s.keys[i].banSurelyFor(s.nowNs))
		exact = exact && s.keys[i].exact
	}
	if o.any {
		banned, longestBan = k.banStands, k.banSurelyFor(s.nowNs)
	}
	banned = banned || a.rule == 0
	switch {
	case banned && (!a.limited || a.rule != 0 || a.granted != 0 && !o.force):
		return "let through in spite of a ban"
	case banned && a.retryMs*ms < longestBan:
		return "told to come back before the ban ends"
	case a.rule == 0 && k.banUntil <= s.nowNs:
		return "a ban that nobody made"
	case a.rule != 0 && x.keyOf(a.rule) != key:
		return "the limit of another key decided"
	case a.limited && a.granted != 0 && !o.force:
		return "limited and granted"
	case !a.limited && !o.upTo && a.granted != m.units:
		return "let through without all of its units"
	case a.remaining < 0:
		return "fewer than no units remain"
	}
	for i := range s.keys {
		written, charged := c.Keys[i].Effect != command.Keep, a.granted != 0 && (!o.any || i == key)
		switch {
		case charged && !written:
			return "a key that was not charged"
		case written && !charged && a.granted != 0:
			return "a key that was charged and not chosen"
		case written && a.granted == 0 && exact && !o.strict && m.ban == 0:
			return "denied and written"
		}
		if !charged {
			continue
		}
		for j, l := range s.keys[i].ledgers {
			if !l.grant(s.elapsedNs+a.waitMs*ms, a.granted, o.force) {
				return fmt.Sprintf("one unit too many of limit %d of key %d", j+1, i+1)
			}
		}
	}
	if a.limited && o.strict && a.rule != 0 {
		for i := range s.keys {
			s.keys[i].exact = false
		}
	}
	if problem := x.checkChoice(s, before, m, a, key); problem != "" || a.rule == 0 {
		if a.rule == 0 && o.strict && m.ban > 0 {
			k.prolongBan(s.nowNs + m.ban)
		}
		if problem == "" && exact { // a ban writes down nothing that a clock that was set back calls for
			return x.checkRetryOfAll(s, m, a)
		}
		return problem
	}
	if a.limited && m.ban > 0 && a.retryMs >= 0 {
		if problem := x.checkBan(s, k, m, a); problem != "" {
			return problem
		}
	}
	if o.any && o.force && !exact {
		return "" // the key that has room next was not written, nor what a clock that was set back calls for
	}
	return x.checkRetryOfAll(s, m, a)
}

// checkChoice says whether a call was limited though there was room, or charged to a key behind one that had some.
func (x *explorer) checkChoice(s *state, before []keyState, m *Move, a answer, key int) (problem string) {
	o := m.options()
	needs := m.needs(o.upTo)
	if !o.any {
		room := a.limited && a.rule != 0 && !o.waits
		for i := range s.keys {
			room = room && s.keys[i].surelyHas(needs, s.nowNs)
		}
		if room && !o.force {
			return "limited, though there is room"
		}
		return ""
	}
	// What each key would answer by itself.
	for i := range before {
		alone := newAnswer(x.run(&before[i], x.alone(m, i), s.nowNs))
		now := !alone.limited && alone.waitMs == 0
		switch {
		case now && i < key:
			return fmt.Sprintf("key %d passed over, though it has room", i+1)
		case now && a.limited:
			return "limited, though there is room"
		case now && a.waitMs > 0:
			return "has to wait, though there is room"
		case !alone.limited && alone.waitMs < a.waitMs:
			return "has to wait longer than of another key"
		case !alone.limited && a.limited:
			return "limited, though a key would let it wait"
		}
	}
	return ""
}

// alone is the same call on one key.
func (x *explorer) alone(m *Move, key int) *Move {
	if m.alone == nil {
		for i := range x.Keys {
			line := "k" + strconv.Itoa(i) + " " + x.Keys[i].words() + " " + strings.ReplaceAll(strings.ReplaceAll(m.Words, "ANY", ""), "FORCE", "")
			one := Move{Command: command.Limit, units: m.units, key: i}
			one.words = wordsOf(one.Command, line)
			m.alone = append(m.alone, one)
		}
	}
	return &m.alone[key]
}

// checkRetryOfAll repeats a call that was limited, as checkRetry does.
func (x *explorer) checkRetryOfAll(s *state, m *Move, a answer) (problem string) {
	o := m.options()
	if !a.limited {
		return ""
	}
	switch {
	case a.retryMs == 0:
		return "limited, to be tried again at once"
	case a.retryMs < 0:
		return ""
	}
	for _, early := range []int64{0, 1} {
		again := make([]keyState, len(s.keys))
		copy(again, s.keys)
		limited := x.runAll(again, m, s.nowNs+(a.retryMs-early)*ms).Integers[positions.MlimitLimited] != 0
		if limited != (early == 1) {
			return fmt.Sprintf("told to come back after %d ms, and limited %v %d ms earlier", a.retryMs, limited, early)
		}
	}
	if !o.waits && !x.indebted() {
		longest := int64(0)
		for i, limits := range x.Keys {
			longest = max(longest, s.keys[i].banUntil-s.nowNs+ms)
			for _, limit := range limits.All {
				longest = max(longest, limit.longestNs(m.needs(o.upTo)))
			}
		}
		if (a.retryMs-1)*ms >= longest {
			return "told to wait longer than is documented"
		}
	}
	return ""
}

// keyOf is the index of the key that a rule belongs to.
func (x *explorer) keyOf(rule int64) int {
	for i, limits := range x.Keys {
		if rule -= int64(len(limits.All)); rule <= 0 {
			return i
		}
	}
	return len(x.Keys)
}

// surelyHas reports whether an exact limiter of the key would grant units now.
func (k *keyState) surelyHas(units, nowNs int64) bool {
	if !k.exact || k.banUntil > nowNs {
		return false
	}
	for _, l := range k.ledgers {
		if !l.room(units) {
			return false
		}
	}
	return true
}

// banSurelyFor is for how long a ban lasts that cannot have been forgotten.
func (k *keyState) banSurelyFor(nowNs int64) int64 {
	if !k.banStands {
		return 0
	}
	return k.banSurely - nowNs
}
