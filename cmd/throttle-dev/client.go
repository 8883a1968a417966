package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	dev "github.com/alicebob/miniredis/v2/server"
	"github.com/tidwall/redcon"

	"redis-throttle/embedded"
)

// mostUnread is how many bytes a client may leave unread before its connection is closed.
const mostUnread = 256 << 20

// client is a connection. One goroutine reads its commands, one runs them, and one writes the replies, so that a client that does not read
// holds up nobody.
type client struct {
	server *server
	conn   net.Conn
	in     *inbox
	out    *outbox
	gone   chan struct{}

	// What follows belongs to the holder of server.mu.
	id            int64
	peer          *dev.Peer // what miniredis knows of the connection
	db            int
	name, library string
	command       string // the last, in capitals
	since         time.Time
	authenticated bool
	leaves        bool // after this command
	tracks        bool // CLIENT TRACKING
	transaction

	// Of a client that waits: for a caller of the host waiter, for another command the words, the reply if there is nothing for it,
	// and until when, 0 for as long as it takes.
	waiter     embedded.Waiter
	words      [][]byte
	nothing    string
	deadlineNs int64
	woken      chan struct{} // is sent to once the reply is written
}

func (s *server) newClient(conn net.Conn) *client {
	c := &client{
		server: s, conn: conn, in: newInbox(), out: newOutbox(conn), gone: make(chan struct{}), since: time.Now(),
		authenticated: s.password == "", woken: make(chan struct{}, 1),
	}
	c.peer = dev.NewPeer(bufio.NewWriter(c.out))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	c.id = s.lastID
	s.clients[c.id] = c
	return c
}

// serve runs the client's commands until it has gone.
func (c *client) serve() {
	defer c.server.forget(c)
	defer c.out.close()
	defer c.in.end()
	go c.read()
	for {
		words, more, ok := c.in.take()
		if !ok {
			break
		}
		if len(words) == 0 {
			continue
		}
		c.server.run(c, words)
		if !c.await() {
			return
		}
		if c.leaves {
			c.peer.Flush()
			return
		}
		if !more {
			c.peer.Flush()
		}
	}
	c.peer.Flush()
}

// read reads commands until the client is gone, or sends what is none.
func (c *client) read() {
	defer c.in.end()
	defer close(c.gone)
	for r := redcon.NewReader(c.conn); ; {
		command, err := r.ReadCommand()
		if err != nil {
			if text := err.Error(); strings.HasPrefix(text, "Protocol error") {
				c.fail("ERR " + text)
				c.peer.Flush()
			}
			return
		}
		if !c.in.put(command.Args) {
			return
		}
	}
}

// await waits for the answer if there is none yet. It returns false if the client has gone.
func (c *client) await() bool {
	c.server.mu.Lock()
	waits := c.waits()
	c.server.mu.Unlock()
	if !waits {
		select { // an answer may have come since
		case <-c.woken:
		default:
		}
		return true
	}
	c.peer.Flush()
	c.in.wait(true)
	defer c.in.wait(false)
	select {
	case <-c.woken:
		return true
	case <-c.gone:
	case <-c.server.closing:
	}
	return false
}

func (c *client) waits() bool { return c.waiter != 0 || c.words != nil }

// answer ends a wait.
func (c *client) answer(write func(*dev.Writer)) {
	c.waiter, c.words, c.deadlineNs = 0, nil, 0
	c.peer.Block(write)
	c.peer.Flush()
	c.woken <- struct{}{}
}

// stopWaiting leaves the line without an answer.
func (c *client) stopWaiting() {
	if c.waiter != 0 {
		delete(c.server.waiting, c.waiter)
		c.server.host.Disconnect(c.server.now(), c.waiter)
	}
	c.server.unblock(c)
	c.waiter, c.words, c.deadlineNs = 0, nil, 0
}

func (c *client) fail(text string) { c.peer.WriteError(text) }

// describe is the client's line in CLIENT LIST.
func (c *client) describe() string {
	resp, multi, age := "2", -1, int(time.Since(c.since).Seconds())
	if c.peer.Resp3 {
		resp = "3"
	}
	if c.isOpen {
		multi = len(c.queue)
	}
	flags := "N"
	if c.waits() {
		flags = "b"
	}
	return "id=" + strconv.FormatInt(c.id, 10) + " addr=" + c.conn.RemoteAddr().String() + " laddr=" + c.conn.LocalAddr().String() +
		" name=" + c.name + " age=" + strconv.Itoa(age) + " flags=" + flags + " db=" + strconv.Itoa(c.db) + " multi=" + strconv.Itoa(multi) +
		" cmd=" + strings.ToLower(c.command) + " user=default resp=" + resp + " lib-name=" + c.library
}

// outbox writes to a connection, and what that does not take at once in a goroutine of its own.
type outbox struct {
	conn    net.Conn
	mu      sync.Mutex
	more    *sync.Cond
	bytes   []byte
	sending bool // the goroutine writes now
	closed  bool
}

func newOutbox(conn net.Conn) *outbox {
	o := &outbox{conn: conn}
	o.more = sync.NewCond(&o.mu)
	go o.send()
	return o
}

// Write writes at once what the connection takes at once, so that clients are answered in the order in which Write is called. The
// goroutine writes the rest.
func (o *outbox) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := len(p)
	if len(o.bytes) == 0 && !o.sending {
		_ = o.conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
		n, err := o.conn.Write(p)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		_ = o.conn.SetWriteDeadline(time.Time{})
		p = p[n:]
	}
	if len(o.bytes)+len(p) > mostUnread {
		_ = o.conn.Close()
		return 0, net.ErrClosed
	}
	o.bytes = append(o.bytes, p...)
	o.more.Signal()
	return all, nil
}

// close closes the connection once everything is written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.more.Signal()
}

func (o *outbox) send() {
	defer func() { _ = o.conn.Close() }()
	var batch []byte
	for {
		o.mu.Lock()
		o.sending = false
		for len(o.bytes) == 0 && !o.closed {
			o.more.Wait()
		}
		batch, o.bytes = o.bytes, batch[:0]
		o.sending = len(batch) > 0
		o.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		if _, err := o.conn.Write(batch); err != nil {
			return
		}
	}
}
