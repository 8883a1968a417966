package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	"redis-throttle/bench/internal/must"
	"redis-throttle/ratelimit/pipelimit"
)

// empty decides nothing: what a request costs a program of gRPC or net/http that answers it. By gRPC it answers what
// the gateway does, with the options of the gateway's server; by HTTP, the status alone. By gRPC it may ask Redis what
// the gateway does, too.
type empty struct {
	rls.UnimplementedRateLimitServiceServer
	answer *rls.RateLimitResponse
	redis  interface { // nil asks nobody
		Process(ctx context.Context, cmd redis.Cmder) error
	}
}

func (e *empty) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if e.redis == nil {
		return e.answer, nil
	}
	args := []any{"CL.MLIMIT", len(request.Descriptors)}
	for _, d := range request.Descriptors {
		args = append(args, d.Entries[0].Key+"_"+d.Entries[0].Value)
	}
	args = append(args, "RATE", "100000000/h", "NEXT", "RATE", "100000000/h", "COMPACT", "EACH")
	return e.answer, e.redis.Process(context.WithoutCancel(ctx), redis.NewCmd(ctx, args...)) // the reply is told nobody
}

// serveEmpty serves where the environment of a gateway says.
func serveEmpty(_ context.Context, o options) (err error) {
	defer must.Catch(&err)
	listener := func(port string) net.Listener { return must.Get(net.Listen("tcp", "127.0.0.1:"+os.Getenv(port))) }
	status := &rls.RateLimitResponse_DescriptorStatus{
		Code: rls.RateLimitResponse_OK, LimitRemaining: 99_999_999, DurationUntilReset: durationpb.New(time.Millisecond),
		CurrentLimit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: 100_000_000, Unit: rls.RateLimitResponse_RateLimit_HOUR},
	}
	service := grpc.NewServer(grpc.NumStreamWorkers(32), grpc.MaxConcurrentStreams(4096), grpc.StaticConnWindowSize(1<<20),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 24 * time.Hour}))
	handler := &empty{answer: &rls.RateLimitResponse{
		OverallCode: rls.RateLimitResponse_OK, Statuses: []*rls.RateLimitResponse_DescriptorStatus{status, status},
	}}
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_URL"), PoolSize: 32})
	switch o.Asks {
	case "alone":
		handler.redis = client
	case "together":
		handler.redis = pipelimit.Share(client, pipelimit.Options{})
	}
	rls.RegisterRateLimitServiceServer(service, handler)
	go func() { must.Do(service.Serve(listener("GRPC_PORT"))) }()
	web := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second}
	return web.Serve(listener("PORT"))
}
