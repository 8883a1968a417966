// Package commands says how calls are sent to a server: as commands of the module, or, where no module can be loaded,
// as functions.
//
// A Limiter finds that out by itself. It sends the command. Where the server does not know it, the Limiter looks for
// the function library, loads it, or takes it for a script if functions are refused, and then sends the same call once
// more: nothing has been charged. A line in the log says what it has found. After a failover, FUNCTION FLUSH or SCRIPT
// FLUSH it looks again, within the call.
//
// On takes options for that:
//
//	limiter := ratelimit.New(commands.On(client, commands.Options{Poll: 200 * time.Millisecond}), ratelimit.Options{})
package commands

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/doors"
)

// Choice is what servers may be sent.
type Choice string

const (
	// Auto is what the server has: the module, else the library, else scripts.
	Auto Choice = "auto"
	// Module is commands of the module alone. Nothing is loaded. A server without it is a mistake,
	// ratelimit.ErrNoModule.
	Module Choice = "module"
	// Functions is no command of the module: the library, else scripts.
	Functions Choice = "functions"
)

// Options configure On. The zero Options are those of a client without On.
type Options struct {
	// Send is what servers may be sent: Auto when it is empty.
	Send Choice
	// Poll is the longest pause between two questions of a call that waits where no module is (VerbWait, VerbLease with
	// MaxWait): a function cannot make its caller wait. When it is 0 such calls are mistakes there. Callers that poll
	// have no order: who asks at the right moment gets the units. Only Rate limits are reserved in order of arrival,
	// and polled by nobody.
	Poll time.Duration
	// Logger gets one line each time that a server is found to have something else; slog.Default when nil.
	Logger *slog.Logger
}

// On is a client with options, for ratelimit.New. It panics if Send is none of the choices, or Poll is negative or
// below 1 ms.
func On(client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}, o Options) interface {
	Process(ctx context.Context, cmd redis.Cmder) error
} {
	switch o.Send {
	case "", Auto, Module, Functions:
	default:
		panic(fmt.Sprintf("commands: Send must be auto, module or functions, not %q", string(o.Send)))
	}
	if o.Poll != 0 && o.Poll < time.Millisecond {
		panic(fmt.Sprintf("commands: Poll must be at least 1ms, not %v", o.Poll))
	}
	return &doors.Chosen{Sender: client, Options: doors.Options{Only: doors.Choice(o.Send), Poll: o.Poll, Logger: o.Logger}}
}
