package command

import (
	"errors"

	"redis-throttle/calendar"
	"redis-throttle/stack"
)

// options are the words that may follow the limits of a command, as a set.
type options uint16

const (
	optionCost options = 1 << iota
	optionUpTo
	optionStrict
	optionMaxWait
	optionTimeout
	optionCompact
	optionBan
	optionForce
	// Words that belong to the limit before them.
	optionTake
	optionSpare
	optionShadow
	// Words of commands with several keys.
	optionNext
	optionAny

	optionsOfLimit  = optionCost | optionUpTo | optionStrict | optionForce | optionMaxWait | optionBan | optionCompact | optionTake | optionSpare | optionShadow
	optionsOfMLimit = optionsOfLimit | optionNext | optionAny
	optionsOfPeek   = optionCost | optionCompact | optionTake | optionSpare | optionShadow
	optionsOfRefund = optionCost | optionCompact | optionTake | optionShadow
	optionsOfWait   = optionCost | optionTimeout | optionCompact | optionTake | optionSpare
)

const (
	badQuotaRate    = "RATE takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d"
	badQuotaWindow  = "WINDOW takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d"
	badQuotaFixed   = "FIXED takes count/period, such as 5/s, 10/1.5h or 1000/mo; units are ms, s, m, h and d, and w, mo and y for whole weeks, months and years"
	badCapacity     = "BURST takes the capacity, an integer from 1 to 9223372036854775807"
	badCost         = "COST takes an integer from 0 to 9223372036854775807"
	badMaxWait      = "MAXWAIT takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d"
	badTimeout      = "TIMEOUT takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d"
	badBan          = "BAN takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d"
	tooFine         = "not a whole number of nanoseconds"
	tooFast         = "at most 10^9 units per second"
	tooLong         = "the period is longer than 292 years"
	tooSlow         = "a full bucket would take more than 292 years to refill"
	tooManyLimits   = "at most 8 limits"
	givenTwice      = "given twice"
	oneGroupOrAll   = "there must be one group of limits for all keys, or one for each key"
	cannotGoWith    = "cannot go with "
	onlyRates       = "works with RATE limits only"
	missingTimeout  = "ERR syntax error: TIMEOUT is missing"
	tooManyWords    = "ERR syntax error: too many arguments"
	misplacedBurst  = "must follow the count/period of a RATE"
	expectedALimit  = "expected RATE, WINDOW or FIXED"
	expectedBurst   = "expected BURST, "
	expectedOfLimit = "expected RATE, WINDOW, FIXED, COST, UPTO, STRICT, FORCE, MAXWAIT, BAN or COMPACT"
	expectedOfPeek  = "expected RATE, WINDOW, FIXED, COST or COMPACT"
	expectedOfWait  = "expected RATE, WINDOW, FIXED, COST, TIMEOUT or COMPACT"
	expectedOfMany  = "expected RATE, WINDOW, FIXED, NEXT, ANY, COST, UPTO, STRICT, FORCE, MAXWAIT, BAN or COMPACT"
	minWordsOfLimit = 3 // key, kind, count/period
)

// request is what is asked of the limits, and how to answer.
type request struct {
	stack.Request
	compact bool  // the integers alone
	any     bool  // of several keys one is enough
	banNs   int64 // a call that is limited bans the key for so long; 0 does not
}

// parseRequest reads what follows a command's name: limits into c.stack, options of
// the allowed set into c.request, which is r. expected names both in an error. When ok is false
// the call has failed.
func (c *Call) parseRequest(expected string, allowed options) (r *request, ok bool) {
	r = &c.request
	if c.ArgCount < minWordsOfLimit {
		c.Reply = ReplyWrongArity
		return r, false
	}
	if c.ArgCount > len(c.Args) {
		c.Fail(tooManyWords) // nothing that makes sense is so long
		return r, false
	}
	if past := c.Past.findRequest(c.Args[1:], allowed); past != nil {
		c.stack.Load(past.limits[:past.count])
		*r = past.request
		c.compact = r.compact
		return r, true
	}
	c.stack.Reset()
	w := words{args: c.Args, next: 1, limits: &c.stack}
	if !c.parseWords(r, &w, expected, allowed, nil) {
		return r, false
	}
	c.Past.noteRequest(c.Args[1:], allowed, r, &c.stack)
	c.compact = r.compact
	return r, true
}

// parseWords reads limits into w.limits and options of the allowed set into r. Behind a NEXT, which is for
// calls with several keys, limits go to what groups returns, or are refused when that is nil.
func (c *Call) parseWords(r *request, w *words, expected string, allowed options, groups func() *stack.Stack) (ok bool) {
	*r = request{}
	r.Cost = 1
	var seen options
	limitEnds, ratesOnly := 0, true
	for {
		word, more := w.take()
		if !more {
			break
		}
		isLimit, ok := c.parseLimit(word, w, allowed, &seen)
		if !ok {
			return false
		}
		if isLimit {
			limitEnds = w.next
			continue
		}
		if w.limits.Len() == 0 {
			c.failNear(word, expectedALimit)
			return false
		}
		if allowed&optionNext != 0 && isKeyword(word, "NEXT") {
			ratesOnly = ratesOnly && w.limits.RatesOnly()
			if w.limits = groups(); w.limits == nil {
				c.failNear(word, oneGroupOrAll)
				return false
			}
			continue
		}
		option, ok := c.parseOption(word, w, allowed, r)
		switch {
		case !ok:
			return false
		case option == 0:
			c.failUnexpected(word, w.args[:w.next-1], w.next-1 == limitEnds, allowed, expected)
			return false
		case seen&option != 0:
			c.failNear(word, givenTwice)
			return false
		}
		seen |= option
	}
	if w.limits.Len() == 0 {
		c.failNear(w.args[len(w.args)-1], expectedALimit)
		return false
	}
	return c.checkRequest(seen, allowed, ratesOnly && w.limits.RatesOnly())
}

// checkRequest refuses what no single word is to blame for.
func (c *Call) checkRequest(seen, allowed options, ratesOnly bool) (ok bool) {
	for _, pair := range exclusive {
		if seen&pair.options == pair.options {
			c.failNear([]byte(pair.word), cannotGoWith, pair.other)
			return false
		}
	}
	switch {
	case allowed&optionTimeout != 0 && seen&optionTimeout == 0:
		c.Fail(missingTimeout)
	case seen&optionMaxWait != 0 && !ratesOnly:
		c.failNear([]byte("MAXWAIT"), onlyRates)
	default:
		return true
	}
	return false
}

// exclusive are the words that exclude each other.
var exclusive = []struct {
	options     options
	word, other string
}{
	{optionUpTo | optionMaxWait, "UPTO", "MAXWAIT"},
	{optionStrict | optionMaxWait, "STRICT", "MAXWAIT"},
	{optionForce | optionMaxWait, "FORCE", "MAXWAIT"},
	{optionBan | optionMaxWait, "BAN", "MAXWAIT"},
	{optionUpTo | optionStrict, "UPTO", "STRICT"},
	{optionUpTo | optionForce, "UPTO", "FORCE"},
	{optionStrict | optionForce, "STRICT", "FORCE"},
	{optionUpTo | optionTake, "UPTO", "TAKE"},
	{optionStrict | optionAny, "STRICT", "ANY"},
	{optionBan | optionAny, "BAN", "ANY"},
}

// parseLimit adds the limit that begins with word, and the words that belong to it, to w.limits;
// isLimit is false when word does not begin one.
func (c *Call) parseLimit(word []byte, w *words, allowed options, seen *options) (isLimit, ok bool) {
	var kind stack.Kind
	var bad string
	switch {
	case isKeyword(word, "RATE"):
		kind, bad = stack.Rate, badQuotaRate
	case isKeyword(word, "WINDOW"):
		kind, bad = stack.Window, badQuotaWindow
	case isKeyword(word, "FIXED"):
		kind, bad = stack.Fixed, badQuotaFixed
	default:
		return false, true
	}
	quota, more := w.take()
	if !more {
		c.failNear(word, bad)
		return true, false
	}
	count, n, unit, err := parseQuota(quota)
	var calendarUnit calendar.Unit
	if kind == stack.Fixed && errors.Is(err, errMalformed) {
		count, n, calendarUnit, err = parseCalendarQuota(quota)
	}
	switch {
	case errors.Is(err, errTooFine):
		c.failNear(quota, tooFine)
		return true, false
	case err != nil:
		c.failNear(quota, bad)
		return true, false
	}
	var limit stack.Limit
	switch kind {
	case stack.Rate:
		capacity, ok := c.parseBurst(count, w)
		if !ok {
			return true, false
		}
		limit, err = stack.NewRate(count, n, unit, capacity)
	case stack.Window:
		limit, err = stack.NewWindow(count, n, unit)
	case stack.Fixed:
		if limit, ok = c.parseFixed(count, fixedPeriod{n, unit, calendarUnit}, quota, w); !ok {
			return true, false
		}
	}
	var terms stack.Terms
	if err == nil {
		if terms, ok = c.parseTerms(w, allowed, seen); !ok {
			return true, false
		}
	}
	switch {
	case errors.Is(err, stack.ErrRate):
		c.failNear(quota, tooFast)
	case errors.Is(err, stack.ErrTolerance):
		c.failNear(quota, tooSlow)
	case err != nil:
		c.failNear(quota, tooLong)
	case !w.limits.Add(limit.With(terms)):
		c.failNear(word, tooManyLimits)
	default:
		return true, true
	}
	return true, false
}

// parseBurst reads BURST capacity, if that is what comes next.
func (c *Call) parseBurst(count int64, w *words) (capacity int64, ok bool) {
	if !w.skip("BURST") {
		return count, true
	}
	word, more := w.take()
	if !more {
		c.failNear(w.args[w.next-1], badCapacity)
		return 0, false
	}
	capacity, ok = parseInt(word)
	if !ok || capacity < 1 {
		c.failNear(word, badCapacity)
		return 0, false
	}
	return capacity, true
}

// parseOption reads the option that begins with word into r; option is 0 when word
// does not begin an allowed one.
func (c *Call) parseOption(word []byte, w *words, allowed options, r *request) (option options, ok bool) {
	switch {
	case allowed&optionCost != 0 && isKeyword(word, "COST"):
		r.Cost, ok = c.parseCount(word, w, badCost)
		return optionCost, ok
	case allowed&optionUpTo != 0 && isKeyword(word, "UPTO"):
		r.UpTo = true
		return optionUpTo, true
	case allowed&optionStrict != 0 && isKeyword(word, "STRICT"):
		r.Strict = true
		return optionStrict, true
	case allowed&optionForce != 0 && isKeyword(word, "FORCE"):
		r.Force = true
		return optionForce, true
	case allowed&optionMaxWait != 0 && isKeyword(word, "MAXWAIT"):
		r.MaxWaitNs, ok = c.parseTime(word, w, badMaxWait)
		return optionMaxWait, ok
	case allowed&optionTimeout != 0 && isKeyword(word, "TIMEOUT"):
		r.MaxWaitNs, ok = c.parseTime(word, w, badTimeout)
		return optionTimeout, ok
	case allowed&optionCompact != 0 && isKeyword(word, "COMPACT"):
		r.compact = true
		return optionCompact, true
	case allowed&optionAny != 0 && isKeyword(word, "ANY"):
		r.any = true
		return optionAny, true
	case allowed&optionBan != 0 && isKeyword(word, "BAN"):
		r.banNs, ok = c.parseTime(word, w, badBan)
		return optionBan, ok
	}
	return 0, true
}

// parseCount reads the number of units behind word, which must not be negative.
func (c *Call) parseCount(word []byte, w *words, bad string) (units int64, ok bool) {
	value, more := w.take()
	if !more {
		c.failNear(word, bad)
		return 0, false
	}
	units, ok = parseInt(value)
	if !ok || units < 0 {
		c.failNear(value, bad)
		return 0, false
	}
	return units, true
}

// parseTime reads the value of the option word, a length of time.
func (c *Call) parseTime(word []byte, w *words, bad string) (ns int64, ok bool) {
	value, more := w.take()
	if !more {
		c.failNear(word, bad)
		return 0, false
	}
	ns, err := parseDuration(value)
	switch {
	case errors.Is(err, errTooFine):
		c.failNear(value, tooFine)
		return 0, false
	case err != nil:
		c.failNear(value, bad)
		return 0, false
	}
	return ns, true
}

// failUnexpected refuses a word that begins neither a limit nor an allowed option, after the
// words before, of which the last end a limit if afterLimit.
func (c *Call) failUnexpected(word []byte, before [][]byte, afterLimit bool, allowed options, expected string) {
	is := func(keyword string) bool { return isKeyword(before[len(before)-2], keyword) }
	switch {
	case isKeyword(word, "BURST") && is("BURST"):
		c.failNear(word, givenTwice)
	case isKeyword(word, "BURST"):
		c.failNear(word, misplacedBurst)
	case isFixedWord(word):
		c.failNear(word, misplacedFixed)
	case termOf(word, allowed) != 0:
		c.failNear(word, misplacedTerm)
	case afterLimit && is("RATE"):
		c.failNear(word, expectedBurst, namesOfTerms(allowed), expected[len("expected "):])
	case afterLimit && is("FIXED"):
		c.failNear(word, expectedFixed, namesOfTerms(allowed), expected[len("expected "):])
	case afterLimit:
		c.failNear(word, "expected ", namesOfTerms(allowed), expected[len("expected "):])
	default:
		c.failNear(word, expected)
	}
}

// failNear makes the call a syntax error that points at word and says what would be
// right. Of a long word the beginning is shown.
func (c *Call) failNear(word []byte, right ...string) {
	const shown = 40
	text := append(c.error[:0], "ERR syntax error near '"...)
	text = append(text, word[:min(len(word), shown)]...)
	if len(word) > shown {
		text = append(text, "..."...)
	}
	text = append(text, "': "...)
	for _, words := range right {
		text = append(text, words...)
	}
	c.keep()
	c.Reply = ReplyError
	c.Error = text
}
