package examples

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// sent is how many integers a server of this version sends.
const sent = 10

// readBy is how many of them an example reads.
func readBy(name string) int {
	switch name {
	case "go-redis", "python-redis-py", "node-redis": // their packages read all
		return sent
	}
	return 9
}

// A compact reply as RESP has it: a line for each integer.
type lines []string

// Replies are read by position: integers that a newer server adds at the end are ignored. A
// reply that is too short, or has something else among its integers, lets no request through.
func TestRepliesAreReadByPosition(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := readBy(name)
			l := startLink(t, server.Start(t))
			page := serve(t, name, []string{"REDIS_URL=redis://" + l.addr}, plenty)
			page.awaitLimit(t, "at the beginning")
			for _, c := range []struct {
				form   string
				change func(lines) lines
				ok     bool
			}{
				{"one more integer", func(reply lines) lines { return append(reply, ":7") }, true},
				{"nine more integers", func(reply lines) lines { return append(reply, reply...) }, true},
				{"as many as are read", func(reply lines) lines { return reply[:read] }, true},
				{"one integer less", func(reply lines) lines { return reply[:read-1] }, false},
				{"the first integer only", func(reply lines) lines { return reply[:1] }, false},
				{"an empty array", func(lines) lines { return nil }, false},
				{"a word among the integers", func(reply lines) lines { return slices.Replace(reply, 3, 4, "+many") }, false},
				{"names and values in turn", withNames, false},
			} {
				l.change.Store(&c.change)
				status, limited := page.get(t)
				require.Equal(t, c.ok, limited, "%s: was the reply understood?\n%s", c.form, page.stderr.String())
				require.Equal(t, map[bool]int{true: http.StatusOK, false: http.StatusInternalServerError}[c.ok], status, c.form)
			}
		})
	}
}

// withNames is the reply without COMPACT, in RESP2.
func withNames(reply lines) (pairs lines) {
	for i, name := range []string{"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms"} {
		pairs = append(pairs, "+"+name, reply[i])
	}
	return pairs
}

// link is a network to a server that changes compact replies on their way.
type link struct {
	addr   string
	change atomic.Pointer[func(lines) lines]
}

func startLink(t *testing.T, s *server.Server) *link {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	l := &link{addr: listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go l.carry(near, s.Addr())
		}
	}()
	return l
}

func (l *link) carry(near net.Conn, address string) {
	defer near.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	for from := bufio.NewReader(far); ; {
		reply, err := l.next(from)
		if err != nil {
			return
		}
		if _, err := near.Write(reply); err != nil {
			return
		}
	}
}

// next is the next line from a server, or the whole of a compact reply, changed. No other
// reply to these clients is an array of so many that begins with an integer.
func (l *link) next(from *bufio.Reader) ([]byte, error) {
	head, err := from.ReadBytes('\n')
	change := l.change.Load()
	if err != nil || change == nil || string(head) != fmt.Sprintf("*%d\r\n", sent) {
		return head, err
	}
	if first, err := from.Peek(1); err != nil || first[0] != ':' {
		return head, err
	}
	var reply lines
	for range sent {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		reply = append(reply, string(bytes.TrimRight(line, "\r\n")))
	}
	reply = (*change)(reply)
	changed := fmt.Appendf(nil, "*%d\r\n", len(reply))
	for _, line := range reply {
		changed = fmt.Appendf(changed, "%s\r\n", line)
	}
	return changed, nil
}
