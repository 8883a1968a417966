// Package quote writes texts of clients so that a line can hold them.
package quote

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CLI is text in quotation marks as redis-cli reads it. What is not printable, and what turns the direction of writing,
// is \x and two digits.
func CLI(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for at := 0; at < len(text); {
		c, n := utf8.DecodeRuneInString(text[at:])
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == utf8.RuneError && n == 1 || !IsPlain(c):
			for _, c := range []byte(text[at : at+n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteRune(c)
		}
		at += n
	}
	b.WriteByte('"')
	return b.String()
}

// IsPlain reports whether a character is shown as it is.
func IsPlain(c rune) bool { return unicode.IsPrint(c) && !unicode.Is(unicode.Bidi_Control, c) }
