package ratelimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
	"redis-throttle/tests/server"
)

// forgetful is a client that keeps little of a hash: a thousand processes are one here, and share its memory.
type forgetful struct{ *redis.Client }

func (f forgetful) Process(ctx context.Context, cmd redis.Cmder) error {
	err := f.Client.Process(ctx, cmd)
	if err == nil && cmd.Name() == "hgetall" {
		cmd.(*redis.Cmd).SetVal([]any{"@version", "1", "api", "RATE 60/m"})
	}
	return err
}

// What a thousand processes ask of a server for one hash with 10,000 overrides and a version: commands in a second, and
// the CPU of the server for them. Their first readings, of the whole hash, are told by themselves.
//
//	scripts/test ./tests/ratelimit -run '^$' -bench Policies -benchtime 1x
func BenchmarkPoliciesOfAThousandProcesses(b *testing.B) {
	const processes, overrides, seconds = 1000, 10_000, 10
	s := server.Start(b)
	words := []string{"HSET", "throttle:policies", "@version", "1", "api", "RATE 60/m"}
	for i := range overrides {
		words = append(words, "api/user:"+strconv.Itoa(i), fmt.Sprintf("RATE %d/m", 1+i))
	}
	s.MustDo(words...)
	client := forgetful{s.Client()}
	limits := ratelimit.Policy("api", ratelimit.Rate(100, time.Minute))
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:1", Limits: limits}}}
	layers := make([]*policies.Policies, processes)
	for i := range layers {
		layers[i] = policies.New(answers{}, client, policies.Options{Logger: slog.New(slog.DiscardHandler)})
	}
	for b.Loop() {
		began := time.Now()
		for _, layer := range layers {
			require.NoError(b, layer.Reader().Read(b.Context()))
		}
		b.ReportMetric(time.Since(began).Seconds()*1000/processes, "ms/whole")
		s.MustDo("CONFIG", "RESETSTAT")
		cpu := cpuOf(b, s)
		var calls atomic.Int64
		var wg sync.WaitGroup
		end := time.Now().Add(seconds * time.Second)
		for _, layer := range layers {
			wg.Go(func() {
				for time.Now().Before(end) { // 20 calls a second
					_, _ = layer.Decide(b.Context(), call)
					calls.Add(1)
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(calls.Load())/seconds, "calls/s")
		for _, command := range []string{"hget", "hgetall"} {
			n := 0
			if stat := s.Info("commandstats")["cmdstat_"+command]; stat != "" {
				_, _ = fmt.Sscanf(strings.TrimPrefix(strings.Split(stat, ",")[0], "calls="), "%d", &n)
			}
			b.ReportMetric(float64(n)/seconds, command+"/s")
		}
		b.ReportMetric((cpuOf(b, s)-cpu)/seconds*100, "%CPU")
	}
}

// cpuOf is how many seconds of CPU a server has taken.
func cpuOf(b *testing.B, s *server.Server) (seconds float64) {
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		n, err := strconv.ParseFloat(s.Info("cpu")[field], 64)
		require.NoError(b, err)
		seconds += n
	}
	return seconds
}

// answers is a Decider that costs nothing.
type answers struct{}

func (answers) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{By: "server"}, nil
}
