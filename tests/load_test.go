package tests

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// load is traffic that goes on while a test does something to the server.
type load struct {
	calls   atomic.Int64
	stopped atomic.Bool
	wg      sync.WaitGroup
}

// startLoad keeps four connections busy with the commands that command makes. accept
// says whether a reply to one is fine; nil accepts whatever is no error.
func startLoad(t *testing.T, s *server.Server, command func(*rand.Rand) []string, accept func(command []string, v resp.Value) bool) *load {
	t.Helper()
	if accept == nil {
		accept = func(_ []string, v resp.Value) bool { return !v.IsError() }
	}
	l := &load{}
	for worker := range 4 {
		c := s.Raw()
		random := rand.New(rand.NewPCG(uint64(worker), 0))
		l.wg.Go(func() {
			for !l.stopped.Load() {
				commands := make([][]string, 20)
				for i := range commands {
					commands[i] = command(random)
				}
				replies, err := c.Pipeline(commands...)
				if !assert.NoError(t, err, "under load") {
					return
				}
				for i, v := range replies {
					if !accept(commands[i], v) {
						assert.Fail(t, "under load", "%q answers %v", commands[i], v)
						return
					}
				}
				l.calls.Add(int64(len(commands)))
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// loadCommand is mostly CL.THROTTLE on one of 1000 keys. The limits are slow, so that no
// key expires while a test compares.
func loadCommand(random *rand.Rand) []string {
	if random.IntN(5) == 0 {
		return otherCommand(random)
	}
	return []string{"CL.THROTTLE", fmt.Sprint("key", random.IntN(1000)), "99", "100",
		[]string{"1d", "10h"}[random.IntN(2)], fmt.Sprint(random.IntN(4))}
}

// otherCommand is one of the server's own.
func otherCommand(random *rand.Rand) []string {
	key := fmt.Sprint("key", random.IntN(1000))
	if random.IntN(2) == 0 {
		return []string{"GET", key}
	}
	return []string{"SET", "other" + key, key}
}

// stop returns when the last reply is in.
func (l *load) stop() {
	l.stopped.Store(true)
	l.wg.Wait()
}
