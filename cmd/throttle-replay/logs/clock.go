package logs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"
)

// clock reads the times of a log. Most lines are of the same hour as the one before, so what is the same is remembered.
type clock struct {
	zone   *time.Location
	format string // "" tells the usual ways apart
	unitNs int64  // of a number of format unix and its like

	lastNs int64 // what was read last

	// Of times like 10/Oct/2026:13:55:36 -0700: the first 15 bytes and the last five of the time that was read last,
	// and the instant at which its hour began. Of no time these bytes are zero.
	day    [2]uint64
	offset [5]byte
	hourNs int64

	// The quarter of an hour of local time that was looked up last, in s since the epoch as if it were UTC, and its
	// offset from UTC.
	quarter, quarterOffset int64
	isKnown                bool
}

// numbers are the formats that are a number, by their units.
var numbers = map[string]int64{"unix": 1e9, "unix_ms": 1e6, "unix_us": 1e3, "unix_ns": 1}

func newClock(o Options) (clock, error) {
	c := clock{zone: o.Zone, format: o.TimeFormat, unitNs: numbers[o.TimeFormat]}
	if c.format != "" && c.unitNs == 0 {
		// A layout that shows nothing of an instant is none.
		text := time.Date(2026, time.November, 27, 13, 14, 15, 0, time.UTC).Format(c.format)
		if t, err := time.Parse(c.format, text); err != nil || t.Day() != 27 || t.Minute() != 14 {
			return c, fmt.Errorf("--time-format %q: expected unix, unix_ms, unix_us, unix_ns, or a layout of Go's package time, such as 2006-01-02 15:04:05", c.format)
		}
	}
	return c, nil
}

// read returns an instant of the years 1970 to 2262.
func (c *clock) read(text []byte) (ns int64, ok bool) {
	switch {
	case c.unitNs > 0:
		ns, ok = number(text, c.unitNs)
	case c.format != "":
		ns, ok = c.byLayout(c.format, string(text))
	case len(text) >= 20 && text[2] == '/' && text[11] == ':':
		ns, ok = c.clfVariant(text)
	case len(text) >= 19 && (text[4] == '-' || text[4] == '/'):
		ns, ok = c.iso(text)
	case len(text) > 0 && text[0]-'0' <= 9:
		if ns, ok = c.anyNumber(text); !ok {
			ns, ok = c.words(text)
		}
	default:
		ns, ok = c.words(text)
	}
	if !ok || ns < 0 {
		return 0, false
	}
	c.lastNs = ns
	return ns, true
}

// words reads the times of mail and of C, which have the names of days.
func (c *clock) words(text []byte) (int64, bool) {
	for _, layout := range []string{time.RFC1123Z, time.RFC1123, time.ANSIC} {
		if ns, ok := c.byLayout(layout, string(text)); ok {
			return ns, true
		}
	}
	return 0, false
}

// byLayout reads a time as package time does, except for hours that come twice.
func (c *clock) byLayout(layout, text string) (int64, bool) {
	t, err := time.ParseInLocation(layout, text, c.zone)
	if err != nil || t.Year() < 1970 || t.Year() > 2261 {
		return 0, false
	}
	if t.Location() != c.zone || c.zone == time.UTC {
		return t.UnixNano(), true
	}
	shown := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	return c.local(shown.Unix(), int64(t.Nanosecond())), true
}

const (
	clfHour = 15 // bytes of 10/Oct/2026:13:
	clfLen  = 26 // bytes of 10/Oct/2026:13:55:36 -0700
)

// clf reads 10/Oct/2026:13:55:36 -0700.
func (c *clock) clf(text []byte) (ns int64, ok bool) {
	if len(text) != clfLen {
		return 0, false
	}
	first, second := binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[clfHour-8:])
	if first != c.day[0] || second != c.day[1] || [5]byte(text[21:]) != c.offset {
		if !c.clfHour(text) {
			return 0, false
		}
		c.day, c.offset = [2]uint64{first, second}, [5]byte(text[21:])
	}
	minute, ok1 := twoDigits(text[15:])
	second2, ok2 := twoDigits(text[18:])
	if !ok1 || !ok2 || minute > 59 || second2 > 60 || text[17] != ':' || text[20] != ' ' {
		return 0, false
	}
	return c.hourNs + (minute*60+second2)*int64(time.Second), true
}

// clfVariant reads 10/Oct/2026:13:55:36 -0700, and the same without an offset or with milliseconds.
func (c *clock) clfVariant(text []byte) (ns int64, ok bool) {
	if len(text) == clfLen && text[20] == ' ' {
		return c.clf(text)
	}
	layout := "02/Jan/2006:15:04:05"
	if bytes.IndexByte(text, ' ') >= 0 {
		layout += " -0700"
	}
	return c.byLayout(layout, string(text)) // package time takes a fraction behind seconds
}

// clfHour reads the day, the hour and the offset.
func (c *clock) clfHour(text []byte) bool {
	day, ok1 := twoDigits(text)
	month := bytes.Index([]byte("JanFebMarAprMayJunJulAugSepOctNovDec"), text[3:6])
	century, ok2 := twoDigits(text[7:])
	year, ok3 := twoDigits(text[9:])
	hour, ok4 := twoDigits(text[12:])
	offset, ok5 := offsetOf(text[21:])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || month < 0 || month%3 != 0 || hour > 23 || text[6] != '/' || text[11] != ':' || text[14] != ':' {
		return false
	}
	days, ok := daysOf(century*100+year, int64(month/3)+1, day)
	c.day = [2]uint64{}
	c.hourNs = (days*86400 + hour*3600 - offset) * int64(time.Second)
	return ok
}

// iso reads 2026-10-10T13:55:36.123+02:00 and its relatives: a blank or slashes, a comma before the fraction, Z, +0200,
// +02 or no offset.
func (c *clock) iso(text []byte) (ns int64, ok bool) {
	century, ok1 := twoDigits(text)
	year, ok2 := twoDigits(text[2:])
	month, ok3 := twoDigits(text[5:])
	day, ok4 := twoDigits(text[8:])
	hour, ok5 := twoDigits(text[11:])
	minute, ok6 := twoDigits(text[14:])
	second, ok7 := twoDigits(text[17:])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !ok7 || text[7] != text[4] || text[13] != ':' || text[16] != ':' ||
		hour > 23 || minute > 59 || second > 60 || (text[10] != 'T' && text[10] != ' ' && text[10] != 't' && text[10] != '_') {
		return 0, false
	}
	days, ok := daysOf(century*100+year, month, day)
	if !ok {
		return 0, false
	}
	shown := days*86400 + hour*3600 + minute*60 + second
	rest := text[19:]
	fraction := int64(0)
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		n := 1
		for n < len(rest) && rest[n]-'0' <= 9 {
			n++
		}
		if n == 1 {
			return 0, false
		}
		fraction, rest = nanoseconds(rest[1:n]), rest[n:]
	}
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	switch {
	case len(rest) == 0:
		return c.local(shown, fraction), true
	case len(rest) == 1 && (rest[0] == 'Z' || rest[0] == 'z'):
		return shown*1e9 + fraction, true
	}
	offset, ok := offsetOf(rest)
	return (shown-offset)*1e9 + fraction, ok
}

// nanoseconds are the digits of a fraction of a second. What is below 1 ns is dropped.
func nanoseconds(digits []byte) (ns int64) {
	for i := range 9 {
		ns *= 10
		if i < len(digits) {
			ns += int64(digits[i] - '0')
		}
	}
	return ns
}

// local is an instant by what the clocks of the zone show, in s since the epoch as if they showed UTC.
//
// In autumn an hour comes twice. The instant is the one that is nearer to the line before: a log goes on where it was.
// In spring an hour is left out, and what shows it is read by the offset from before.
func (c *clock) local(shown, fractionNs int64) int64 {
	if c.zone == time.UTC {
		return shown*1e9 + fractionNs
	}
	quarter := shown - shown%900
	if c.isKnown && quarter == c.quarter {
		return (shown-c.quarterOffset)*1e9 + fractionNs
	}
	before, after := c.offsetAt(shown-86400), c.offsetAt(shown+86400)
	early, late := shown-before, shown-after // early is so if clocks are set back
	isEarly, isLate := c.offsetAt(early) == before, c.offsetAt(late) == after
	offset := before
	switch {
	case before != after && isEarly && isLate:
		if c.lastNs > 0 && distance(late*1e9, c.lastNs) < distance(early*1e9, c.lastNs) {
			offset = after
		}
		return (shown-offset)*1e9 + fractionNs
	case !isEarly && isLate:
		offset = after
	}
	c.quarter, c.quarterOffset, c.isKnown = quarter, offset, true
	return (shown-offset)*1e9 + fractionNs
}

func distance(a, b int64) int64 {
	if a > b {
		return a - b
	}
	return b - a
}

// offsetAt is how far the clocks of the zone are ahead of UTC, in s.
func (c *clock) offsetAt(unix int64) int64 {
	_, offset := time.Unix(unix, 0).In(c.zone).Zone()
	return int64(offset)
}

// offsetOf reads +02:00, -0700 or +02, in s.
func offsetOf(text []byte) (s int64, ok bool) {
	if len(text) != 3 && len(text) != 5 && (len(text) != 6 || text[3] != ':') || (text[0] != '+' && text[0] != '-') {
		return 0, false
	}
	hours, ok := twoDigits(text[1:])
	minutes := int64(0)
	if ok && len(text) > 3 {
		minutes, ok = twoDigits(text[len(text)-2:])
	}
	if s = hours*3600 + minutes*60; text[0] == '-' {
		s = -s
	}
	return s, ok && hours < 24 && minutes < 60
}

func twoDigits(text []byte) (n int64, ok bool) {
	tens, ones := text[0]-'0', text[1]-'0'
	return int64(tens)*10 + int64(ones), tens <= 9 && ones <= 9
}

// daysOf counts the days since the epoch of a date in the years 1970 to 2261. ok is false where there is no such date.
func daysOf(year, month, day int64) (days int64, ok bool) {
	if year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1 {
		return 0, false
	}
	t := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	return t.Unix() / 86400, int64(t.Day()) == day
}

// anyNumber is number in the unit that fits an instant of our times: seconds up to the year 5138, then ms, us and ns.
func (c *clock) anyNumber(text []byte) (int64, bool) {
	whole := bytes.IndexAny(text, ".eE")
	if whole < 0 {
		whole = len(text)
	}
	unit := int64(1e9)
	switch {
	case whole < len(text) && text[whole] != '.': // how long it is does not say how large it is
	case whole > 17:
		unit = 1
	case whole > 14:
		unit = 1e3
	case whole > 11:
		unit = 1e6
	}
	return number(text, unit)
}

// number reads a decimal number of units.
func number(text []byte, unitNs int64) (ns int64, ok bool) {
	i, n := 0, int64(0)
	for ; i < len(text) && text[i]-'0' <= 9; i++ {
		if n > (math.MaxInt64-9)/10 {
			return 0, false
		}
		n = n*10 + int64(text[i]-'0')
	}
	if i == 0 || n > math.MaxInt64/unitNs {
		return 0, false
	}
	ns = n * unitNs
	if i == len(text) {
		return ns, true
	}
	if text[i] != '.' {
		return exponent(text, unitNs)
	}
	digitNs := unitNs
	for i++; i < len(text); i++ {
		digit := text[i] - '0'
		if digit > 9 {
			return exponent(text, unitNs)
		}
		digitNs /= 10
		ns += int64(digit) * digitNs
	}
	return ns, ns >= 0
}

// exponent reads a number such as 1.7e9, which JSON may have.
func exponent(text []byte, unitNs int64) (int64, bool) {
	f, err := strconv.ParseFloat(string(text), 64)
	if f *= float64(unitNs); err != nil || !(f >= 0 && f < math.MaxInt64) {
		return 0, false
	}
	return int64(f), true
}
