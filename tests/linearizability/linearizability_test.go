package linearizability

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "the seed of what is called and what goes wrong (0: a new one)")
	callsFlag = flag.Int("calls", 60, "how many calls each of the eight clients makes")
)

// scene is a clock, a random source and a load on the servers that a test starts.
type scene struct {
	*testing.T
	r     *rand.Rand
	clock *clock.Clock
	ticks *ticking
	load  *load
}

func newScene(t *testing.T) *scene {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat the calls: go test ./tests/linearizability -run '^%s$' -seed %d", t.Name(), seed)
	s := &scene{T: t, r: rand.New(rand.NewPCG(seed, 0))}
	begin := time.Now().UnixMicro() * 1000
	s.clock = clock.New(t, begin)
	r := rand.New(rand.NewPCG(seed, 1<<32))
	s.ticks = tick(s.clock, begin, func() time.Duration { return time.Duration(r.IntN(2000)) * time.Microsecond })
	t.Cleanup(s.ticks.end)
	s.load = &load{t: t, seed: seed, subjects: subjects(s.r), clients: 8, calls: *callsFlag}
	return s
}

// run runs the load at a server, beside what goes wrong.
func (s *scene) run(at *server.Server, faults func(done <-chan struct{})) *history {
	s.load.goTo(at.Addr())
	s.load.history = s.ticks.record()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if faults != nil {
			faults(done)
		}
	}()
	s.load.run()
	close(done)
	<-stopped
	return s.load.history
}

func (s *scene) requireLinearizable(h *history) {
	failed, err := h.check()
	require.NoError(s, err)
	s.Logf("%d operations on %d keys, %d of them without a reply", len(h.operations), len(s.load.subjects), h.unknown)
	if !assert.Empty(s, failed, "no order of the calls explains the replies") {
		s.show(h, failed[0])
	}
}

// show logs the history of a key.
func (s *scene) show(h *history, key string) {
	operations := slices.Clone(h.operations)
	for _, op := range operations {
		if o := op.Input.(*operation); o.key == key || o.key == "" {
			out := op.Output.(*outcome)
			s.Logf("%d to %d: client %d: %v: %v %v", op.Call, op.Return, op.ClientId, o, out.reply, map[bool]string{true: "no reply"}[out.unknown])
		}
	}
}

// every calls f each time so much has gone by, until done.
func every(done <-chan struct{}, pause func() time.Duration, f func()) {
	for {
		select {
		case <-done:
			return
		case <-time.After(pause()):
			f()
		}
	}
}

func (s *scene) upTo(d time.Duration) func() time.Duration {
	r := rand.New(rand.NewPCG(s.load.seed, 1<<33))
	return func() time.Duration { return time.Duration(r.Int64N(int64(d))) }
}

func TestConcurrentCallsAreLinearizable(t *testing.T) {
	s := newScene(t)
	s.load.crashes = 80
	s.requireLinearizable(s.run(s.clock.Start(), nil))
}

func TestCallsOfAServerThatPausesAreLinearizable(t *testing.T) {
	s := newScene(t)
	at := s.clock.Start()
	s.requireLinearizable(s.run(at, func(done <-chan struct{}) {
		control, length := at.Raw(), s.upTo(10*time.Millisecond)
		every(done, s.upTo(20*time.Millisecond), func() {
			if s.r.IntN(2) == 0 {
				at.Pause()
				time.Sleep(length())
				at.Resume()
				return
			}
			_, err := control.Do("CLIENT", "PAUSE", strconv.Itoa(1+int(length().Milliseconds())), []string{"WRITE", "ALL"}[s.r.IntN(2)])
			assert.NoError(t, err)
		})
	}))
}

// What was answered was in the file before.
func TestCallsOfAServerThatIsKilledAreLinearizable(t *testing.T) {
	s := newScene(t)
	at := s.clock.Start(server.AppendOnly("always"))
	s.requireLinearizable(s.run(at, func(done <-chan struct{}) {
		every(done, s.upTo(150*time.Millisecond), func() {
			at.Kill()
			assert.NoError(t, at.TryRestart())
		})
	}))
}

func TestCallsThroughPlannedFailoversAreLinearizable(t *testing.T) {
	s := newScene(t)
	master := s.clock.Start()
	if !master.Program.AtLeast(7, 0) {
		t.Skip("FAILOVER is of 6.2 and later, and is tested from 7.0 on")
	}
	replica := s.clock.Start(server.ReplicaOf(master))
	awaitReplica(t, master)
	s.requireLinearizable(s.run(master, func(done <-chan struct{}) {
		every(done, s.upTo(100*time.Millisecond), func() {
			control := master.Raw()
			defer control.Close()
			v, err := control.Do("FAILOVER", "TO", "127.0.0.1", strconv.Itoa(replica.Port))
			assert.NoError(t, err)
			assert.False(t, v.IsError(), "%v", v)
			if !assert.Eventually(t, func() bool { return role(replica) == "master" && role(master) == "slave" }, patience, time.Millisecond) {
				return
			}
			master, replica = replica, master
			s.load.goTo(master.Addr())
			awaitReplica(t, master)
		})
	}))
}

func role(s *server.Server) string {
	c := s.Raw()
	defer c.Close()
	v, _ := c.Do("INFO", "replication")
	return server.ParseInfo(v.Text)["role"]
}

func awaitReplica(t *testing.T, master *server.Server) {
	assert.Eventually(t, func() bool {
		c := master.Raw()
		defer c.Close()
		v, err := c.Do("INFO", "replication")
		return err == nil && strings.Contains(v.Text, "state=online") && !strings.Contains(v.Text, "failover-in-progress")
	}, patience, time.Millisecond)
}

// A replica that takes over from a dead master may lack what was written last, of every key, and nothing else.
func TestAReplicaThatTakesOverForgetsTheLastWritesAndNothingElse(t *testing.T) {
	s := newScene(t)
	h := s.takeOver(true)
	s.requireLinearizable(h)
}

// takeOver kills a master in the middle and lets its replica take over, which is noted or not.
func (s *scene) takeOver(noted bool) *history {
	master := s.clock.Start()
	replica := s.clock.Start(server.ReplicaOf(master))
	awaitReplica(s.T, master)
	return s.run(master, func(<-chan struct{}) {
		history := s.load.history
		control := master.Raw()
		for range 3 {
			time.Sleep(s.upTo(30 * time.Millisecond)())
			began := history.now()
			if v, err := control.Do("WAIT", "1", "5000"); assert.NoError(s, err) && v.Int == 1 {
				history.note(0, &operation{event: replicated}, began, &outcome{})
			}
		}
		replica.Pause() // so that there is something to forget
		time.Sleep(20 * time.Millisecond)
		began := history.now()
		master.Kill()
		replica.Resume()
		assert.Equal(s, "OK", replica.Do("REPLICAOF", "NO", "ONE").Text)
		if noted {
			history.note(0, &operation{event: forgets}, began, &outcome{})
		}
		s.load.goTo(replica.Addr())
	})
}

// requireNotLinearizable wants the checker to find out, within some attempts: a fault may show in no reply.
func requireNotLinearizable(t *testing.T, run func(s *scene) *history) {
	t.Parallel()
	for range 5 {
		found := false
		t.Run("", func(t *testing.T) {
			s := newScene(t)
			failed, err := run(s).check()
			require.NoError(t, err)
			found = len(failed) > 0
		})
		if found {
			return
		}
	}
	t.Error("a history that cannot be is taken for one that can")
}

// A limiter that admits one unit more than it says.
func TestALimiterThatIsOffByOneIsFoundOut(t *testing.T) {
	requireNotLinearizable(t, func(s *scene) *history {
		s.load.send = func(c *resp.Conn, words []string) (resp.Value, error) {
			words = slices.Clone(words)
			for i, word := range words {
				if i > 0 && (words[i-1] == "WINDOW" || words[i-1] == "FIXED") {
					count, period, _ := strings.Cut(word, "/")
					n, _ := strconv.Atoi(count)
					words[i] = strconv.Itoa(n+1) + "/" + period
				}
			}
			v, err := c.Do(words...)
			if len(v.Elems) == 10 && words[2] != "RATE" { // which is what it says
				v.Elems[2].Int--
				v.Elems[3].Int = max(0, v.Elems[3].Int-1)
			}
			return v, err
		}
		return s.run(s.clock.Start(), nil)
	})
}

// A call that happens twice, as with a client that sends it again.
func TestACallThatHappensTwiceIsFoundOut(t *testing.T) {
	requireNotLinearizable(t, func(s *scene) *history {
		var sent int
		s.load.clients, s.load.calls = 1, 300
		s.load.send = func(c *resp.Conn, words []string) (resp.Value, error) {
			if sent++; sent%20 == 0 && words[0] != "CL.WAIT" {
				if _, err := c.Do(words...); err != nil {
					return resp.Value{}, err
				}
			}
			return c.Do(words...)
		}
		return s.run(s.clock.Start(), nil)
	})
}

// A takeover that loses writes, where nobody is told of a takeover.
func TestWritesThatAreLostAreFoundOut(t *testing.T) {
	requireNotLinearizable(t, func(s *scene) *history { return s.takeOver(false) })
}
