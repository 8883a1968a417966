package main

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	dev "github.com/alicebob/miniredis/v2/server"

	"redis-throttle/limiter/embedded"
)

// mostUnread is how many bytes of replies a client may leave unread: its connection is closed at the next one, as by
// client-output-buffer-limit of Redis.
const mostUnread = 64 << 20

// client is a connection. One goroutine reads its commands, one runs them, and one writes the replies, so that a client
// that does not read holds up nobody.
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

	// For a client that waits: for a caller of the host waiter, for another command the words, the reply if there is
	// nothing for it, and until when, 0 for as long as it takes.
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
	defer c.out.close() // after forget: until then the server may answer the client
	defer c.server.forget(c)
	defer c.in.end()
	go c.read()
	for {
		request, more, ok := c.in.pop()
		if !ok {
			break
		}
		switch {
		case request.wrong != nil:
			c.refuse(request.wrong)
			return
		case len(request.words) > 0:
			c.server.run(c, request.words)
			if !c.await() || c.out.hasFailed() {
				return
			}
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

// read reads commands until the client is gone. Behind what is no command it reads on, to see whether the client is
// there while it waits.
func (c *client) read() {
	defer c.in.end()
	defer close(c.gone)
	for r := newReader(c.conn, c.isKnown); ; {
		words, err := r.command()
		var wrong protocolError
		if errors.As(err, &wrong) || errors.Is(err, errAttack) {
			if c.in.put(request{wrong: err}) {
				_, _ = io.Copy(io.Discard, c.conn)
			}
			return
		}
		if err != nil || !c.in.put(request{words: words}) {
			return
		}
	}
}

// isKnown reports whether the client has given the password, by the commands that it sent until now at the latest.
func (c *client) isKnown() bool {
	if c.server.password == "" {
		return true
	}
	is := func() bool {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		return c.authenticated
	}
	if is() {
		return true
	}
	c.in.awaitIdle()
	return is()
}

// refuse tells what is wrong with what the client sent. A browser that was made to send commands is told nothing.
func (c *client) refuse(wrong error) {
	if errors.Is(wrong, errAttack) {
		c.server.attacked.Do(func() {
			log.Printf("warning: %s sent POST or Host:, and was disconnected. A web page may be trying to have a browser send commands. This is said once", c.conn.RemoteAddr())
		})
		_ = c.conn.Close()
		return
	}
	c.peer.WriteRaw("-ERR " + wrong.Error() + "\r\n") // byte for byte: the error may quote one that is no UTF-8
	c.peer.Flush()
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
	conn   net.Conn
	mu     sync.Mutex
	more   *sync.Cond
	chunks [][]byte
	unread int // bytes that the connection has not taken, those being written now included
	closed bool
	failed bool
}

// chunkBytes is how much is allocated at a time: what is unread is never copied to grow.
const chunkBytes = 16 << 10

func newOutbox(conn net.Conn) *outbox {
	o := &outbox{conn: conn}
	o.more = sync.NewCond(&o.mu)
	go o.send()
	return o
}

// Write writes at once what the connection takes at once, so that clients are answered in the order in which Write is
// called. The goroutine writes the rest.
func (o *outbox) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed {
		return 0, net.ErrClosed
	}
	all := len(p)
	if o.unread == 0 {
		_ = o.conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
		n, err := o.conn.Write(p)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		_ = o.conn.SetWriteDeadline(time.Time{})
		p = p[n:]
	}
	if o.unread > mostUnread {
		log.Printf("warning: %s was disconnected: it leaves more than %d MB of replies unread", o.conn.RemoteAddr(), mostUnread>>20)
		o.fail()
		return 0, net.ErrClosed
	}
	o.unread += len(p)
	last := len(o.chunks) - 1
	if last < 0 || len(o.chunks[last])+len(p) > cap(o.chunks[last]) {
		o.chunks, last = append(o.chunks, make([]byte, 0, max(len(p), chunkBytes))), last+1
	}
	o.chunks[last] = append(o.chunks[last], p...)
	o.more.Signal()
	return all, nil
}

// fail closes the connection and forgets what it has not taken. The caller has the lock.
func (o *outbox) fail() {
	o.failed, o.chunks = true, nil
	_ = o.conn.Close()
	o.more.Signal()
}

func (o *outbox) hasFailed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// close closes the connection once everything is written.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.more.Signal()
}

func (o *outbox) send() {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { _ = o.conn.Close() }()
	for {
		for len(o.chunks) == 0 && !o.closed && !o.failed {
			o.more.Wait()
		}
		if len(o.chunks) == 0 {
			return
		}
		chunk := o.chunks[0]
		o.chunks[0] = nil
		o.chunks = o.chunks[1:]
		o.mu.Unlock()
		_, err := o.conn.Write(chunk)
		o.mu.Lock()
		o.unread -= len(chunk)
		if err != nil {
			o.fail()
			return
		}
	}
}
