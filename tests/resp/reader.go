package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// What a server may send at most, so that a broken length ends in an error and not
// in gigabytes of waiting.
const (
	maxBulkBytes = 512 << 20 // proto-max-bulk-len's default
	maxElements  = 1 << 20
	maxDepth     = 16
	maxLineBytes = 64 << 10
)

// ErrMalformed is wrapped by every error that says the server broke the protocol,
// as opposed to the connection having ended.
var ErrMalformed = errors.New("malformed reply")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Reader reads replies and refuses whatever the protocol does not allow.
type Reader struct {
	r *bufio.Reader
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, maxLineBytes)}
}

// Read returns the next reply. The error is io.EOF when the connection ended
// between two replies, and io.ErrUnexpectedEOF when it ended inside one.
func (r *Reader) Read() (Value, error) {
	if _, err := r.r.Peek(1); err != nil {
		return Value{}, err
	}
	v, err := r.value(0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

var (
	integerText = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	doubleText  = regexp.MustCompile(`^(-?inf|nan|-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?)$`)
)

func (r *Reader) value(depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, malformed("nested deeper than %d", maxDepth)
	}
	line, err := r.line()
	if err != nil {
		return Value{}, err
	}
	if line == "" {
		return Value{}, malformed("empty line where a reply begins")
	}
	v := Value{Kind: Kind(line[0])}
	text := line[1:]
	switch v.Kind {
	case SimpleString, Error:
		v.Text = text
		return v, nil
	case Integer:
		v.Text = text
		v.Int, err = integer(text)
		return v, err
	case BulkString, BulkError, VerbatimString:
		return r.bulk(v, text)
	case Array, Set, Push:
		return r.elements(v, text, 1, depth)
	case Map:
		return r.elements(v, text, 2, depth)
	case Null:
		v.IsNull = true
		return v, check(text == "", "null with text %q", text)
	case Boolean:
		v.Text = text
		if text == "t" {
			v.Int = 1
		}
		return v, check(text == "t" || text == "f", "boolean %q", text)
	case Double:
		v.Text = text
		return v, check(doubleText.MatchString(text), "double %q", text)
	case BigNumber:
		v.Text = text
		return v, check(integerText.MatchString(text), "big number %q", text)
	}
	return v, malformed("unknown kind in line %q", line)
}

// line reads up to CR LF and returns what is before it, which holds neither.
func (r *Reader) line() (string, error) {
	raw, err := r.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", malformed("line of more than %d bytes", maxLineBytes)
	}
	if err != nil {
		return "", err
	}
	text, ok := strings.CutSuffix(string(raw), "\r\n")
	if !ok || strings.ContainsRune(text, '\r') {
		return "", malformed("line %q does not end in one CR LF", raw)
	}
	return text, nil
}

func (r *Reader) bulk(v Value, length string) (Value, error) {
	n, err := integer(length)
	switch {
	case err != nil:
		return v, err
	case n == -1 && v.Kind == BulkString:
		v.IsNull = true
		return v, nil
	case n < 0 || n > maxBulkBytes:
		return v, malformed("length %d of a bulk string", n)
	}
	buf := make([]byte, n+2)
	if _, err := io.ReadFull(r.r, buf); err != nil {
		return v, err
	}
	v.Text = string(buf[:n])
	if string(buf[n:]) != "\r\n" {
		return v, malformed("bulk string of %d bytes is followed by %q", n, buf[n:])
	}
	if v.Kind == VerbatimString {
		return v, check(n >= 4 && v.Text[3] == ':', "verbatim string %q has no format", v.Text)
	}
	return v, nil
}

func (r *Reader) elements(v Value, count string, perEntry int64, depth int) (Value, error) {
	n, err := integer(count)
	switch {
	case err != nil:
		return v, err
	case n == -1 && v.Kind == Array:
		v.IsNull = true
		return v, nil
	case n < 0 || n > maxElements:
		return v, malformed("%d elements", n)
	}
	v.Elems = make([]Value, n*perEntry)
	for i := range v.Elems {
		if v.Elems[i], err = r.value(depth + 1); err != nil {
			return v, err
		}
	}
	return v, nil
}

func integer(text string) (int64, error) {
	if !integerText.MatchString(text) {
		return 0, malformed("integer %q", text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, malformed("integer %q: %v", text, err)
	}
	return n, nil
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return malformed(format, args...)
}

// SkipSnapshot reads past the snapshot that a master sends a new replica: empty lines
// to keep the link alive, a length like a bulk string's, and that many bytes with no
// line end after them.
func (r *Reader) SkipSnapshot() error {
	for {
		b, err := r.r.ReadByte()
		if err != nil {
			return err
		}
		if b == '\n' {
			continue
		}
		if err := r.r.UnreadByte(); err != nil {
			return err
		}
		break
	}
	line, err := r.line()
	if err != nil {
		return err
	}
	length, ok := strings.CutPrefix(line, "$")
	if !ok {
		return malformed("%q where a snapshot begins", line)
	}
	n, err := integer(length)
	if err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, r.r, n)
	return err
}
