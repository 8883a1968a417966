package topology

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// Link is a network between a server and clients that connect to it through the link,
// on a port of its own. It can stand still, as networks do, with both ends none the
// wiser.
type Link struct {
	Port int

	listener net.Listener
	// gate is held for reading by a byte in passage and for writing by Hold.
	gate sync.RWMutex
	held bool

	mu     sync.Mutex
	target string // of new connections
	ended  bool
	conns  []net.Conn
}

// LinkTo makes a link to a server. It ends with the test.
func LinkTo(t testing.TB, s *server.Server) *Link {
	t.Helper()
	return LinkToAddress(t, s.Addr())
}

// LinkToAddress is LinkTo for a server of any kind.
func LinkToAddress(t testing.TB, address string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &Link{Port: listener.Addr().(*net.TCPAddr).Port, listener: listener, target: address}
	go l.accept()
	t.Cleanup(l.end)
	return l
}

// Hold makes the link stand still: once it returns, nothing more arrives at either
// end until Release.
func (l *Link) Hold() {
	l.gate.Lock()
	l.held = true
}

// Release undoes Hold: all that was sent meanwhile arrives.
func (l *Link) Release() {
	l.held = false
	l.gate.Unlock()
}

// LeadTo has new connections lead to another server. Those that are open stay where they are.
func (l *Link) LeadTo(s *server.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = s.Addr()
}

func (l *Link) leadsTo() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return // the link has ended
		}
		far, err := net.Dial("tcp", l.leadsTo())
		if err != nil {
			_ = near.Close()
			continue
		}
		if !l.keep(near, far) {
			return
		}
		go l.carry(far, near)
		go l.carry(near, far)
	}
}

// keep notes connections, to be closed at the end; ok is false when that has come.
func (l *Link) keep(conns ...net.Conn) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		closeAll(conns)
		return false
	}
	l.conns = append(l.conns, conns...)
	return true
}

// carry moves bytes one way. When that ends, so does the other way.
func (l *Link) carry(to, from net.Conn) {
	defer closeAll([]net.Conn{to, from})
	_, _ = io.Copy(gated{to, &l.gate}, from) // either end may go at any time
}

func (l *Link) end() {
	if l.held {
		l.Release()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	_ = l.listener.Close()
	closeAll(l.conns)
}

// gated writes while the gate is open.
type gated struct {
	w    io.Writer
	gate *sync.RWMutex
}

func (g gated) Write(b []byte) (int, error) {
	g.gate.RLock()
	defer g.gate.RUnlock()
	return g.w.Write(b)
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close() // may be closed already, by the other way
	}
}
