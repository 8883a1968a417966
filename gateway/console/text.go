package console

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Key is a key as the page shows it, and as it sends it back.
type Key struct {
	Text  string `json:"text"`          // on one line, with escapes for what is not printed
	Bytes int    `json:"bytes"`         // how long it is
	Raw   []byte `json:"raw,omitempty"` // none if the key is not known whole
}

// shownKey is how much of a key the page shows, in bytes.
const shownKey = 160

// longestRaw bounds a key that can be acted on from a list. A longer one can be typed.
const longestRaw = 16 << 10

func keyOf(name string) Key {
	k := Key{Text: shown(name, shownKey), Bytes: len(name)}
	if len(name) <= longestRaw {
		k.Raw = []byte(name)
	}
	return k
}

// topName is how many bytes of a key CL.TOP shows.
const topName = 128

// keyOfTop is a key of CL.TOP, which may have been cut.
func keyOfTop(name string) Key {
	k := keyOf(name)
	if len(name) >= topName {
		k.Text, k.Raw = k.Text+"…", nil
	}
	return k
}

// shown is text on one line of at most so many bytes. What is not printed is escaped as in Go: control characters, what
// is not UTF-8, and what turns the direction of text around.
func shown(text string, most int) string {
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		word := text[i : i+size]
		if r != '"' {
			quoted := strconv.Quote(word)
			word = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(word) > most {
			b.WriteString("…")
			break
		}
		b.WriteString(word)
	}
	return b.String()
}

// said is an error without the arguments that a server repeats: they hold keys.
func said(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args")
	return shown(text, 400)
}
