package logs

import (
	"bufio"
	"bytes"
	"io"
)

// Objects returns a stream with each JSON object on a line of its own, where it is an array of objects, or objects of
// several lines. Any other stream is returned as it is.
func Objects(from io.Reader) io.Reader {
	r := bufio.NewReaderSize(from, 64<<10)
	start, _ := r.Peek(512)
	start = bytes.TrimLeft(bytes.TrimPrefix(start, byteOrderMark), " \t\r\n")
	inner, isArray := bytes.CutPrefix(start, []byte("["))
	if inner = bytes.TrimLeft(inner, " \t\r\n"); isArray && bytes.HasPrefix(inner, []byte("{")) {
		return &objects{from: r}
	}
	line, _, _ := bytes.Cut(start, []byte("\n"))
	if string(bytes.TrimSpace(line)) == "{" {
		return &objects{from: r}
	}
	return r
}

// objects takes out what stands between objects, and line ends within them.
type objects struct {
	from               *bufio.Reader
	depth              int
	isString, isEscape bool
	err                error
}

func (o *objects) Read(to []byte) (n int, err error) {
	for n+2 <= len(to) {
		if o.err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, o.err
		}
		c, err := o.from.ReadByte()
		if err != nil {
			o.err = err
			continue
		}
		switch {
		case o.isEscape:
			o.isEscape = false
		case o.isString:
			o.isEscape, o.isString = c == '\\', c != '"'
		case c == '"':
			o.isString = o.depth > 0
		case c == '{':
			o.depth++
		case c == '}' && o.depth > 0:
			if o.depth--; o.depth == 0 {
				to[n], to[n+1] = c, '\n'
				n += 2
				continue
			}
		case c == '\n' || c == '\r':
			c = ' '
		}
		if o.depth > 0 {
			to[n] = c
			n++
		}
	}
	return n, nil
}
