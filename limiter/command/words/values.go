package words

import (
	"math"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/stack"
)

// value is what follows a word.
type value struct {
	right   string // what would be right, for errors; they begin with the word
	arg     string // its name in COMMAND DOCS
	integer bool
	hasUnit bool // of time
	isName  bool // any bytes
	// read reads text into the parser. It returns errMalformed for what has only the general form to be shown.
	read func(p *Parser, text []byte) error
}

const (
	rightUnits               = "takes an integer from 0 to 9223372036854775807"
	rightRows                = "takes an integer from 1 to 9223372036854775807"
	rightCapacity            = "takes the capacity, an integer from 1 to 9223372036854775807"
	rightDuration            = "takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d"
	rightOffset              = "takes a length of time of at most 100 years, such as 6h, 1.5d or 90m; units are ms, s, m, h and d"
	rightTTL                 = "takes a length of time from 1ms to 100 years, such as 500ms, 30s or 5m; units are ms, s, m, h and d"
	rightID                  = "takes 1 to 512 bytes"
	rightZone                = "takes the name of a time zone in the IANA database, such as Europe/Berlin"
	noZone                   = "no time zone has this name; did you mean "
	rightQuota               = "takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d"
	rightCalendarQuota       = "takes count/period, such as 5/s, 10/1.5h or 1000/mo; units are ms, s, m, h and d, and w, mo and y for whole weeks, months and years"
	rightDenials             = "takes count/period, the count at least 1, such as 5/10m; units are ms, s, m, h and d"
	rightGroup               = "takes 1 to 128 bytes" // MaxGroupLen
	rightPriority            = "takes an integer from -100 to 100"
	rightWeight              = "takes an integer from 1 to 1000" // MaxWeight
	maxIDLen                 = 512
	maxPriority              = 100
	shortestTTL        int64 = 1_000_000

	// MaxGroupLen is the length in bytes of the longest name of a group.
	MaxGroupLen = 128

	// MaxWeight is the greatest weight of a group.
	MaxWeight = 1000
)

var (
	units     = value{right: rightUnits, arg: "units", integer: true, read: readIntegerFrom(0)}
	slots     = value{right: rightUnits, arg: "slots", integer: true, read: readIntegerFrom(0)}
	rows      = value{right: rightRows, arg: "n", integer: true, read: readIntegerFrom(1)}
	capacity  = value{right: rightCapacity, arg: "capacity", integer: true, read: readIntegerFrom(1)}
	duration  = value{right: rightDuration, arg: "duration", hasUnit: true, read: readDurationFrom(0)}
	offset    = value{right: rightOffset, arg: "duration", hasUnit: true, read: readDurationFrom(0)}
	ttl       = value{right: rightTTL, arg: "duration", hasUnit: true, read: readDurationFrom(shortestTTL)}
	id        = value{right: rightID, arg: "id", isName: true, read: readNameTo(maxIDLen)}
	groupName = value{right: rightGroup, arg: "group", isName: true, read: readNameTo(MaxGroupLen)}
	priority  = value{right: rightPriority, arg: "priority", integer: true, read: readIntegerBetween(-maxPriority, maxPriority)}
	weight    = value{right: rightWeight, arg: "weight", integer: true, read: readIntegerBetween(1, MaxWeight)}
	zone      = value{right: rightZone, arg: "zone", read: readZone}

	quota         = value{right: rightQuota, arg: "count/period", hasUnit: true, read: readQuota}
	denials       = value{right: rightDenials, arg: "count/period", hasUnit: true, read: readDenials}
	calendarQuota = value{right: rightCalendarQuota, arg: "count/period", hasUnit: true, read: readCalendarQuota}
)

func readIntegerFrom(least int64) func(*Parser, []byte) error {
	return readIntegerBetween(least, math.MaxInt64)
}

func readDurationFrom(least int64) func(*Parser, []byte) error {
	return func(p *Parser, text []byte) (err error) {
		p.number, err = ParseDuration(text)
		if (err == nil || err == ErrNoUnit) && p.number < least {
			return errMalformed
		}
		return err
	}
}

// readNameTo reads any bytes. Only where they are is noted.
func readNameTo(most int) func(*Parser, []byte) error {
	return func(p *Parser, text []byte) error {
		if !isName(text, most) {
			return errMalformed
		}
		return nil
	}
}

func readIntegerBetween(least, most int64) func(*Parser, []byte) error {
	return func(p *Parser, text []byte) error {
		n, ok := ParseInt(text)
		if !ok || n < least || n > most {
			return errMalformed
		}
		p.number = n
		return nil
	}
}

func isName(text []byte, most int) bool { return len(text) > 0 && len(text) <= most }

// IsID reports whether text may be an id.
func IsID(text []byte) bool { return isName(text, maxIDLen) }

func readZone(p *Parser, text []byte) (err error) {
	if len(text) > maxNumberLen { // longer than any name, and too long to be changed to lower case
		return errMalformed
	}
	if p.limit.in, err = calendar.LookupZone(text); err == nil {
		return nil
	}
	if p.syntax.has(text) { // the name is missing; a word may still be near to one
		return errMalformed
	}
	if meant := calendar.Suggest(text); meant != "" {
		return p.Near(text, noZone, meant, "?")
	}
	return errMalformed
}

func readQuota(p *Parser, text []byte) (err error) {
	p.limit.quota = text
	p.limit.count, p.limit.n, p.limit.unit, err = parseQuota(text)
	return err
}

// readDenials reads how many denied calls in which time a ban follows.
func readDenials(p *Parser, text []byte) error {
	count, n, unit, err := parseQuota(text)
	switch {
	case err != nil:
		return err
	case count == 0:
		return errMalformed
	case n > math.MaxInt64/int64(unit):
		return errTooLong
	}
	p.r.After = stack.Denials{Count: count, PeriodNs: n * int64(unit)}
	return nil
}

// readCalendarQuota reads a quota whose period may be in weeks, months or years, too.
func readCalendarQuota(p *Parser, text []byte) error {
	err := readQuota(p, text)
	if err == errMalformed {
		p.limit.count, p.limit.n, p.limit.calendar, err = parseCalendarQuota(text)
	}
	return err
}
