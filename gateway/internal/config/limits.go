package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
	"redis-throttle/ratelimit"
)

// The limits of a descriptor are read by the parser of CL.LIMIT, so that a word which is added there is known here or
// refused by its name. NAME and UNIT are the file's alone: they follow a limit and are kept apart.

// ofLimit is what CL.LIMIT takes.
var ofLimit = words.Compile(words.Form{Command: "LIMIT"})

// notOfFile are words of CL.LIMIT that a file cannot have, and why.
var notOfFile = map[string]string{
	"TAKE": "hits_addend of the request says how many units it takes, or cost of a route",
	"COST": "hits_addend of the request says how many units it takes, or cost of a route",
}

// limitText is the texts of limits, as far as they were read.
type limitText struct {
	args  [][]byte // as CL.LIMIT takes them, the key first
	names []nameAt

	parser  words.Parser
	request words.Request
	stack   stack.Stack
}

// nameAt is NAME or UNIT with what follows it, behind the first At of the args.
type nameAt struct {
	at         int
	word, text string
}

// add reads more text, which is whole limits, or BAN.
func (l *limitText) add(text string) error {
	if len(l.args) == 0 {
		l.args = [][]byte{[]byte("key")}
	}
	for text != "" {
		whole, rest, err := untilSemicolon(text)
		if err != nil {
			return err
		}
		if text = rest; len(whole) == 0 {
			continue
		}
		if err := l.addWords(whole); err != nil {
			return err
		}
	}
	return nil
}

func (l *limitText) addWords(all []string) error {
	for i := 0; i < len(all); i++ {
		word := strings.ToUpper(all[i])
		switch {
		case word != "NAME" && word != "UNIT":
			l.args = append(l.args, []byte(all[i]))
		case i+1 == len(all):
			return fmt.Errorf("%s needs a value after it", word)
		default:
			i++
			l.names = append(l.names, nameAt{len(l.args), word, all[i]})
		}
	}
	return l.parse()
}

func (l *limitText) parse() error {
	l.stack.Reset()
	if err := l.parser.Parse(&ofLimit, &l.request, l.args, &l.stack); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "ERR "))
	}
	return nil
}

// limits are those that were read, with their names.
func (l *limitText) limits() (all ratelimit.Limits, err error) {
	named := 0
	for i := range l.stack.Len() {
		span := l.parser.LimitAt(i)
		var text []string
		for _, arg := range l.args[span.From:span.To] {
			text = append(text, string(arg))
		}
		for _, name := range l.names {
			if span.From < name.at && name.at <= span.To {
				text = append(text, name.word, strconv.Quote(name.text))
				named++
			}
		}
		if err := notInFile(text); err != nil {
			return nil, err
		}
		one, err := ratelimit.ParseLimits(strings.Join(text, " "))
		if err != nil {
			return nil, cmp.Or(errors.Unwrap(err), err) // without saying that it is limit 1 of 1
		}
		all = append(all, one...)
	}
	if named < len(l.names) {
		return nil, errors.New("NAME and UNIT belong directly behind a limit")
	}
	return all, nil
}

// ban is what the words behind the limits say.
func (l *limitText) ban() (length time.Duration, after string, err error) {
	inLimit := func(at int) bool {
		for i := range l.stack.Len() {
			if span := l.parser.LimitAt(i); span.From <= at && at < span.To {
				return true
			}
		}
		return false
	}
	for i := 1; i < len(l.args); i++ {
		if inLimit(i) {
			continue
		}
		word := strings.ToUpper(string(l.args[i]))
		switch word {
		case "BAN":
			length = time.Duration(l.request.BanNs)
		case "AFTER":
			after = string(l.args[i+1])
		default:
			return 0, "", fmt.Errorf("%s: %s", word, cmp.Or(notOfFile[word], "a file cannot say it"))
		}
		if takesValue[word] {
			i++
		}
	}
	if slices.ContainsFunc(l.args, isBan) && length < time.Millisecond {
		return 0, "", errors.New("BAN takes a length of time of at least 1ms: leave it out where nobody is to be banned")
	}
	return length, after, nil
}

func isBan(word []byte) bool { return strings.EqualFold(string(word), "BAN") }

// notInFile refuses words of a limit that a file cannot have.
func notInFile(text []string) error {
	for _, word := range text[2:] {
		if why := notOfFile[strings.ToUpper(word)]; why != "" {
			return fmt.Errorf("%s: %s", strings.ToUpper(word), why)
		}
	}
	return nil
}

// takesValue says of the words of CL.LIMIT, and of those of a file, whether anything follows them.
var takesValue = func() map[string]bool {
	all := map[string]bool{"NAME": true, "UNIT": true}
	for _, row := range words.Rows() {
		all[row.Name] = row.Value != ""
	}
	return all
}()

// untilSemicolon returns the words up to a semicolon or a line break, and what comes behind it. Words with spaces are
// in quotation marks.
func untilSemicolon(text string) (all []string, rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \t\r")
		switch {
		case text == "":
			return all, "", nil
		case text[0] == ';' || text[0] == '\n':
			return all, text[1:], nil
		case text[0] == '"':
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, "", errors.New("a quotation mark without an end")
			}
			word, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
			all, text = append(all, word), text[len(quoted):]
		default:
			end := strings.IndexAny(text+";", " \t\r\n;")
			all, text = append(all, text[:end]), text[end:]
		}
	}
}

// limits reads the limits of a descriptor, and its ban.
func (r *reader) limits(rule *Rule, list *yaml.Node) {
	text, isRight := &limitText{}, true
	r.list(list, func(n *yaml.Node) {
		if !isRight {
			return
		}
		err := text.add(r.text(n))
		if err == nil {
			_, err = text.limits()
		}
		if err == nil {
			rule.Ban, rule.BanAfter, err = text.ban()
		}
		r.failIf(n, err)
		isRight = err == nil
	})
	if !isRight || text.stack.Len() == 0 {
		return
	}
	rule.Limits, _ = text.limits() // which were right a moment ago
	for _, l := range rule.Limits {
		rule.Shown = append(rule.Shown, shownOf(l))
	}
}
