package logs

import (
	"bytes"
	"errors"
	"io"
)

// longestLine is the longest line that is read, in bytes. Longer ones are skipped.
const longestLine = 1 << 20

// mostJoined is how many lines a value of a CSV file may have.
const mostJoined = 100

// Lines cuts a stream into lines.
type Lines struct {
	// Join has a line go on while a quotation mark is open, as in CSV.
	Join bool

	from   io.Reader
	buf    []byte
	at     int // of the next line in buf[:end]
	end    int
	err    error // of from
	number int64
	begun  bool
}

// NewLines returns the lines of a stream.
func NewLines(from io.Reader) *Lines { return &Lines{from: from, buf: make([]byte, 256<<10)} }

// Number is the number of the line that Next returned last. The first is 1.
func (l *Lines) Number() int64 { return l.number }

// Start returns the whole lines that the stream begins with, up to 64 KiB. It reads without moving on.
func (l *Lines) Start() []byte {
	for l.err == nil && l.end < 64<<10 {
		l.fill()
	}
	start := l.buf[l.at:l.end]
	start = bytes.TrimPrefix(start, byteOrderMark)
	if last := bytes.LastIndexByte(start, '\n'); last >= 0 && l.err == nil {
		start = start[:last+1]
	}
	return start
}

var byteOrderMark = []byte("\ufeff")

// Next returns the next line without its end, valid until the call after it. The error is TooLong, of that line alone,
// or that of the stream: io.EOF at its end. What comes behind the last line end is a line, too.
func (l *Lines) Next() (line []byte, err error) {
	l.number++
	searched, scanned, open := l.at, 1, false
	for {
		end := bytes.IndexByte(l.buf[searched:l.end], '\n')
		if end >= 0 {
			end += searched
			if l.Join {
				open = open != (bytes.Count(l.buf[searched:end], []byte{'"'})%2 == 1)
				if open && scanned < mostJoined {
					searched = end + 1
					scanned++
					continue
				}
				if open { // the mark was no beginning of a value: the first line stands for itself
					end = l.at + bytes.IndexByte(l.buf[l.at:], '\n')
				}
			}
			line, l.at = l.buf[l.at:end], end+1
			return l.trim(line), nil
		}
		if l.err != nil {
			return l.last()
		}
		if l.end-l.at > longestLine {
			return nil, l.skip()
		}
		if l.Join { // counted again from the start of the line: the buffer may move
			searched, scanned, open = l.at, 1, false
		} else {
			searched = l.end
		}
		moved := l.at
		l.fill()
		if l.at == 0 {
			searched -= moved
		}
	}
}

// last returns what stands behind the last line end.
func (l *Lines) last() ([]byte, error) {
	rest := l.buf[l.at:l.end]
	if l.Join && bytes.Count(rest, []byte{'"'})%2 == 1 { // a quotation mark that nothing closes: line by line
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			l.at += end + 1
			return l.trim(rest[:end]), nil
		}
	}
	l.at = l.end
	if len(rest) == 0 {
		l.number--
		return nil, l.err
	}
	if !errors.Is(l.err, io.EOF) { // the end of the line is missing
		return nil, l.err
	}
	return l.trim(rest), nil
}

func (l *Lines) trim(line []byte) []byte {
	if !l.begun {
		l.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// skip drops a line that is too long.
func (l *Lines) skip() error {
	for l.err == nil {
		l.at, l.end = 0, 0
		l.fill()
		if end := bytes.IndexByte(l.buf[:l.end], '\n'); end >= 0 {
			l.at = end + 1
			return TooLong
		}
	}
	l.at = l.end
	return TooLong
}

// fill reads on. It moves what is left to the front of the buffer, which grows if it is full.
func (l *Lines) fill() {
	if l.at > 0 && (l.at == l.end || l.end == len(l.buf)) {
		l.end = copy(l.buf, l.buf[l.at:l.end])
		l.at = 0
	}
	if l.end == len(l.buf) {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	n, err := l.from.Read(l.buf[l.end:])
	l.end += n
	l.err = err
}
