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

// startLoad keeps four connections busy with calls on 1000 keys, and with other
// commands. Its limits are slow, so that no key expires while a test compares. accept
// says whether a reply to a command is fine; nil accepts whatever is no error.
func startLoad(t *testing.T, s *server.Server, accept func(command []string, v resp.Value) bool) *load {
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
					commands[i] = loadCommand(random)
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

func loadCommand(random *rand.Rand) []string {
	key := fmt.Sprint("key", random.IntN(1000))
	switch random.IntN(10) {
	case 0:
		return []string{"GET", key}
	case 1:
		return []string{"SET", "other" + key, key}
	}
	return []string{"CL.THROTTLE", key, "99", "100", []string{"1d", "10h"}[random.IntN(2)], fmt.Sprint(random.IntN(4))}
}

// stop returns when the last reply is in.
func (l *load) stop() {
	l.stopped.Store(true)
	l.wg.Wait()
}
