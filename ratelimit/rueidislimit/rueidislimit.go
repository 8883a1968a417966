// Package rueidislimit is redis-throttle for programs that use rueidis: a ratelimit.Limiter
// on a rueidis client of any kind, and with it all that package ratelimit has, such as its middleware.
//
//	limiter := rueidislimit.New(client)
//	result, err := limiter.Limit(ctx, "user:42", perUser, 1)
//
// Calls that go out at the same time share a connection, as always with rueidis: it needs no
// pipelines. No call that charges units is sent twice.
//
// At most 10,000 calls of a Limiter are under way; a call beyond that is an overload (ratelimit.IsOverload). A call
// whose deadline passes is given as much more time as this process was late. If its reply does not come, but those of
// others do, that is an overload too, and no outage. A server that is no master any more is left at once, outside of a
// cluster: calls go to where its address leads then.
package rueidislimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/lag"
)

// New returns a Limiter on client. It panics if client is nil. Its methods send, and return when the reply is there or
// their context is over. A caller that waits, in Wait or for a lease, has a connection of the pool of blocking
// commands. It leaves the line by CLIENT UNBLOCK when its context ends, and gives back what it got at the same moment;
// a user without the permission for CLIENT ID and CLIENT UNBLOCK leaves by closing the connection, and what it got is
// lost.
func New(client rueidis.Client) *ratelimit.Limiter {
	return ratelimit.New(Client(client), ratelimit.Options{})
}

// Client is client as ratelimit.New and leases.List take it. It panics if client is nil.
func Client(client rueidis.Client) interface {
	Process(ctx context.Context, cmd redis.Cmder) error
} {
	if client == nil {
		panic("rueidislimit: a rueidis client is needed, not nil")
	}
	return sender{client, &sync.Map{}, &flight{server: lag.Server{ClosesIdle: true}}}
}

type sender struct {
	client rueidis.Client
	owners *sync.Map // addresses of masters by slots, as waits have learnt them
	flight *flight
}

// readPatience is how long a read is sent again. rueidis does so for as long as the context lasts.
const readPatience = 3 * time.Second

// Process sends cmd.
func (s sender) Process(ctx context.Context, cmd redis.Cmder) error {
	reply, err := s.send(ctx, cmd.Args())
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	cmd.(interface{ SetVal(any) }).SetVal(reply) // a Limiter sends nothing but *redis.Cmd
	return nil
}

func (s sender) send(ctx context.Context, args []any) (any, error) {
	command, err := s.build(args)
	if err != nil {
		return nil, err
	}
	if command.IsReadOnly() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readPatience)
		defer cancel()
	}
	reply, err := s.flight.do(ctx, s.client, command)
	if rueidis.IsRedisNil(err) { // such as a hash without the field
		return nil, redis.Nil
	}
	var fromServer *rueidis.RedisError
	if errors.As(err, &fromServer) {
		if leadsElsewhere(fromServer) && s.client.Mode() != rueidis.ClientModeCluster {
			s.flight.leave(ctx, s.client)
		}
		return nil, replyError{fromServer}
	}
	return reply, err
}

func (s sender) build(args []any) (rueidis.Completed, error) {
	if n, ok := throttleArgs(args); ok {
		return s.client.B().ClThrottle().Key(args[1].(string)).MaxBurst(n[0]).CountPerPeriod(n[1]).Period(n[2]).Quantity(n[3]).Build(), nil
	}
	words := make([]string, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			words[i] = arg
		case int64:
			words[i] = strconv.FormatInt(arg, 10)
		default:
			return rueidis.Completed{}, fmt.Errorf("a word of type %T", arg)
		}
	}
	name, key := words[:1], 1
	if strings.HasPrefix(words[0], "FCALL") || strings.HasPrefix(words[0], "EVAL") { // see package doors
		command := s.client.B().Arbitrary(words[:3]...).Keys(words[3]).Args(words[4:]...)
		if strings.HasSuffix(words[0], "_RO") {
			return command.ReadOnly(), nil
		}
		return command.Build(), nil
	}
	if words[0] == "CL.MLIMIT" || words[0] == "CL.SETTLE" { // whose keys are counted; the first one leads to the node
		name, key = words[:2], 2
	}
	if key >= len(words) {
		return rueidis.Completed{}, errors.New("no key is given")
	}
	command := s.client.B().Arbitrary(name...).Keys(words[key]).Args(words[key+1:]...)
	switch words[0] {
	case "CL.PEEK", "CL.LEASES", "CL.INSPECT":
		return command.ReadOnly(), nil
	case "CL.WAIT":
		return command.Blocking(), nil
	case "CL.LEASE":
		if slices.Contains(words[key+1:], "TIMEOUT") { // an id of this name costs a connection of its own, no more
			return command.Blocking(), nil
		}
	}
	return command.Build(), nil
}

// throttleArgs are the numbers of a CL.THROTTLE as the builder of rueidis takes them: with a
// period in whole seconds.
func throttleArgs(args []any) (n [4]int64, ok bool) {
	if args[0] != "CL.THROTTLE" || len(args) != 2+len(n) {
		return n, false
	}
	for i := range n {
		if n[i], ok = args[2+i].(int64); !ok {
			return n, false
		}
	}
	return n, true
}

// replyError is an error reply that package ratelimit knows for one.
type replyError struct{ reply *rueidis.RedisError }

// Error is the reply as the server wrote it: rueidis leaves out a code of ERR.
func (e replyError) Error() string {
	text := e.reply.Error()
	if code, _, _ := strings.Cut(text, " "); code != strings.ToUpper(code) {
		return "ERR " + text
	}
	return text
}

// RedisError marks it as redis.Error.
func (replyError) RedisError() {}

// Unwrap gives the error of rueidis.
func (e replyError) Unwrap() error { return e.reply }
