package adapters

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/ratelimit/keyby"
	"redis-throttle/ratelimit/policies"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/tests/calls"
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

// dial starts a gRPC server on a free port, and returns a client of it.
func dial(t *testing.T, of []grpc.ServerOption, with ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(of...)
	pb.RegisterTestServiceServer(s, echo{})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	with = append(with, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), with...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewTestServiceClient(conn)
}

// behind is a client of a server behind an Interceptor. Everybody has one key unless o says otherwise.
func behind(t *testing.T, decider ratelimit.Decider, o grpclimit.Options) pb.TestServiceClient {
	t.Helper()
	if o.Key == nil {
		o.Key = everybody
	}
	i := grpclimit.New(decider, o)
	return dial(t, []grpc.ServerOption{grpc.ChainUnaryInterceptor(i.Unary()), grpc.ChainStreamInterceptor(i.Stream())})
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

// requireExhausted says that a call was limited, by which limit, and for how long.
func requireExhausted(t *testing.T, err error, by string, retryAfter time.Duration) {
	t.Helper()
	require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
	retry, quota := details(t, err)
	require.NotNil(t, retry)
	assert.Equal(t, retryAfter, retry.RetryDelay.AsDuration())
	require.NotNil(t, quota)
	require.Len(t, quota.Violations, 1)
	assert.Equal(t, by, quota.Violations[0].Subject)
}

func TestUnaryCallsBeyondTheLimitAreExhausted(t *testing.T) {
	t.Parallel()
	client := behind(t, ratelimittest.New(t), grpclimit.Options{
		Limits: ratelimit.Limits{ratelimit.Fixed(1000, 365*day).Named("yearly"), ratelimit.Rate(2, day).Named("twice")},
	})
	for call := range 3 {
		var header metadata.MD
		reply, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header))
		assert.Equal(t, []string{`"yearly";q=1000;w=31536000, "twice";q=2;w=86400`}, header["ratelimit-policy"])
		require.Len(t, header["ratelimit"], 1)
		assert.Contains(t, header["ratelimit"][0], fmt.Sprintf(`"twice";r=%d;t=`, max(1-call, 0)))
		if call < 2 {
			require.NoError(t, err)
			assert.Equal(t, "echo", reply.Username)
			assert.Empty(t, header["retry-after"])
			continue
		}
		requireExhausted(t, err, "twice", day/2)
		assert.Len(t, header["retry-after"], 1)
	}
}

// Interceptors that are nested name their limits apart.
func TestNestedInterceptorsNameTheirLimitsApart(t *testing.T) {
	t.Parallel()
	fake := ratelimittest.New(t)
	of := func(count int64, key string) *grpclimit.Interceptor {
		return grpclimit.New(fake, grpclimit.Options{
			Limits: ratelimit.Limits{ratelimit.Rate(count, time.Hour)}, Key: func(context.Context, string) string { return key },
		})
	}
	outer, inner := of(5, "outer"), of(1, "inner")
	client := dial(t, []grpc.ServerOption{grpc.ChainUnaryInterceptor(outer.Unary(), inner.Unary()),
		grpc.ChainStreamInterceptor(outer.Stream(), inner.Stream())})
	want := []string{`"default";q=5;w=3600`, `"default-2";q=1;w=3600`}
	var header metadata.MD
	_, err := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.Header(&header))
	require.NoError(t, err)
	assert.Equal(t, want, header.Get("ratelimit-policy"))
	_, err = client.EmptyCall(t.Context(), &pb.Empty{})
	requireExhausted(t, err, "default-2", time.Hour)
	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	_, err = stream.Recv()
	requireExhausted(t, err, "default-2", time.Hour)
	header, err = stream.Header()
	require.NoError(t, err)
	assert.Equal(t, want, header.Get("ratelimit-policy"))
}

// The metadata and details of a call are those of the limits in force.
func TestCallsAreToldOfTheLimitsOfAPolicy(t *testing.T) {
	t.Parallel()
	hash := map[string]string{"api/a": "RATE 1/d NAME daily FIXED 9/d", "api/free": "NONE"}
	layer := policies.New(ratelimittest.New(t), nil,
		policies.Options{Refresh: time.Hour, Read: func(context.Context) (map[string]string, error) { return hash, nil }})
	require.NoError(t, layer.Reader().Read(t.Context()))
	user := "a"
	client := behind(t, layer, grpclimit.Options{
		Limits: ratelimit.Policy("api", ratelimit.Rate(2, day)), Key: func(context.Context, string) string { return user },
	})
	var header metadata.MD
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header))
	require.NoError(t, err)
	assert.Equal(t, []string{`"daily";q=1;w=86400, "api-2";q=9;w=86400`}, header["ratelimit-policy"])
	_, err = client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	requireExhausted(t, err, "daily", day)

	user = "free"
	_, err = client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Header(&header))
	require.NoError(t, err)
	assert.Empty(t, header["ratelimit-policy"])
	assert.Empty(t, header["ratelimit"])
}

func TestWhatIsExhausted(t *testing.T) {
	t.Parallel()
	client := behind(t, ratelimittest.New(t), grpclimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(2, day)},
		Key:    grpclimit.By(keyby.Header("name")),
		Cost: func(_ context.Context, _ string, message any) int64 {
			return int64(message.(*pb.SimpleRequest).ResponseSize)
		},
	})
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

// talk sends messages on a new stream, receives their answers, and returns the header of the stream.
func talk(t *testing.T, client pb.TestServiceClient, messages int) (metadata.MD, error) {
	t.Helper()
	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	for range messages {
		_ = stream.Send(&pb.StreamingOutputCallRequest{}) // Recv has the error
		if _, err := stream.Recv(); err != nil {
			return nil, err
		}
	}
	header, err := stream.Header()
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	return header, nil
}

func TestStreamsAreChargedWhenTheyOpenAndForMessagesWhenToldTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		charged bool
		streams []int // how many messages those have that use the limit up
	}{{false, []int{5, 5}}, {true, []int{1}}, {true, nil}} {
		client := behind(t, ratelimittest.New(t), grpclimit.Options{Limits: ratelimit.Limits{ratelimit.Rate(2, day)}, Messages: c.charged})
		for _, messages := range c.streams {
			header, err := talk(t, client, messages)
			require.NoError(t, err)
			assert.Equal(t, []string{`"default";q=2;w=86400`}, header["ratelimit-policy"])
		}
		_, err := talk(t, client, 2)
		requireExhausted(t, err, "default", day/2)
	}
}

func TestMethodsHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	const service = "/grpc.testing.TestService/"
	l := ratelimittest.New(t)
	client := behind(t, l, grpclimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(1, day)},
		Methods: []grpclimit.Method{
			{Name: service, Limits: ratelimit.Limits{ratelimit.Rate(2, day)}},
			{Name: service + "UnaryCall", Limits: ratelimit.Limits{ratelimit.Rate(3, day)},
				Key: func(_ context.Context, method string) string { return "mine" + method }},
		},
	})
	_, err := client.EmptyCall(t.Context(), &pb.Empty{})
	require.NoError(t, err)
	_, err = client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	require.NoError(t, err)
	assert.Equal(t, `CL.LIMIT "`+service+` everybody" RATE 2/1d COMPACT`, l.Asked()[0].String())
	assert.Equal(t, "CL.LIMIT mine"+service+"UnaryCall RATE 3/1d COMPACT", l.Asked()[1].String())
}

// A probe that met a limit would take the server for a dead one.
func TestHealthChecksAreLimitedOnlyWhenToldTo(t *testing.T) {
	t.Parallel()
	limits := ratelimit.Limits{ratelimit.Rate(1, day)}
	for name, tt := range map[string]struct {
		options grpclimit.Options
		limited bool
	}{
		"by default": {grpclimit.Options{Limits: limits}, false},
		"limits of a caller": {grpclimit.Options{
			Limits: limits, LimitsFor: func(context.Context, string) ratelimit.Limits { return limits },
		}, false},
		"told to": {grpclimit.Options{Limits: limits, HealthChecks: true}, true},
		"by name": {grpclimit.Options{Methods: []grpclimit.Method{{Name: "/grpc.health.v1.Health/", Limits: limits}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.options.Key = everybody
			i := grpclimit.New(ratelimittest.New(t), tt.options)
			s := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary()), grpc.ChainStreamInterceptor(i.Stream()))
			grpc_health_v1.RegisterHealthServer(s, health.NewServer())
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			go func() { _ = s.Serve(listener) }()
			t.Cleanup(s.Stop)
			conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			client := grpc_health_v1.NewHealthClient(conn)
			_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			require.NoError(t, err)
			_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			assert.Equal(t, tt.limited, status.Code(err) == codes.ResourceExhausted, "%v", err)
			watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			require.NoError(t, err)
			_, err = watch.Recv()
			assert.Equal(t, tt.limited, status.Code(err) == codes.ResourceExhausted, "%v", err)
		})
	}
}

func TestLimitsByCaller(t *testing.T) {
	t.Parallel()
	client := behind(t, ratelimittest.New(t), grpclimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(1, day)},
		Key:    grpclimit.By(keyby.Header("plan")),
		LimitsFor: func(ctx context.Context, _ string) ratelimit.Limits {
			plan := metadata.ValueFromIncomingContext(ctx, "plan")
			return map[string]ratelimit.Limits{"gold": {ratelimit.Rate(2, day)}, "broken": {ratelimit.Rate(-1, day)}}[plan[0]]
		},
		OnError: func(_ context.Context, _ string, err error) {
			assert.ErrorContains(t, err, "the count -1 is negative")
		},
	})
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
	for want, proxies := range map[string][]netip.Prefix{"127.0.0.1": nil, "203.0.113.7": {netip.MustParsePrefix("127.0.0.0/8")}} {
		l := ratelimittest.New(t)
		client := behind(t, l, grpclimit.Options{Limits: ratelimit.Limits{ratelimit.Rate(10, day)}, Key: grpclimit.By(keyby.Client(proxies...))})
		_, err := client.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "198.51.100.1, 203.0.113.7"), &pb.Empty{})
		require.NoError(t, err)
		assert.Equal(t, want, l.Asked()[0].Call.Keys[0].Name)
	}
}

// The second call that is limited bans the key for half a day, longer than its limit would say. While it is banned no
// limit decides.
func TestCallsFromNetworksAreNotLimited(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule      string
		skip      func(*http.Request) bool
		forwarded string
		calls     int
	}{
		{"in a network", keyby.From([]string{"127.0.0.0/8"}), "", 3},
		{"in another one", keyby.From([]string{"10.0.0.0/8"}), "", 1},
		{"behind a proxy", keyby.From([]string{"10.0.0.0/8"}, netip.MustParsePrefix("127.0.0.0/8")), "10.2.3.4", 3},
		{"a stranger behind a proxy", keyby.From([]string{"10.0.0.0/8"}, netip.MustParsePrefix("127.0.0.0/8")), "10.2.3.4, 203.0.113.7", 1},
		{"behind a proxy that nobody has named", keyby.From([]string{"127.0.0.0/8"}), "203.0.113.7", 1},
	} {
		client := behind(t, ratelimittest.New(t), grpclimit.Options{
			Limits: ratelimit.Limits{ratelimit.Rate(1, day)}, Skip: grpclimit.By(c.skip),
		})
		ctx := t.Context()
		if c.forwarded != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-forwarded-for", c.forwarded)
		}
		served := 0
		for range 3 {
			if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); err == nil {
				served++
			}
		}
		assert.Equal(t, c.calls, served, c.rule)
	}
}

func TestABanBeginsAfterSoManyDenials(t *testing.T) {
	t.Parallel()
	client := behind(t, ratelimittest.New(t), grpclimit.Options{Limits: ratelimit.Limits{ratelimit.Rate(1, time.Hour)}, Ban: 12 * time.Hour, BanAfter: "2/1h"})
	for call, want := range []time.Duration{0, time.Hour, day / 2} {
		_, err := client.EmptyCall(t.Context(), &pb.Empty{})
		if call == 0 {
			require.NoError(t, err)
			continue
		}
		requireExhausted(t, err, "default", want)
	}
	var header metadata.MD
	_, err := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.Header(&header))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	retry, quota := details(t, err)
	assert.Equal(t, day/2, retry.GetRetryDelay().AsDuration())
	assert.Nil(t, quota)
	assert.Equal(t, []string{`"default";r=0;t=43200`}, header["ratelimit"])
}

func TestOutageUnderGRPC(t *testing.T) {
	t.Parallel()
	outage, mistake := ratelimittest.ErrOutage, ratelimittest.ReplyError("NOPERM")
	for name, c := range map[string]struct {
		fails  error
		answer grpclimit.Answer // to an outage
		after  time.Duration
		code   codes.Code
		retry  time.Duration
	}{
		"usual":              {outage, grpclimit.Usual, 0, codes.OK, 0},
		"open":               {outage, grpclimit.Allow, 0, codes.OK, 0},
		"closed":             {outage, grpclimit.Deny, 0, codes.Unavailable, time.Second},
		"closed, for long":   {outage, grpclimit.Deny, time.Minute, codes.Unavailable, time.Minute},
		"closed, no telling": {outage, grpclimit.Deny, -1, codes.Unavailable, 0},
		"an error":           {outage, grpclimit.Raise, 0, codes.Internal, 0},
		"an overload":        {redis.ErrPoolTimeout, grpclimit.Allow, 0, codes.Unavailable, time.Second},
		"a mistake":          {mistake, grpclimit.Allow, 0, codes.Internal, 0},
	} {
		l := ratelimittest.New(t)
		l.Fail(c.fails)
		told := 0
		onError := func(_ context.Context, _ string, err error) {
			assert.ErrorIs(t, err, c.fails)
			told++
		}
		limits := ratelimit.Limits{ratelimit.Rate(1000, day)}
		client := behind(t, l, grpclimit.Options{Limits: limits, Outage: c.answer, RetryAfter: c.after, OnError: onError})
		var header metadata.MD
		_, ofServer := client.EmptyCall(t.Context(), &pb.Empty{}, grpc.Header(&header))
		assert.Empty(t, header["ratelimit"], name)
		partner := grpclimit.NewClient(l, grpclimit.ClientOptions{Limits: limits, Key: everybody, Outage: c.answer, RetryAfter: c.after, OnError: onError})
		ofClient := partner.Unary()(t.Context(), "/s/m", nil, nil, nil, sent)
		for _, err := range []error{ofServer, ofClient} {
			assert.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
			retry, quota := details(t, err)
			assert.Equal(t, c.retry, retry.GetRetryDelay().AsDuration(), name)
			assert.Nil(t, quota, name)
		}
		assert.Equal(t, 2, told, name)
	}
}

// sent is a call to a partner that succeeds.
func sent(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }

// A client chooses its deadline, and can leave: neither is a way round a limit, nor an outage.
func TestADeadlineOfTheClientLetsNothingThrough(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	l.Hang()
	limited := grpclimit.New(l, grpclimit.Options{
		Key:     everybody,
		Limits:  ratelimit.Limits{ratelimit.Rate(1, day)},
		OnError: func(_ context.Context, _ string, err error) { t.Error(err) },
	}).Unary()
	ends, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	left, leave := context.WithCancel(t.Context())
	leave()
	for ctx, want := range map[context.Context]codes.Code{ends: codes.DeadlineExceeded, left: codes.Canceled} {
		_, err := limited(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) {
			t.Error("it was let through")
			return nil, nil
		})
		assert.Equal(t, want, status.Code(err))
	}
}

func TestCallsToAPartnerKeepToItsLimit(t *testing.T) {
	t.Parallel()
	l := ratelimittest.New(t)
	partner := grpclimit.NewClient(l, grpclimit.ClientOptions{
		Limits: ratelimit.Limits{ratelimit.Fixed(4, 365*day).Named("yearly")}, Key: everybody,
		Cost: func(_ context.Context, _ string, message any) int64 {
			if message == nil {
				return 1
			}
			return 3
		},
	})
	client := dial(t, nil, grpc.WithChainUnaryInterceptor(partner.Unary()), grpc.WithChainStreamInterceptor(partner.Stream()))
	_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	require.NoError(t, err)
	_, err = talk(t, client, 2)
	require.NoError(t, err)

	again := calls.Ask(t, l, ratelimit.Call{Verb: ratelimit.VerbPeek,
		Keys: []ratelimit.Key{{Name: "everybody", Limits: ratelimit.Limits{ratelimit.Fixed(4, 365*day)}}}}).RetryAfter
	_, ofUnary := client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	_, ofStream := client.FullDuplexCall(t.Context())
	for _, err := range []error{ofUnary, ofStream} {
		requireExhausted(t, err, "yearly", again)
		require.ErrorAs(t, err, new(*ratelimit.LimitedError))
		require.ErrorIs(t, err, ratelimit.ErrLimited)
	}
}

func TestCallsToAPartnerWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := grpclimit.NewClient(ratelimittest.New(t), grpclimit.ClientOptions{
			Limits: ratelimit.Limits{ratelimit.Rate(1, time.Second)}, Key: everybody, MaxWait: time.Minute,
		}).Unary()
		began := time.Now()
		for range 4 {
			require.NoError(t, call(t.Context(), "/s/m", nil, nil, nil, sent))
		}
		assert.Equal(t, 3*time.Second, time.Since(began))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Equal(t, codes.Canceled, status.Code(call(ctx, "/s/m", nil, nil, nil, sent)))
	})
}

// decider is enough for an interceptor that is never asked.
type decider struct{ ratelimit.Decider }

func TestMistakesInAnInterceptorPanic(t *testing.T) {
	t.Parallel()
	good := ratelimit.Limits{ratelimit.Rate(1, day)}
	methods := func(all ...grpclimit.Method) grpclimit.Options {
		return grpclimit.Options{Key: everybody, Methods: all}
	}
	for i, wrong := range []grpclimit.Options{
		{Key: everybody},
		{Limits: good},
		{Limits: ratelimit.Limits{{}}, Key: everybody},
		{Limits: good, Key: everybody, BanAfter: "2/1h"},
		{Key: everybody, LimitsFor: func(context.Context, string) ratelimit.Limits { return good }},
		{Methods: []grpclimit.Method{{Name: "/s/m", Limits: good}}},
		methods(grpclimit.Method{Name: "/s/m"}),
		methods(grpclimit.Method{Name: "s/m", Limits: good}),
		methods(grpclimit.Method{Name: "/s", Limits: good}),
		methods(grpclimit.Method{Name: "/s/m", Limits: good}, grpclimit.Method{Name: "/s/m", Limits: good}),
	} {
		assert.Panics(t, func() { grpclimit.New(decider{}, wrong) }, "%d", i)
	}
	assert.Panics(t, func() { grpclimit.New(nil, grpclimit.Options{Limits: good, Key: everybody}) })
	assert.Panics(t, func() { grpclimit.NewClient(nil, grpclimit.ClientOptions{Limits: good, Key: everybody}) })
	assert.Panics(t, func() { grpclimit.NewClient(decider{}, grpclimit.ClientOptions{Key: everybody}) })
}
