// Grammar writes the language of the commands as data, from the tables of the parser: go generate ./spec.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/words"
)

var about = []string{
	"The language of the commands, as go generate ./spec writes it from the tables of the parser (limiter/command/words). Do not edit it.",
	"A word is said in capitals or not. 'value' is what follows it, 'right' how an error describes that. 'own' are the words that may follow a kind of limit and its count/period, 'not' those that it excludes, 'with' the one without which it means nothing, 'since' the version that it came with, if its commands are older.",
	"A command is told a key, or several: 'limits' are the kinds of limits that it takes, 'terms' what may follow each limit, 'options' the other words, 'required' those that must be there. 'slots' is how slots are given: alone, or with a TTL. 'later' are words that came to this command later than elsewhere.",
	"Whoever sends commands or reads their words, in any language, has a test that compares what it knows with this table: a word that is added is known, or refused by name, everywhere at once.",
}

type word struct {
	Word      string   `json:"word"`
	Since     string   `json:"since,omitempty"`
	Value     string   `json:"value,omitempty"`
	Right     string   `json:"right,omitempty"`
	Own       []string `json:"own,omitempty"`
	Not       []string `json:"not,omitempty"`
	With      string   `json:"with,omitempty"`
	RatesOnly bool     `json:"rates_only,omitempty"`
}

type cmd struct {
	Command  string            `json:"command"`
	Since    string            `json:"since,omitempty"`
	Keys     string            `json:"keys"`
	Limits   []string          `json:"limits,omitempty"`
	Terms    []string          `json:"terms,omitempty"`
	Options  []string          `json:"options,omitempty"`
	Required []string          `json:"required,omitempty"`
	Slots    string            `json:"slots,omitempty"`
	Later    map[string]string `json:"later,omitempty"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "grammar:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	table, err := grammar()
	if err != nil {
		return err
	}
	return os.WriteFile(path, table, 0o644)
}

// grammar has a line for each word and for each command.
func grammar() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{\n")
	err := lines(&b, "about", about, ",")
	if err == nil {
		err = lines(&b, "words", vocabulary(), ",")
	}
	if err == nil {
		err = lines(&b, "commands", commands(), "")
	}
	b.WriteString("}\n")
	return b.Bytes(), err
}

func lines[T any](b *bytes.Buffer, name string, rows []T, end string) error {
	fmt.Fprintf(b, "  %q: [", name)
	for i, row := range rows {
		var line bytes.Buffer
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(row); err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(b, "\n    %s", bytes.TrimSpace(line.Bytes()))
	}
	fmt.Fprintf(b, "\n  ]%s\n", end)
	return nil
}

func vocabulary() (all []word) {
	rows := words.Rows()
	for _, r := range rows {
		w := word{Word: r.Name, Since: r.Since, Value: r.Value, Right: r.Right, Own: r.Owned, With: r.With, RatesOnly: r.RatesOnly}
		for _, other := range rows {
			if slices.Contains(r.Excluded, other.Name) || slices.Contains(other.Excluded, r.Name) {
				w.Not = append(w.Not, other.Name)
			}
		}
		all = append(all, w)
	}
	return all
}

func commands() (all []cmd) {
	for _, c := range command.All {
		if c.AliasOf != nil {
			continue
		}
		t := c.Words()
		all = append(all, cmd{
			Command: c.Name, Since: c.Since, Keys: keys(c.Keys), Limits: t.Kinds, Terms: t.Terms, Options: t.Options, Required: t.Required,
			Slots: slots(t.Slots), Later: c.Later,
		})
	}
	return all
}

func keys(k command.Keys) string {
	switch k {
	case command.OneKey:
		return "one"
	case command.CountedKeys:
		return "several"
	default:
		return "none"
	}
}

func slots(f words.SlotsForm) string {
	switch f {
	case words.SlotsAlone:
		return "alone"
	case words.SlotsWithTTL:
		return "with TTL"
	default:
		return ""
	}
}
