package guard

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/lru"
)

// local decides in this process what the server decides: it runs the same commands, on keys that it keeps itself.
type local struct {
	processes  int64
	atLeastOne bool
	epoch      time.Time // what the clock is counted from, so that nobody sets it
	own, whole *ratelimit.Limiter

	mu     sync.Mutex
	runner embedded.Runner
	keys   *lru.Map[[sha256.Size]byte, embedded.Key]
}

func newLocal(processes int, atLeastOne bool, keys int) *local {
	l := &local{
		processes: int64(processes), atLeastOne: atLeastOne, epoch: time.Now(),
		keys: lru.New[[sha256.Size]byte, embedded.Key](keys),
	}
	l.own = ratelimit.New(&client{l, true}, ratelimit.Options{})
	l.whole = ratelimit.New(&client{l, false}, ratelimit.Options{})
	return l
}

// knows says whether anything is kept of any of some keys.
func (l *local) knows(keys []ratelimit.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range keys {
		if _, ok := l.keys.Get(sha256.Sum256([]byte(keys[i].Name))); ok {
			return true
		}
	}
	return false
}

// mistake is the server's error for a call that is wrong.
type mistake string

func (m mistake) Error() string { return string(m) }

// RedisError marks it as a reply, as go-redis does.
func (mistake) RedisError() {}

// errNoPart is for a call whose limits, divided by the processes, are nothing.
var errNoPart = errors.New("guard: this process's part of the limits is no unit")

// decideByPart decides a call by this process's part of its limits. Where that part is too small for
// the call, the answer is to come back when the server is tried again.
func (l *local) decideByPart(ctx context.Context, call ratelimit.Call, untilRetry time.Duration) (ratelimit.Result, error) {
	call = alone(call)
	result, err := l.own.Decide(ctx, call)
	result.By = "local"
	switch {
	case err == nil && (!result.Limited || result.RetryAfter != ratelimit.Never):
		return result, nil
	case err != nil && !errors.Is(err, errNoPart):
		return ratelimit.Result{}, err
	}
	// It may be just the part that is too small.
	whole, wrong := l.whole.Decide(ctx, call)
	whole.By = "local"
	switch {
	case wrong != nil:
		return ratelimit.Result{}, wrong
	case !whole.Limited || whole.RetryAfter != ratelimit.Never:
		result.Limited, result.RetryAfter, result.By = true, untilRetry, "local"
		result.ResetAfter, result.NextAfter = max(result.ResetAfter, untilRetry), max(result.NextAfter, untilRetry)
		return result, nil
	case err == nil:
		return result, nil
	}
	return whole, nil
}

// alone is what is decided here of a call: nobody stands in line in a process.
func alone(call ratelimit.Call) ratelimit.Call {
	switch call.Verb {
	case ratelimit.VerbWait:
		call.Verb = ratelimit.VerbLimit
	case ratelimit.VerbLease:
	default:
		return call
	}
	call.MaxWait, call.Group, call.Priority, call.Weight = 0, "", 0, 0
	return call
}

// commands are those that decide something new, and those about leases that were taken here.
var commands = map[string]*command.Command{
	command.Limit.Name: command.Limit, command.MLimit.Name: command.MLimit, command.Peek.Name: command.Peek,
	command.Throttle.Name: command.Throttle, command.Lease.Name: command.Lease, command.Renew.Name: command.Renew,
	command.Release.Name: command.Release, command.Settle.Name: command.Settle,
}

// client runs commands for a Limiter: on the keys of local, by this process's part of the limits, or on keys that are
// empty and thrown away.
type client struct {
	*local
	keep bool
}

// Process runs a command.
func (c *client) Process(_ context.Context, cmd redis.Cmder) error {
	reply, err := c.run(cmd.Args())
	if err != nil {
		cmd.SetErr(err)
		return err
	}
	cmd.(interface{ SetVal(any) }).SetVal(reply) // a Limiter sends nothing but *redis.Cmd
	return nil
}

func (c *client) run(args []any) (any, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	known := commands[words[0]]
	if known == nil {
		return nil, mistake("ERR " + words[0] + " is not decided without the server")
	}
	from, to := 1, 2
	if words[0] == command.MLimit.Name || words[0] == command.Settle.Name {
		n, _ := strconv.Atoi(words[1])
		from, to = 2, min(2+n, len(words))
	}
	if c.keep && words[0] != command.Throttle.Name {
		parts, ok := share(words[to:], c.processes, c.atLeastOne)
		if !ok {
			return nil, errNoPart
		}
		words = append(words[:to:to], parts...)
	}
	return c.apply(known, words, words[from:to])
}

func (c *client) apply(known *command.Command, words, names []string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes := make([][]byte, len(words))
	for i, word := range words {
		bytes[i] = []byte(word)
	}
	kept, keys := make([]embedded.Key, len(names)), make([]*embedded.Key, len(names))
	for i, name := range names {
		if c.keep {
			kept[i], _ = c.keys.Get(sha256.Sum256([]byte(name)))
		}
		keys[i] = &kept[i]
	}
	nowNs := c.epoch.UnixNano() + int64(time.Since(c.epoch))
	outcome := c.runner.Run(known, &embedded.Call{NowNs: nowNs, Words: bytes}, keys...)
	reply, err := replyOf(outcome)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		switch id := sha256.Sum256([]byte(name)); {
		case !c.keep:
		case kept[i].Exists():
			c.keys.Put(id, kept[i])
		default:
			c.keys.Delete(id)
		}
	}
	return reply, nil
}

func replyOf(c *command.Call) (any, error) {
	switch c.Reply {
	case command.ReplyInteger:
		return c.Integers[0], nil
	case command.ReplyIntegers:
		return array(c.Integers), nil
	case command.ReplyIntegersEach:
		reply := array(c.Integers)
		for _, each := range c.Each {
			reply = append(reply, array(each[:]))
		}
		return reply, nil
	case command.ReplyError:
		return nil, mistake(c.Error)
	case command.ReplyWrongArity:
		return nil, mistake("ERR wrong number of arguments")
	}
	return nil, fmt.Errorf("guard: a reply of kind %d", c.Reply) // a Limiter asks for no other
}

func array(integers []int64) []any {
	reply := make([]any, len(integers))
	for i, n := range integers {
		reply[i] = n
	}
	return reply
}
