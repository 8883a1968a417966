package line_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/server"
)

// Callers of all kinds come, wait and leave, while somebody changes the server and the keys and another module runs commands in
// between. Nobody is forgotten, and in the end the module can be unloaded.
func TestNobodyIsForgottenInTurmoil(t *testing.T) {
	t.Parallel()
	const duration, workers, slots = 3 * time.Second, 24, 2
	s, stepBy := kit.StartWithSteps(t, neighbour.Beside(t), server.Config("maxclients 1000"))
	if !s.Program.AtLeast(7, 2) {
		t.Skip("up to Redis 7.0 a client that another module unblocks while the server answers it may get no answer")
	}
	admin := s.Raw()
	neighbour.Do(t, s, "CL.LEASES {k}0")
	deadline := time.Now().Add(duration)
	var answered, cutOff atomic.Int64
	var lastID atomic.Int64
	var callers, others sync.WaitGroup
	for worker := range workers {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 20))
			for time.Now().Before(deadline) {
				c := s.Raw()
				id, err := c.Do("CLIENT", "ID")
				if err != nil { // killed already
					assert.True(t, isCutOff(err), "%v", err)
					continue
				}
				lastID.Store(id.Int)
				for range 4 {
					key := fmt.Sprint("{k}", random.IntN(3))
					timeout := fmt.Sprint(1+random.IntN(400), "ms")
					var call []string
					switch random.IntN(4) {
					case 0:
						call = strings.Fields(fmt.Sprintf("CL.WAIT rate%s RATE 50/s BURST 1 TIMEOUT %s", key, timeout))
					case 1:
						call = strings.Fields(fmt.Sprintf("CL.WAIT window%s WINDOW 5/100ms TIMEOUT %s", key, timeout))
					default:
						call = strings.Fields(fmt.Sprintf("CL.LEASE %s SLOTS %d TTL 200ms ID w%d TIMEOUT %s", key, slots, worker, timeout))
					}
					if !assert.NoError(t, c.Send(call...)) || !assert.NoError(t, c.Flush()) {
						return
					}
					if random.IntN(5) == 0 {
						time.Sleep(time.Duration(random.IntN(int(20 * time.Millisecond))))
						_ = c.Reset()
						cutOff.Add(1)
						break
					}
					if _, err := c.ReceiveWithin(kit.Patience); err != nil {
						if isCutOff(err) {
							cutOff.Add(1)
							break
						}
						assert.NoError(t, err, "%q has no answer", call)
						return
					}
					answered.Add(1)
				}
				_ = c.Close()
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() {
		random := rand.New(rand.NewPCG(1, 21))
		c := s.Raw()
		for {
			select {
			case <-stop:
				stepBy(0)
				for _, command := range []string{"CLIENT UNPAUSE", "CONFIG SET maxmemory 0", "CONFIG SET min-replicas-to-write 0", "CLIENT PAUSE 20 WRITE", "CLIENT UNPAUSE", "NEIGHBOUR.DO"} {
					_, err := c.Do(strings.Fields(command)...)
					assert.NoError(t, err)
				}
				return
			default:
			}
			id := lastID.Load() - int64(random.IntN(workers))
			commands := []string{
				"FLUSHALL", "SWAPDB 0 1", "DEL {k}0", "RENAME {k}1 {k}2", "MOVE {k}2 3", "SET {k}0 text", "SUNIONSTORE {k}1 none", "CONFIG SET maxmemory 1",
				"CONFIG SET maxmemory 0", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
				fmt.Sprintf("CLIENT KILL ID %d", id), fmt.Sprintf("CLIENT UNBLOCK %d", id), fmt.Sprintf("CLIENT UNBLOCK %d ERROR", id),
				fmt.Sprintf("NEIGHBOUR.DO CLIENT UNBLOCK %d", id), "NEIGHBOUR.DO CL.LEASES {k}1",
				"NEIGHBOUR.DO CL.RELEASE {k}0 ID w1", "NEIGHBOUR.DO CL.REFUND window{k}0 WINDOW 5/100ms", "NEIGHBOUR.DO", "DEBUG SLEEP 0.01",
				"ACL SETUSER default resetkeys", "ACL SETUSER default allkeys", "STEP",
			}
			command := commands[random.IntN(len(commands))]
			if command == "STEP" {
				stepBy(time.Duration(random.IntN(int(20*time.Second))) - 10*time.Second) // a timer that was set ahead fires within patience
				continue
			}
			_, err := c.Do(strings.Fields(command)...) // may be refused
			assert.NoError(t, err, command)
			_, err = c.Do("ACL", "SETUSER", "default", "allkeys")
			assert.NoError(t, err)
		}
	})
	callers.Wait()
	close(stop)
	others.Wait()
	t.Logf("%d answers, %d cut off", answered.Load(), cutOff.Load())
	assert.Positive(t, answered.Load())
	kit.AwaitField(t, admin, "leases_waiting", 0)
	kit.AwaitField(t, admin, "waiting", 0)
	assert.Zero(t, s.InfoInt("clients", "blocked_clients"))
	assert.Zero(t, s.InfoInt("throttle", "throttle_errors_internal"))
	unloaded := kit.Do(t, admin, "MODULE UNLOAD throttle")
	for deadline := time.Now().Add(kit.Patience); unloaded.IsError() && time.Now().Before(deadline); {
		unloaded = kit.Do(t, admin, "MODULE UNLOAD throttle")
	}
	require.False(t, unloaded.IsError(), "%v", unloaded)
}

// isCutOff reports whether a connection was closed by the server, and not merely silent.
func isCutOff(err error) bool { return !errors.Is(err, os.ErrDeadlineExceeded) }
