package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"redis-throttle/gateway/console"
	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/gateway/internal/explain"
	"redis-throttle/gateway/internal/service"
	"redis-throttle/gateway/internal/settings"
	"redis-throttle/gateway/internal/xds"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/otellimit"
	"redis-throttle/ratelimit/policies"
	"redis-throttle/ratelimit/promlimit"
)

// gateway is a process that serves.
type gateway struct {
	s       *settings.Settings
	service *service.Service
	chain   *decide.Chain
	client  redis.UniversalClient
	health  *health.Server
	grpc    *grpc.Server
	web     *http.Server
	webTLS  *tls.Config    // nil without
	extra   []*http.Server // not for proxies

	explainer    *explain.Explainer
	certificates settings.Certificates
	source       *xds.Client // nil if the configuration is in files

	done   func() error  // closes the client for policies; nil if it has no connections of its own
	failed chan error    // of a server that ended
	probed chan struct{} // closed when Redis was asked for the first time

	draining atomic.Bool // the process is about to stop, and serves on

	running context.Context // until the process stops
	stop    context.CancelFunc
}

// ballast has the heap grow by as many bytes, at least, until garbage is collected. What a gateway keeps is so little
// that it would be collected forty times a second, which was a seventh of the CPU of a request. The bytes are never
// written, so they are no memory of the machine's.
const ballast = 32 << 20

// serve serves until ctx ends, and then until the requests that are under way are answered.
// A value of again has it read the files at once.
func serve(ctx context.Context, s *settings.Settings, paths []string, again <-chan os.Signal) error {
	logging.Disable() // go-redis logs addresses; errors are logged once, here
	defer runtime.KeepAlive(make([]byte, ballast))
	flush, err := traces(ctx, s)
	if err != nil {
		return err
	}
	defer flush()
	g := &gateway{s: s, health: health.NewServer(), failed: make(chan error, 8)}
	g.running, g.stop = context.WithCancel(context.Background())
	defer g.stop()
	gathered := prometheus.NewRegistry()
	registry := prometheus.WrapRegistererWith(s.ExtraTags, gathered)
	if err := g.buildWith(registry); err != nil {
		return err
	}
	if err := g.configure(paths, again); err != nil {
		return err
	}
	g.firstProbe()
	if err := g.listen(gathered); err != nil {
		return err
	}
	go g.watchRedis()
	go g.watchHealth()
	go g.certificates.Watch(g.running)
	select {
	case err = <-g.failed:
	case <-ctx.Done():
		err = g.drain()
	}
	return errors.Join(err, g.end())
}

// configure has the configuration loaded, now and whenever it changes.
func (g *gateway) configure(paths []string, again <-chan os.Signal) error {
	if g.source != nil {
		if len(paths) > 0 {
			return errors.New("with CONFIG_TYPE=GRPC_XDS_SOTW the configuration comes from the management server: name no files")
		}
		go g.source.Run(g.running, again)
		return nil
	}
	if len(paths) == 0 {
		paths = []string{g.s.Folder()}
	}
	files := config.Read(paths...)
	if err := g.service.Load(files); err != nil {
		if !g.s.ForceStart {
			return err
		}
		slog.Error("there is no configuration: requests are refused until a file is right", "error", err)
	}
	go config.Watch(g.running, files, again, func(files config.Files) {
		if err := g.service.Load(files); err != nil {
			slog.Error("the configuration stays as it was", "error", err)
		}
	}, paths...)
	return nil
}

// management makes the client of the management server.
func (g *gateway) management(registry prometheus.Registerer) error {
	secure, err := g.s.Xds.TLS(&g.certificates)
	if err != nil {
		return err
	}
	connected := promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "throttle_gateway_xds_connected", Help: "1 while there is a stream to the management server.",
	})
	g.source = &xds.Client{Settings: &g.s.Xds, TLS: secure, Load: g.service.Load, Version: version, Connected: func(is bool) {
		connected.Set(map[bool]float64{true: 1}[is])
	}}
	return nil
}

// drain lets proxies know by the health that the process is about to stop, and serves on until they have gone
// elsewhere.
func (g *gateway) drain() error {
	if g.s.ShutdownDelay == 0 {
		return nil
	}
	slog.Info("draining", "for", g.s.ShutdownDelay)
	g.draining.Store(true)
	select {
	case err := <-g.failed:
		return err
	case <-time.After(g.s.ShutdownDelay):
		return nil
	}
}

// closing asks clients to open another connection, which may lead to another process, while this one drains.
func (g *gateway) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// buildWith is build, in which metrics panic whose labels are those of EXTRA_TAGS.
func (g *gateway) buildWith(registry prometheus.Registerer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("EXTRA_TAGS: %v", p)
		}
	}()
	return g.build(registry)
}

// build makes what answers.
func (g *gateway) build(registry prometheus.Registerer) error {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := console.CheckToken(g.s.ConsoleToken); err != nil {
		return fmt.Errorf("CONSOLE_TOKEN: %w", err)
	}
	client, err := g.s.Redis.Client(&g.certificates)
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
		grpc.StaticConnWindowSize(connWindow),
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
	secure, err := g.s.GrpcTLS(&g.certificates)
	if err != nil {
		return err
	}
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	g.client = client
	if g.webTLS, err = g.s.HTTPTLS(&g.certificates); err != nil {
		return err
	}
	registry.MustRegister(service.Pool{Client: client})
	g.chain = decide.NewChain(client, g.s, observers...)
	g.service = service.New(g.s, g.chain, g.chain.Out, registry)
	g.explainer = explainer(g.s, g.service.Config)
	g.explainer.Redis, g.explainer.Cluster = g.chain.Server(), g.chain.Cluster()
	if hash := g.s.Redis.Policies; hash != "" {
		patient, done := patient(client)
		g.done = done
		reader := policies.NewReader(patient, policies.Options{Hash: hash, Logger: slog.Default()})
		g.service.Follow(reader)
		go reader.Watch(g.running)
		g.explainer.Policies = policiesOf(reader)
	}
	if g.s.ByXds() {
		if err := g.management(registry); err != nil {
			return err
		}
	}
	g.grpc = grpc.NewServer(options...)
	g.service.Register(g.grpc)
	healthpb.RegisterHealthServer(g.grpc, g.health)
	reflection.Register(g.grpc)
	handler := g.service.Handler(g.healthy)
	if g.s.Tracing.Enabled {
		handler = traced(handler)
	}
	g.web = server(g.closing(handler))
	g.web.MaxHeaderBytes = g.s.MaxRequestBytes
	return nil
}

// policiesTimeout is how long Redis may take to send the hash of policies, which nobody waits for. A hash of 100,000
// takes longer than a request may.
const policiesTimeout = 5 * time.Second

// patient reads the hash of policies: as a whole, since what is read in pieces is no state that it had. done closes
// connections of its own.
func patient(client redis.UniversalClient) (patient redis.UniversalClient, done func() error) {
	switch c := client.(type) {
	case *redis.Client: // whose connections it shares
		return c.WithTimeout(policiesTimeout), nil
	case *redis.ClusterClient: // has no WithTimeout
		o := *c.Options()
		o.ReadTimeout, o.MinIdleConns = policiesTimeout, 0
		own := redis.NewClusterClient(&o)
		return own, own.Close
	}
	return client, nil
}

// streamWorkers is how many goroutines answer one request after the other. Those of further requests grow their stacks
// anew, which was 9% of the CPU of a request.
const streamWorkers = 32

// connWindow is how many bytes of requests may be on their way on a connection. Without a fixed number, gRPC asks the
// client by a ping how fast it is whenever a request comes, before that is answered: one more read and wake-up for a
// few requests of some hundred bytes.
const connWindow = 1 << 20

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
	g.console().Handle(debug)
	debug.Handle("/explain", g.explainer.Handler(explain.NewToken(g.s.ExplainToken)))
	debug.HandleFunc("/rlconfig", func(w http.ResponseWriter, _ *http.Request) {
		if c := g.service.Config(); c != nil {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			c.Dump(w)
		}
	})
	g.extra = []*http.Server{server(console.Guard(debug, g.s.ConsoleHosts))}
	all := []at{{"debug", "tcp", address(g.s.DebugHost, g.s.DebugPort), g.extra[0].Serve}}
	if g.s.UsePrometheus {
		path := g.s.PrometheusPath
		g.extra = append(g.extra, server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				http.NotFound(w, r)
				return
			}
			metrics.ServeHTTP(w, r)
		})))
		all = append(all, at{"metrics", "tcp", g.s.PrometheusAddr, g.extra[1].Serve})
	}
	all = append(all, at{"http", "tcp", address(g.s.Host, g.s.Port), func(l net.Listener) error { return g.web.Serve(g.service.Listener(l, g.webTLS)) }})
	if g.s.GrpcUds == "" {
		all = append(all, at{"grpc", "tcp", address(g.s.GrpcHost, g.s.GrpcPort), g.grpc.Serve})
	} else {
		if err := removeSocket(g.s.GrpcUds); err != nil {
			return err
		}
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

// removeSocket removes the socket of a process that was killed, and nothing else.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("GRPC_UDS=%s: there is something else than a socket, which is not removed", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("GRPC_UDS=%s: another process serves there", path)
	case !errors.Is(err, syscall.ECONNREFUSED): // it may be too busy to take another connection
		return fmt.Errorf("GRPC_UDS=%s: another process may serve there: %w", path, err)
	}
	return os.Remove(path)
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// healthy says whether proxies should come here.
func (g *gateway) healthy() bool {
	loaded, hasDomain := g.service.Loaded()
	isConfigured := (loaded || g.s.ForceStart) && (hasDomain || !g.s.HealthNeedsConfig)
	return g.running.Err() == nil && !g.draining.Load() && isConfigured && (!g.s.HealthNeedsRedis || g.chain.Up())
}

// startPatience is how long the process waits for Redis before it listens. An outage does not keep it from deciding by
// redis_down.
const startPatience = 5 * time.Second

// firstProbe asks Redis before anybody else does, and says in the log what is wrong with it.
func (g *gateway) firstProbe() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.chain.Probe(g.running, g.service.ProbeKeys, true)
	}()
	select {
	case <-done:
	case <-time.After(startPatience):
	}
	g.probed = done
}

// probeInterval is how often Redis is asked.
const probeInterval = time.Second

// watchRedis asks Redis where health depends on it, and in an outage, which would end with the next request otherwise.
func (g *gateway) watchRedis() {
	<-g.probed
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-g.running.Done():
			return
		case <-tick.C:
		}
		if g.s.HealthNeedsRedis || !g.chain.Up() || g.chain.Out() {
			g.chain.Probe(g.running, g.service.ProbeKeys, false)
		}
	}
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

// RecvMsg returns when the context ends. What waits for a message then ends with the stream, as soon as the handler
// returns.
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

// liveness is the service of gRPC's health that says whether the process answers at all. The others say whether proxies
// should come here.
const liveness = "live"

// watchHealth tells clients that watch by gRPC.
func (g *gateway) watchHealth() {
	g.health.SetServingStatus(liveness, healthpb.HealthCheckResponse_SERVING)
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
		if state == healthpb.HealthCheckResponse_NOT_SERVING && g.running.Err() != nil {
			return // the streams that watch end, too
		}
		select {
		case <-g.running.Done():
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
	if g.done != nil {
		err = errors.Join(err, g.done())
	}
	for _, s := range g.extra {
		_ = s.Close()
	}
	return err
}
