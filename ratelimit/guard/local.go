package guard

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"redis-throttle/command"
	"redis-throttle/embedded"
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
	runner embedded.Runner
	words  [][]byte
	keys   *lru.Map[[sha256.Size]byte, embedded.Key]
}

func newLocal(processes int, atLeastOne bool, keys int) *local {
	return &local{
		processes: int64(processes), atLeastOne: atLeastOne, epoch: time.Now(),
		keys: lru.New[[sha256.Size]byte, embedded.Key](keys),
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

// run runs CL.LIMIT on a key, or on one that is empty, whose outcome is thrown away, unless keep.
func (l *local) run(key string, keep bool, words []string, limits int) (ratelimit.Result, error) {
	id := sha256.Sum256([]byte(key))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.words = append(l.words[:0], []byte(command.Limit.Name), []byte(key))
	for _, word := range words {
		l.words = append(l.words, []byte(word))
	}
	l.words = append(l.words, []byte("COMPACT"))
	var kept embedded.Key
	if keep {
		kept, _ = l.keys.Get(id)
	}
	nowNs := l.epoch.UnixNano() + int64(time.Since(l.epoch))
	c := l.runner.Run(command.Limit, &embedded.Call{NowNs: nowNs, Words: l.words}, &kept)
	switch c.Reply {
	case command.ReplyIntegers:
	default:
		return ratelimit.Result{}, fmt.Errorf("guard: %w", mistake(c.Error))
	}
	switch {
	case !keep || c.Effect == command.Keep:
	case kept.Exists():
		l.keys.Put(id, kept)
	default:
		l.keys.Delete(id)
	}
	result, err := ratelimit.ResultOf(c.Integers, limits)
	result.By = ratelimit.FromLocal
	return result, err
}
