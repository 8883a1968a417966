package adapters

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/ratelimit/keyby"
	"redis-throttle/tests/server"
)

// echo answers each message.
type echo struct {
	pb.UnimplementedTestServiceServer
}

func (echo) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return &pb.Empty{}, nil }

func (echo) UnaryCall(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Username: "echo"}, nil
}

func (echo) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	for {
		switch _, err := stream.Recv(); err {
		case nil:
			if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
				return err
			}
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// dial starts a gRPC server behind the interceptor, on a free port, and returns a client.
func dial(t *testing.T, i *grpclimit.Interceptor) pb.TestServiceClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary()), grpc.ChainStreamInterceptor(i.Stream()))
	pb.RegisterTestServiceServer(s, echo{})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewTestServiceClient(conn)
}

func everybody(context.Context, string) string { return "everybody" }

// details has the details of a status, each nil when it is missing.
func details(t *testing.T, err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		default:
			t.Errorf("detail %T", d)
		}
	}
	return retry, quota
}

// isHalfADay says whether d is what a bucket of two units in a day takes for one, less what has gone by since began.
func isHalfADay(t *testing.T, d time.Duration, began time.Time) {
	t.Helper()
	assert.LessOrEqual(t, d, day/2)
	assert.GreaterOrEqual(t, d, day/2-time.Since(began)-time.Second)
}

func TestUnaryCallsBeyondTheLimitAreExhausted(t *testing.T) {
	t.Parallel()
	client := dial(t, grpclimit.New(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), grpclimit.Options{
		Key:    everybody,
		Limits: ratelimit.Limits{ratelimit.Fixed(1000, day).Named("daily"), ratelimit.Rate(2, day).Named("twice")},
	}))
	began := time.Now()
	for call := range 3 {
		var header metadata.MD
		reply, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header))
		assert.Equal(t, []string{`"daily";q=1000;w=86400, "twice";q=2;w=86400`}, header["ratelimit-policy"])
		require.Len(t, header["ratelimit"], 1)
		assert.Contains(t, header["ratelimit"][0], `"twice";r=`+strconv.Itoa(max(1-call, 0))+";t=")
		if call < 2 {
			require.NoError(t, err)
			assert.Equal(t, "echo", reply.Username)
			assert.Empty(t, header["retry-after"])
			continue
		}
		require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
		retry, quota := details(t, err)
		require.NotNil(t, retry)
		isHalfADay(t, retry.RetryDelay.AsDuration(), began)
		require.NotNil(t, quota)
		require.Len(t, quota.Violations, 1)
		assert.Equal(t, "twice", quota.Violations[0].Subject)
		assert.Len(t, header["retry-after"], 1)
	}
}

func TestWhatIsExhausted(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := dial(t, grpclimit.New(ratelimit.New(s.Client(), ratelimit.Options{}), grpclimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(2, day)},
		Key:    grpclimit.By(keyby.Header("name")),
		Cost: func(_ context.Context, _ string, message any) int64 {
			return int64(message.(*pb.SimpleRequest).ResponseSize)
		},
	}))
	call := func(name string, cost int32) error {
		_, err := client.UnaryCall(metadata.AppendToOutgoingContext(t.Context(), "name", name), &pb.SimpleRequest{ResponseSize: cost})
		return err
	}
	require.NoError(t, call("ann", 2))
	require.Equal(t, codes.ResourceExhausted, status.Code(call("ann", 1)))
	require.NoError(t, call("bob", 1), "somebody else")
	require.NoError(t, call("", 99), "nobody")

	err := call("bob", 3)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	retry, quota := details(t, err)
	assert.Nil(t, retry, "no waiting helps")
	assert.NotNil(t, quota)

	require.Equal(t, codes.Internal, status.Code(call("ann", -1)), "a mistake")
}

func TestOpeningAStreamIsCharged(t *testing.T) {
	t.Parallel()
	client := dial(t, grpclimit.New(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), grpclimit.Options{
		Key:    everybody,
		Limits: ratelimit.Limits{ratelimit.Rate(2, day)},
	}))
	began := time.Now()
	for call := range 3 {
		stream, err := client.FullDuplexCall(t.Context())
		require.NoError(t, err)
		if call == 2 {
			_, err = stream.Recv()
			require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
			retry, _ := details(t, err)
			require.NotNil(t, retry)
			isHalfADay(t, retry.RetryDelay.AsDuration(), began)
			continue
		}
		for range 5 { // messages are free
			require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
			_, err = stream.Recv()
			require.NoError(t, err)
		}
		if call == 0 {
			header, err := stream.Header()
			require.NoError(t, err)
			assert.Equal(t, []string{`"default";q=2;w=86400`}, header["ratelimit-policy"])
		}
		require.NoError(t, stream.CloseSend())
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestMessagesOfAStreamAreChargedWhenToldTo(t *testing.T) {
	t.Parallel()
	client := dial(t, grpclimit.New(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), grpclimit.Options{
		Key:      everybody,
		Limits:   ratelimit.Limits{ratelimit.Rate(4, day)},
		Messages: true,
	}))
	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		require.NoError(t, err)
	}
	require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
	retry, quota := details(t, err)
	assert.NotNil(t, retry)
	assert.NotNil(t, quota)
}

func TestMethodsHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	const service = "/grpc.testing.TestService/"
	s := server.Start(t)
	one := ratelimit.Limits{ratelimit.Rate(1, day)}
	client := dial(t, grpclimit.New(ratelimit.New(s.Client(), ratelimit.Options{}), grpclimit.Options{
		Limits: one,
		Key:    everybody,
		Methods: []grpclimit.Method{
			{Name: service, Limits: ratelimit.Limits{ratelimit.Rate(2, day)}},
			{Name: service + "UnaryCall", Limits: ratelimit.Limits{ratelimit.Rate(3, day)},
				Key: func(_ context.Context, method string) string { return "mine" + method }},
		},
	}))
	empty := func() error { _, err := client.EmptyCall(t.Context(), &pb.Empty{}); return err }
	unary := func() error { _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); return err }
	for _, c := range []struct {
		call    func() error
		allowed int
		key     string
	}{{empty, 2, service + " everybody"}, {unary, 3, "mine" + service + "UnaryCall"}} {
		for range c.allowed {
			require.NoError(t, c.call())
		}
		assert.Equal(t, codes.ResourceExhausted, status.Code(c.call()))
		assert.EqualValues(t, 1, s.MustDo("EXISTS", c.key).Int, c.key)
	}
}

func TestLimitsByCaller(t *testing.T) {
	t.Parallel()
	client := dial(t, grpclimit.New(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), grpclimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(1, day)},
		Key:    grpclimit.By(keyby.Header("plan")),
		LimitsFor: func(ctx context.Context, _ string) ratelimit.Limits {
			plan := metadata.ValueFromIncomingContext(ctx, "plan")
			return map[string]ratelimit.Limits{"gold": {ratelimit.Rate(2, day)}, "broken": {ratelimit.Rate(-1, day)}}[plan[0]]
		},
		OnError: func(_ context.Context, _ string, err error) {
			assert.ErrorContains(t, err, "the count -1 is negative")
		},
	}))
	for _, c := range []struct {
		plan    string
		allowed int
		code    codes.Code
	}{{"tin", 1, codes.ResourceExhausted}, {"gold", 2, codes.ResourceExhausted}, {"broken", 0, codes.Internal}} {
		for call := range c.allowed + 1 {
			_, err := client.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), "plan", c.plan), &pb.Empty{})
			assert.Equal(t, call == c.allowed, status.Code(err) == c.code, "%s: %v", c.plan, err)
		}
	}
}

// The address that a client gives itself counts only behind a proxy.
func TestAddressesOfCallers(t *testing.T) {
	t.Parallel()
	for _, proxies := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8")}} {
		s := server.Start(t)
		client := dial(t, grpclimit.New(ratelimit.New(s.Client(), ratelimit.Options{}), grpclimit.Options{
			Limits: ratelimit.Limits{ratelimit.Rate(10, day)},
			Key:    grpclimit.By(keyby.Client(proxies...)),
		}))
		_, err := client.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "198.51.100.1, 203.0.113.7"), &pb.Empty{})
		require.NoError(t, err)
		want := "127.0.0.1"
		if proxies != nil {
			want = "203.0.113.7"
		}
		assert.EqualValues(t, 1, s.MustDo("EXISTS", want).Int, want)
		assert.EqualValues(t, 1, s.MustDo("DBSIZE").Int)
	}
}

func TestABannedKeyHasNoViolation(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	client := dial(t, grpclimit.New(ratelimit.New(s.Client(), ratelimit.Options{}), grpclimit.Options{Key: everybody, Limits: ratelimit.Limits{ratelimit.Rate(1, day)}}))
	began := time.Now()
	s.MustDo("CL.BAN", "everybody", "12h")
	var header metadata.MD
	_, err := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.Header(&header))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	retry, quota := details(t, err)
	require.NotNil(t, retry)
	isHalfADay(t, retry.RetryDelay.AsDuration(), began)
	assert.Nil(t, quota)
	require.Len(t, header["ratelimit"], 1)
	assert.Contains(t, header["ratelimit"][0], `"default";r=0;t=43`)
}

// The second call that is limited bans the key for half a day, longer than its limit would say.
func TestABanBeginsAfterSoManyDenials(t *testing.T) {
	t.Parallel()
	client := dial(t, grpclimit.New(ratelimit.New(server.Start(t).Client(), ratelimit.Options{}), grpclimit.Options{
		Key: everybody, Limits: ratelimit.Limits{ratelimit.Rate(1, time.Hour)}, Ban: 12 * time.Hour, BanAfter: "2/1h",
	}))
	began := time.Now()
	for call, want := range []time.Duration{0, time.Hour, day / 2, day / 2} {
		_, err := client.EmptyCall(t.Context(), &pb.Empty{})
		if call == 0 {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		retry, quota := details(t, err)
		assert.InDelta(t, want.Seconds(), retry.RetryDelay.AsDuration().Seconds(), time.Since(began).Seconds()+1)
		assert.Equal(t, call < 3, quota != nil, "no limit decides while the key is banned")
	}
	assert.Panics(t, func() {
		grpclimit.New(decider{}, grpclimit.Options{Key: everybody, Limits: ratelimit.Limits{ratelimit.Rate(1, day)}, BanAfter: "2/1h"})
	})
}

// decider is enough for an interceptor that is never asked.
type decider struct{ ratelimit.Decider }

func TestOutageUnderGRPC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		closed bool
		after  time.Duration
		code   codes.Code
		retry  time.Duration
	}{
		{"open", false, 0, codes.OK, 0},
		{"closed", true, 0, codes.Unavailable, time.Second},
		{"closed, for long", true, time.Minute, codes.Unavailable, time.Minute},
		{"closed, no telling", true, -1, codes.Unavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			var mu sync.Mutex
			var errs []error
			client := dial(t, grpclimit.New(ratelimit.New(s.Client(quick), ratelimit.Options{}), grpclimit.Options{
				Key:        everybody,
				Limits:     ratelimit.Limits{ratelimit.Rate(1000, day)},
				Outage:     answerOf(c.closed),
				RetryAfter: c.after,
				OnError:    func(_ context.Context, _ string, err error) { mu.Lock(); errs = append(errs, err); mu.Unlock() },
			}))
			limited := func() bool {
				var header metadata.MD
				_, err := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.Header(&header))
				return err == nil && len(header["ratelimit"]) == 1
			}
			require.True(t, limited())
			s.Kill()
			var header metadata.MD
			_, err := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.Header(&header))
			assert.Equal(t, c.code, status.Code(err), err)
			assert.Empty(t, header["ratelimit"])
			retry, quota := details(t, err)
			assert.Equal(t, c.retry, retry.GetRetryDelay().AsDuration())
			assert.Nil(t, quota)
			mu.Lock()
			assert.Len(t, errs, 1)
			mu.Unlock()
			s.Restart()
			require.Eventually(t, limited, 10*time.Second, 10*time.Millisecond)
		})
	}
}

// A client chooses its deadline, and can leave: neither is a way round a limit, nor an outage.
func TestADeadlineOfTheClientLetsNothingThrough(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	through := make(chan error, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	limited := grpclimit.New(ratelimit.New(s.Client(func(o *redis.Options) { o.ContextTimeoutEnabled = true }), ratelimit.Options{}), grpclimit.Options{
		Key:     everybody,
		Limits:  ratelimit.Limits{ratelimit.Rate(1, day)},
		OnError: func(_ context.Context, _ string, err error) { t.Error(err) },
	}).Unary()
	g := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		reply, err := limited(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			t.Error("it was let through")
			return handler(ctx, req)
		})
		through <- err
		return reply, err
	}))
	pb.RegisterTestServiceServer(g, echo{})
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	conn.Connect()
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = pb.NewTestServiceClient(conn).EmptyCall(ctx, &pb.Empty{}, grpc.WaitForReady(true))
	assert.Equal(t, codes.DeadlineExceeded, status.Code(err))
	assert.Contains(t, []codes.Code{codes.DeadlineExceeded, codes.Canceled}, status.Code(<-through))
}

func TestMistakesInAnInterceptorPanic(t *testing.T) {
	t.Parallel()
	good := ratelimit.Limits{ratelimit.Rate(1, day)}
	for i, wrong := range []func(){
		func() { grpclimit.New(nil, grpclimit.Options{}) },
		func() { grpclimit.New(nil, grpclimit.Options{Limits: good, Key: everybody}) },
		func() { grpclimit.New(decider{}, grpclimit.Options{Key: everybody}) },
		func() { grpclimit.New(decider{}, grpclimit.Options{Limits: good}) },
		func() { grpclimit.New(decider{}, grpclimit.Options{Limits: ratelimit.Limits{{}}, Key: everybody}) },
		func() {
			grpclimit.New(decider{}, grpclimit.Options{Key: everybody, LimitsFor: func(context.Context, string) ratelimit.Limits { return good }})
		},
		func() {
			grpclimit.New(decider{}, grpclimit.Options{Methods: []grpclimit.Method{{Name: "/s/m", Limits: good}}})
		},
		func() {
			grpclimit.New(decider{}, grpclimit.Options{Key: everybody, Methods: []grpclimit.Method{{Name: "/s/m"}}})
		},
		func() {
			grpclimit.New(decider{}, grpclimit.Options{Key: everybody, Methods: []grpclimit.Method{{Name: "s/m", Limits: good}}})
		},
		func() {
			grpclimit.New(decider{}, grpclimit.Options{Key: everybody, Methods: []grpclimit.Method{{Name: "/s", Limits: good}}})
		},
		func() {
			grpclimit.New(decider{}, grpclimit.Options{Key: everybody, Methods: []grpclimit.Method{{Name: "/s/m", Limits: good}, {Name: "/s/m", Limits: good}}})
		},
	} {
		assert.Panics(t, wrong, "%d", i)
	}
}

func answerOf(failClosed bool) grpclimit.Answer {
	if failClosed {
		return grpclimit.Deny
	}
	return grpclimit.Allow
}
