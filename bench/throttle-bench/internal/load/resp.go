package load

import (
	"bytes"
	"strconv"
	"strings"
)

// encode writes a command as an array of bulk strings, and says where in it
// RandomKey stands.
func encode(args []string) (request []byte, positions []int) {
	var b bytes.Buffer
	writeLength := func(kind byte, n int) {
		b.WriteByte(kind)
		b.WriteString(strconv.Itoa(n))
		b.WriteString("\r\n")
	}
	writeLength('*', len(args))
	for _, arg := range args {
		writeLength('$', len(arg))
		for at := 0; ; at += len(RandomKey) {
			next := strings.Index(arg[at:], RandomKey)
			if next < 0 {
				break
			}
			at += next
			positions = append(positions, b.Len()+at)
		}
		b.WriteString(arg)
		b.WriteString("\r\n")
	}
	return b.Bytes(), positions
}

// replyEnd is the index after the RESP2 reply that begins at from, or -1 where the
// reply is not complete.
func replyEnd(b []byte, from int) int {
	if from >= len(b) {
		return -1
	}
	line := bytes.Index(b[from:], []byte("\r\n"))
	if line < 0 {
		return -1
	}
	body := from + line + 2
	switch b[from] {
	case '$':
		if n := length(b[from+1 : body-2]); n >= 0 {
			body += n + 2
		}
		if body > len(b) {
			return -1
		}
	case '*':
		for range length(b[from+1 : body-2]) {
			if body = replyEnd(b, body); body < 0 {
				return -1
			}
		}
	}
	return body
}

// length is -1 for a null.
func length(digits []byte) int {
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		return -1
	}
	return n
}
