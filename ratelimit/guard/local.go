package guard

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"redis-throttle/command"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/lru"
)

// local decides in this process what CL.LIMIT decides in the server: it runs that command, on
// values that it keeps itself.
type local struct {
	processes  int64
	atLeastOne bool
	epoch      time.Time // what the clock is counted from, so that nobody sets it

	mu     sync.Mutex
	call   command.Call
	past   command.Past
	args   [][]byte
	values *lru.Map[[sha256.Size]byte, value]
}

// value is what the server would keep at a key.
type value struct {
	state       []byte
	expiresAtMs int64
}

func newLocal(processes int, atLeastOne bool, keys int) *local {
	return &local{
		processes: int64(processes), atLeastOne: atLeastOne, epoch: time.Now(),
		values: lru.New[[sha256.Size]byte, value](keys),
	}
}

// mistake is the server's error for a call that is wrong.
type mistake string

func (m mistake) Error() string { return string(m) }

// RedisError marks it as a reply, as go-redis does.
func (mistake) RedisError() {}

// decide decides a call by this process's part of its limits. Where that part is too small for
// the call, the answer is to come back when the server is tried again.
func (l *local) decide(key string, limits ratelimit.Limits, opts []ratelimit.LimitOption, untilRetry time.Duration) (ratelimit.Result, error) {
	words, err := ratelimit.Words(limits, opts...)
	if err != nil {
		return ratelimit.Result{}, fmt.Errorf("guard: %w", err)
	}
	var result ratelimit.Result
	parts, ok := share(words, l.processes, l.atLeastOne)
	if ok {
		result, err = l.run(key, true, parts, len(limits))
		if err == nil && (!result.Limited || result.RetryAfter != ratelimit.Never) {
			return result, nil
		}
	}
	// It may be just the part that is too small.
	whole, wrong := l.run(key, false, words, len(limits))
	switch {
	case wrong != nil:
		return ratelimit.Result{}, wrong
	case !whole.Limited || whole.RetryAfter != ratelimit.Never:
		result.Limited, result.RetryAfter, result.By = true, untilRetry, ratelimit.FromLocal
		result.ResetAfter, result.NextAfter = max(result.ResetAfter, untilRetry), max(result.NextAfter, untilRetry)
		return result, nil
	case ok && err == nil:
		return result, nil
	}
	return whole, nil
}

// run runs CL.LIMIT on the value of key, or on none, whose outcome is thrown away, unless keep.
func (l *local) run(key string, keep bool, words []string, limits int) (ratelimit.Result, error) {
	id := sha256.Sum256([]byte(key))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.args = append(l.args[:0], []byte(key))
	for _, word := range words {
		l.args = append(l.args, []byte(word))
	}
	l.args = append(l.args, []byte("COMPACT"))
	c := &l.call
	c.ArgCount, c.Args = len(l.args), l.args[:min(len(l.args), command.MaxArgs)]
	c.NowNs = l.epoch.UnixNano() + int64(time.Since(l.epoch))
	c.Past = &l.past
	c.KeysRoom[0] = command.Key{}
	c.Key = &c.KeysRoom[0]
	had := int64(0) // when the value expires, in ms since the Unix epoch
	if kept, ok := l.values.Get(id); ok && keep && kept.expiresAtMs > c.NowNs/int64(time.Millisecond) {
		c.Kind, c.Value, had = command.String, kept.state, kept.expiresAtMs
	}
	c.Run(command.Limit)
	switch c.Reply {
	case command.ReplyIntegers:
	case command.ReplyWrongArity:
		return ratelimit.Result{}, fmt.Errorf("guard: %w", mistake("ERR wrong number of arguments for 'cl.limit' command"))
	default:
		return ratelimit.Result{}, fmt.Errorf("guard: %w", mistake(c.Error))
	}
	if keep {
		switch c.Effect {
		case command.Set:
			expires := c.ExpireAtMs
			switch {
			case expires == 0:
				expires = had
			case c.ExpireNoEarlier:
				expires = max(expires, had)
			}
			l.values.Put(id, value{slices.Clone(c.NewValue), expires})
		case command.Delete:
			l.values.Delete(id)
		}
	}
	result, err := ratelimit.ResultOf(c.Integers, limits)
	result.By = ratelimit.FromLocal
	return result, err
}
