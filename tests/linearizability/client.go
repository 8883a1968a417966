package linearizability

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
)

type client struct {
	*load
	id int
	r  *rand.Rand
	// luck decides how long to wait and whom to ask. How often it is asked depends on time; r does not, so a seed
	// repeats the calls.
	luck *rand.Rand
	conn *resp.Conn
	at   string
}

func (c *client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// dial connects to where calls go now, as soon as somebody is there.
func (c *client) dial(addr string) bool {
	if c.conn != nil && c.at == addr {
		return true
	}
	c.hangUp()
	conn, err := resp.DialWithin(addr, c.network.patience(nil, c.luck))
	if err != nil {
		time.Sleep(time.Millisecond) // a pause between attempts, which nothing depends on
		return false
	}
	c.conn, c.at = conn, addr
	return true
}

// call makes a call up and repeats it until it has happened, or may have.
func (c *client) call() {
	made := c.subjects[c.r.IntN(len(c.subjects))].call(c.r)
	if made.wait != nil {
		defer made.wait.done()
	}
	if c.functions && isFunction(made) && c.r.IntN(2) == 0 {
		made.sent = kit.AsFunction(made.words)
	}
	_, aboutLeases := made.of.(*leased)
	a := attempts{client: c, call: made, about: made.of.name()}
	// A CL.WAIT would give its slot back; and of calls about leases the checker would try all ways of ending.
	a.crash = c.crashes > 0 && c.r.IntN(c.crashes) == 0 && made.words[0] != "CL.WAIT" && !aboutLeases && made.wait == nil
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if a.once() {
			return
		}
	}
	c.t.Errorf("%q: nobody answers", made.wire())
}

// attempts has all attempts at one call.
type attempts struct {
	*client
	*call
	about string // the object
	// crash has the client close the connection before it reads the reply, once it asks one that it has reason to ask.
	crash bool
	// to is whom to ask next, or "" for whomever the network names, and asking says that a cluster told to ask there
	// once.
	to     string
	asking bool
}

// once sends the call and reports whether that was all.
func (a *attempts) once() bool {
	sure := false
	if a.to == "" {
		a.to, sure = a.network.entry(a.id, a.luck, a.about)
	}
	if !a.dial(a.to) {
		a.goElsewhere()
		return false
	}
	out, began := &outcome{node: a.network.node(a.to)}, a.history.now()
	if a.crash && sure {
		_ = a.conn.Send(a.wire()...)
		_ = a.conn.Flush()
		a.hangUp()
		out.unknown = true
		a.history.noteUntil(a.id, a.call, began, never, out)
		return true
	}
	v, err := a.ask(a.call, a.asking)
	switch {
	case err != nil:
		a.goElsewhere()
		out.unknown = true
		if errors.Is(err, os.ErrDeadlineExceeded) {
			a.giveUp(a.call, began, out)
			return true
		}
		a.hangUp() // the server that had the connection is gone
	case v.IsError():
		a.goElsewhere()
		return a.refused(v, began, out)
	default:
		reply, err := a.integers(v)
		if err != nil {
			a.t.Errorf("%q: %v", a.wire(), v)
			return true
		}
		a.network.learn(a.id, a.about, a.to)
		out.reply = asWaited(a.words, reply)
	}
	a.history.note(a.id, a.call, began, out)
	return true
}

// goElsewhere forgets whom to ask.
func (a *attempts) goElsewhere() {
	a.network.learn(a.id, a.about, "")
	a.to, a.asking = "", false
}

// refused looks at an error that was the reply, and reports whether that was the last attempt.
func (a *attempts) refused(v resp.Value, began int64, out *outcome) bool {
	words := strings.Fields(v.Text)
	left := a.wait != nil && slices.Contains([]string{"UNBLOCKED", "TRYAGAIN", "OOM", "MISCONF"}, words[0])
	if left { // it was in line, and left it
		out.refused = true
		a.history.note(a.id, a.call, began, out)
		a.call = a.wait.again()
	}
	switch words[0] {
	case "MOVED", "ASK":
		a.to, a.asking = words[2], words[0] == "ASK"
		return false
	case "UNBLOCKED":
		if left {
			return false
		}
		out.unknown = true
		a.history.note(a.id, a.call, began, out)
		return true
	case "READONLY", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN": // refused: try again
	default:
		if !a.network.refuses(words[0]) {
			a.t.Errorf("%q: %v", a.wire(), v)
			return true
		}
	}
	time.Sleep(time.Millisecond) // a pause between attempts, which nothing depends on
	return false
}

// giveUp ends a call that nobody answers. After the reset it is not sent again. If it has reached the server, the
// server handles it before it answers a connection that is made later.
func (c *client) giveUp(given *call, began int64, out *outcome) {
	_ = c.conn.Reset()
	c.conn = nil
	at := c.at
	c.given.Go(func() {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			conn, err := resp.DialWithin(at, time.Second)
			if err == nil {
				_, err = conn.Do("PING")
				_ = conn.Close()
			}
			if err == nil || errors.Is(err, syscall.ECONNREFUSED) { // it does not run
				c.history.note(c.id, given, began, out)
				return
			}
		}
		c.history.noteUntil(c.id, given, began, never, out)
	})
}

func (c *client) ask(what *call, asking bool) (resp.Value, error) {
	if asking {
		if _, err := c.conn.DoWithin(c.network.patience(nil, c.luck), "ASKING"); err != nil {
			return resp.Value{}, err
		}
	}
	if c.send != nil {
		return c.send(c.conn, what.words)
	}
	return c.conn.DoWithin(c.network.patience(what, c.luck), what.wire()...)
}
