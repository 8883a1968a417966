package ratelimit_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// requireResult compares a result whose times were true when a test began: since then
// they may have got shorter by as much time as has passed.
func requireResult(t *testing.T, began time.Time, want, got ratelimit.Result) {
	t.Helper()
	want.By = "server"
	passed := time.Since(began) + time.Millisecond
	for _, d := range []struct {
		name string
		want time.Duration
		got  *time.Duration
	}{
		{"RetryAfter", want.RetryAfter, &got.RetryAfter},
		{"ResetAfter", want.ResetAfter, &got.ResetAfter},
		{"NextAfter", want.NextAfter, &got.NextAfter},
	} {
		if d.want > 0 && *d.got <= d.want && *d.got >= d.want-passed {
			*d.got = d.want
		}
		require.Equal(t, d.want, *d.got, d.name)
	}
	require.Equal(t, want, got)
}

func TestResultsInBothProtocols(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	hourly := ratelimit.Rate(24, day).Burst(3) // one an hour
	stack := ratelimit.Limits{ratelimit.Rate(100, day), hourly}
	for _, protocol := range []int{2, 3} {
		l := ratelimit.New(s.Client(server.Protocol(protocol)), ratelimit.Options{})
		key := fmt.Sprint("protocol", protocol)
		began := time.Now()
		for _, step := range []struct {
			rule string
			cmd  answer
			want ratelimit.Result
		}{
			{"a peek at a full stack", answered(l.Peek(t.Context(), key, stack, 1)),
				ratelimit.Result{Rule: 1, Limit: 3, Remaining: 3}},
			{"one unit", answered(l.Limit(t.Context(), key, stack, 1)),
				ratelimit.Result{Rule: 1, Limit: 3, Remaining: 2, Granted: 1, NextAfter: time.Hour, ResetAfter: time.Hour}},
			{"too many", answered(l.Limit(t.Context(), key, stack, 3)),
				ratelimit.Result{Limited: true, Rule: 1, Limit: 3, Remaining: 2, RetryAfter: time.Hour, NextAfter: time.Hour, ResetAfter: time.Hour}},
			{"more than there ever are", answered(l.Limit(t.Context(), key, stack, 4)),
				ratelimit.Result{Limited: true, Rule: 1, Limit: 3, Remaining: 2, RetryAfter: ratelimit.Never, NextAfter: time.Hour, ResetAfter: time.Hour}},
			{"what is left", answered(l.Decide(t.Context(), calls.On(key, stack, calls.Cost(5), calls.UpTo))),
				ratelimit.Result{Rule: 1, Limit: 3, Remaining: 0, Granted: 2, NextAfter: time.Hour, ResetAfter: 3 * time.Hour}},
			{"two given back", answered(l.Refund(t.Context(), key, stack, 2)),
				ratelimit.Result{Rule: 1, Limit: 3, Remaining: 2, Granted: -2, NextAfter: time.Hour, ResetAfter: time.Hour}},
			{"a rate that others call max_burst 2", answered(l.Decide(t.Context(), calls.Throttle(key+"cell", hourly, 2))),
				ratelimit.Result{Limit: 3, Remaining: 1, Granted: 2, ResetAfter: 2 * time.Hour}},
			{"and one too many", answered(l.Decide(t.Context(), calls.Throttle(key+"cell", hourly, 2))),
				ratelimit.Result{Limited: true, Limit: 3, Remaining: 1, RetryAfter: time.Hour, ResetAfter: 2 * time.Hour}},
			{"never", answered(l.Decide(t.Context(), calls.Throttle(key+"cell", hourly, 4))),
				ratelimit.Result{Limited: true, Limit: 3, Remaining: 1, RetryAfter: ratelimit.Never, ResetAfter: 2 * time.Hour}},
		} {
			got, err := step.cmd.Result()
			require.NoError(t, err, step.rule)
			requireResult(t, began, step.want, got)
		}
	}
}

func TestStrictChargesDeniedCalls(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(3, day)}
	_, err := l.Limit(t.Context(), "k", limits, 2)
	require.NoError(t, err)
	denied, err := l.Decide(t.Context(), calls.On("k", limits, calls.Cost(2), calls.Strict))
	require.NoError(t, err)
	assert.True(t, denied.Limited)
	assert.Zero(t, denied.Remaining)
}

func TestMaxWaitReservesAndTellsHowLongToHold(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(server.Start(t).Client(), ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(24, day).Burst(1)}
	began := time.Now()
	for i, want := range []time.Duration{0, time.Hour, 2 * time.Hour} {
		r, err := l.Decide(t.Context(), calls.On("k", limits, calls.MaxWait(150*time.Minute)))
		require.NoError(t, err)
		assert.False(t, r.Limited)
		assert.LessOrEqual(t, r.Wait, want, "call %d", i)
		assert.GreaterOrEqual(t, r.Wait, max(0, want-time.Since(began)-time.Millisecond), "call %d", i)
	}
	r, err := l.Decide(t.Context(), calls.On("k", limits, calls.MaxWait(150*time.Minute)))
	require.NoError(t, err)
	assert.True(t, r.Limited)
}

func TestErrorsOfTheServerAreWrapped(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	l := ratelimit.New(s.Client(), ratelimit.Options{})
	s.MustDo("RPUSH", "list", "1")
	_, err := l.Limit(t.Context(), "list", ratelimit.Limits{ratelimit.Rate(1, day)}, 1)
	var fromServer redis.Error
	require.ErrorAs(t, err, &fromServer)
	assert.True(t, redis.HasErrorPrefix(err, "WRONGTYPE"))
	assert.Contains(t, err.Error(), "ratelimit: CL.LIMIT: WRONGTYPE")

	_, err = l.Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(1_000_000_000_000, time.Second)}, 1)
	assert.ErrorContains(t, err, "at most 10^9 units per second")
	_, err = l.Limit(t.Context(), "k", nil, 1)
	assert.ErrorContains(t, err, "there must be a limit after the key")
	_, err = l.Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(1, day)}, -1)
	assert.ErrorContains(t, err, "the Cost, -1, is negative")
}

func TestServerWithoutTheModuleIsToldApart(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule())
	_, err := ratelimit.New(s.Client(), ratelimit.Options{}).Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(1, day)}, 1)
	require.ErrorIs(t, err, ratelimit.ErrNoModule)
	_, err = ratelimit.New(s.Client(), ratelimit.Options{}).Peek(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(1, day)}, 1)
	require.ErrorIs(t, err, ratelimit.ErrNoModule)
}

func TestPipelineQueuesCalls(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Client()
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for name, pipe := range map[string]redis.Pipeliner{"pipeline": c.Pipeline(), "transaction": c.TxPipeline()} {
		var cmds []*pipelimit.Reply
		for range 3 {
			cmds = append(cmds, pipelimit.Queue(t.Context(), pipe, calls.On(name, limits)))
		}
		_, err := cmds[0].Result()
		require.Error(t, err, "%s: not executed yet", name)
		_, err = pipe.Exec(t.Context())
		require.NoError(t, err, name)
		for i, cmd := range cmds {
			r, err := cmd.Result()
			require.NoError(t, err, name)
			assert.Equal(t, i == 2, r.Limited, "%s: call %d", name, i)
			assert.EqualValues(t, max(1-i, 0), r.Remaining, "%s: call %d", name, i)
		}
	}
}

func TestEveryKindOfClient(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Client()
	conn := c.Conn()
	defer conn.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}})
	defer ring.Close()
	for _, client := range []client{c, conn, ring, redis.UniversalClient(c)} {
		r, err := ratelimit.New(client, ratelimit.Options{}).Limit(t.Context(), fmt.Sprintf("%T", client), ratelimit.Limits{ratelimit.Rate(2, day)}, 1)
		require.NoError(t, err, "%T", client)
		assert.EqualValues(t, 1, r.Granted, "%T", client)
	}
	require.NoError(t, c.Watch(t.Context(), func(tx *redis.Tx) error {
		_, err := ratelimit.New(tx, ratelimit.Options{}).Peek(t.Context(), "k", ratelimit.Limits{ratelimit.Rate(2, day)}, 1)
		return err
	}, "k"))
}

func TestClusterFindsTheNodeOfAKey(t *testing.T) {
	t.Parallel()
	c := topology.StartCluster(t).Client()
	l := ratelimit.New(c, ratelimit.Options{})
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for i := range 30 {
		key := fmt.Sprint("key", i)
		for calls, limited := range []bool{false, false, true} {
			r, err := l.Limit(t.Context(), key, limits, 1)
			require.NoError(t, err)
			require.Equal(t, limited, r.Limited, "%s, call %d", key, calls)
		}
		_, err := l.Peek(t.Context(), key, limits, 1)
		require.NoError(t, err)
	}
	// A key that has moved is followed, also by commands that are not sent twice.
	stranger := ratelimit.New(otherNode{c}, ratelimit.Options{})
	r, err := stranger.Limit(t.Context(), "key0", limits, 1)
	require.NoError(t, err)
	assert.True(t, r.Limited)
}

// otherNode sends everything to a node that does not own the key first.
type otherNode struct{ *redis.ClusterClient }

func (o otherNode) Process(ctx context.Context, cmd redis.Cmder) error {
	cmd.SetFirstKeyPos(3) // a word of the limit: another slot
	return o.ClusterClient.Process(ctx, cmd)
}

func TestCallWhoseReplyIsLostIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Client(func(o *redis.Options) {
		o.Addr = lossyLink(t, s, "CL.")
		o.MaxRetries = 3
	})
	require.NoError(t, c.Ping(t.Context()).Err())
	limits := ratelimit.Limits{ratelimit.Rate(9, day)}
	l := ratelimit.New(c, ratelimit.Options{})
	_, err := l.Limit(t.Context(), "k", limits, 1)
	require.Error(t, err)
	assert.EqualValues(t, 8, remaining(t, s, "k", limits))
	_, err = l.Decide(t.Context(), calls.Throttle("k", limits[0], 1))
	require.Error(t, err)
	assert.EqualValues(t, 7, remaining(t, s, "k", limits))
	_, err = l.Decide(t.Context(), calls.InLine("k", limits, time.Minute))
	require.Error(t, err)
	assert.EqualValues(t, 6, remaining(t, s, "k", limits))
	_, err = l.Refund(t.Context(), "k", limits, 1)
	require.Error(t, err)
	assert.EqualValues(t, 7, remaining(t, s, "k", limits))
	// A peek may be repeated.
	_, err = l.Peek(t.Context(), "k", limits, 1)
	require.Error(t, err)
	assert.Contains(t, s.Info("commandstats")["cmdstat_cl.peek"], fmt.Sprintf("calls=%d,", 4+1+3))
}

func remaining(t *testing.T, s *server.Server, key string, limits ratelimit.Limits) int64 {
	t.Helper()
	r, err := ratelimit.New(s.Client(), ratelimit.Options{}).Peek(t.Context(), key, limits, 1)
	require.NoError(t, err)
	return r.Remaining
}

// lossyLink is the address of a network to s that breaks down whenever the reply to a
// request with text in it arrives.
func lossyLink(t *testing.T, s *server.Server, text string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go carry(near, s.Addr(), []byte(text))
		}
	}()
	return listener.Addr().String()
}

func carry(near net.Conn, address string, text []byte) {
	defer near.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	// A client without a pipeline sends one request at a time, and this one's are short.
	for request, reply := make([]byte, 4096), make([]byte, 65536); ; {
		n, err := near.Read(request)
		if err != nil {
			return
		}
		if _, err = far.Write(request[:n]); err != nil {
			return
		}
		m, err := far.Read(reply)
		if err != nil || bytes.Contains(request[:n], text) {
			return
		}
		if _, err = near.Write(reply[:m]); err != nil {
			return
		}
	}
}

func TestContextThatEndsEndsACall(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Client(func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	require.NoError(t, c.Ping(t.Context()).Err())
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := ratelimit.New(c, ratelimit.Options{}).Limit(ctx, "k", ratelimit.Limits{ratelimit.Rate(5, day)}, 1)
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
