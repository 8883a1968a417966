package ratelimittest

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"time"
)

// ErrOutage is the error of a server that is not there: connection refused. ratelimit.IsOutage is true for it.
var ErrOutage error = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// ReplyError is an error that the server replies, its code in front, for Fail: such as "LOADING Redis is loading the
// dataset in memory", which is an outage, or "NOPERM ...", which is not.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// RedisError marks it as a reply, as go-redis does.
func (ReplyError) RedisError() {}

// errOver is for callers that outlast their test.
var errOver = errors.New("ratelimittest: the test is over")

// everyCommand is for Faults that last until Heal.
const everyCommand = math.MaxInt

// Faults are what can go wrong. A new fault takes the place of the one before.
type Faults struct {
	s *server
	// commands is how many commands a fault is for.
	commands int
}

// Next has the faults of the next n commands alone. A call sends one command, except that a lease that waits for its
// slot sends a second one.
func (f Faults) Next(n int) Faults { return Faults{f.s, max(n, 0)} }

// Fail fails commands with err, and nothing is executed. Unless the fault is for the Next commands, all callers that
// are in line, hang or have a slow answer on its way get the error, too.
func (f Faults) Fail(err error) {
	if err == nil {
		f.Heal()
		return
	}
	f.set(fault{kind: failing, err: err})
}

// Hang keeps commands waiting until Heal or the next fault, as a server that stands still does. They are executed then,
// also where the caller has given up meanwhile. Callers in line stay there. Unlike a client with a socket, nobody here
// loses patience: a call ends with its context.
func (f Faults) Hang() { f.set(fault{kind: hanging}) }

// Slow lets the answers to commands come d later. They are executed at once, also where the caller gives up before the
// answer. If d is not positive it is Heal.
func (f Faults) Slow(d time.Duration) {
	if d <= 0 {
		f.Heal()
		return
	}
	f.set(fault{kind: slow, delay: d})
}

// NoModule answers commands as a server that has not loaded the module does (ratelimit.ErrNoModule).
func (f Faults) NoModule() { f.set(fault{kind: withoutModule}) }

// LoseReplies executes commands and loses the connection before their answers: the error is io.EOF, and units
// are charged all the same. Unless the fault is for the Next commands, answers that are on their way get lost, too.
func (f Faults) LoseReplies() { f.set(fault{kind: losing}) }

// Heal ends every fault.
func (f Faults) Heal() {
	f.commands = everyCommand
	f.set(fault{})
}

func (f Faults) set(to fault) {
	to.commands = f.commands
	f.s.setFault(to)
}

type faultKind int

const (
	healthy faultKind = iota
	failing
	hanging
	slow
	withoutModule
	losing
)

type fault struct {
	kind     faultKind
	err      error         // of failing
	delay    time.Duration // of slow
	commands int           // how many it is for yet
}

// next is the fault of the next command.
func (f *fault) next() fault {
	if f.commands == 0 {
		return fault{}
	}
	if f.commands != everyCommand {
		f.commands--
	}
	return *f
}

// ofAll says whether a fault is one of the server rather than of the next commands.
func (f *fault) ofAll(kind faultKind) bool { return f.kind == kind && f.commands == everyCommand }

// errLost is the error of a connection that was lost.
var errLost = io.EOF
