package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Lines are split as Redis does it.
func TestLinesAreSplitIntoWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                      nil,
		" \t\r ":                nil,
		"PING":                  {"PING"},
		"  SET  k\t v ":         {"SET", "k", "v"},
		`SET "a b" 'c d'`:       {"SET", "a b", "c d"},
		`ECHO "\x41\n\"\q\xzz"`: {"ECHO", "A\n\"qxzz"},
		`ECHO 'it\'s' ''`:       {"ECHO", "it's", ""},
		`ECHO a"b"`:             {"ECHO", "ab"},
		"ECHO a\x00b":           {"ECHO", "a"},
	} {
		words, ok := splitWords([]byte(line))
		assert.True(t, ok, line)
		assert.Equal(t, len(want), len(words), line)
		for i := range want {
			assert.Equal(t, want[i], string(words[i]), line)
		}
	}
	for _, line := range []string{`"`, `'`, `ECHO "a`, `ECHO "a"b`, `ECHO 'a'b`, `ECHO "a\"`, `ECHO "\`} {
		_, ok := splitWords([]byte(line))
		assert.False(t, ok, line)
	}
}

// logged is what the server logs during a test.
func logged(t *testing.T) *safeBuffer {
	var b safeBuffer
	log.SetOutput(&b)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	return &b
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// sends opens a connection and sends bytes.
func sends(t *testing.T, s *server, sent []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write(sent)
	require.NoError(t, err)
	return conn
}

// exchange sends bytes and returns all that comes back until the server closes the connection.
func exchange(t *testing.T, s *server, sent string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	go func() { _, _ = conn.Write([]byte(sent)) }()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(within1m)))
	got, err := io.ReadAll(conn)
	if err != nil {
		require.NotErrorIs(t, err, net.ErrClosed)
		require.False(t, isTimeout(err), "the server does not close the connection")
	}
	return string(got)
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}

// A web page can have a browser POST commands to a port of the machine. None of them is run.
func TestNoCommandBehindAPOSTIsRun(t *testing.T) {
	says := logged(t)
	s := start(t, "")
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: localhost:6379\r\nContent-Length: 11\r\n\r\nSET k v\r\n",
		"post / HTTP/1.1\r\n\r\nSET k v\r\n",
		"GET / HTTP/1.1\r\nHost: localhost:6379\r\n\r\nSET k v\r\n",
		"OPTIONS / HTTP/1.1\r\nhost: localhost:6379\r\n\r\nSET k v\r\n",
		"*1\r\n$4\r\nPOST\r\nSET k v\r\n",
	} {
		assert.NotContains(t, exchange(t, s, request), "+OK", request)
	}
	assert.Equal(t, ":0", connect(t, s).do("EXISTS k"))
	assert.Equal(t, 1, strings.Count(says.String(), "POST or Host:"), "it is said once: %s", says)
}

// What was sent before bad bytes is answered before them, also when it waits.
func TestBadBytesAreAnsweredInTheirPlace(t *testing.T) {
	s := start(t, "")
	c := connect(t, s)
	conn := sends(t, s, []byte("PING\r\nBLPOP k 0\r\nPING\r\n*x\r\nPING\r\n"))
	awaitWaiting(t, c, 1)
	c.do("RPUSH k x")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(within1m)))
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "+PONG *2 $1 k $1 x +PONG -ERR Protocol error: invalid multibulk length", oneLine(string(got)))

	gone := sends(t, s, []byte("BLPOP k 0\r\n*x\r\n"))
	awaitWaiting(t, c, 1)
	require.NoError(t, gone.Close())
	awaitWaiting(t, c, 0)
}

// heap is how many bytes of memory are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Neither bytes without an end nor announced lengths take memory.
func TestWhatIsNoCommandTakesNoMemory(t *testing.T) {
	s := start(t, "")
	before := heap()
	for sent, want := range map[string]string{
		strings.Repeat("x", 8<<20):             "-ERR Protocol error: too big inline request",
		"*" + strings.Repeat("1", 8<<20):       "-ERR Protocol error: too big mbulk count string",
		"*1\r\n$" + strings.Repeat("1", 8<<20): "-ERR Protocol error: too big bulk count string",
		"*1\r\n$536870913\r\n":                 "-ERR Protocol error: invalid bulk length",
	} {
		got := exchange(t, s, sent)
		assert.True(t, got == "" || oneLine(got) == want, "%.100q", got) // a connection that is closed with bytes unread may be reset
	}
	for range 10 {
		conn := sends(t, s, []byte("PING\r\n*2147483647\r\n$536870912\r\nx"))
		_, err := io.ReadFull(conn, make([]byte, len("+PONG\r\n")))
		require.NoError(t, err)
	}
	assert.Less(t, heap()-before, int64(32<<20))
}

// A client that sends and does not read is disconnected. What it left unread takes no more memory than the limit says.
func TestAClientThatLeavesTooMuchUnreadIsDisconnected(t *testing.T) {
	says := logged(t)
	s := start(t, "")
	c := connect(t, s)
	const big = 1 << 20
	c.do("SET big " + strings.Repeat("x", big))
	before := heap()
	sends(t, s, []byte(strings.Repeat("GET big\r\n", 10*mostUnread/big)))
	most := before
	require.Eventually(t, func() bool {
		most = max(most, heap())
		return strings.Count(c.do("CLIENT LIST"), "id=") == 1
	}, within1m, time.Millisecond)
	assert.Less(t, most-before, int64(2*mostUnread))
	assert.Contains(t, says.String(), fmt.Sprintf("it leaves more than %d MB of replies unread", mostUnread>>20))

	// One that reads gets as much as it asks for, whatever the size of a reply.
	c.do("SET big " + strings.Repeat("x", mostUnread+big))
	assert.Len(t, c.do("GET big"), mostUnread+big+len(fmt.Sprintf("$%d ", mostUnread+big)))
}

// remote is a listener whose clients seem to be on another machine.
type remote struct{ net.Listener }

func (r remote) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	return elsewhere{conn}, err
}

type elsewhere struct{ net.Conn }

func (elsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// In protected mode clients of other machines are sent away, and those of this one are not.
func TestProtectedModeIsForOtherMachines(t *testing.T) {
	for _, test := range []struct{ isProtected, isRemote, served bool }{{true, true, false}, {true, false, true}, {false, true, true}} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		if test.isRemote {
			listener = remote{listener}
		}
		s, err := newServer(listener, "")
		require.NoError(t, err)
		s.isProtected = test.isProtected
		go s.serve()
		t.Cleanup(s.close)
		got := exchange(t, s, "QUIT\r\n")
		assert.Equal(t, test.served, got == "+OK\r\n", got)
		assert.Equal(t, !test.served, strings.HasPrefix(got, "-DENIED ") && strings.Contains(got, "--protected-mode no"), got)
	}
}
