package load_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/tests/server"
)

// door is a program of one protocol, whose handler computes.
type door struct {
	name string
	// open starts the program. Without limits it has no limiter. ask sends it a request.
	open func(t *testing.T, limiter ratelimit.Decider, limits ratelimit.Limits, key string, c *tally) (ask func())
}

var doors = []door{{"HTTP", openHTTP}, {"gRPC", openGRPC}}

func openHTTP(t *testing.T, limiter ratelimit.Decider, limits ratelimit.Limits, key string, c *tally) func() {
	t.Helper()
	var handler http.Handler = http.HandlerFunc(computes)
	if limits != nil {
		handler = httplimit.New(limiter, httplimit.Options{Limits: limits, Key: func(*http.Request) string { return key }, Failures: c.failures()})(handler)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
	t.Cleanup(client.CloseIdleConnections)
	return func() {
		r, err := client.Get(s.URL)
		if err != nil {
			c.failed.Add(1)
			return
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.StatusCode {
		case http.StatusOK:
			c.served.Add(1)
		case http.StatusTooManyRequests:
			c.limited.Add(1)
		default:
			c.unavailable.Add(1)
		}
	}
}

// service has one method.
var service = grpc.ServiceDesc{ServiceName: "load.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
	MethodName: "Compute",
	Handler: func(program any, ctx context.Context, read func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(emptypb.Empty)
		if err := read(request); err != nil {
			return nil, err
		}
		handle := func(context.Context, any) (any, error) {
			compute()
			return new(emptypb.Empty), nil
		}
		if intercept == nil {
			return handle(ctx, request)
		}
		return intercept(ctx, request, &grpc.UnaryServerInfo{Server: program, FullMethod: "/load.Service/Compute"}, handle)
	},
}}}

func openGRPC(t *testing.T, limiter ratelimit.Decider, limits ratelimit.Limits, key string, c *tally) func() {
	t.Helper()
	var options []grpc.ServerOption
	if limits != nil {
		options = append(options, grpc.UnaryInterceptor(grpclimit.New(limiter, grpclimit.Options{
			Limits: limits, Key: func(context.Context, string) string { return key },
			OnError: func(_ context.Context, _ string, err error) { c.fails(err) },
		}).Unary()))
	}
	s := grpc.NewServer(options...)
	s.RegisterService(&service, new(any))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	client, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return func() {
		switch status.Code(client.Invoke(context.Background(), "/load.Service/Compute", new(emptypb.Empty), new(emptypb.Empty))) {
		case codes.OK:
			c.served.Add(1)
		case codes.ResourceExhausted:
			c.limited.Add(1)
		case codes.Unavailable:
			c.unavailable.Add(1)
		default:
			c.failed.Add(1)
		}
	}
}

// crowd has callers ask as often as they are answered.
func crowd(c *tally, callers, requests int, ask func()) {
	var left atomic.Int64
	left.Store(int64(requests))
	var asking sync.WaitGroup
	for range callers {
		asking.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				ask()
				c.mu.Lock()
				c.took = append(c.took, time.Since(began))
				c.mu.Unlock()
			}
		})
	}
	asking.Wait()
}

// A program that computes all the time serves each request that its limit lets through: the server is idle, and nobody
// else is to blame. What callers wait for is a processor: the figures stand beside those of the same program without a
// limiter. Of a thousand callers some may be refused, which this process, or the machine, has no time for.
func TestABusyProgramServesWhatItsLimitAllows(t *testing.T) {
	ways := limiters(t, server.Start(t).Client(asREADMEAsks))
	for _, door := range doors {
		for _, callers := range of([]int{200}, []int{200, 500, 1000}) {
			var without tally
			crowd(&without, callers, 2*callers, door.open(t, nil, nil, "", &without))
			require.EqualValues(t, 2*callers, without.served.Load(), "%s: %v", door.name, &without)
			t.Logf("%s without a limiter, %d callers: %v", door.name, callers, &without)
			for name, limiter := range ways {
				var c tally
				key := fmt.Sprint(door.name, name, callers)
				crowd(&c, callers, 2*callers, door.open(t, limiter, ratelimit.Limits{ratelimit.Rate(1_000_000, 24*time.Hour)}, key, &c))
				t.Logf("%s, %s, %d callers: %v", door.name, name, callers, &c)
				assert.Zero(t, c.outages.Load()+c.failed.Load()+c.limited.Load(), "%s, %s: %v", door.name, name, &c)
				assert.EqualValues(t, 2*callers, c.served.Load()+c.overloads.Load(), "%s, %s: %v", door.name, name, &c)
				if callers < 1000 {
					assert.Zero(t, c.overloads.Load(), "%s, %s, %d callers: %v", door.name, name, callers, &c)
				}
			}
		}
	}
}

// At most the limit passes, however many callers there are, and none of them takes it for an outage.
func TestAFloodPassesNoMoreThanTheLimit(t *testing.T) {
	ways := limiters(t, server.Start(t).Client(asREADMEAsks))
	for _, door := range doors {
		for name, limiter := range ways {
			for _, callers := range of([]int{500}, []int{500, 1000, 2000}) {
				var c tally
				key := fmt.Sprint("flood", door.name, name, callers)
				crowd(&c, callers, of(2, 5)*callers, door.open(t, limiter, ratelimit.Limits{ratelimit.Rate(100, 24*time.Hour)}, key, &c))
				t.Logf("%s, %s, %d callers: %v", door.name, name, callers, &c)
				assert.Zero(t, c.outages.Load()+c.failed.Load(), "%s, %s: %v", door.name, name, &c)
				assert.Equal(t, c.overloads.Load(), c.unavailable.Load(), "%s, %s: %v", door.name, name, &c)
				assert.LessOrEqual(t, c.served.Load(), int64(100), "%s, %s: %v", door.name, name, &c)
				// An overload may have been charged all the same: its reply came too late.
				assert.GreaterOrEqual(t, c.served.Load()+c.overloads.Load(), int64(100), "%s, %s: %v", door.name, name, &c)
			}
		}
	}
}
