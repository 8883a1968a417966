package wait_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Callers come and go in every way at once: answered, cut off, unblocked, sent away. No
// key lets more through than its rate, and in the end nobody is left behind.
func TestCallersComeAndGo(t *testing.T) {
	t.Parallel()
	const keys, ratePerSecond, burst, duration = 3, 200, 5, 2 * time.Second
	s := kit.StartCheckBuild(t, server.Config("maxclients 1000"))
	admin := s.Raw()
	from := kit.NowIn(t, admin)
	var granted [keys]atomic.Int64
	var cutOff, unblocked, limited atomic.Int64
	var callers, others sync.WaitGroup
	deadline := time.Now().Add(duration)
	var lastID atomic.Int64
	for worker := range 40 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 3))
			for time.Now().Before(deadline) {
				c := s.Raw()
				id, err := c.Do("CLIENT", "ID")
				if !assert.NoError(t, err) {
					return
				}
				lastID.Store(id.Int)
				for range 5 {
					key := random.IntN(keys)
					call := fmt.Sprintf("CL.WAIT key%d RATE %d/s BURST %d COST %d TIMEOUT %dms", key, ratePerSecond, burst, 1+random.IntN(3), 50+random.IntN(500))
					assert.NoError(t, c.Send(strings.Fields(call)...))
					assert.NoError(t, c.Flush())
					if random.IntN(4) == 0 {
						time.Sleep(time.Duration(random.IntN(int(30 * time.Millisecond))))
						_ = c.Reset() // its answer may be on its way
						cutOff.Add(1)
						break
					}
					v, err := c.Receive()
					if !assert.NoError(t, err) {
						return
					}
					if strings.HasPrefix(v.Text, "UNBLOCKED") {
						unblocked.Add(1)
						continue
					}
					a, err := kit.StandingIn(v)
					if !assert.NoError(t, err) {
						return
					}
					if a.Limited == 1 {
						limited.Add(1)
					}
					granted[key].Add(a.Granted)
				}
				_ = c.Close()
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() {
		c := s.Raw()
		random := rand.New(rand.NewPCG(99, 3))
		for {
			select {
			case <-stop:
				return
			default:
			}
			how := []string{"ERROR", "TIMEOUT"}[random.IntN(2)]
			_, err := c.Do("CLIENT", "UNBLOCK", fmt.Sprint(lastID.Load()-int64(random.IntN(30))), how)
			assert.NoError(t, err)
			if random.IntN(20) == 0 {
				_, err = c.Do("CL.LIMIT", fmt.Sprint("key", random.IntN(keys)), "RATE", "200/s", "BURST", "5", "MAXWAIT", "1s", "COST", "0")
				assert.NoError(t, err)
			}
			time.Sleep(time.Millisecond)
		}
	})
	callers.Wait()
	close(stop)
	others.Wait()
	kit.AwaitWaiting(t, admin, 0)
	elapsed := time.Duration(kit.NowIn(t, admin)-from) + time.Millisecond
	var all int64
	for key := range granted {
		n := granted[key].Load()
		all += n
		assert.LessOrEqual(t, n, int64(burst+elapsed.Seconds()*ratePerSecond)+1, "key%d in %v", key, elapsed)
	}
	t.Logf("%d units granted, %d callers cut off, %d unblocked, %d limited, in %v", all, cutOff.Load(), unblocked.Load(), limited.Load(), elapsed)
	assert.Greater(t, all, int64(burst+duration.Seconds()*ratePerSecond)*keys/4, "slots that were given back are used")
	info := s.Info("throttle")
	assert.Equal(t, "0", info["throttle_errors_internal"])
	assert.NotEqual(t, "0", info["throttle_wait_left"])
	require.Eventually(t, func() bool { return !kit.Do(t, admin, "MODULE UNLOAD throttle").IsError() }, 60*time.Second, 5*time.Millisecond)
}
