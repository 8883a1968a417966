// Package doors sends calls as what a server has: the commands of the module, the functions of the library, or the library as a
// script. The call itself is the question: a server that lacks what it is asked for says so, and nothing has happened.
package doors

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Choice is what servers may be sent.
type Choice string

// The choices: the commands of the module alone, functions and scripts alone, or what the server has.
const (
	Auto      Choice = "auto"
	Module    Choice = "module"
	Functions Choice = "functions"
)

// Sender sends a command to where its key is.
type Sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Options are documented in package commands.
type Options struct {
	Only   Choice
	Poll   time.Duration
	Logger *slog.Logger
}

// Chosen is a client with the Options of its doors.
type Chosen struct {
	Sender
	Options
}

// door is how calls are sent to a server.
type door int

const (
	unknown door = iota
	module
	library
	script
)

// Doors remembers how calls are sent to the servers of a client.
type Doors struct {
	Options
	client Sender
	outage func(error) bool
	// others says that some server has refused a command of the module. Until then nobody looks up which server has a key.
	others  atomic.Bool
	servers sync.Map // *server by address
}

// scriptsFor is how long calls are sent as scripts before a server is asked again: its rights, or what is loaded there, may have changed.
const scriptsFor = 5 * time.Minute

// standing is a door, and since when it is the one of a server.
type standing struct {
	door
	since time.Time
}

// server is what is known of one server.
type server struct {
	addr string
	now  atomic.Pointer[standing] // never changed: another pointer takes its place

	mu       sync.Mutex
	question *question // that somebody asks at the moment
	told     door      // in the log
}

type question struct {
	done chan struct{}
	err  error
}

// Command is a call as a command of the module.
type Command struct {
	Args    []any
	Key     int  // the place of the first key in Args
	Charges bool // the command must not be sent again when its reply got lost
	Plain   bool // every server has the command, with the module or without
}

// New returns the doors of client. outage tells whether an error means that a server does not decide now.
func New(client Sender, o Options, outage func(error) bool) *Doors {
	if o.Only == "" {
		o.Only = Auto
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if !locates(client) { // such as a fake: nobody knows where its servers are
		o.Only = Module
	}
	return &Doors{Options: o, client: client, outage: outage}
}

// mostTries is how many answers a call takes that the server lacks what it was asked for.
const mostTries = 5

// Send sends a call that does not wait, and returns the reply.
func (d *Doors) Send(ctx context.Context, call *Command) (any, error) {
	if call.Plain {
		return d.process(ctx, call.Args, call.Key, call.Charges)
	}
	lacking := false // the server has just said that it has no module
	if d.Only == Module || (d.Only == Auto && !d.others.Load()) {
		reply, err := d.process(ctx, call.Args, call.Key, call.Charges)
		if !d.Lacks(err) {
			return reply, err
		}
		lacking = true
	}
	s, node, err := d.server(ctx, call.key())
	if err != nil {
		return nil, err
	}
	for range mostTries {
		now := s.now.Load()
		var reply any
		switch now.door {
		case unknown, module:
			if d.Only == Auto && !lacking {
				reply, err = d.process(ctx, call.Args, call.Key, call.Charges)
				if !IsUnknown(err) {
					d.foundModule(s, now, err)
					return reply, err
				}
			}
			lacking = false
			if err = d.ask(ctx, s, node, now); err != nil {
				return nil, err
			}
			continue
		case library:
			args := AsFunction(call.Args)
			if reply, err = d.process(ctx, args, 3, call.Charges); !isNoFunction(err) {
				return reply, err
			}
		case script:
			if time.Since(now.since) > scriptsFor {
				break
			}
			args := AsScript(call.Args, sha)
			if reply, err = d.process(ctx, args, 3, call.Charges); !redis.HasErrorPrefix(err, "NOSCRIPT") {
				if redis.IsReadOnlyError(err) { // a replica, which is a master when it is asked again
					s.now.CompareAndSwap(now, new(standing))
				}
				return reply, err
			}
		}
		s.now.CompareAndSwap(now, new(standing)) // the server may have anything now
	}
	// Where the key is cannot be found out, such as while it moves through a cluster. A whole script follows it by itself.
	return d.process(ctx, whole(AsScript(call.Args, sha)), 3, call.Charges)
}

// foundModule notes that a server has answered a command of the module.
func (d *Doors) foundModule(s *server, now *standing, err error) {
	var reply redis.Error
	if now.door != unknown || (err != nil && (!errors.As(err, &reply) || d.outage(err) || strings.HasPrefix(reply.Error(), "NO"))) { // NOPERM, NOAUTH
		return
	}
	if s.now.CompareAndSwap(now, &standing{door: module}) {
		d.tell(s, found{door: module})
	}
}

// WithoutModule says whether the server of a key is known to have no module.
func (d *Doors) WithoutModule(ctx context.Context, key string) bool {
	switch {
	case d.Only == Functions:
		return true
	case d.Only == Module, !d.others.Load():
		return false
	}
	s, _, err := d.server(ctx, key)
	return err == nil && s.now.Load().door > module
}

// Lacks says whether err is the reply of a server that has no module, and the call may be sent otherwise.
func (d *Doors) Lacks(err error) bool {
	if d.Only == Module || !IsUnknown(err) {
		return false
	}
	d.others.Store(true)
	return true
}

func (c *Command) key() string {
	if c.Key < len(c.Args) {
		key, _ := c.Args[c.Key].(string)
		return key
	}
	return ""
}

// process sends a command to where its key is.
func (d *Doors) process(ctx context.Context, args []any, key int, charges bool) (any, error) {
	c := redis.NewCmd(ctx, args...)
	c.SetFirstKeyPos(int8(key))
	var cmd redis.Cmder = c
	if charges {
		cmd = Once{c}
	}
	_ = d.client.Process(ctx, cmd) // c holds the error as well
	return c.Result()
}

// Once is a command that go-redis does not repeat.
type Once struct{ *redis.Cmd }

// NoRetry is asked by go-redis before it sends a command again.
func (Once) NoRetry() bool { return true }

// IsUnknown says whether err is the reply of a server that does not know the command.
func IsUnknown(err error) bool { return redis.HasErrorPrefix(err, "unknown command") }

func isNoFunction(err error) bool { return redis.HasErrorPrefix(err, "Function not found") }
