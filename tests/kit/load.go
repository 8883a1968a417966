package kit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Load is traffic that goes on while a test does something to the server.
type Load struct {
	Calls   atomic.Int64
	Stopped atomic.Bool
	Wg      sync.WaitGroup
}

// Stop returns when the last reply is in.
func (l *Load) Stop() {
	l.Stopped.Store(true)
	l.Wg.Wait()
}

// Await returns when so many more calls have been answered.
func (l *Load) Await(t *testing.T, calls int64) {
	t.Helper()
	for goal := l.Calls.Load() + calls; l.Calls.Load() < goal; time.Sleep(time.Millisecond) {
		require.False(t, t.Failed())
	}
}

// StartLoad keeps four connections busy with the commands that command makes. accept
// says whether a reply to one is fine; nil accepts whatever is no error.
func StartLoad(t *testing.T, s *server.Server, command func(*rand.Rand) []string, accept func(command []string, v resp.Value) bool) *Load {
	t.Helper()
	if accept == nil {
		accept = func(_ []string, v resp.Value) bool { return !v.IsError() }
	}
	l := &Load{}
	for worker := range 4 {
		c := s.Raw()
		random := rand.New(rand.NewPCG(uint64(worker), 0))
		l.Wg.Go(func() { assert.NoError(t, l.KeepBusy(t, c, random, command, accept), "under load") })
	}
	t.Cleanup(l.Stop)
	return l
}

// KeepBusy returns when the load is stopped or a reply is not fine, and the error that ended the connection before.
func (l *Load) KeepBusy(t *testing.T, c *resp.Conn, random *rand.Rand, command func(*rand.Rand) []string,
	accept func(command []string, v resp.Value) bool) error {
	for !l.Stopped.Load() {
		commands := make([][]string, 20)
		for i := range commands {
			commands[i] = command(random)
		}
		replies, err := c.Pipeline(commands...)
		if err != nil {
			return err
		}
		for i, v := range replies {
			if !accept(commands[i], v) {
				assert.Fail(t, "under load", "%q answers %v", commands[i], v)
				return nil
			}
		}
		l.Calls.Add(int64(len(commands)))
	}
	return nil
}

// LoadCommand is mostly CL.THROTTLE on one of 1000 keys. The limits are slow, so that no
// key expires while a test compares.
func LoadCommand(random *rand.Rand) []string {
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
