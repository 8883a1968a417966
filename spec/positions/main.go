// Positions writes the positions of fields in replies, of spec/replies.json, into the clients: go generate ./spec.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
)

type reply struct {
	Name   string
	Fields []string
}

const note = "Code generated from spec/replies.json by go generate ./spec; DO NOT EDIT."

// languages are the files that are written, from the root of the repository.
var languages = map[string]func([]reply) []byte{
	"ratelimit/positions.go":                                                 inGoFor("ratelimit", ""),
	"limiter/command/positions/positions.go":                                 inGoFor("positions", exported),
	"clients/node/src/positions.ts":                                          inTypeScript,
	"clients/python/src/redis_throttle/_core/positions.py":                   inPython,
	"clients/java/core/src/main/java/io/github/redisthrottle/Positions.java": inJava,
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "positions:", err)
		os.Exit(1)
	}
}

// run takes the path of the table, which is in the folder spec.
func run(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	table, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	replies, err := parse(table)
	if err != nil {
		return err
	}
	root := filepath.Dir(filepath.Dir(path))
	for name, in := range languages {
		if err := os.WriteFile(filepath.Join(root, name), in(replies), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func parse(table []byte) ([]reply, error) {
	var t struct{ Replies []reply }
	err := json.Unmarshal(table, &t)
	return t.Replies, err
}

// camel joins the words of names that underscores separate.
func camel(words ...string) string {
	var text string
	for i, word := range strings.Split(strings.Join(words, "_"), "_") {
		if i > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		text += word
	}
	return text
}

// exported is the comment of the package whose constants everybody may use.
const exported = "// Package positions says where the fields of replies with COMPACT are, also in Call.Integers of package command.\n"

// inGoFor writes a package. It exports its constants if there is a comment about it.
func inGoFor(name, comment string) func([]reply) []byte {
	return func(replies []reply) []byte {
		var b bytes.Buffer
		fmt.Fprintf(&b, "// %s\n\n%spackage %s\n\n// The positions of fields in replies with COMPACT, and how many there are.\nconst (\n", note, comment, name)
		for _, r := range replies {
			first := r.Name
			if comment != "" {
				first = strings.ToUpper(first[:1]) + first[1:]
			}
			for i, field := range r.Fields {
				fmt.Fprintf(&b, "\t%s = %d\n", camel(first, field), i)
			}
			fmt.Fprintf(&b, "\t%s = %d\n\n", camel(first, "fields"), len(r.Fields))
		}
		b.WriteString(")\n")
		text, err := format.Source(b.Bytes())
		if err != nil {
			panic(err)
		}
		return text
	}
}

func inTypeScript(replies []reply) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\n/** The positions of fields in replies with COMPACT. */\nexport const positions = {\n", note)
	for _, r := range replies {
		fmt.Fprintf(&b, "  %s: {", r.Name)
		for i, field := range r.Fields {
			fmt.Fprintf(&b, " %s: %d,", camel(field), i)
		}
		b.Truncate(b.Len() - 1)
		b.WriteString(" },\n")
	}
	b.WriteString("} as const\n")
	return b.Bytes()
}

func inPython(replies []reply) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\"\"\"The positions of fields in replies with COMPACT.\n\n%s\n\"\"\"\n", note)
	for _, r := range replies {
		b.WriteByte('\n')
		for i, field := range r.Fields {
			fmt.Fprintf(&b, "%s_%s = %d\n", strings.ToUpper(r.Name), strings.ToUpper(field), i)
		}
		fmt.Fprintf(&b, "%s_FIELDS = %d\n", strings.ToUpper(r.Name), len(r.Fields))
	}
	return b.Bytes()
}

func inJava(replies []reply) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package io.github.redisthrottle;\n\n// %s\n\n/** The positions of fields in replies with COMPACT. */\nfinal class Positions {\n", note)
	for _, r := range replies {
		for i, field := range r.Fields {
			fmt.Fprintf(&b, "  static final int %s_%s = %d;\n", strings.ToUpper(r.Name), strings.ToUpper(field), i)
		}
		fmt.Fprintf(&b, "  static final int %s_FIELDS = %d;\n\n", strings.ToUpper(r.Name), len(r.Fields))
	}
	b.WriteString("  private Positions() {}\n}\n")
	return b.Bytes()
}
