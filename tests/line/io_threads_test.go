package line_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// churn is callers in line of a server whose I/O threads read, too. Such a server runs the commands that they have read
// after the module's timers, and before it answers those that the module has unblocked.
type churn struct {
	t              *testing.T
	s              *server.Server
	wait, giveBack string // calls of a caller, with its number
	deadline       time.Time
	ids            []atomic.Int64 // of the callers' connections

	letIn, sentAway, unblocked, killed atomic.Int64
	mu                                 sync.Mutex
	failed                             []error
	wg                                 sync.WaitGroup
}

// Callers are let in, unblocked and killed by commands that I/O threads have read. Each call has one answer, before
// what its client sent behind it, and no slot is lost.
func TestEveryCallerIsAnsweredOnceBesideIOThreads(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		wait, giveBack string
		victims        int // callers that are killed, or told an error; a unit of a window may be lost then
	}{
		"lease":  {"CL.LEASE k SLOTS 3 TTL 1h ID w%d TIMEOUT 0", "CL.RELEASE k ID w%d", 4},
		"window": {"CL.WAIT k WINDOW 3/1h TIMEOUT 0", "CL.REFUND k WINDOW 3/1h", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const callers, drivers = 24, 8
			c := churn{
				t: t, s: kit.StartCheckBuild(t, server.Config("io-threads 2"), server.Config("io-threads-do-reads yes")),
				wait: kind.wait, giveBack: kind.giveBack, deadline: time.Now().Add(size.Of(1500*time.Millisecond, 30*time.Second)),
				ids: make([]atomic.Int64, callers+kind.victims),
			}
			admin := c.s.Raw()
			connected := func() int64 { return c.s.InfoInt("clients", "connected_clients") }
			before := connected()
			for i := range c.ids {
				if i < callers {
					c.start(func() error { return c.call(i) })
				} else {
					c.start(func() error { return c.fall(i) })
				}
			}
			random := chance.New(t)
			for range drivers {
				seed := random.Uint64()
				c.start(func() error { return c.drive(callers, rand.New(rand.NewPCG(seed, 0))) })
			}
			c.wg.Wait()
			require.NoError(t, errors.Join(c.failed...))
			t.Logf("%d let in, %d sent away, %d unblocked, %d killed", c.letIn.Load(), c.sentAway.Load(), c.unblocked.Load(), c.killed.Load())
			assert.Positive(t, c.letIn.Load())
			assert.Positive(t, c.unblocked.Load())
			// A call that was on its way when its client left comes before the end of the connection.
			require.Eventually(t, func() bool { return connected() == before+callers+drivers }, kit.Patience, kit.Tick)
			require.Eventually(t, func() bool { return c.s.InfoInt("clients", "blocked_clients") == 0 }, kit.Patience, kit.Tick)
			kit.AwaitField(t, admin, "waiting", 0)
			kit.AwaitField(t, admin, "leases_waiting", 0)
			for i := range c.ids {
				kit.Do(t, admin, "%s", c.of(kind.giveBack, i))
			}
			assert.EqualValues(t, 0, kit.Do(t, admin, "EXISTS k").Int, "a unit is taken that nobody has")
		})
	}
}

// of is a call of caller i.
func (c *churn) of(call string, i int) string { return strings.ReplaceAll(call, "%d", strconv.Itoa(i)) }

// start begins what somebody does until the deadline.
func (c *churn) start(f func() error) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		if err := f(); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failed = append(c.failed, err)
		}
	}()
}

func (c *churn) goesOn() bool { return time.Now().Before(c.deadline) }

// call makes one call after the other, each with a command behind it, and in front of it what gives back the unit of
// the one before.
func (c *churn) call(i int) error {
	conn := c.s.Raw()
	v, err := conn.Do("CLIENT", "ID")
	if err != nil {
		return err
	}
	c.ids[i].Store(v.Int)
	defer c.ids[i].Store(0)
	for n, holds := 0, false; c.goesOn() || holds; n++ {
		var commands [][]string
		if holds {
			commands = append(commands, strings.Fields(c.of(c.giveBack, i)))
		}
		if c.goesOn() {
			commands = append(commands, strings.Fields(c.of(c.wait, i)), []string{"ECHO", fmt.Sprint(n)})
		}
		replies, err := conn.Pipeline(commands...)
		if err != nil {
			return fmt.Errorf("call %d of caller %d has no answer, or not so soon: %w", n, i, err)
		}
		if holds && replies[0].IsError() {
			return fmt.Errorf("%v", replies[0])
		}
		if len(commands) < 2 {
			break
		}
		answer, echo := replies[len(replies)-2], replies[len(replies)-1]
		if echo.Text != fmt.Sprint(n) {
			return fmt.Errorf("call %d of caller %d is answered %v, and then %v", n, i, answer, echo)
		}
		if holds = !answer.IsError() && answer.Elems[1].Int == 0; holds {
			c.letIn.Add(1)
		} else {
			c.sentAway.Add(1)
		}
		if answer.IsError() && !strings.HasPrefix(answer.Text, "UNBLOCKED ") {
			return fmt.Errorf("%v", answer)
		}
	}
	return nil
}

// fall makes calls on connections that are killed now and then.
func (c *churn) fall(i int) error {
	defer c.ids[i].Store(0)
	for c.goesOn() {
		conn, err := resp.Dial(c.s.Addr())
		if err != nil {
			return err
		}
		if v, err := conn.Do("CLIENT", "ID"); err == nil {
			c.ids[i].Store(v.Int)
		}
		_ = conn.Send(strings.Fields(c.of(c.wait, i))...)
		_ = conn.Flush()
		_, _ = conn.ReceiveWithin(50 * time.Millisecond) // an answer, or the end of the connection
		_ = conn.Close()
		if v := c.s.Do(strings.Fields(c.of(c.giveBack, i))...); v.IsError() {
			return fmt.Errorf("%v", v)
		}
	}
	return nil
}

// drive unblocks callers, and kills those behind the first.
func (c *churn) drive(first int, random *rand.Rand) error {
	conn := c.s.Raw()
	for c.goesOn() {
		var commands [][]string
		for range 4 {
			i := random.IntN(len(c.ids))
			if i >= first && random.IntN(4) == 0 {
				commands = append(commands, []string{"CLIENT", "KILL", "ID", fmt.Sprint(c.ids[i].Load())})
			} else if len(c.ids) > first && random.IntN(3) == 0 {
				commands = append(commands, []string{"CLIENT", "UNBLOCK", fmt.Sprint(c.ids[i].Load()), "ERROR"})
			} else {
				commands = append(commands, []string{"CLIENT", "UNBLOCK", fmt.Sprint(c.ids[i].Load())})
			}
		}
		replies, err := conn.Pipeline(commands...)
		if err != nil {
			return err
		}
		for i, v := range replies {
			if commands[i][1] == "KILL" {
				c.killed.Add(v.Int)
			} else {
				c.unblocked.Add(v.Int)
			}
		}
	}
	return nil
}
