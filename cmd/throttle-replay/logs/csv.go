package logs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// table is CSV (RFC 4180) whose columns have names. A value in quotation marks may have commas and, doubled, quotation
// marks. Lines has put together the lines of a value with line ends.
type table struct {
	clock   clock
	comma   byte
	columns []string
	head    []byte // the line with the names, which is no record
	time    int
	wants   []want
	raw     [][]byte
	room    []byte
}

// IsCSV reports whether values of a layout may have line ends.
func IsCSV(l Layout) bool {
	_, is := l.(*table)
	return is
}

func newCSV(o Options, c clock, start []byte) (Layout, error) {
	l := &table{clock: c, comma: ',', columns: o.Columns}
	if o.Comma != 0 {
		l.comma = o.Comma
	}
	if len(l.columns) == 0 {
		line, _, _ := bytes.Cut(start, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		if len(line) == 0 || !l.split(line) {
			return nil, errors.New("the first line of the CSV file has no names of columns: give them with --columns")
		}
		for _, name := range l.raw {
			l.columns = append(l.columns, strings.TrimSpace(string(name)))
		}
		l.head = bytes.Clone(line)
	}
	return l, l.findTime(o)
}

// findTime finds the column with the time.
func (l *table) findTime(o Options) error {
	names := times
	if o.Time != "" {
		names = []string{o.Time}
	}
	for _, name := range names {
		if l.time = slices.IndexFunc(l.columns, func(column string) bool { return strings.EqualFold(column, name) }); l.time >= 0 {
			return nil
		}
	}
	if o.Time != "" {
		return fmt.Errorf("--time: there is no column %q: there are %s", o.Time, list(l.columns))
	}
	return fmt.Errorf("no column is the time of a request: name it with --time; there are %s", list(l.columns))
}

func (l *table) Want(name string) (int, error) {
	for _, s := range append([]source{{name, whole}}, sourcesOf(name)...) {
		if at := slices.Index(l.columns, s.name); at >= 0 {
			if s.name == name && sources[name] != nil { // a column "path" may have a query
				s.part = sources[name][0].part
			}
			l.wants = append(l.wants, want{at, s.part})
			return len(l.wants) - 1, nil
		}
	}
	return 0, fmt.Errorf("there is no column %q: there are %s", name, list(l.columns))
}

func (l *table) Parse(line []byte, r *Record) error {
	if l.head != nil && bytes.Equal(line, l.head) {
		return Head
	}
	if !l.split(line) || len(l.raw) != len(l.columns) {
		return NotInFormat
	}
	text := l.raw[l.time]
	if isMissing(text) {
		return NoTime
	}
	ns, ok := l.clock.read(bytes.TrimSpace(text))
	if !ok {
		return BadTime
	}
	r.TimeNs = ns
	r.Fields = r.Fields[:0]
	for _, w := range l.wants {
		r.Fields = append(r.Fields, w.part.of(l.raw[w.variable]))
	}
	return nil
}

// split finds the values of a line.
func (l *table) split(line []byte) bool {
	l.raw, l.room = l.raw[:0], l.room[:0]
	for {
		if len(line) > 0 && line[0] == '"' {
			value, rest, ok := l.unquote(line[1:])
			if !ok {
				return false
			}
			l.raw = append(l.raw, value)
			if len(rest) == 0 {
				return true
			}
			if rest[0] != l.comma {
				return false
			}
			line = rest[1:]
			continue
		}
		at := bytes.IndexByte(line, l.comma)
		if at < 0 {
			l.raw = append(l.raw, line)
			return true
		}
		l.raw = append(l.raw, line[:at])
		line = line[at+1:]
	}
}

// unquote reads a value up to the quotation mark that ends it.
func (l *table) unquote(text []byte) (value, rest []byte, ok bool) {
	end := bytes.IndexByte(text, '"')
	if end < 0 {
		return nil, nil, false
	}
	if end+1 == len(text) || text[end+1] != '"' {
		return text[:end], text[end+1:], true
	}
	from := len(l.room)
	for {
		l.room = append(l.room, text[:end]...)
		text = text[end+1:]
		if len(text) == 0 || text[0] != '"' {
			return l.room[from:len(l.room):len(l.room)], text, true
		}
		l.room = append(l.room, '"')
		text = text[1:]
		if end = bytes.IndexByte(text, '"'); end < 0 {
			return nil, nil, false
		}
	}
}

// headOf returns the first line of a file if it looks like the names of the columns of a CSV file, one of which is the
// time.
func headOf(start []byte) (line []byte, ok bool) {
	line, _, _ = bytes.Cut(start, []byte("\n"))
	line = bytes.TrimRight(line, "\r")
	l := table{comma: ','}
	if len(line) == 0 || line[0] == '{' || !l.split(line) || len(l.raw) < 2 {
		return nil, false
	}
	isTime := false
	for _, name := range l.raw {
		name := strings.ToLower(strings.TrimSpace(string(name)))
		if name == "" || strings.ContainsAny(name, "[]\"{}=/") || name[0]-'0' <= 9 {
			return nil, false
		}
		isTime = isTime || slices.Contains(times, name)
	}
	return line, isTime
}
