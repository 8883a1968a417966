package main

import (
	"errors"
	"strconv"
	"strings"

	"redis-throttle/internal/quote"
)

// split reads the words of a line as redis-cli does: those in quotation marks may have blanks, and in double ones \n,
// \x41 and the like.
func split(line string) (words []string, err error) {
	for line = strings.TrimLeft(line, blanks); line != ""; line = strings.TrimLeft(line, blanks) {
		var one string
		if one, line, err = firstWord(line); err != nil {
			return nil, err
		}
		words = append(words, one)
	}
	return words, nil
}

const blanks = " \t\r\n\v\f"

// firstWord returns the word that a text begins with, and what comes behind it.
func firstWord(text string) (one, rest string, err error) {
	quote := text[0]
	if quote != '"' && quote != '\'' {
		end := strings.IndexAny(text+" ", blanks)
		return text[:end], text[end:], nil
	}
	var b []byte
	for rest = text[1:]; rest != ""; {
		switch c := rest[0]; {
		case c == quote:
			if rest = rest[1:]; rest != "" && !strings.ContainsAny(rest[:1], blanks) {
				return "", "", errors.New("behind the quotation mark that ends a word, a blank is missing")
			}
			return string(b), rest, nil
		case c == '\\' && quote == '\'' && strings.HasPrefix(rest, `\'`):
			b, rest = append(b, '\''), rest[2:]
		case c == '\\' && quote == '"' && len(rest) > 1:
			one, n := escaped(rest)
			b, rest = append(b, one), rest[n:]
		default:
			b, rest = append(b, c), rest[1:]
		}
	}
	return "", "", errors.New("a quotation mark without an end")
}

// escaped reads what a backslash stands for, and how many bytes that takes.
func escaped(text string) (c byte, n int) {
	if text[1] == 'x' && len(text) > 3 {
		if b, err := strconv.ParseUint(text[2:4], 16, 8); err == nil {
			return byte(b), 4
		}
	}
	if at := strings.IndexByte("nrtba", text[1]); at >= 0 {
		return "\n\r\t\b\a"[at], 2
	}
	return text[1], 2
}

// word is text as one word of redis-cli, in quotation marks where it needs them.
func word(text string) string {
	if q := quote.CLI(text); text == "" || q != `"`+text+`"` || strings.ContainsAny(text, " '") {
		return q
	}
	return text
}
