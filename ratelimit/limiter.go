// Package ratelimit is the Go client of redis-throttle: rate limits, quotas and leases that processes share through
// Redis or Valkey, decided by the server in one round trip.
//
// Limits are values, defined once and given with every call on a key:
//
//	var perUser = ratelimit.Limits{
//		ratelimit.Rate(5, time.Second).Burst(10),
//		ratelimit.Rate(100_000, time.Hour),
//	}
//
//	limiter := ratelimit.New(client, ratelimit.Options{})
//	result, err := limiter.Limit(ctx, "user:42", perUser, 3)
//
// All limits of a call are decided at one instant, all or nothing.
//
// # One verb, one shape
//
// A Call is a value: a verb, keys with their limits, a cost and options. A Decider decides it. A Limiter on a Redis
// client is one; the others stand before it and take it as their next: packages cached, batched, guard and observed.
// Each handles every verb or hands it on, so they can be put together in any order:
//
//	decider := observed.New(cached.New(guard.New(limiter, guard.Options{}), cached.Options{}), metrics.Observe)
//	limiter = ratelimit.With(decider)
//
// The methods of a Limiter are the verbs in short. Whatever has no method is a Call:
//
//	result, err := limiter.Decide(ctx, ratelimit.Call{
//		Keys: []ratelimit.Key{{Name: "login:7", Limits: attempts}},
//		Ban:  15 * time.Minute,
//	})
//
// # The Redis client
//
// Every request waits for the limiter, so give it a client that fails fast when Redis is in trouble: short DialTimeout,
// ReadTimeout and PoolTimeout, a DialerRetries of 1, and ContextTimeoutEnabled, without which the deadlines of contexts
// do not count. go-redis repeats commands whose reply got lost. It never repeats commands of this package that charge
// units, because that could charge them twice.
//
// Constructors panic at mistakes of the program, such as a nil client, with a sentence that says what is wrong.
package ratelimit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit/internal/doors"
	"redis-throttle/ratelimit/internal/lag"
	"redis-throttle/ratelimit/internal/shared"
)

// Decider decides calls. It is safe for concurrent use. A denied call is no error: Result.Limited says so. An error
// says that the call was not decided, or that its reply was lost. IsOutage and IsOverload tell whose fault it is; any
// other error is a mistake, or that of a context that ended. Decide leaves the keys and limits of a call as they are.
type Decider interface {
	Decide(ctx context.Context, call Call) (Result, error)
}

// Options configure New. The zero Options are a good default.
type Options struct {
	// Patience is how long a call that waits (VerbWait, VerbLease) goes on without a sign of life of the server, which
	// is asked meanwhile, and by how much a reply may come after the call's time: 3 s when it is 0. Such a call has a
	// connection of its own, outside of the client's pool, and the client's ReadTimeout does not count for it.
	Patience time.Duration
}

// Limiter has the verbs of a Decider as methods.
type Limiter struct {
	next Decider
}

// New returns a Limiter that sends calls to Redis: by a *redis.Client, *redis.ClusterClient, *redis.Ring, *redis.Conn,
// *redis.Tx, redis.UniversalClient, or anything else that sends a command. Calls that are under way at the same time
// share pipelines of a *redis.Client, *redis.ClusterClient or *redis.Ring, as package pipelimit says. Hooks of such a
// client see them in ProcessPipelineHook. A call has its answer when Decide returns, so pipelines are for package
// pipelimit. New panics if client is nil or a pipeline. Where the server has no module, calls are sent as functions:
// see package commands, whose On is a client with options for that.
func New(client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}, o Options) *Limiter {
	if isNil(client) {
		panic("ratelimit: New needs a Redis client, not nil")
	}
	if _, ok := client.(redis.Pipeliner); ok {
		panic("ratelimit: a pipeline has no answer when a call returns; queue calls with package pipelimit")
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	var way doors.Options
	var to sender = client
	if chosen, ok := client.(*doors.Chosen); ok {
		if way, to = chosen.Options, chosen.Sender; isNil(to) {
			panic("ratelimit: New needs a Redis client, not nil")
		}
	}
	sends := together(to)
	r := &remote{client: to, patience: o.Patience, doors: doors.New(sends, way, IsOutage)}
	if _, shares := sends.(*shared.Client); !shares {
		r.leaving = new(shared.Leaving)
		if doors.Locates(sends) {
			r.server = new(lag.Server)
		}
	}
	return &Limiter{r}
}

// together is a client whose calls share pipelines, where client is one of go-redis for many callers. Whatever else
// sends commands, such as a type that embeds one of them, keeps its own way.
func together(client sender) sender {
	switch client := client.(type) {
	case *redis.Client:
		return shared.Of(client)
	case *redis.ClusterClient:
		return shared.Of(client)
	case *redis.Ring:
		return shared.Of(client)
	}
	return client
}

// With returns the verbs of next, which is any Decider. It panics if next is nil or a zero Limiter.
func With(next Decider) *Limiter {
	if isNil(next) {
		panic("ratelimit: With needs a Decider, not nil")
	}
	if l, ok := next.(*Limiter); ok && l.next == nil {
		panic(errNoLimiter.Error())
	}
	return &Limiter{next}
}

// isNil also finds a nil pointer or function in an interface.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return (value.Kind() == reflect.Pointer || value.Kind() == reflect.Func) && value.IsNil()
}

var errNoLimiter = errors.New("ratelimit: a Limiter is made by New or With")

// Decide decides any call. See Decider.
func (l *Limiter) Decide(ctx context.Context, call Call) (Result, error) {
	if l == nil || l.next == nil {
		return Result{}, errNoLimiter
	}
	return l.next.Decide(ctx, call)
}

// Limit takes cost units of all limits at once, or none. With a cost of 0 only a ban denies the call.
func (l *Limiter) Limit(ctx context.Context, key string, limits Limits, cost int64) (Result, error) {
	return l.Decide(ctx, Call{Keys: []Key{{Name: key, Limits: limits}}, Cost: cost, NoCost: cost == 0})
}

// LimitAll takes cost units of the limits of all keys, or none.
func (l *Limiter) LimitAll(ctx context.Context, keys []Key, cost int64) (Result, error) {
	return l.Decide(ctx, Call{Keys: keys, Cost: cost, NoCost: cost == 0})
}

// LimitAny takes cost units of the limits of the first key that has room, in the order given. If none has, the result
// is about the key that has room soonest.
func (l *Limiter) LimitAny(ctx context.Context, keys []Key, cost int64) (Result, error) {
	return l.Decide(ctx, Call{Keys: keys, Any: true, Cost: cost, NoCost: cost == 0})
}

// Peek tells what Limit would answer, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string, limits Limits, cost int64) (Result, error) {
	return l.Decide(ctx, Call{Verb: VerbPeek, Keys: []Key{{Name: key, Limits: limits}}, Cost: cost, NoCost: cost == 0})
}

// Refund gives cost units back, never above full, and returns how many came back: of several limits, to the one that
// got most.
func (l *Limiter) Refund(ctx context.Context, key string, limits Limits, cost int64) (int64, error) {
	result, err := l.Decide(ctx, Call{Verb: VerbRefund, Keys: []Key{{Name: key, Limits: limits}}, Cost: cost, NoCost: cost == 0})
	return -result.Granted, err
}

// Wait answers when the units are there, in order of arrival. If they do not come in time, the error is a
// *LimitedError. It waits until just before the deadline of ctx; without one, as long as it takes. What happens if that
// is not enough depends on the limits:
//
//   - With Rate limits only, the call reserves its units when it comes. If their time comes too late, it is
//     limited at once.
//   - With a Window or a Fixed among them, nothing is reserved. The call stands in line, and is limited when its time
//     is over, since a refund may come before.
//
// When ctx is cancelled, Wait returns at once and the caller leaves the line; units that it got at the same moment are
// given back in the background. Each call that waits has a connection of its own, so that those that wait keep nobody
// else from the server. A *redis.Conn and a *redis.Tx are one connection, and Wait on them is an error.
func (l *Limiter) Wait(ctx context.Context, key string, limits Limits, cost int64) (Result, error) {
	result, err := l.Decide(ctx, Call{Verb: VerbWait, Keys: []Key{{Name: key, Limits: limits}}, Cost: cost, NoCost: cost == 0})
	if err == nil {
		err = result.Err()
	}
	return result, err
}

// Ban limits every call on key for d, in whole milliseconds, whatever its limits would say. A ban is never shortened,
// but 0 lifts it. The result is for how long the key is banned now.
func (l *Limiter) Ban(ctx context.Context, key string, d time.Duration) (time.Duration, error) {
	result, err := l.Decide(ctx, Call{Verb: VerbBan, Keys: []Key{{Name: key}}, Ban: d})
	return result.Lasts, err
}

// Reset deletes a key (DEL): its limits are full again, its bans and leases have ended. It returns whether there was
// one.
func (l *Limiter) Reset(ctx context.Context, key string) (bool, error) {
	result, err := l.Decide(ctx, Call{Verb: VerbReset, Keys: []Key{{Name: key}}})
	return result.Granted != 0, err
}

// ErrNoModule is the error of a server that does not know the command and takes no function or script for it either, or
// whose module does not know one of its words, such as version 0.1.0. It is also that of a call that waits where only
// the module can make it wait.
var ErrNoModule = errors.New("the server has no throttle.so, or its version is too old")

// remote sends calls to Redis.
type remote struct {
	client   sender
	patience time.Duration
	doors    *doors.Doors
	signs    signs
	leaving  *shared.Leaving // nil if the client itself leaves servers that have no data
	server   *lag.Server     // nil if the client itself says when this process is to blame for a call whose time is over, or calls no server
}

type sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

func (r *remote) Decide(ctx context.Context, call Call) (Result, error) {
	result, err := r.watched(ctx, call)
	switch {
	case err == nil: // which allocates nothing
	case IsOutage(err):
		err = r.located(err)
		// go-redis asks a cluster who its masters are when it repeats a command, which it does with few of ours, or
		// else once in a minute.
		if cluster, ok := r.client.(interface{ ReloadState(ctx context.Context) }); ok {
			cluster.ReloadState(ctx) // in the background, once in 200 ms at most
		}
		if r.leaving != nil {
			r.leaving.After(r.client, err)
		}
	case isRefused(err):
		err = r.located(err)
	}
	return result, err
}

// isRefused says whether a server does not let the client in, or the client does not trust the server.
func isRefused(err error) bool {
	return errors.As(err, new(tls.RecordHeaderError)) || errors.As(err, new(*tls.CertificateVerificationError)) ||
		redis.HasErrorPrefix(err, "WRONGPASS") || redis.HasErrorPrefix(err, "NOAUTH")
}

// located is an error with what it does not say: the address that the client was given, and that it is asked by TLS. A
// server that speaks none answers nothing, or something else. go-redis tells no address of Sentinels.
func (r *remote) located(err error) error {
	var addr string
	var secured bool
	switch client := r.client.(type) {
	case interface{ Options() *redis.Options }:
		o := client.Options()
		addr, secured = o.Addr, o.TLSConfig != nil
		if addr == "FailoverClient" {
			return err
		}
	case interface{ Options() *redis.ClusterOptions }:
		o := client.Options()
		addr, secured = strings.Join(o.Addrs, " or "), o.TLSConfig != nil
	default:
		return err
	}
	switch {
	case secured:
		return fmt.Errorf("%w (server %s, by TLS)", err, addr)
	case !strings.Contains(err.Error(), addr):
		return fmt.Errorf("%w (server %s)", err, addr)
	}
	return err
}

// watched is ask, and takes no time that this process was late for that of the server.
func (r *remote) watched(ctx context.Context, call Call) (Result, error) {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return Result{}, fmt.Errorf("ratelimit: %v: %w", call.Verb, shared.Begins(ctx))
	}
	if r.server == nil {
		return r.ask(ctx, call)
	}
	watch := shared.Watch(r.server)
	result, err := r.ask(ctx, call)
	if err == nil || errors.As(err, new(redis.Error)) {
		r.server.Answer()
	}
	return result, watch.End(err)
}

func (r *remote) ask(ctx context.Context, call Call) (Result, error) {
	if call.Verb == VerbWait || (call.Verb == VerbLease && call.MaxWait != 0) {
		return r.wait(ctx, call)
	}
	cmd, err := call.command()
	if err != nil {
		return Result{}, fmt.Errorf("ratelimit: %s: %w", cmd.name, err)
	}
	reply, err := r.send(ctx, &cmd)
	return call.answer(&cmd, reply, err)
}

// answer is what the reply to c says.
func (c *Call) answer(cmd *command, reply any, err error) (result Result, _ error) {
	if err == nil {
		result, err = c.result(cmd.name, reply)
	}
	if err != nil {
		return Result{}, explain(cmd.name, err)
	}
	return result, nil
}

// send sends cmd to where its key is, as what the server there has.
func (r *remote) send(ctx context.Context, cmd *command) (any, error) {
	return r.doors.Send(ctx, &doors.Command{
		Args: cmd.args, Key: int(cmd.key), Charges: cmd.charges, Plain: cmd.name == names[VerbReset], ModuleOnly: cmd.name == names[VerbDenied],
	})
}

func newCmd(ctx context.Context, cmd *command) *redis.Cmd {
	c := redis.NewCmd(ctx, cmd.args...)
	c.SetFirstKeyPos(cmd.key)
	return c
}

// explain wraps what go-redis or the server said. IsOutage tells whether Redis is to blame. No error holds a key.
func explain(name string, err error) error {
	if errors.Is(err, errNoLimiter) {
		return err
	}
	var nothing *doors.NothingError
	switch {
	case doors.IsMissing(err) && doors.Lacks(err) == "", errors.As(err, &nothing), errors.Is(err, doors.ErrWithoutModule):
		return fmt.Errorf("ratelimit: %s: %w: %w", name, ErrNoModule, serverError(keyless(err.Error())))
	case redis.HasErrorPrefix(err, "syntax error near '"+compact+"'"), redis.HasErrorPrefix(err, "syntax error near 'EACH'"):
		return fmt.Errorf("ratelimit: %s: %w: %w", name, ErrNoModule, err)
	}
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		return fmt.Errorf("ratelimit: %s: %w: in a cluster the keys of a call need the same hash tag, such as {42}:requests and {42}:tokens", name, err)
	}
	return fmt.Errorf("ratelimit: %s: %w", name, err)
}

// serverError is an error reply without what does not belong into a log.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks it as a reply, as go-redis does.
func (serverError) RedisError() {}
