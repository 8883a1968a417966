package logs

import (
	"bytes"
	"strings"
	"time"
)

// known are formats of one program that a pattern reads, the more special ones first.
var known = []struct {
	name    Format
	pattern string
}{
	{"haproxy", `$remote_addr [$time_local] $frontend $backend $timers $status $bytes_sent $request_cookie $response_cookie $termination $connections $queues $captured"$request"`},
	{"alb", `$type $time_iso8601 $elb $remote_addr $target $request_time $target_time $response_time $status $target_status $received $bytes_sent "$request" "$http_user_agent" $rest`},
	{"elb", `$time_iso8601 $elb $remote_addr $target $request_time $target_time $response_time $status $target_status $received $bytes_sent "$request" "$http_user_agent" $rest`},
	{"envoy", `[$time_iso8601] "$request" $status $flags $received $bytes_sent $duration $upstream_time "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$http_host" "$upstream_host"`},
	{"quoted", `"$remote_addr" $identity $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`},
	{"combined", `$remote_addr $identity $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`},
	{"common", `$remote_addr $identity $remote_user [$time_local] "$request" $status $body_bytes_sent`},
}

// knownOf returns the pattern that reads most of the first lines, "" for none.
func knownOf(start []byte, c clock) string {
	for _, k := range known {
		l := &pattern{clock: c, time: -1}
		if l.compile(k.pattern) != nil {
			continue
		}
		l.raw, l.time = make([][]byte, len(l.names)), max(l.index("time_local"), l.index("time_iso8601"))
		status, addr, read, all := l.index("status"), l.index("remote_addr"), 0, 0
		var r Record
		for line := range bytes.Lines(start) {
			if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
				continue
			}
			if all++; all > 50 {
				break
			}
			if l.Parse(line, &r) == nil && len(l.raw[status]) == 3 && isStatus(l.raw[status]) && (addr < 0 || IsAddress(l.raw[addr])) {
				read++
			}
		}
		if read*2 > all {
			return k.pattern
		}
	}
	return ""
}

// w3c is a log that says itself what its columns are: #Fields: date time c-ip cs-method ..., of IIS and CloudFront.
// Tabs separate the columns of CloudFront, and spaces those of others. A second such line may come at any place.
type w3c struct {
	clock      clock
	columns    []string
	date, time int // columns; date is -1 if the time has it
	names      []string
	wants      []want // by column; -1 for one that is not there
	raw        [][]byte
	at         []byte
}

// fieldsOf returns the columns that a line names.
func fieldsOf(line []byte) (columns []string, ok bool) {
	text, ok := bytes.CutPrefix(line, []byte("#Fields:"))
	return strings.Fields(string(text)), ok
}

// isW3C reports whether a log begins with lines that name its columns.
func isW3C(start []byte) bool { return firstFields(start) != nil }

func firstFields(start []byte) []string {
	for line := range bytes.Lines(start) {
		if columns, ok := fieldsOf(bytes.TrimSpace(line)); ok {
			return columns
		}
		if !bytes.HasPrefix(line, []byte("#")) {
			return nil
		}
	}
	return nil
}

func newW3C(c clock, start []byte) Layout {
	l := &w3c{clock: c}
	l.name(firstFields(start))
	return l
}

// name takes the names of the columns.
func (l *w3c) name(columns []string) {
	l.columns, l.date, l.time = columns, -1, -1
	for i, column := range columns {
		switch column {
		case "date":
			l.date = i
		case "time", "timestamp", "x-timestamp":
			l.time = i
		}
	}
	l.wants = l.wants[:0]
	for _, name := range l.names {
		l.wants = append(l.wants, l.find(name))
	}
}

// find returns where a field is; its variable is -1 if it is nowhere.
func (l *w3c) find(name string) want {
	header, isHeader := strings.CutPrefix(name, headerPrefix)
	for _, s := range sourcesOf(name) {
		for i, column := range l.columns {
			if column == s.name || isHeader && strings.EqualFold(column, "cs("+header+")") {
				return want{i, s.part}
			}
		}
	}
	return want{-1, whole}
}

func (l *w3c) Want(name string) (int, error) {
	w := l.find(name)
	if w.variable < 0 {
		return 0, &noColumn{name, l.columns}
	}
	l.names, l.wants = append(l.names, name), append(l.wants, w)
	return len(l.wants) - 1, nil
}

// noColumn is the error for a column that is not there.
type noColumn struct {
	name    string
	columns []string
}

func (e *noColumn) Error() string {
	return "there is no column \"" + e.name + "\": there are " + list(e.columns)
}

func (l *w3c) Parse(line []byte, r *Record) error {
	if len(line) > 0 && line[0] == '#' {
		if columns, ok := fieldsOf(line); ok {
			l.name(columns)
		}
		return Head
	}
	separator := []byte(" ")
	if bytes.IndexByte(line, '\t') >= 0 {
		separator = []byte("\t")
	}
	l.raw = l.raw[:0]
	for rest, more := line, true; more; {
		var value []byte
		value, rest, more = bytes.Cut(rest, separator)
		l.raw = append(l.raw, value)
	}
	if len(l.raw) < len(l.columns) || l.time < 0 {
		return NotInFormat
	}
	l.at = l.at[:0]
	if l.date >= 0 {
		l.at = append(append(l.at, l.raw[l.date]...), ' ')
	}
	l.at = append(l.at, l.raw[l.time]...)
	ns, ok := l.clock.read(l.at)
	if !ok {
		return BadTime
	}
	r.TimeNs = ns
	r.Fields = r.Fields[:0]
	for _, w := range l.wants {
		if w.variable < 0 {
			r.Fields = append(r.Fields, nil)
			continue
		}
		r.Fields = append(r.Fields, w.part.of(l.raw[w.variable]))
	}
	return nil
}

// pasted takes the pattern out of a line of a configuration: log_format main '...' '...'; of nginx, or LogFormat "..."
// combined of Apache.
func pasted(text string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "log_format ")
	if !ok {
		if rest, ok = strings.CutPrefix(strings.TrimSpace(text), "LogFormat "); !ok {
			return text
		}
	}
	var b strings.Builder
	for {
		at := strings.IndexAny(rest, `'"`)
		if at < 0 {
			return b.String()
		}
		mark := rest[at]
		rest = rest[at+1:]
		end := quoteEndOf(rest, mark)
		if end < 0 {
			return text
		}
		part := rest[:end]
		if mark == '\'' || strings.Contains(text, "log_format") {
			part = strings.NewReplacer(`\'`, `'`, `\"`, `"`, `\\`, `\`).Replace(part)
		}
		b.WriteString(part)
		rest = rest[end+1:]
	}
}

func quoteEndOf(text string, mark byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case mark:
			return i
		}
	}
	return -1
}

// strftime are what C's strftime calls what Go's package time calls otherwise.
var strftime = map[byte]string{
	'd': "02", 'e': "_2", 'm': "01", 'b': "Jan", 'h': "Jan", 'B': "January", 'Y': "2006", 'y': "06", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'T': "15:04:05", 'R': "15:04",
	'F': "2006-01-02", 'D': "01/02/06", 'z': "-0700", 'Z': "MST", 'a': "Mon", 'A': "Monday", 'c': time.ANSIC, '%': "%",
}

// layoutOf turns a format of strftime into a layout of package time; ok is false for one that it cannot have.
func layoutOf(format string) (layout string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) || strftime[format[i]] == "" {
			return "", false
		}
		b.WriteString(strftime[format[i]])
	}
	return b.String(), true
}
