package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"redis-throttle/tests/server"
)

// askWithin asks with a deadline that the client does not wait beyond.
func (g *gateway) askWithin(d time.Duration, user string) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), d)
	defer cancel()
	_, err := g.ShouldRateLimit(ctx, ask("shop", 0, "user="+user))
	return err
}

// checkWithin is the same with /check. It returns the status, 0 if there was none in time.
func (g *gateway) checkWithin(d time.Duration, user string) int {
	ctx, cancel := context.WithTimeout(g.t.Context(), d)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url("/check/"), nil)
	require.NoError(g.t, err)
	request.Header.Set("X-User", user)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// The deadline of a client is shorter than REDIS_TIMEOUT. While Redis hangs, redis_down decides all the same: the
// clients that leave early do not hide from the breaker that no answer came.
func TestAHangingRedisIsNoticedWhenClientsLeaveEarly(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{"all or none": "", "compat": "compat: true\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			g := start(t, s.Addr(), own+"redis_down: closed"+basic+routesOfHostile, "REDIS_TIMEOUT=100ms")
			require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
			s.Pause()
			await(t, "the breaker opens", func() bool {
				_ = g.askWithin(5*time.Millisecond, "2")
				return g.metric("throttle_gateway_redis_out") == 1
			})
			assert.Contains(t, g.asks(ask("shop", 0, "user=2")), "OVER")
			response, _ := g.get("/check/", http.Header{"X-User": {"2"}})
			assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			s.Resume()
			await(t, "Redis is asked again", func() bool { return strings.HasPrefix(g.asks(ask("shop", 0, "path=/")), "OK") })
		})
	}
}

const routesOfHostile = `routes:
- match: /
  descriptors:
  - [{key: user, value: "{header:X-User}"}]
`

// Clients whose deadline has passed before Redis can answer take neither the breaker nor the connections to Redis away
// from others.
func TestClientsThatLeaveEarlyCostNoConnections(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), "redis_down: closed"+basic, "REDIS_POOL_SIZE=4", "DENIALS=-1")
	require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	before := s.InfoInt("stats", "total_connections_received")
	const rounds = 40
	for i := range rounds {
		s.Pause()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _ = g.askWithin(5*time.Millisecond, fmt.Sprint("early", i)) })
		}
		wg.Wait()
		s.Resume()
		await(t, "Redis decides again", func() bool { return strings.HasPrefix(g.asks(ask("shop", 0, fmt.Sprint("path=/", i))), "OK") })
	}
	assert.Zero(t, g.metric("throttle_gateway_redis_out"))
	assert.Less(t, s.InfoInt("stats", "total_connections_received")-before, int64(rounds), "the pool has 4")
}

// Requests that never come whole, in more number than there are workers, keep nobody else waiting, and end with the
// process.
func TestRequestsThatNeverEndKeepNobodyOut(t *testing.T) {
	t.Parallel()
	g := start(t, server.Start(t).Addr(), basic, "SHUTDOWN_TIMEOUT=1s")
	const many = 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range many {
		_, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
		require.NoError(t, err)
	}
	var slow []net.Conn
	for _, half := range []string{"GET /check/ HTTP/1.1\r\nHost: x\r\nX-", "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{", "G", ""} {
		for range many / 4 {
			conn, err := net.Dial("tcp", g.At["http"])
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, half)
			require.NoError(t, err)
			slow = append(slow, conn)
		}
	}
	for i := range 100 {
		require.Equal(t, "OK 9", g.asks(ask("shop", 0, fmt.Sprint("user=", i))))
	}
	response, _ := g.get("/healthcheck", nil)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	for _, conn := range slow {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err := io.Copy(io.Discard, bufio.NewReader(conn))
		assert.NotErrorIs(t, err, os.ErrDeadlineExceeded, "a connection without a whole request is closed")
	}
	require.True(t, g.Ends(), "streams that never end do not keep the process from ending")
}

// A stream that waits, for news or for its client's next message, does not hold up the end of the process.
func TestStreamsDoNotKeepTheProcess(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, g *gateway){
		"a client watches the health": func(t *testing.T, g *gateway) {
			watch, err := healthpb.NewHealthClient(g.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
			require.NoError(t, err)
			_, err = watch.Recv()
			require.NoError(t, err)
		},
		"a client says nothing of what it watches": func(t *testing.T, g *gateway) {
			_, err := g.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, healthpb.Health_Watch_FullMethodName)
			require.NoError(t, err)
			require.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")), "the stream has come")
		},
		"a client may ask for more of the reflection": func(t *testing.T, g *gateway) {
			stream, err := reflectionpb.NewServerReflectionClient(g.conn).ServerReflectionInfo(t.Context())
			require.NoError(t, err)
			for range 2 {
				require.NoError(t, stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
				response, err := stream.Recv()
				require.NoError(t, err)
				require.Len(t, response.GetListServicesResponse().GetService(), 4)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, server.Start(t).Addr(), basic, "SHUTDOWN_TIMEOUT=10m")
			open(t, g)
			assert.True(t, g.Ends(), "the process does not wait for the client")
		})
	}
}

// MAX_CONCURRENCY bounds the work, not the clients: a request whose client has left keeps its place until Redis has
// answered. Then it is free again.
func TestRequestsOfClientsThatLeftKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic+routesOfHostile, "MAX_CONCURRENCY=4", "REDIS_TIMEOUT=10m")
	for _, user := range []string{"first", "second"} {
		require.Equal(t, "OK 10", g.asks(ask("shop", 0, "user="+user+" +0")))
		s.Pause()
		await(t, "there is no place left", func() bool { return g.checkWithin(50*time.Millisecond, user) == http.StatusServiceUnavailable })
		assert.Equal(t, codes.ResourceExhausted, status.Code(g.askWithin(patience, user)))
		response, _ := g.get("/check/", http.Header{"X-User": {user}})
		assert.Equal(t, "1", response.Header.Get("Retry-After"))
		s.Resume()
		await(t, "four requests were charged", func() bool { return g.asks(ask("shop", 0, "user="+user+" +0")) == "OK 6" })
	}
}
