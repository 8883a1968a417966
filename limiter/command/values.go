package command

import "redis-throttle/limiter/calendar"

// value is what follows a word.
type value struct {
	takes   string // what is right, for errors; they begin with the word
	arg     string // its name in COMMAND DOCS
	integer bool
	hasUnit bool // of time
	isName  bool // any bytes
	// read reads text into the parser. It returns errMalformed for what has only the general form to be shown.
	read func(p *parser, text []byte) error
}

const (
	unitsTake           = "takes an integer from 0 to 9223372036854775807"
	rowsTake            = "takes an integer from 1 to 9223372036854775807"
	capacityTakes       = "takes the capacity, an integer from 1 to 9223372036854775807"
	durationTakes       = "takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d"
	offsetTakes         = "takes a length of time of at most 100 years, such as 6h, 1.5d or 90m; units are ms, s, m, h and d"
	ttlTakes            = "takes a length of time from 1ms to 100 years, such as 500ms, 30s or 5m; units are ms, s, m, h and d"
	idTakes             = "takes 1 to 512 bytes"
	zoneTakes           = "takes the name of a time zone in the IANA database, such as Europe/Berlin"
	noZone              = "no time zone has this name; did you mean "
	quotaTakes          = "takes count/period, such as 5/s, 100/30m or 10/1.5h; units are ms, s, m, h and d"
	calendarTakes       = "takes count/period, such as 5/s, 10/1.5h or 1000/mo; units are ms, s, m, h and d, and w, mo and y for whole weeks, months and years"
	groupTakes          = "takes 1 to 128 bytes" // maxGroupLen
	priorityTakes       = "takes an integer from -100 to 100"
	maxIDLen            = 512
	maxGroupLen         = MaxTextLen
	maxPriority         = 100
	shortestTTL   int64 = 1_000_000
)

var (
	units    = value{takes: unitsTake, arg: "units", integer: true, read: readIntegerFrom(0)}
	slots    = value{takes: unitsTake, arg: "slots", integer: true, read: readIntegerFrom(0)}
	rows     = value{takes: rowsTake, arg: "n", integer: true, read: readIntegerFrom(1)}
	capacity = value{takes: capacityTakes, arg: "capacity", integer: true, read: readIntegerFrom(1)}
	duration = value{takes: durationTakes, arg: "duration", hasUnit: true, read: readDurationFrom(0)}
	offset   = value{takes: offsetTakes, arg: "duration", hasUnit: true, read: readDurationFrom(0)}
	ttl      = value{takes: ttlTakes, arg: "duration", hasUnit: true, read: readDurationFrom(shortestTTL)}
	id       = value{takes: idTakes, arg: "id", isName: true, read: readNameTo(maxIDLen)}
	group    = value{takes: groupTakes, arg: "group", isName: true, read: readNameTo(maxGroupLen)}
	priority = value{takes: priorityTakes, arg: "priority", integer: true, read: readPriority}
	zone     = value{takes: zoneTakes, arg: "zone", read: readZone}

	quota         = value{takes: quotaTakes, arg: "count/period", hasUnit: true, read: readQuota}
	calendarQuota = value{takes: calendarTakes, arg: "count/period", hasUnit: true, read: readCalendarQuota}
)

func readIntegerFrom(least int64) func(*parser, []byte) error {
	return func(p *parser, text []byte) error {
		n, ok := parseInt(text)
		if !ok || n < least {
			return errMalformed
		}
		p.number = n
		return nil
	}
}

func readDurationFrom(least int64) func(*parser, []byte) error {
	return func(p *parser, text []byte) (err error) {
		p.number, err = parseDuration(text)
		if (err == nil || err == errNoUnit) && p.number < least {
			return errMalformed
		}
		return err
	}
}

// readNameTo reads any bytes. Only where they are is noted.
func readNameTo(most int) func(*parser, []byte) error {
	return func(p *parser, text []byte) error {
		if !isName(text, most) {
			return errMalformed
		}
		return nil
	}
}

func readPriority(p *parser, text []byte) error {
	n, ok := parseInt(text)
	if !ok || n < -maxPriority || n > maxPriority {
		return errMalformed
	}
	p.number = n
	return nil
}

func isName(text []byte, most int) bool { return len(text) > 0 && len(text) <= most }

func isID(text []byte) bool { return isName(text, maxIDLen) }

func readZone(p *parser, text []byte) (err error) {
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
		return p.near(text, noZone, meant, "?")
	}
	return errMalformed
}

func readQuota(p *parser, text []byte) (err error) {
	p.limit.quota = text
	p.limit.count, p.limit.n, p.limit.unit, err = parseQuota(text)
	return err
}

// readCalendarQuota reads a quota whose period may be in weeks, months or years, too.
func readCalendarQuota(p *parser, text []byte) error {
	err := readQuota(p, text)
	if err == errMalformed {
		p.limit.count, p.limit.n, p.limit.calendar, err = parseCalendarQuota(text)
	}
	return err
}
