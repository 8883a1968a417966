package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// The limits of what a client may send are those of Redis.
const (
	// mostInline is how long a line may be: a command without lengths, or a length.
	mostInline = 64 << 10
	// mostBulk is how long a word may be, proto-max-bulk-len of Redis.
	mostBulk = 512 << 20
	// Before a client has given the password, its commands have so many words of so many bytes at most.
	mostWordsUnknown, mostBulkUnknown = 10, 16 << 10
)

// protocolError is what is wrong with the bytes of a client, as Redis says it. The connection is closed after it.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// errAttack is that a web page makes a browser send commands, by a POST whose body they are: Redis says nothing, and
// runs nothing behind it.
var errAttack = errors.New("a command POST or Host:, as a browser sends it")

// reader reads commands as networking.c of Redis does, which is as lenient in the same places.
type reader struct {
	*bufio.Reader
	isKnown func() bool // says whether the client has given the password by now, after all commands before were run
}

func newReader(conn io.Reader, isKnown func() bool) *reader {
	return &reader{bufio.NewReaderSize(conn, mostInline+1), isKnown}
}

// command reads the words of a command, or none of an empty one. It returns a protocolError, errAttack, or an error of
// the connection.
func (r *reader) command() (words [][]byte, err error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0] == '*' {
		words, err = r.multibulk()
	} else {
		words, err = r.inline()
	}
	if err == nil && len(words) > 0 && (bytes.EqualFold(words[0], []byte("post")) || bytes.EqualFold(words[0], []byte("host:"))) {
		return nil, errAttack
	}
	return words, err
}

func (r *reader) inline() ([][]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, protocolError("too big inline request")
	} else if err != nil {
		return nil, err
	}
	line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
	words, ok := splitWords(line)
	if !ok {
		return nil, protocolError("unbalanced quotes in request")
	}
	return words, nil
}

func (r *reader) multibulk() (words [][]byte, err error) {
	_, count, ok, err := r.length("too big mbulk count string")
	switch {
	case err != nil:
		return nil, err
	case !ok || count > math.MaxInt32:
		return nil, protocolError("invalid multibulk length")
	case count > mostWordsUnknown && !r.isKnown():
		return nil, protocolError("unauthenticated multibulk length")
	}
	left := mostAhead
	for ; count > 0; count-- {
		word, err := r.bulk()
		if err != nil {
			return nil, err
		}
		words = append(words, word)
		if left -= 24 + len(word); left < 0 {
			return nil, io.ErrShortBuffer // Redis closes the connection without a word, too: client-query-buffer-limit
		}
	}
	return words, nil
}

func (r *reader) bulk() ([]byte, error) {
	kind, length, ok, err := r.length("too big bulk count string")
	switch {
	case err != nil:
		return nil, err
	case kind == '\r' || kind == '\n': // no character of an error
		return nil, protocolError("expected '$', got ' '")
	case kind != '$':
		return nil, protocolError("expected '$', got '" + string([]byte{kind}) + "'")
	case !ok || length < 0 || length > mostBulk:
		return nil, protocolError("invalid bulk length")
	case length > mostBulkUnknown && !r.isKnown():
		return nil, protocolError("unauthenticated bulk length")
	}
	var word bytes.Buffer // grows with what comes, not with what was announced
	word.Grow(int(min(length, mostBulkUnknown)))
	if _, err := io.CopyN(&word, r, length); err != nil {
		return nil, err
	}
	_, err = r.Discard(2)
	return word.Bytes(), err
}

// length reads a line of a kind and a length. The line ends at \r and one more byte, whatever that is. ok is false if
// the length is none.
func (r *reader) length(tooLong string) (kind byte, n int64, ok bool, err error) {
	line, err := r.ReadSlice('\r')
	if errors.Is(err, bufio.ErrBufferFull) {
		return 0, 0, false, protocolError(tooLong)
	} else if err != nil {
		return 0, 0, false, err
	}
	kind = line[0]
	digits := strings.TrimSuffix(string(line[1:]), "\r")
	n, err = strconv.ParseInt(digits, 10, 64)
	ok = err == nil && strconv.FormatInt(n, 10) == digits
	_, err = r.Discard(1)
	return kind, n, ok, err
}

// splitWords splits a line as sdssplitargs of Redis does: words may be quoted by " with escapes, or by '. A quote that
// is not closed, or that something follows at once, is none.
func splitWords(line []byte) (words [][]byte, ok bool) {
	if end := bytes.IndexByte(line, 0); end >= 0 { // a string ends there
		line = line[:end]
	}
	for {
		line = bytes.TrimLeft(line, spaces)
		if len(line) == 0 {
			return words, true
		}
		word := []byte{}
		for len(line) > 0 && !isSpace(line[0]) {
			if line[0] != '"' && line[0] != '\'' {
				word, line = append(word, line[0]), line[1:]
				continue
			}
			if word, line, ok = unquote(word, line); !ok || len(line) > 0 && !isSpace(line[0]) {
				return nil, false
			}
		}
		words = append(words, word)
	}
}

const spaces = " \t\n\v\f\r"

func isSpace(c byte) bool { return strings.IndexByte(spaces, c) >= 0 }

// unquote adds what a line begins with, up to the closing quote, and returns the rest.
func unquote(word, line []byte) (longer, rest []byte, ok bool) {
	quote := line[0]
	for line = line[1:]; len(line) > 0; {
		switch {
		case line[0] == quote:
			return word, line[1:], true
		case quote == '\'' && bytes.HasPrefix(line, []byte(`\'`)):
			word, line = append(word, '\''), line[2:]
		case quote == '"' && line[0] == '\\' && len(line) > 1:
			if len(line) > 3 && line[1] == 'x' {
				if code, err := strconv.ParseUint(string(line[2:4]), 16, 8); err == nil {
					word, line = append(word, byte(code)), line[4:]
					continue
				}
			}
			escaped := line[1]
			if at := strings.IndexByte("nrtba", escaped); at >= 0 {
				escaped = "\n\r\t\b\a"[at]
			}
			word, line = append(word, escaped), line[2:]
		default:
			word, line = append(word, line[0]), line[1:]
		}
	}
	return nil, nil, false
}
