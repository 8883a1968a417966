package ratelimit_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

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
	c := topology.StartCluster(t)
	limits := ratelimit.Limits{ratelimit.Rate(2, day)}
	for library, client := range onCluster(t, c) {
		l := ratelimit.New(client, ratelimit.Options{})
		for i := range 30 {
			key := fmt.Sprint(library, i)
			for call, limited := range []bool{false, false, true} {
				r := calls.Ask(t, l, calls.On(key, limits))
				require.Equal(t, limited, r.Limited, "%s, call %d", key, call)
			}
			require.True(t, calls.Ask(t, l, calls.Throttle(key, limits[0], 1)).Limited, key)
			_, err := l.Peek(t.Context(), key, limits, 1)
			require.NoError(t, err)
		}
	}
	// A key that has moved is followed, also by commands that are not sent twice.
	stranger := ratelimit.New(otherNode{c.Client()}, ratelimit.Options{})
	r, err := stranger.Limit(t.Context(), "go-redis0", limits, 1)
	require.NoError(t, err)
	assert.True(t, r.Limited)
}

// otherNode sends everything to a node that does not own the key first.
type otherNode struct{ *redis.ClusterClient }

func (o otherNode) Process(ctx context.Context, cmd redis.Cmder) error {
	cmd.SetFirstKeyPos(3) // a word of the limit: another slot
	return o.ClusterClient.Process(ctx, cmd)
}

// Nothing that charges is sent again when its reply is lost, except for what an id makes safe to repeat: go-redis
// repeats it, and it is charged once.
func TestCallWhoseReplyIsLostIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := s.Client(func(o *redis.Options) {
		o.MaxRetries = 2
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &lossy{Conn: conn}, err
		}
	})
	require.NoError(t, client.Ping(t.Context()).Err())
	l := ratelimit.New(client, ratelimit.Options{})
	limits, tokens := ratelimit.Limits{ratelimit.Rate(9, day)}, ratelimit.Limits{ratelimit.Fixed(5000, 365*day)}
	admission := func(id string, opts ...calls.Option) ratelimit.Call {
		c := calls.OnKeys([]ratelimit.Key{
			{Name: "tokens", Limits: ratelimit.Limits{tokens[0].Take(1200)}}, {Name: "running", Slots: 2, TTL: time.Minute},
		}, opts...)
		c.ID = id
		return c
	}
	settlement := ratelimit.Call{Verb: ratelimit.VerbSettle, ID: "a", Keys: []ratelimit.Key{
		{Name: "tokens", Limits: ratelimit.Limits{tokens[0].Take(1200).Used(200)}}, {Name: "running"},
	}}
	for _, lost := range []struct {
		call  ratelimit.Call
		sent  int
		left  int64
		stats string
	}{
		{calls.On("k", limits), 1, 8, "cl.limit"},
		{calls.Throttle("k", limits[0], 1), 1, 7, "cl.throttle"},
		{calls.InLine("k", limits, time.Minute), 1, 6, "cl.wait"},
		{ratelimit.Call{Verb: ratelimit.VerbRefund, Keys: calls.On("k", limits).Keys}, 1, 7, "cl.refund"},
		{ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: calls.On("k", limits).Keys}, 3, 7, "cl.peek"},
		{admission("a"), 3, 3800, "cl.mlimit"},
		{settlement, 3, 4800, "cl.settle"},
		{admission("b"), 3, 3600, "cl.mlimit"},
		{admission("c"), 3, 2400, "cl.mlimit"},
		{admission("d", calls.Strict), 1, 1200, "cl.mlimit"}, // charged although it is limited
	} {
		s.MustDo("CONFIG", "RESETSTAT")
		_, err := l.Decide(t.Context(), lost.call)
		require.Error(t, err)
		assert.Contains(t, s.Info("commandstats")["cmdstat_"+lost.stats], fmt.Sprintf("calls=%d,", lost.sent), lost.call)
		left := map[string]ratelimit.Limits{"k": limits, "tokens": tokens}[lost.call.Keys[0].Name]
		assert.Equal(t, lost.left, remaining(t, s, lost.call.Keys[0].Name, left), lost.call)
	}
}

func remaining(t *testing.T, s *server.Server, key string, limits ratelimit.Limits) int64 {
	t.Helper()
	r, err := ratelimit.New(s.Client(), ratelimit.Options{}).Peek(t.Context(), key, limits, 1)
	require.NoError(t, err)
	return r.Remaining
}

// lossy is a connection that breaks down when the reply to a call arrives.
type lossy struct {
	net.Conn
	called bool
}

func (l *lossy) Write(p []byte) (int, error) {
	l.called = bytes.Contains(p, []byte("CL."))
	return l.Conn.Write(p)
}

func (l *lossy) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.called {
		_ = l.Close()
		return 0, io.EOF
	}
	return n, err
}
