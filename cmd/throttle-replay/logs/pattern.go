package logs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// pattern is a log_format of nginx or a LogFormat of Apache: texts and variables by turns. A variable ends where the
// text behind it begins.
type pattern struct {
	clock clock
	steps []step
	names []string
	wants []want
	raw   [][]byte // of the variables, by their indexes
	time  int      // the variable that is the time
}

// step is a variable and the text behind it. The first has no variable.
type step struct {
	variable int // -1 for none
	text     []byte
	isQuoted bool // the text begins with the quotation mark that ends the variable
	isCLF    bool // the variable is a time in brackets
}

// want is a field that is wanted: a part of one of the variables.
type want struct {
	variable int
	part     part
}

func newPattern(o Options, c clock) (Layout, error) {
	l := &pattern{clock: c, time: -1}
	if o.Pattern == "" {
		return nil, errors.New("format pattern needs --log-format, such as '$remote_addr [$time_local] \"$request\" $status'")
	}
	if err := l.compile(pasted(o.Pattern)); err != nil {
		return nil, fmt.Errorf("--log-format: %w", err)
	}
	l.raw = make([][]byte, len(l.names))
	names := times
	if o.Time != "" {
		names = []string{o.Time}
	}
	for _, name := range names {
		if l.time = l.index(name); l.time >= 0 {
			break
		}
	}
	for i, name := range l.names {
		if _, ok := strftimeOf(name); ok && l.time < 0 {
			l.time = i
		}
	}
	if l.time < 0 {
		if o.Time != "" {
			return nil, fmt.Errorf("--time: the log format has no %q: it has %s", o.Time, list(l.names))
		}
		return nil, errors.New("the log format says no time: expected $time_local, $time_iso8601, $msec or %t, or name it with --time")
	}
	if format, ok := strftimeOf(l.names[l.time]); ok && l.clock.format == "" && l.clock.unitNs == 0 {
		l.clock.format, _ = layoutOf(format)
	}
	if l.clock.format == "" && l.names[l.time] == "{usec}t" {
		l.clock.unitNs = 1e3
	}
	if l.clock.format == "" && l.names[l.time] == "{msec}t" {
		l.clock.unitNs = 1e6
	}
	return l, nil
}

// compile reads the pattern. Dollar signs are variables of nginx; without any, percent signs are directives of Apache.
func (l *pattern) compile(text string) error {
	cut := apacheVariable
	if strings.Contains(text, "$") {
		cut = nginxVariable
	}
	current := step{variable: -1}
	for text != "" {
		before, name, after, err := cut(text)
		if err != nil {
			return err
		}
		current.text = append(current.text, before...)
		if text = after; name == "" {
			continue
		}
		if current.variable >= 0 && len(current.text) == 0 {
			return fmt.Errorf("nothing separates %s from %s", l.names[current.variable], name)
		}
		isInBrackets := bytes.HasSuffix(current.text, []byte("["))
		l.push(current)
		current = step{variable: len(l.names), isCLF: name == "t" && !isInBrackets}
		l.names = append(l.names, name)
	}
	l.push(current)
	if len(l.names) == 0 {
		return errors.New("there is no variable in it, such as $remote_addr or %h")
	}
	return nil
}

func (l *pattern) push(s step) {
	s.isQuoted = s.variable >= 0 && len(s.text) > 0 && s.text[0] == '"'
	l.steps = append(l.steps, s)
}

// nginxVariable cuts a text at its first variable: $name or ${name}.
func nginxVariable(text string) (before, name, after string, err error) {
	before, after, found := strings.Cut(text, "$")
	if !found {
		return before, "", "", nil
	}
	if inner, ok := strings.CutPrefix(after, "{"); ok {
		name, after, found = strings.Cut(inner, "}")
		if !found || name == "" {
			return "", "", "", errors.New("${ without a name and }")
		}
		return before, name, after, nil
	}
	end := strings.IndexFunc(after, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
	if end < 0 {
		end = len(after)
	}
	if end == 0 {
		return "", "", "", errors.New("$ without a name")
	}
	return before, after[:end], after[end:], nil
}

// apacheVariable cuts a text at its first directive: %h, %>s, %{User-Agent}i, %400,501{Referer}i. %% is a percent sign.
func apacheVariable(text string) (before, name, after string, err error) {
	before, after, found := strings.Cut(text, "%")
	before = unescapeApache.Replace(before)
	if !found {
		return before, "", "", nil
	}
	if rest, ok := strings.CutPrefix(after, "%"); ok {
		return before + "%", "", rest, nil
	}
	if rest, ok := strings.CutPrefix(after, "U%q"); ok { // path and query, which nothing separates
		return before, "request_uri", rest, nil
	}
	after = strings.TrimLeft(after, "0123456789,!")
	after = strings.TrimPrefix(after, "<")
	if strings.HasPrefix(after, "{") {
		end := strings.IndexByte(after, '}') + 2
		if end < 2 || end > len(after) {
			return "", "", "", errors.New("%{ without } and a letter")
		}
		name = after[:end]
		if strings.HasSuffix(name, "t") && name != "{usec}t" && name != "{msec}t" && name != "{sec}t" {
			if format, ok := strftimeOf(name); !ok || !isLayout(format) {
				return "", "", "", fmt.Errorf("%%%s: expected %%t, %%{sec}t, %%{msec}t, %%{usec}t, or a whole time such as %%{%%d/%%b/%%Y %%T}t", name)
			}
		}
		return before, name, after[end:], nil
	}
	end := 1
	if strings.HasPrefix(after, ">") || strings.HasPrefix(after, "^") {
		end = 2
	}
	if len(after) < end {
		return "", "", "", errors.New("% without a letter")
	}
	return before, after[:end], after[end:], nil
}

// strftimeOf returns the format of a directive like %{%d/%m/%Y %T}t.
func strftimeOf(name string) (format string, ok bool) {
	format, ok = strings.CutSuffix(name, "}t")
	return strings.TrimPrefix(format, "{"), ok && strings.Contains(format, "%")
}

// isLayout reports whether a format of strftime says a whole instant.
func isLayout(format string) bool {
	layout, ok := layoutOf(format)
	if !ok {
		return false
	}
	_, err := newClock(Options{Zone: time.UTC, TimeFormat: layout})
	return err == nil
}

// unescapeApache turns a LogFormat as it stands in a file into what it means.
var unescapeApache = strings.NewReplacer(`\"`, `"`, `\t`, "\t", `\n`, "", `\\`, `\`)

func (l *pattern) index(name string) int {
	for i, known := range l.names {
		if known == name {
			return i
		}
	}
	return -1
}

func (l *pattern) Want(name string) (int, error) {
	for _, s := range sourcesOf(name) {
		if at := l.index(s.name); at >= 0 {
			l.wants = append(l.wants, want{at, s.part})
			return len(l.wants) - 1, nil
		}
	}
	return 0, fmt.Errorf("the log format has no field %q: it has %s", name, list(l.names))
}

func (l *pattern) Parse(line []byte, r *Record) error {
	if !l.split(line) {
		return NotInFormat
	}
	text := l.raw[l.time]
	if isMissing(text) {
		return NoTime
	}
	ns, ok := l.clock.read(text)
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

// split finds the values of the variables.
func (l *pattern) split(line []byte) bool {
	for i := range l.steps {
		s := &l.steps[i]
		end := 0
		switch {
		case s.variable < 0:
			if !bytes.HasPrefix(line, s.text) {
				return false
			}
		case len(s.text) == 0: // the last variable has the rest
			l.raw[s.variable] = line
			return true
		case s.isCLF: // has brackets, and a space between them
			if end = bytes.IndexByte(line, ']') + 1; end < 2 || line[0] != '[' || !bytes.HasPrefix(line[end:], s.text) {
				return false
			}
			l.raw[s.variable] = line[1 : end-1]
		default:
			if end = s.find(line); end < 0 {
				return false
			}
			l.raw[s.variable] = line[:end]
		}
		line = line[end+len(s.text):]
	}
	return true // what follows is more than the pattern says
}

// find is the index of the text that ends the variable.
func (s *step) find(line []byte) int {
	if !s.isQuoted {
		return bytes.Index(line, s.text)
	}
	for from := 0; ; {
		at := quoteEnd(line[from:])
		if at < 0 {
			return -1
		}
		if from += at; bytes.HasPrefix(line[from:], s.text) {
			return from
		}
		from++
	}
}

// isMissing reports whether a log says that there is no value.
func isMissing(value []byte) bool { return len(value) == 0 || len(value) == 1 && value[0] == '-' }

// list is words as a sentence has them.
func list(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
