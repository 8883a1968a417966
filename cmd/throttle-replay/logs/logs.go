// Package logs reads access logs: line by line, whatever their format, as an instant and named fields.
//
// A Layout knows one format. What it cannot read is an error of that line alone: a log has lines that were cut off, and
// lines that clients made up.
package logs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Record is a line that was read. It is valid until its Layout reads the next one.
type Record struct {
	// TimeNs is when the request came, in ns since the Unix epoch.
	TimeNs int64
	// Fields are those that were asked for (Layout.Want), empty where the line has none. They are views that are not to
	// be written to.
	Fields [][]byte
}

// Layout is the format of a log. It remembers the line before, so each file needs a Layout of its own.
type Layout interface {
	// Want has Parse fill in a field, and returns its index in Record.Fields. It fails for a name that no line of this
	// format has.
	Want(name string) (int, error)
	// Parse reads a line without its end. The error is an Unreadable.
	Parse(line []byte, r *Record) error
}

// Unreadable says what is wrong with a line. There are few of them, to be counted.
type Unreadable string

func (u Unreadable) Error() string { return string(u) }

// What can be wrong with a line.
const (
	NotInFormat = Unreadable("not in the format")
	NotJSON     = Unreadable("not JSON")
	NoTime      = Unreadable("no time")
	BadTime     = Unreadable("a time that cannot be read")
	TooLong     = Unreadable("longer than 1 MiB")
	Head        = Unreadable("the names of the columns") // no record, and no mistake
)

// Format names a format.
type Format string

// The formats.
const (
	Auto     Format = "auto"
	Combined Format = "combined" // of nginx and Apache; also common, which has no referer and no user agent
	Pattern  Format = "pattern"  // a log_format of nginx, or a LogFormat of Apache
	JSON     Format = "json"     // one object a line: Caddy, Envoy, and others by the names of their fields
	CSV      Format = "csv"
)

// Options say how a log is to be read. The zero Options find out.
type Options struct {
	Format Format
	// Pattern is the log_format or LogFormat of format Pattern.
	Pattern string
	// Time names the field that says when the request came; "" looks for a usual name.
	Time string
	// TimeFormat is how it says so: "", which tells the usual ways apart, unix, unix_ms, unix_us, unix_ns, or a layout
	// of Go's package time.
	TimeFormat string
	// Zone is where the clock hung whose times have no offset; nil is UTC.
	Zone *time.Location
	// Columns are the names of the columns of a CSV file; without them its first line has the names. Comma separates
	// columns; 0 is ','.
	Columns []string
	Comma   byte
}

// ErrUnknown is the error of New for a log whose format cannot be told.
var ErrUnknown = errors.New("cannot tell the format of the log: name it with --format, or give its --log-format")

// New returns the Layout of a log that begins with start: some whole lines, which are looked at as far as the options
// leave something open.
func New(o Options, start []byte) (Layout, error) {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	clock, err := newClock(o)
	if err != nil {
		return nil, err
	}
	if o.Pattern != "" && (o.Format == "" || o.Format == Auto) {
		o.Format = Pattern
	}
	if (o.Format == "" || o.Format == Auto) && isW3C(start) {
		return newW3C(clock, start), nil
	}
	if o.Format == "" || o.Format == Auto {
		o.Format = detect(start, clock)
		if o.Format == "" || o.Format == Combined && !hasAddresses(start, clock) || isDocker(start) {
			if strip, inner := stripperOf(start, clock, deepest); strip != nil {
				o.Format = inner
				if inner == Pattern {
					stripped := stripAll(start, strip)
					o.Pattern = knownOf(stripped, clock)
				}
				l, err := New(o, nil)
				if err != nil {
					return nil, err
				}
				return &prefixed{l, strip}, nil
			}
		}
		if o.Format == Pattern {
			o.Pattern = knownOf(start, clock)
		}
		if o.Format == "" {
			return nil, ErrUnknown
		}
	}
	switch o.Format {
	case Combined:
		return newCombined(clock), nil
	case Pattern:
		return newPattern(o, clock)
	case JSON:
		return newJSON(o, clock), nil
	case CSV:
		return newCSV(o, clock, start)
	}
	return nil, fmt.Errorf("there is no format %q: expected auto, combined, pattern, json or csv", o.Format)
}

// isDocker reports whether a log is one of Docker's driver json-file, whose lines have those of the log within.
func isDocker(start []byte) bool {
	rest, ok := bytes.CutPrefix(start, []byte(`{"log":`))
	return ok && bytes.HasPrefix(bytes.TrimLeft(rest, " "), []byte(`"`))
}

// detect tells formats apart by the first lines that say anything.
func detect(start []byte, c clock) Format {
	if _, ok := headOf(start); ok {
		return CSV
	}
	for line := range strings.Lines(string(start)) {
		line = strings.TrimRight(line, "\r\n")
		var r Record
		switch {
		case strings.HasPrefix(line, "{"):
			return JSON
		case !strings.HasPrefix(line, `"`) && newCombined(c).Parse([]byte(line), &r) == nil:
			return Combined
		}
	}
	if knownOf(start, c) != "" {
		return Pattern
	}
	return ""
}
