package adapters

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/tests/server"
)

// callPartner starts a gRPC server without limits, and returns a client behind the interceptor and how many calls came.
func callPartner(t *testing.T, i *grpclimit.ClientInterceptor) (pb.TestServiceClient, *atomic.Int64) {
	t.Helper()
	came := new(atomic.Int64)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			came.Add(1)
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			came.Add(1)
			return handle(srv, stream)
		}))
	pb.RegisterTestServiceServer(s, echo{})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(i.Unary()), grpc.WithChainStreamInterceptor(i.Stream()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewTestServiceClient(conn), came
}

func TestCallsToAPartnerKeepToItsLimit(t *testing.T) {
	t.Parallel()
	client, came := callPartner(t, grpclimit.NewClient(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), grpclimit.ClientOptions{
		Limits: ratelimit.Limits{ratelimit.Fixed(4, 365*day).Named("yearly")}, Key: everybody,
		Cost: func(_ context.Context, _ string, message any) int64 {
			if message == nil {
				return 1
			}
			return 3
		},
	}))
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	require.NoError(t, err)
	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	require.NoError(t, err)

	_, ofUnary := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	_, ofStream := client.FullDuplexCall(t.Context())
	for _, err := range []error{ofUnary, ofStream} {
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		var limited *ratelimit.LimitedError
		require.ErrorAs(t, err, &limited)
		require.ErrorIs(t, err, ratelimit.ErrLimited)
		retry, quota := details(t, err)
		assert.Positive(t, retry.GetRetryDelay().AsDuration())
		assert.Equal(t, "yearly", quota.GetViolations()[0].GetSubject())
	}
	assert.EqualValues(t, 2, came.Load())
}

func TestCallsToAPartnerWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	const every = 200 * time.Millisecond
	client, came := callPartner(t, grpclimit.NewClient(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), grpclimit.ClientOptions{
		Limits: ratelimit.Limits{ratelimit.Rate(1, every)}, Key: everybody, MaxWait: time.Minute,
	}))
	began := time.Now()
	for range 4 {
		_, err := client.EmptyCall(t.Context(), &pb.Empty{})
		require.NoError(t, err)
	}
	assert.GreaterOrEqual(t, time.Since(began), 3*every)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.EmptyCall(ctx, &pb.Empty{})
	assert.Equal(t, codes.Canceled, status.Code(err))
	assert.EqualValues(t, 4, came.Load())
}

func TestCallsToAPartnerDuringAnOutage(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	s.Kill()
	l := ratelimit.New(s.Client(func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }), ratelimit.Options{})
	for answer, want := range map[grpclimit.Answer]codes.Code{grpclimit.Usual: codes.OK, grpclimit.Deny: codes.Unavailable} {
		client, _ := callPartner(t, grpclimit.NewClient(l, grpclimit.ClientOptions{
			Limits: ratelimit.Limits{ratelimit.Rate(1, day)}, Key: everybody, Outage: answer, OnError: func(context.Context, string, error) {},
		}))
		_, err := client.EmptyCall(t.Context(), &pb.Empty{})
		assert.Equal(t, want, status.Code(err))
	}
	assert.Panics(t, func() { grpclimit.NewClient(l, grpclimit.ClientOptions{Key: everybody}) })
	assert.Panics(t, func() {
		grpclimit.NewClient(nil, grpclimit.ClientOptions{Key: everybody, Limits: ratelimit.Limits{ratelimit.Rate(1, day)}})
	})
}
