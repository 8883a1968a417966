package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
)

// scripted is a server that answers as it is told.
type scripted struct {
	say   func(ctx context.Context) (ratelimit.Result, error)
	asked int
}

func (s *scripted) Decide(ctx context.Context, _ ratelimit.Call) (ratelimit.Result, error) {
	s.asked++
	return s.say(ctx)
}

var told = map[string]func(ctx context.Context) (ratelimit.Result, error){
	"ok":       func(context.Context) (ratelimit.Result, error) { return ratelimit.Result{By: "server"}, nil },
	"outage":   func(context.Context) (ratelimit.Result, error) { return ratelimit.Result{}, io.EOF },
	"overload": func(context.Context) (ratelimit.Result, error) { return ratelimit.Result{}, redis.ErrPoolTimeout },
	"mistake":  func(context.Context) (ratelimit.Result, error) { return ratelimit.Result{}, mistake("NOPERM") },
	"left":     func(ctx context.Context) (ratelimit.Result, error) { return ratelimit.Result{}, ctx.Err() },
}

// spec/clients/breaker.json says when a server is left alone, in every language.
func TestTheBreakerDoesWhatTheTableSays(t *testing.T) {
	type step struct {
		At                 int
		Call, Begins, Ends string
		Sent               bool
		Out                *bool
		Times              int
	}
	var table struct {
		Failures int
		PauseMs  int `json:"pause_ms"`
		Cases    []struct {
			Rule  string
			Steps []step
		}
	}
	text, err := os.ReadFile("../../spec/clients/breaker.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &table))
	for _, c := range table.Cases {
		t.Run(c.Rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{}
				g := New(server, Options{
					Failures: table.Failures, Pause: time.Duration(table.PauseMs) * time.Millisecond, OnChange: func(string, error) {},
				})
				began, call := time.Now(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "k"}}}
				ends := map[string]chan string{}
				for i, s := range c.Steps {
					time.Sleep(time.Until(began.Add(time.Duration(s.At) * time.Millisecond)))
					for range max(s.Times, 1) {
						before := server.asked
						switch {
						case s.Begins != "":
							end := make(chan string)
							ends[s.Begins] = end
							server.say = func(ctx context.Context) (ratelimit.Result, error) { return told[<-end](ctx) }
							go func() { _, _ = g.Decide(t.Context(), call) }()
							synctest.Wait()
						case s.Ends != "":
							ends[s.Ends] <- s.Call
							synctest.Wait()
						default:
							ctx, leave := context.WithCancel(t.Context())
							server.say = func(ctx context.Context) (ratelimit.Result, error) {
								if s.Call == "left" {
									leave()
								}
								return told[s.Call](ctx)
							}
							_, _ = g.Decide(ctx, call)
							leave()
						}
						assert.Equal(t, s.Sent, server.asked > before, "step %d", i)
					}
					if s.Out != nil {
						assert.Equal(t, *s.Out, g.Out(), "step %d", i)
					}
				}
			})
		})
	}
}

// spec/clients/shares.json says what one process's part of the limits is, in every language.
func TestTheShareOfAProcessIsThatOfTheTable(t *testing.T) {
	var table struct {
		Cases []struct {
			Limits     string
			Processes  int64
			AtLeastOne bool `json:"at_least_one"`
			Part       *string
		}
	}
	text, err := os.ReadFile("../../spec/clients/shares.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &table))
	require.NotEmpty(t, table.Cases)
	for _, c := range table.Cases {
		parts, ok := share(wordsOf(c.Limits), c.Processes, c.AtLeastOne)
		require.Equal(t, c.Part != nil, ok, c.Limits)
		if ok {
			assert.Equal(t, inNs(wordsOf(*c.Part)), inNs(parts), c.Limits)
		}
	}
}

func wordsOf(limits string) []string { return strings.Fields(strings.ReplaceAll(limits, ";", "")) }

// inNs writes periods in one unit.
func inNs(words []string) []string {
	same := slices.Clone(words)
	for i, word := range words {
		count, period, _ := strings.Cut(word, "/")
		if length, err := time.ParseDuration(period); err == nil {
			same[i] = fmt.Sprintf("%s/%dns", count, length)
		}
	}
	return same
}
