// Package spec is the executable specification of the limiter: transcripts of calls and replies (the *.txt files beside
// this one), which every host of the commands runs. README.md says how to read and write them.
package spec

//go:generate go run ./positions replies.json
//go:generate go run ./grammar commands.json

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed *.txt
var files embed.FS

// Start is what the clock of a host says when an example begins. It stands still until a step moves it.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Example is a rule and the transcript that shows it. It begins on a host without keys, at Start.
type Example struct {
	File, Rule string
	Steps      []Step
}

// Step is one line of a transcript, and the line after it where a call has a reply.
type Step struct {
	Text string
	Line int
	Kind Kind
	// Caller makes a Call, or gets an Answer; "" is the caller that has no name.
	Caller string
	Words  []string
	// Want is the reply to a Call, an Answer or what a Key holds.
	Want string
	By   time.Duration // of Pass
	At   time.Time     // of Set
}

// Kind says what happens in a step.
type Kind int

// The kinds of steps.
const (
	Call   Kind = iota // "> words" or "name> words", and a line with the reply
	Answer             // "name< reply": the reply to a caller that waited
	Pass               // "+6s" or "-1h": the clock moves
	Set                // "@2026-03-29T00:59:59Z": the clock is set
	Key                // "= key what it holds"
)

// Waits is the reply of a call that has to wait.
const Waits = "waits"

// Examples returns those of all files, in the order of their names.
func Examples() ([]Example, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var all []Example
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		some, err := parse(entry.Name(), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// parse reads a file. Its first comment is about the file; an example begins with the comment that states its rule and
// ends at an empty line.
func parse(file, text string) (all []Example, err error) {
	subject := strings.TrimSuffix(path.Base(file), ".txt")
	lines := strings.Split(text, "\n")
	begun := false
	for at := 0; at < len(lines); at++ {
		line := lines[at]
		if line == "" {
			begun = false
			continue
		}
		if rule, ok := strings.CutPrefix(line, "# "); ok {
			if begun && len(all[len(all)-1].Steps) == 0 {
				all[len(all)-1].Rule += " " + rule
				continue
			}
			all, begun = append(all, Example{File: subject, Rule: rule}), true
			continue
		}
		step, err := parseStep(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", file, at+1, err)
		case !begun:
			return nil, fmt.Errorf("%s:%d: an example begins with a comment that states its rule", file, at+1)
		}
		step.Line = at + 1
		if step.Kind == Call {
			at++
			if at == len(lines) || lines[at] == "" {
				return nil, fmt.Errorf("%s:%d: the call has no reply", file, at)
			}
			step.Want = lines[at]
		}
		last := &all[len(all)-1]
		last.Steps = append(last.Steps, step)
	}
	if len(all) < 2 || len(all[0].Steps) > 0 {
		return nil, fmt.Errorf("%s: a file begins with a comment about all of it and has examples", file)
	}
	for _, e := range all[1:] {
		if len(e.Steps) == 0 {
			return nil, fmt.Errorf("%s: no step shows the rule %q", file, e.Rule)
		}
	}
	return all[1:], nil
}

func parseStep(line string) (s Step, err error) {
	s.Text = line
	switch line[0] {
	case '+', '-':
		s.Kind = Pass
		s.By, err = duration(line)
		return s, err
	case '@':
		s.Kind = Set
		s.At, err = time.Parse(time.RFC3339Nano, line[1:])
		return s, err
	case '=':
		s.Kind = Key
		name, holds, ok := strings.Cut(strings.TrimPrefix(line, "= "), " ")
		if !ok {
			return s, fmt.Errorf("%q is not = key what-it-holds", line)
		}
		s.Words, s.Want = []string{name}, holds
		return s, nil
	}
	at := strings.IndexAny(line, "<>")
	if at < 0 || strings.ContainsAny(line[:at], " \"") || !strings.HasPrefix(line[at+1:], " ") {
		return s, fmt.Errorf("%q is no step", line)
	}
	s.Caller = line[:at]
	if line[at] == '<' {
		s.Kind, s.Want = Answer, line[at+2:]
		return s, nil
	}
	s.Words, err = words(line[at+2:])
	return s, err
}

// words splits a call at its spaces. A word in double quotes is one of Go's.
func words(text string) (all []string, err error) {
	for text != "" {
		if text[0] != '"' {
			word, rest, _ := strings.Cut(text, " ")
			all, text = append(all, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		all, text = append(all, word), strings.TrimPrefix(text[len(quoted):], " ")
	}
	return all, nil
}

// duration is Go's, and "d" for days of 24 hours in front of it.
func duration(text string) (time.Duration, error) {
	sign, rest := text[:1], text[1:]
	var days time.Duration
	if n, after, ok := strings.Cut(rest, "d"); ok {
		whole, err := strconv.Atoi(n)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration", text)
		}
		days, rest = time.Duration(whole)*24*time.Hour, after
	}
	var d time.Duration
	if rest != "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, err
		}
	}
	if d += days; sign == "-" {
		d = -d
	}
	return d, nil
}
