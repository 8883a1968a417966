package resp

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"
)

// patience is how long a Conn waits for the server to take or give a byte before it
// calls that a hang.
const patience = 60 * time.Second

// Conn is one connection to a server. Commands may be sent ahead of their replies.
type Conn struct {
	tcp *net.TCPConn
	r   *Reader
	w   *bufio.Writer
}

// Dial connects to a server at host:port.
func Dial(addr string) (*Conn, error) { return DialWithin(addr, patience) }

// DialWithin is Dial for a server that may be out of reach.
func DialWithin(addr string, d time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, d)
	if err != nil {
		return nil, err
	}
	return &Conn{tcp: c.(*net.TCPConn), r: NewReader(c), w: bufio.NewWriterSize(c, 64<<10)}, nil
}

// Send buffers one command.
func (c *Conn) Send(args ...string) error {
	return c.SendRaw(AppendCommand(nil, args...))
}

// SendRaw buffers bytes that need not be a command.
func (c *Conn) SendRaw(b []byte) error {
	if err := c.tcp.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.w.Write(b)
	return err
}

// Flush hands what was buffered to the kernel.
func (c *Conn) Flush() error {
	if err := c.tcp.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return c.w.Flush()
}

// Receive returns the next reply.
func (c *Conn) Receive() (Value, error) { return c.ReceiveWithin(patience) }

// ReceiveWithin returns the next reply, or a timeout error when none has begun and
// ended within d.
func (c *Conn) ReceiveWithin(d time.Duration) (Value, error) {
	if err := c.tcp.SetReadDeadline(time.Now().Add(d)); err != nil {
		return Value{}, err
	}
	return c.r.Read()
}

// SkipSnapshot is Reader's, after SYNC.
func (c *Conn) SkipSnapshot() error {
	if err := c.tcp.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	return c.r.SkipSnapshot()
}

// Do sends one command and returns its reply; an error reply is a Value.
func (c *Conn) Do(args ...string) (Value, error) {
	values, err := c.Pipeline(args)
	if err != nil {
		return Value{}, err
	}
	return values[0], nil
}

// DoWithin is Do for a reply that may not come. After a timeout the connection is of no use.
func (c *Conn) DoWithin(d time.Duration, args ...string) (Value, error) {
	if err := c.Send(args...); err != nil {
		return Value{}, err
	}
	if err := c.Flush(); err != nil {
		return Value{}, err
	}
	return c.ReceiveWithin(d)
}

// Pipeline sends all commands before it reads the first reply, and returns one for
// each. The server buffers its replies meanwhile, so there is no deadlock in this.
func (c *Conn) Pipeline(commands ...[]string) ([]Value, error) {
	for _, args := range commands {
		if err := c.Send(args...); err != nil {
			return nil, err
		}
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	values := make([]Value, len(commands))
	for i := range values {
		var err error
		if values[i], err = c.Receive(); err != nil {
			return nil, fmt.Errorf("reply %d of %d, to %.200q: %w", i+1, len(values), commands[i], err)
		}
	}
	return values, nil
}

// Close ends the connection in an orderly way.
func (c *Conn) Close() error { return c.tcp.Close() }

// Closer is Close in a function that holds none of the buffers: testing keeps what
// tests clean up with until all of them have ended.
func (c *Conn) Closer() func() error { return c.tcp.Close }

// Reset drops the connection with a TCP reset, as when a client is killed: what the
// server still writes meets a broken pipe.
func (c *Conn) Reset() error {
	if err := c.tcp.SetLinger(0); err != nil {
		return err
	}
	return c.tcp.Close()
}

// AppendCommand appends the wire form of one command to b.
func AppendCommand(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, a := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(a)), 10)
		b = append(b, "\r\n"...)
		b = append(b, a...)
		b = append(b, "\r\n"...)
	}
	return b
}
