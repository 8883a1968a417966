package resp

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWellFormedRepliesAreRead(t *testing.T) {
	for wire, want := range map[string]string{
		"+OK\r\n":                      `"OK"`,
		"+\r\n":                        `""`,
		"-ERR no\r\n":                  "(error) ERR no",
		":-1\r\n":                      "-1",
		":9223372036854775807\r\n":     "9223372036854775807",
		"$4\r\na\r\nb\r\n":             `"a\r\nb"`,
		"$0\r\n\r\n":                   `""`,
		"$-1\r\n":                      "(null)",
		"*-1\r\n":                      "(null array)",
		"*0\r\n":                       "*[]",
		"*2\r\n:1\r\n*1\r\n+a\r\n":     `*[1 *["a"]]`,
		"_\r\n":                        "(null)",
		"#t\r\n":                       `"t"`,
		",1.5\r\n":                     `"1.5"`,
		"%1\r\n+a\r\n:1\r\n":           `%["a" 1]`,
		"~1\r\n:1\r\n":                 "~[1]",
		">1\r\n+message\r\n":           `>["message"]`,
		"=7\r\ntxt:a b\r\n":            `"txt:a b"`,
		"!5\r\nERR x\r\n":              "(error) ERR x",
		"(12345678901234567890123\r\n": `"12345678901234567890123"`,
	} {
		v, err := NewReader(strings.NewReader(wire)).Read()
		if assert.NoError(t, err, "%q", wire) {
			assert.Equal(t, want, v.String(), "%q", wire)
		}
	}
}

func TestMalformedRepliesAreRefused(t *testing.T) {
	for _, wire := range []string{
		"+OK\n", "+O\rK\r\n", "\r\n", "hello\r\n",
		":\r\n", ":1.5\r\n", ":01\r\n", ":-0\r\n", ":+1\r\n", ":9223372036854775808\r\n",
		"$-2\r\n", "$1\r\nab\r\n", "$1\r\na\n\n", "$x\r\n", "$999999999999\r\n",
		"*-2\r\n", "*1\r\nx\r\n", "%-1\r\n", "_x\r\n", "#x\r\n", ",1.\r\n", "(1.5\r\n", "=1\r\na\r\n",
		strings.Repeat("*1\r\n", 100),
		"+" + strings.Repeat("a", maxLineBytes) + "\r\n",
	} {
		_, err := NewReader(strings.NewReader(wire)).Read()
		assert.ErrorIs(t, err, ErrMalformed, "%.40q", wire)
	}
}

func TestTheEndOfAConnectionIsNoMalformedReply(t *testing.T) {
	_, err := NewReader(strings.NewReader("")).Read()
	require.ErrorIs(t, err, io.EOF)
	for _, wire := range []string{"+O", ":1\r", "$5\r\nab", "*2\r\n:1\r\n"} {
		_, err := NewReader(strings.NewReader(wire)).Read()
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", wire)
	}
}
