package adapters

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// A wait ends without an answer when the server gives no sign of life, before it waits and while it does.
func TestAWaitEndsWhenTheServerStandsStill(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := rueidislimit.Client(connect(t, on(s)))
	hourly := ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	_, err := ratelimit.New(client, ratelimit.Options{}).Limit(t.Context(), "k", hourly, 1)
	require.NoError(t, err)
	l := ratelimit.New(client, ratelimit.Options{Patience: 200 * time.Millisecond})
	for _, before := range []bool{false, true} {
		if before {
			s.Pause()
		}
		ended := calls.Ends(context.WithoutCancel(t.Context()), l, calls.InLine("k", hourly, 0))
		if !before {
			require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "1" }, time.Minute, time.Millisecond)
			s.Pause()
		}
		select {
		case err := <-ended:
			assert.True(t, ratelimit.IsOutage(err), "%v", err)
		case <-time.After(time.Minute):
			s.Resume()
			t.Fatal("the wait goes on")
		}
		s.Resume()
		require.Eventually(t, func() bool { return s.Info("throttle")["throttle_waiting"] == "0" }, time.Minute, time.Millisecond, "it has left the line")
	}
}

// A caller that leaves at the moment when its turn comes gives back what it got, units and slots.
func TestNoUnitOfAWaitThatIsCancelledIsLost(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := connect(t, on(s))
	l := rueidislimit.New(client)
	hourly := ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	granted := 0
	for i := range size.Of(50, 500) {
		units, jobs := fmt.Sprint("units", i), fmt.Sprint("jobs", i)
		calls.Ask(t, l, calls.On(units, hourly))
		calls.Ask(t, l, calls.Lease(jobs, 1, time.Hour, "a"))
		for _, tt := range []struct {
			waits  ratelimit.Call
			grants func() error
			isFree func() bool
		}{
			{calls.InLine(units, hourly, 0), func() error {
				_, err := l.Refund(t.Context(), units, hourly, 1)
				return err
			}, func() bool {
				r, err := l.Peek(t.Context(), units, hourly, 1)
				return err == nil && r.Remaining == 1
			}},
			{calls.Lease(jobs, 1, time.Hour, "b", calls.MaxWait(time.Hour)), func() error {
				_, err := l.Decide(t.Context(), calls.Release(jobs, "a"))
				return err
			}, func() bool {
				n, err := client.Do(t.Context(), client.B().Exists().Key(jobs).Build()).AsInt64()
				return err == nil && n == 0
			}},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			type outcome struct {
				ratelimit.Result
				err error
			}
			ended := make(chan outcome, 1)
			go func() {
				r, err := l.Decide(ctx, tt.waits)
				ended <- outcome{r, err}
			}()
			require.Eventually(t, func() bool {
				info, err := client.Do(t.Context(), client.B().Info().Section("clients").Build()).ToString()
				return err == nil && server.ParseInfo(info)["blocked_clients"] == "1"
			}, time.Minute, 100*time.Microsecond)
			go cancel()
			require.NoError(t, tt.grants())
			got := <-ended
			if got.err == nil {
				assert.False(t, got.Limited)
				granted++
				continue
			}
			require.ErrorIs(t, got.err, context.Canceled)
			require.Eventually(t, tt.isFree, time.Minute, time.Millisecond, "%v, round %d", tt.waits.Verb, i)
		}
	}
	t.Logf("%d were granted before they were cancelled", granted)
}

// In a cluster a wait goes to the node that has its key, also while that is on its way to another one, and leaves there.
func TestWaitsInACluster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	l := rueidislimit.New(connect(t, rueidis.ClientOption{InitAddress: []string{c.Nodes[0].Addr()}}))
	hourly := ratelimit.Limits{ratelimit.Window(1, time.Hour)}
	for i := range 10 {
		key := fmt.Sprint("key", i)
		r, err := l.Wait(t.Context(), key, hourly, 1)
		require.NoError(t, err)
		require.False(t, r.Limited)
		ctx, cancel := context.WithCancel(t.Context())
		ended := calls.Ends(ctx, l, calls.InLine(key, hourly, 0))
		waiting := func(n string) func() bool {
			return func() bool { return c.Owner(c.Slot(key)).Info("throttle")["throttle_waiting"] == n }
		}
		require.Eventually(t, waiting("1"), time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Eventually(t, waiting("0"), time.Minute, time.Millisecond)
	}

	from, to := c.Masters()[0], c.Masters()[1]
	key := c.KeyOn(from, "k")
	c.BeginMove(c.Slot(key), from, to)
	for want, limited := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if limited {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		}
		r, err := l.Wait(ctx, key, hourly, 1)
		cancel()
		require.Equal(t, limited, errors.Is(err, ratelimit.ErrLimited), "%d: %v", want, err)
		assert.Equal(t, limited, r.Limited)
	}
}

// The master that a wait was sent to is remembered. When a replica has taken its place, waits go there.
func TestWaitsGoToTheNewMaster(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t)
	l := rueidislimit.New(connect(t, rueidis.ClientOption{InitAddress: []string{c.Nodes[0].Addr(), c.Nodes[1].Addr(), c.Nodes[2].Addr()}}))
	limits := ratelimit.Limits{ratelimit.Rate(1_000_000, time.Hour)}
	old := c.Masters()[2]
	var keys []string
	for i := range 10 {
		keys = append(keys, c.KeyOn(old, fmt.Sprint("key", i, "-")))
	}
	wait := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.Wait(ctx, key, limits, 1)
		return err
	}
	for _, key := range keys {
		require.NoError(t, wait(key))
	}
	replica := c.ReplicaOf(old)
	old.Kill()
	replica.MustDo("CLUSTER", "FAILOVER", "TAKEOVER")
	topology.AwaitRole(t, replica, "master")
	for _, key := range keys {
		var err error
		require.Eventually(t, func() bool { err = wait(key); return err == nil }, 20*time.Second, 10*time.Millisecond)
		require.NoError(t, err, "%s: %v", key, err)
	}
}

// rueidis sends what only reads again until its context ends, which may be never: a peek in an outage must end.
func TestAPeekEndsInAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := rueidislimit.New(connect(t, on(s)))
	s.Kill()
	ended := make(chan error, 1)
	go func() {
		_, err := l.Peek(context.WithoutCancel(t.Context()), "k", ratelimit.Limits{ratelimit.Rate(1, time.Hour)}, 1)
		ended <- err
	}()
	select {
	case err := <-ended:
		assert.True(t, ratelimit.IsOutage(err), "%v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
}
