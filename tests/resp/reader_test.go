package resp

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
