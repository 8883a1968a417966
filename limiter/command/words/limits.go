package words

import (
	"errors"
	"math"
	"time"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/stack"
)

// How the words of a limit become one.

const (
	tooFast        = "at most 10^9 units per second"
	tooLong        = "the period is longer than 292 years"
	tooSlow        = "a full bucket would take more than 292 years to refill"
	longOffset     = "OFFSET must be shorter than the period; a month counts as 28 days, a year as 365"
	zoneNeedsDays  = "TZ goes with periods of whole days, weeks, months or years, such as 1d, 2w, 1mo or 1y"
	zeroHasNoBurst = "a count of 0 lets nobody through, so there is no BURST"
	firstHasLength = "FIRST goes with periods of one length; units are ms, s, m, h, d and w"
)

// limitWords is what the words of a limit say.
type limitWords struct {
	quota    []byte // as it was given
	count    int64
	n        int64 // the period is n x unit, or n calendar units if there is one
	unit     time.Duration
	calendar calendar.Unit

	capacity     int64  // of BURST; 0 without
	first        bool   // FIRST was given
	offset, zone []byte // as they were given; nil without
	offsetNs     int64
	in           calendar.Zone

	terms   stack.Terms
	used    int64 // of USED
	hasUsed bool
}

// parseLimit reads a limit whose first word was text, and the words that belong to it.
func (p *Parser) parseLimit(kind *word, text []byte) error {
	if p.inSlots() {
		return p.Near(text, ownGroup)
	}
	p.limit = limitWords{}
	from := p.next - 1
	limit, err := p.makeLimit(kind, text)
	if err != nil {
		return err
	}
	if err := p.parseTerms(); err != nil {
		return err
	}
	if !p.limits.Add(limit.With(p.limit.terms)) {
		return p.Near(text, tooManyLimits)
	}
	p.limitEnds = p.next
	p.spans[p.limits.Len()-1] = Span{from, p.next}
	return nil
}

// makeLimit reads the count/period of a limit and the words that only its kind has.
func (p *Parser) makeLimit(kind *word, text []byte) (limit stack.Limit, err error) {
	if err = p.parseValue(kind, text); err != nil {
		return limit, err
	}
	if err = p.parseFollowing(kind.owned); err != nil {
		return limit, err
	}
	return kind.limit(p)
}

// parseTerms reads the words that may follow any limit. With USED, the limit is charged the difference between that and
// TAKE.
func (p *Parser) parseTerms() error {
	if err := p.parseFollowing(p.syntax.terms); err != nil || !p.syntax.settles {
		return err
	}
	l := &p.limit
	if l.terms.HasTake != l.hasUsed {
		return p.Near(l.quota, takeAndUsed)
	}
	l.terms.Take, l.terms.HasTake = l.used-l.terms.Take, true
	return nil
}

// parseFollowing reads words as long as they are of those that may follow a limit.
func (p *Parser) parseFollowing(words []*word) error {
	var seen wordSet
	for p.next < len(p.args) {
		w := find(words, p.args[p.next])
		if w == nil {
			break
		}
		text := p.shift()
		if seen&w.set != 0 {
			return p.Near(text, givenTwice)
		}
		seen |= w.set
		if err := p.parseValue(w, text); err != nil {
			return err
		}
	}
	p.seen |= seen
	return p.checkPairs(words, seen)
}

func makeRate(p *Parser) (stack.Limit, error) {
	l := &p.limit
	switch {
	case l.capacity == 0:
		l.capacity = l.count
	case l.count == 0:
		return stack.Limit{}, p.Near(l.quota, zeroHasNoBurst)
	}
	limit, err := stack.NewRate(l.count, l.n, l.unit, l.capacity)
	return limit, p.outOfRange(err)
}

// makePlain makes limits of a kind that its count and period describe.
func makePlain(limitOf func(count, n int64, unit time.Duration) (stack.Limit, error)) func(*Parser) (stack.Limit, error) {
	return func(p *Parser) (stack.Limit, error) {
		limit, err := limitOf(p.limit.count, p.limit.n, p.limit.unit)
		return limit, p.outOfRange(err)
	}
}

// outOfRange says what is wrong with a count/period that makes no limit.
func (p *Parser) outOfRange(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stack.ErrRate):
		return p.Near(p.limit.quota, tooFast)
	case errors.Is(err, stack.ErrTolerance):
		return p.Near(p.limit.quota, tooSlow)
	}
	return p.Near(p.limit.quota, tooLong)
}

func makeFixed(p *Parser) (limit stack.Limit, err error) {
	l := &p.limit
	if l.first {
		return makeFirst(p)
	}
	windows, err := l.windows()
	switch {
	case errors.Is(err, errNoDays):
		return limit, p.Near(l.zone, zoneNeedsDays)
	case errors.Is(err, calendar.ErrOffset):
		return limit, p.Near(l.offset, longOffset)
	case err == nil:
		limit, err = stack.NewFixedIn(windows, l.count)
	}
	return limit, p.outOfRange(err)
}

var errNoDays = errors.New("not whole days")

// windows returns the windows that the period, OFFSET and TZ describe.
func (l *limitWords) windows() (calendar.Spec, error) {
	switch {
	case l.calendar != 0:
		return calendar.Calendar(l.n, l.calendar, l.in, l.offsetNs)
	case l.zone == nil:
		return calendar.Every(l.n, l.unit, l.offsetNs)
	case l.unit != 24*time.Hour:
		return calendar.Spec{}, errNoDays
	}
	return calendar.Calendar(l.n, calendar.Day, l.in, l.offsetNs)
}

func makeFirst(p *Parser) (limit stack.Limit, err error) {
	l := &p.limit
	switch {
	case l.calendar == calendar.Week && l.n > math.MaxInt64/7:
		return limit, p.Near(l.quota, tooLong)
	case l.calendar == calendar.Week:
		l.n, l.unit = 7*l.n, 24*time.Hour
	case l.calendar != 0:
		return limit, p.Near(l.quota, firstHasLength)
	}
	limit, err = stack.NewFirst(l.count, l.n, l.unit)
	return limit, p.outOfRange(err)
}
