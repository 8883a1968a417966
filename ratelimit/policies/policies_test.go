package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
)

// lines is a slog.Handler that keeps messages.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, strings.TrimPrefix(r.Message, prefix))
	return nil
}

func (*lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *lines) WithGroup(string) slog.Handler          { return l }

// taken are the lines since the last time.
func (l *lines) taken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text
	l.text = nil
	return text
}

// decides is a Decider that keeps what it is asked.
type decides struct {
	asked  []ratelimit.Call
	answer func(call ratelimit.Call) (ratelimit.Result, error)
}

func (d *decides) Decide(_ context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	d.asked = append(d.asked, call)
	if d.answer != nil {
		return d.answer(call)
	}
	return ratelimit.Result{By: "server", Key: call.Keys[0].Name}, nil
}

func reads(hash map[string]string) func(context.Context) (map[string]string, error) {
	return func(context.Context) (map[string]string, error) { return hash, nil }
}

func (c *tableCall) call(t *testing.T) ratelimit.Call {
	verbs := map[string]ratelimit.Verb{}
	for v := ratelimit.VerbLimit; v <= ratelimit.VerbThrottle; v++ {
		verbs[v.String()] = v
	}
	require.Contains(t, verbs, c.Verb)
	call := ratelimit.Call{Verb: verbs[c.Verb], Cost: c.Cost, Ban: lengthOf(t, c.Ban), BanAfter: c.BanAfter, MaxWait: lengthOf(t, c.MaxWait),
		Any: c.Any, Group: c.Group, ID: c.ID}
	for _, k := range c.Keys {
		key := ratelimit.Key{Name: k.Name, Limits: limits(t, k.Limits), Slots: k.Slots, TTL: lengthOf(t, k.TTL)}
		if k.Policy != "" {
			key.Limits = ratelimit.Policy(k.Policy, key.Limits...)
		}
		call.Keys = append(call.Keys, key)
	}
	return call
}

// plain is a call as it is sent, without the names of its limits.
func plain(call ratelimit.Call) string {
	text := fmt.Sprintf("%v cost %d ban %v after %s wait %v any %v group %q id %s", call.Verb, call.Cost, call.Ban, call.BanAfter, call.MaxWait, call.Any, call.Group, call.ID)
	for _, key := range call.Keys {
		text += fmt.Sprintf("; %s slots %d ttl %v", key.Name, key.Slots, key.TTL)
		for i := range key.Limits {
			l := about.Of(&key.Limits[i])
			text += fmt.Sprint(l.Words, l.Unit)
		}
	}
	return text
}

func TestWhatPoliciesMakeOfCalls(t *testing.T) {
	t.Parallel()
	cases := readTable(t).Calls
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			log, next, call := &lines{}, &decides{}, c.Call.call(t)
			if c.Next != nil {
				next.answer = func(call ratelimit.Call) (ratelimit.Result, error) {
					return ratelimit.Result{
						By: "server", Limited: c.Next.Limited, Key: call.Keys[c.Next.Key].Name, KeyIndex: c.Next.Key, Rule: c.Next.Rule, Limit: c.Next.Limit,
					}, nil
				}
			}
			p := New(next, nil, Options{Read: reads(c.Hash), Refresh: time.Hour, Logger: slog.New(log)})
			require.NoError(t, p.Reader().Read(t.Context()))
			before := plain(call)
			var result ratelimit.Result
			for range 3 { // what is said is said once
				var err error
				result, err = p.Decide(t.Context(), call)
				require.NoError(t, err)
			}
			assert.Equal(t, before, plain(call), "the call stays as it is")
			if c.PassesOn == nil {
				assert.Empty(t, next.asked)
			} else {
				require.Len(t, next.asked, 3)
				assert.Equal(t, plain(c.PassesOn.call(t)), plain(next.asked[0]))
				for i, names := range c.Names {
					assert.Equal(t, names, namesOf(next.asked[0].Keys[i].Limits))
				}
			}
			if c.Result != nil {
				assert.Equal(t, *c.Result, tableResult{result.Limited, result.KeyIndex, result.Rule, result.Limit, result.Granted, byOf(c.Result, result)})
				assert.Equal(t, call.Keys[result.KeyIndex].Name, result.Key)
			}
			var said []string
			for _, line := range log.taken() {
				if !strings.HasPrefix(line, "throttle:policies: ") {
					said = append(said, line)
				}
			}
			if len(c.Logs) == 0 {
				assert.Empty(t, said)
				return
			}
			require.Len(t, said, 1)
			for _, part := range c.Logs {
				assert.Contains(t, said[0], part)
			}
		})
	}
}

// byOf is where a result was decided, if the table says that.
func byOf(want *tableResult, result ratelimit.Result) string {
	if want.By == "" {
		return ""
	}
	return result.By
}

// stored is a client on a hash; nil is one that does not answer.
type stored struct {
	mu    sync.Mutex
	hash  map[string]string
	asked map[string]int
	resp3 bool
}

func (s *stored) Process(_ context.Context, cmd redis.Cmder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[cmd.Name()]++
	c := cmd.(*redis.Cmd)
	if s.hash == nil {
		c.SetErr(errors.New("connection refused"))
		return c.Err()
	}
	if cmd.Name() == "hget" {
		value, ok := s.hash[cmd.Args()[2].(string)]
		if !ok {
			c.SetErr(redis.Nil)
			return redis.Nil
		}
		c.SetVal(value)
		return nil
	}
	all, flat := map[any]any{}, []any{}
	for field, value := range s.hash {
		all[field], flat = value, append(flat, field, value)
	}
	if s.resp3 {
		c.SetVal(all)
	} else {
		c.SetVal(flat)
	}
	return nil
}

func (s *stored) set(hash map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hash = hash
}

func TestReadingsOfAHash(t *testing.T) {
	t.Parallel()
	cases := readTable(t).Reads
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for _, from := range []string{"RESP2", "RESP3", "a function"} {
				log, store := &lines{}, &stored{resp3: from == "RESP3"}
				o := Options{Logger: slog.New(log), Refresh: time.Hour}
				if from == "a function" {
					o.Read = func(context.Context) (map[string]string, error) {
						if store.hash == nil {
							return nil, errors.New("no such file")
						}
						return maps.Clone(store.hash), nil
					}
				}
				r := NewReader(store, o)
				for i, step := range c.Steps {
					store.set(step.Hash)
					assert.Equal(t, step.Hash == nil, r.Read(t.Context()) != nil)
					assert.ElementsMatch(t, step.Logs, log.taken(), "step %d, from %s", i+1, from)
					for _, count := range step.Counts {
						rule := r.Rules(t.Context()).Choose(count.Name, count.Key)
						if count.Value == nil {
							assert.Nil(t, rule, "step %d", i+1)
						} else if assert.NotNil(t, rule, "step %d", i+1) {
							assert.Equal(t, *count.Value, rule.Text, "step %d", i+1)
						}
					}
				}
			}
		})
	}
}
