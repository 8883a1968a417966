package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/grpclimit"
	"redis-throttle/ratelimit/internal/examples"
	"redis-throttle/ratelimit/keyby"
)

func TestMain(m *testing.M) { examples.Main(m) }

func ExampleInterceptor() {
	client := redis.NewClient(&redis.Options{Addr: examples.Addr})
	defer client.Close()

	limited := grpclimit.New(ratelimit.New(client, ratelimit.Options{}), grpclimit.Options{
		Limits: ratelimit.Limits{ratelimit.Rate(2, time.Hour)},
		Key:    grpclimit.By(keyby.Prefixed("grpc:", keyby.RemoteHost)),

		HealthChecks: true, // the only service of this example
	})
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limited.Unary()),
		grpc.ChainStreamInterceptor(limited.Stream()),
	)
	defer server.Stop()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = server.Serve(listener) }()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for range 3 {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("retry in", retry.RetryDelay.AsDuration().Round(time.Minute))
			}
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// retry in 30m0s
}
