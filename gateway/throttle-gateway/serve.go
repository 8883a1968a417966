package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9/logging"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/gateway/internal/service"
	"redis-throttle/gateway/internal/settings"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/otellimit"
	"redis-throttle/ratelimit/promlimit"
)

// gateway is a process that serves.
type gateway struct {
	s       *settings.Settings
	service *service.Service
	chain   *decide.Chain
	health  *health.Server
	grpc    *grpc.Server
	web     *http.Server
	extra   []*http.Server // not for proxies
	failed  chan error     // of a server that ended

	running context.Context // until the process stops
	stop    context.CancelFunc
}

// serve serves until ctx ends, and then until the requests that are under way are answered.
func serve(ctx context.Context, s *settings.Settings, paths []string) error {
	logging.Disable() // go-redis logs addresses; errors are logged once, here
	if len(paths) == 0 {
		paths = []string{s.Folder()}
	}
	flush, err := traces(ctx, s)
	if err != nil {
		return err
	}
	defer flush()
	g := &gateway{s: s, health: health.NewServer(), failed: make(chan error, 8)}
	g.running, g.stop = context.WithCancel(context.Background())
	defer g.stop()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := g.build(registry); err != nil {
		return err
	}
	files := config.Read(paths...)
	if err := g.service.Load(files); err != nil {
		return err
	}
	go config.Watch(g.running, files, func(files config.Files) {
		if err := g.service.Load(files); err != nil {
			slog.Error("the configuration stays as it was", "error", err)
		}
	}, paths...)
	if err := g.listen(registry); err != nil {
		return err
	}
	go g.watchHealth()
	select {
	case err = <-g.failed:
	case <-ctx.Done():
	}
	return errors.Join(err, g.end())
}

// build makes what answers.
func (g *gateway) build(registry *prometheus.Registry) error {
	client, err := g.s.Redis.Client()
	if err != nil {
		return err
	}
	calls := promlimit.New(promlimit.Options{Namespace: "throttle_gateway_redis"})
	registry.MustRegister(calls)
	observers := []func(context.Context, observed.Decision){calls.Observe}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(g.s.MaxRequestBytes),
		grpc.ForceServerCodecV2(service.Codec()),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: g.s.GrpcMaxAge, MaxConnectionAgeGrace: g.s.GrpcMaxAgeGrace}),
		grpc.MaxConcurrentStreams(uint32(g.s.MaxConcurrency)),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StreamInterceptor(g.untilStop),
	}
	if g.s.Tracing.Enabled {
		observe, err := otellimit.New(otellimit.Options{})
		if err != nil {
			return err
		}
		observers = append(observers, observe)
		options = append(options, grpc.StatsHandler(otelgrpc.NewServerHandler()))
	}
	secure, err := g.s.GrpcTLS()
	if err != nil {
		return err
	}
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	g.chain = decide.NewChain(client, g.s, observers...)
	g.service = service.New(g.s, g.chain, g.chain.Out, registry)
	g.grpc = grpc.NewServer(options...)
	g.service.Register(g.grpc)
	healthpb.RegisterHealthServer(g.grpc, g.health)
	reflection.Register(g.grpc)
	handler := g.service.Handler(g.healthy)
	if g.s.Tracing.Enabled {
		handler = traced(handler)
	}
	g.web = server(handler)
	g.web.MaxHeaderBytes = g.s.MaxRequestBytes
	return nil
}

// streamWorkers is how many goroutines answer one request after the other. Those of further requests grow their stacks anew, which
// was 9% of the CPU of a request.
const streamWorkers = 32

// server bounds what a client can make it hold.
func server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// listen serves at all addresses, in the background.
func (g *gateway) listen(registry *prometheus.Registry) error {
	type at struct {
		what, network, address string
		serve                  func(net.Listener) error
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	debug := http.NewServeMux()
	debug.HandleFunc("/debug/pprof/", pprof.Index)
	debug.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	debug.HandleFunc("/debug/pprof/profile", pprof.Profile)
	debug.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	debug.HandleFunc("/debug/pprof/trace", pprof.Trace)
	debug.Handle("/metrics", metrics)
	g.extra = []*http.Server{server(debug)}
	all := []at{{"debug", "tcp", address(g.s.DebugHost, g.s.DebugPort), g.extra[0].Serve}}
	if g.s.UsePrometheus {
		mux := http.NewServeMux()
		mux.Handle(g.s.PrometheusPath, metrics)
		g.extra = append(g.extra, server(mux))
		all = append(all, at{"metrics", "tcp", g.s.PrometheusAddr, g.extra[1].Serve})
	}
	all = append(all, at{"http", "tcp", address(g.s.Host, g.s.Port), func(l net.Listener) error { return g.web.Serve(g.service.Listener(l)) }})
	if g.s.GrpcUds == "" {
		all = append(all, at{"grpc", "tcp", address(g.s.GrpcHost, g.s.GrpcPort), g.grpc.Serve})
	} else {
		_ = os.Remove(g.s.GrpcUds) // of a process that was killed
		all = append(all, at{"grpc", "unix", g.s.GrpcUds, g.grpc.Serve})
	}
	for _, l := range all {
		listener, err := net.Listen(l.network, l.address)
		if err != nil {
			return err
		}
		slog.Info("listening", "for", l.what, "at", listener.Addr().String())
		go func() {
			if err := l.serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
				g.failed <- err
			}
		}()
	}
	return nil
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// healthy says whether proxies should come here.
func (g *gateway) healthy() bool {
	return g.running.Err() == nil && (!g.s.HealthNeedsRedis || !g.chain.Out())
}

// untilStop ends the contexts of streams when the process stops: a client that watches the health would hold it up for
// SHUTDOWN_TIMEOUT, and so would one that may send another message.
func (g *gateway) untilStop(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(g.running, cancel)()
	return handler(service, &streamUntil{stream, ctx})
}

// streamUntil is a stream with another context.
type streamUntil struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamUntil) Context() context.Context { return s.ctx }

// RecvMsg returns when the context ends. What waits for a message then ends with the stream, as soon as the handler returns.
func (s *streamUntil) RecvMsg(m any) error {
	got := make(chan error, 1)
	go func() { got <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-got:
		return err
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// watchHealth tells clients that watch by gRPC.
func (g *gateway) watchHealth() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		state := healthpb.HealthCheckResponse_NOT_SERVING
		if g.healthy() {
			state = healthpb.HealthCheckResponse_SERVING
		}
		for _, name := range []string{"", "ratelimit", rls.RateLimitService_ServiceDesc.ServiceName} {
			g.health.SetServingStatus(name, state)
		}
		select {
		case <-g.running.Done():
			g.health.Shutdown()
			return
		case <-tick.C:
		}
	}
}

// end answers the requests that are under way, gives units of batches back, and ends.
func (g *gateway) end() error {
	slog.Info("stopping")
	g.stop()
	ctx, cancel := context.WithTimeout(context.Background(), g.s.ShutdownTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		g.grpc.GracefulStop()
		close(done)
	}()
	err := g.web.Shutdown(ctx)
	select {
	case <-done:
	case <-ctx.Done():
		g.grpc.Stop()
	}
	err = errors.Join(err, g.chain.Close(ctx))
	for _, s := range g.extra {
		_ = s.Close()
	}
	return err
}
