// Package doors sends calls as what a server has: the commands of the module, the functions of the library, or the
// library as a script. The call itself is the question: a server that lacks what it is asked for says so, and nothing
// has happened.
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
	// others says that some server has refused a command of the module. Until then nobody looks up which server has a
	// key.
	others atomic.Bool
	// onlyWrites says that some server does not take EVALSHA_RO, as proxies do: EVALSHA does as well.
	onlyWrites atomic.Bool
	right      atomic.Pointer[string] // that the user lacks for commands of the module
	servers    sync.Map               // *server by address
}

// asksAfter is how long calls are sent as functions or scripts before a server is asked again: its user's rights, or
// what is loaded there, may have changed, and it may have been started anew with the module.
const asksAfter = 5 * time.Minute

// replicaFor is that time for a server that was a replica: it may be a master soon.
const replicaFor = time.Second

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
	// ModuleOnly says that nothing but the module has the command, and not every version of it: a server that lacks it
	// may well have the others.
	ModuleOnly bool
	// Newer says that not every version of the module has the command, and the library has it, too.
	Newer bool
}

// ErrWithoutModule is the error of a command that only the module has, for a server without it. Nothing was sent.
var ErrWithoutModule = errors.New("the server is sent functions or scripts, which lack this command")

// ErrOlderModule is the error of a Newer command that the module of a server lacks.
var ErrOlderModule = errors.New("the server's throttle.so is older than this command")

// New returns the doors of client. outage tells whether an error means that a server does not decide now.
func New(client Sender, o Options, outage func(error) bool) *Doors {
	if o.Only == "" {
		o.Only = Auto
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if !Locates(client) { // such as a fake: nobody knows where its servers are
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
	if call.ModuleOnly {
		if d.WithoutModule(ctx, call.key()) {
			return nil, ErrWithoutModule
		}
		return d.process(ctx, call.Args, call.Key, call.Charges)
	}
	lacking := false // the server has just said that it has no module
	if d.Only == Module || (d.Only == Auto && !d.others.Load()) {
		reply, err := d.command(ctx, call)
		if !d.Lacks(err) {
			return reply, err
		}
		lacking = true
	}
	s, node, err := d.server(ctx, call.key())
	if err != nil {
		return nil, err
	}
tries:
	for range mostTries {
		now := s.standing()
		var reply any
		switch now.door {
		case unknown, module:
			if d.Only == Auto && !lacking {
				reply, err = d.command(ctx, call)
				if !d.Lacks(err) {
					d.foundModule(s, now, err)
					return reply, err
				}
			}
			lacking = false
			if err = d.ask(ctx, s, node, now, call.key()); isElsewhere(err) {
				break tries
			} else if err != nil {
				return nil, err
			}
			continue
		case library:
			args := AsFunction(call.Args)
			reply, err = d.process(ctx, args, 3, call.Charges)
			if err != nil && d.outage(err) { // it may come back with the module
				s.now.CompareAndSwap(now, new(standing))
			}
			if !isNoFunction(err) && !IsMissing(err) {
				return reply, err
			}
		case script:
			if reply, err = d.script(ctx, call); !redis.HasErrorPrefix(err, "NOSCRIPT") {
				if redis.IsReadOnlyError(err) { // a replica, which is a master when it is asked again
					s.now.CompareAndSwap(now, new(standing))
				}
				return reply, err
			}
		}
		s.now.CompareAndSwap(now, new(standing)) // the server may have anything now
	}
	// Where the key is cannot be found out, such as while it moves through a cluster. A script follows it by itself.
	reply, err := d.script(ctx, call)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return d.process(ctx, whole(d.asScript(call)), 3, call.Charges)
	}
	return reply, err
}

// command sends a call as a command of the module. Where a Newer one is missing, CL.PEEK without limits, which every
// version refuses in other words, tells whether the module is there. The error of one that is does not move calls on.
func (d *Doors) command(ctx context.Context, call *Command) (any, error) {
	reply, err := d.process(ctx, call.Args, call.Key, call.Charges)
	if !call.Newer || d.Only != Auto || !IsMissing(err) {
		return reply, err
	}
	_, peeked := d.process(ctx, []any{"CL.PEEK", call.key()}, 1, false)
	switch {
	case IsMissing(peeked):
		return nil, err
	case peeked != nil && (!isReply(peeked) || d.outage(peeked)):
		return nil, peeked
	case Lacks(err) != "":
		return nil, errors.New(said(err)) // that is no reply any more, and no answer of a server without the module
	}
	return nil, ErrOlderModule
}

// isElsewhere says whether a server that was asked by itself is not, or not alone, the one of the key.
func isElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "ASK ") || redis.HasErrorPrefix(err, "MOVED ")
}

// script sends a call as a script that the server has. Where it takes none that only reads, such a call is sent as one
// that may write.
func (d *Doors) script(ctx context.Context, call *Command) (any, error) {
	args := d.asScript(call)
	reply, err := d.process(ctx, args, 3, call.Charges)
	if args[0] == "EVALSHA_RO" && IsMissing(err) {
		d.onlyWrites.Store(true)
		return d.process(ctx, d.asScript(call), 3, call.Charges)
	}
	return reply, err
}

func (d *Doors) asScript(call *Command) []any {
	args := AsScript(call.Args, sha)
	if d.onlyWrites.Load() {
		args[0] = "EVALSHA"
	}
	return args
}

// lacking is the right that the user lacks for commands of the module, as far as it is known.
func (d *Doors) lacking() string {
	if right := d.right.Load(); right != nil {
		return *right
	}
	return ""
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
	return err == nil && s.standing().door > module
}

// standing is the door of a server. It is forgotten when it has stood for long.
func (s *server) standing() *standing {
	for {
		now := s.now.Load()
		if now.door <= module || time.Since(now.since) <= asksAfter {
			return now
		}
		s.now.CompareAndSwap(now, new(standing))
	}
}

// Lacks says whether err is the reply of a server that has no module, and the call may be sent otherwise.
func (d *Doors) Lacks(err error) bool {
	if d.Only == Module || !IsMissing(err) {
		return false
	}
	if right := Lacks(err); right != "" {
		d.right.Store(&right)
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

func isNoFunction(err error) bool { return redis.HasErrorPrefix(err, "Function not found") }
