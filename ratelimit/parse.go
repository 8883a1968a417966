package ratelimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseLimits reads limits from a text, such as a line of a configuration:
//
//	RATE 5/s BURST 10; FIXED 1000/mo TZ Europe/Berlin NAME monthly
//
// A limit is written as CL.LIMIT takes it, and limits are separated by semicolons or line breaks. NAME and UNIT are
// Limit.Named and Limit.Unit; a name with spaces or semicolons is quoted as in Go. The limits are valid
// (Limits.Validate).
func ParseLimits(text string) (Limits, error) {
	var all Limits
	for rest := text; ; {
		words, after, err := splitLimit(rest)
		if err != nil {
			return nil, fmt.Errorf("ratelimit: %w", err)
		}
		if len(words) > 0 {
			limit, err := parseLimit(words)
			if err != nil {
				return nil, fmt.Errorf("ratelimit: limit %d: %w", len(all)+1, err)
			}
			all = append(all, limit)
		}
		if rest = after; rest == "" {
			break
		}
	}
	return all, all.Validate()
}

// String is l as ParseLimits reads it.
func (l Limits) String() string {
	var b strings.Builder
	for i := range l {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(l[i].String())
		for _, named := range [...][2]string{{" NAME ", l[i].name}, {" UNIT ", l[i].unit}} {
			if named[1] != "" {
				b.WriteString(named[0])
				b.WriteString(quoteWord(named[1]))
			}
		}
	}
	return b.String()
}

// quoteWord is word as splitLimit reads it.
func quoteWord(word string) string {
	if strings.ContainsAny(word, " ;\"") || strconv.Quote(word) != `"`+word+`"` {
		return strconv.Quote(word)
	}
	return word
}

// splitLimit returns the words of the first limit of text, and what comes after it.
func splitLimit(text string) (words []string, after string, err error) {
	for {
		text = strings.TrimLeft(text, " \t\r")
		switch {
		case text == "":
			return words, "", nil
		case text[0] == ';' || text[0] == '\n':
			return words, text[1:], nil
		case text[0] == '"':
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, "", errors.New("a quotation mark without an end")
			}
			word, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
			words, text = append(words, word), text[len(quoted):]
		default:
			end := strings.IndexAny(text+";", " \t\r\n;")
			words, text = append(words, text[:end]), text[end:]
		}
	}
}

// option is a word of a limit, and how the word after it is read.
type limitOption struct {
	units    func(Limit, int64) Limit
	duration func(Limit, time.Duration) Limit
	text     func(Limit, string) Limit
	alone    func(Limit) Limit
}

var limitOptions = map[string]limitOption{
	"BURST":  {units: Limit.Burst},
	"TAKE":   {units: Limit.Take},
	"USED":   {units: Limit.Used},
	"SPARE":  {units: Limit.Spare},
	"OFFSET": {duration: Limit.Offset},
	"TZ":     {text: Limit.Zone},
	"NAME":   {text: Limit.Named},
	"UNIT":   {text: Limit.Unit},
	"FIRST":  {alone: Limit.First},
	"SHADOW": {alone: Limit.Shadow},
}

func parseLimit(words []string) (Limit, error) {
	kind := strings.ToUpper(words[0])
	if kind != rate && kind != window && kind != fixed {
		return Limit{}, fmt.Errorf("%q: expected RATE, WINDOW or FIXED", words[0])
	}
	if len(words) == 1 {
		return Limit{}, fmt.Errorf("%s takes count/period, such as 5/s or 100/30m", kind)
	}
	count, every, err := parseQuota(words[1], kind == fixed)
	if err != nil {
		return Limit{}, fmt.Errorf("%s: %w", kind, err)
	}
	l := Limit{kind: kind, count: count, period: every}.worded()
	seen := map[string]bool{}
	for i := 2; i < len(words); i++ {
		name := strings.ToUpper(words[i])
		o, ok := limitOptions[name]
		switch {
		case !ok:
			return Limit{}, fmt.Errorf("%q: expected BURST, FIRST, OFFSET, TZ, TAKE, USED, SPARE, SHADOW, NAME or UNIT, or a semicolon before the next limit", words[i])
		case seen[name]:
			return Limit{}, fmt.Errorf("%s is there twice", name)
		case o.alone != nil:
			l = o.alone(l)
		case i+1 == len(words):
			return Limit{}, fmt.Errorf("%s needs a value after it", name)
		default:
			if l, err = o.read(l, words[i+1]); err != nil {
				return Limit{}, fmt.Errorf("%s: %w", name, err)
			}
			i++
		}
		seen[name] = true
	}
	return l, nil
}

func (o limitOption) read(l Limit, word string) (Limit, error) {
	switch {
	case o.text != nil:
		return o.text(l, word), nil
	case o.duration != nil:
		p, err := parsePeriod(word, false)
		return o.duration(l, p.length), err
	}
	n, err := parseInt(word)
	if err != nil {
		return l, fmt.Errorf("%q is not an integer from 0 to 9223372036854775807", word)
	}
	return o.units(l, n), nil
}

func parseQuota(word string, calendar bool) (count int64, every period, err error) {
	number, text, ok := strings.Cut(word, "/")
	if count, err = parseInt(number); !ok || err != nil {
		return 0, period{}, fmt.Errorf("%q is not count/period, such as 5/s or 100/30m", word)
	}
	every, err = parsePeriod(text, calendar)
	return count, every, err
}

// parseInt reads a number as the server does, which takes no + and no 0 before it.
func parseInt(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) != text {
		err = strconv.ErrSyntax
	}
	return n, err
}

// parsePeriod reads a length of time: a number and a unit, or a unit alone for one of it.
func parsePeriod(text string, calendar bool) (period, error) {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	unit := text[len(number):]
	if number == "" {
		number = "1"
	}
	if c := calendarUnit(unit); calendar && meanSeconds[c] != 0 {
		n, err := parseInt(number)
		if err != nil {
			return period{}, fmt.Errorf("%q: weeks, months and years are whole", text)
		}
		return period{n: n, unit: c}, nil
	}
	for _, u := range durationUnits {
		if u.name == unit {
			return exactly(number, u.is, text)
		}
	}
	expected := "ms, s, m, h or d"
	if calendar {
		expected = "ms, s, m, h, d, w, mo or y"
	}
	return period{}, fmt.Errorf("%q needs a unit: %s", text, expected)
}

// exactly is number times unit, which has to be whole nanoseconds.
func exactly(number string, unit time.Duration, text string) (period, error) {
	r, ok := parseDecimal(number)
	if !ok {
		return period{}, fmt.Errorf("%q is not a length of time, such as 500ms, 1.5h or 30d", text)
	}
	r.Mul(r, ratOf(int64(unit)))
	if !r.IsInt() || !r.Num().IsInt64() {
		return period{}, fmt.Errorf("%q is not a whole number of nanoseconds of at most 292 years", text)
	}
	return period{length: time.Duration(r.Num().Int64())}, nil
}
