package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	"redis-throttle/bench/internal/must"
)

// empty decides nothing: what a request costs a program of gRPC or net/http that answers it. By gRPC it answers what
// the gateway does, with the options of the gateway's server; by HTTP, the status alone.
type empty struct {
	rls.UnimplementedRateLimitServiceServer
	answer *rls.RateLimitResponse
}

func (e *empty) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return e.answer, nil
}

// serveEmpty serves where the environment of a gateway says.
func serveEmpty(context.Context, options) (err error) {
	defer must.Catch(&err)
	listener := func(port string) net.Listener { return must.Get(net.Listen("tcp", "127.0.0.1:"+os.Getenv(port))) }
	status := &rls.RateLimitResponse_DescriptorStatus{
		Code: rls.RateLimitResponse_OK, LimitRemaining: 99_999_999, DurationUntilReset: durationpb.New(time.Millisecond),
		CurrentLimit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: 100_000_000, Unit: rls.RateLimitResponse_RateLimit_HOUR},
	}
	service := grpc.NewServer(grpc.NumStreamWorkers(32), grpc.MaxConcurrentStreams(4096), grpc.StaticConnWindowSize(1<<20),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: 24 * time.Hour}))
	rls.RegisterRateLimitServiceServer(service, &empty{answer: &rls.RateLimitResponse{
		OverallCode: rls.RateLimitResponse_OK, Statuses: []*rls.RateLimitResponse_DescriptorStatus{status, status},
	}})
	go func() { must.Do(service.Serve(listener("GRPC_PORT"))) }()
	web := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second}
	return web.Serve(listener("PORT"))
}
