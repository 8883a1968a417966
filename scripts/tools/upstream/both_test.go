// Package upstream_test runs envoyproxy/ratelimit in this process beside throttle-gateway: the same configurations,
// requests and instants. It is a Go module of its own, so that nobody else gets the libraries of envoyproxy/ratelimit.
// scripts/test-upstream runs it.
package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/proto"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	service "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
	logger "github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience only ends a hang.
const patience = time.Minute

// both are the two services, at one instant that the test sets.
type both struct {
	t        *testing.T
	now      time.Time
	seconds  atomic.Int64 // now, for upstream
	dev      *proto.Client
	upstream service.RateLimitServiceServer
	config   config.RateLimitConfig // upstream's
	ours     pb.RateLimitServiceClient
	debug    string // the debug address of ours
}

// UnixNow is upstream's clock.
func (b *both) UnixNow() int64 { return b.seconds.Load() }

// file is a configuration. Upstream does not know the words that are ours alone.
type file struct {
	domain, own, descriptors string
}

// start starts both with the same files.
func start(t *testing.T, files ...file) *both {
	t.Helper()
	needsPrograms(t)
	b := &both{t: t}
	folder := t.TempDir()
	for _, f := range files {
		text := "domain: " + f.domain + "\n" + f.own + f.descriptors
		require.NoError(t, os.WriteFile(filepath.Join(folder, f.domain+".yaml"), []byte(text), 0o644))
	}
	b.startOurs(nil, folder)
	b.startUpstream(b.loads(files))
	b.startClock()
	return b
}

// startClock sets the clocks to the first instant.
func (b *both) startClock() {
	b.t.Helper()
	b.set(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

func needsPrograms(t *testing.T) {
	t.Helper()
	for _, name := range []string{"THROTTLE_GATEWAY", "THROTTLE_DEV"} {
		if os.Getenv(name) == "" {
			t.Skipf("%s is not set: scripts/test-upstream runs these tests", name)
		}
	}
}

// set sets the clocks.
func (b *both) set(now time.Time) {
	b.t.Helper()
	b.now = now
	b.seconds.Store(now.Unix())
	_, err := b.dev.Do("CL.DEV.TIME", now.Format(time.RFC3339Nano), "STOP")
	require.NoError(b.t, err)
}

// startUpstream starts it on miniredis, where no time passes and so no counter lapses before its window does.
func (b *both) startUpstream(configured func(stats.Manager) provider.RateLimitConfigProvider) {
	b.t.Helper()
	logger.SetLevel(logger.PanicLevel)
	store := gostats.NewStore(gostats.NewNullSink(), false)
	manager := stats.NewStatManager(store, settings.NewSettings())
	client := redis.NewClientImpl(store, false, "", "tcp", "single", miniredis.RunT(b.t).Addr(), 1, 0, 0, nil, false, nil, patience, "", "")
	b.t.Cleanup(func() { _ = client.Close() })
	cache := redis.NewFixedRateLimitCacheImpl(client, nil, b, rand.New(rand.NewSource(1)), 0, nil, 0.8, "", manager, false)
	b.upstream = service.NewService(cache, configured(manager), manager, nil, b, false, false, false)
}

// loads is a provider of what files say.
func (b *both) loads(files []file) func(stats.Manager) provider.RateLimitConfigProvider {
	return func(manager stats.Manager) provider.RateLimitConfigProvider {
		var all []config.RateLimitConfigToLoad
		for _, f := range files {
			text := "domain: " + f.domain + "\n" + f.descriptors
			all = append(all, config.RateLimitConfigToLoad{Name: f.domain, ConfigYaml: config.ConfigFileContentToYaml(f.domain, text)})
		}
		b.config = config.NewRateLimitConfigImpl(all, manager, false)
		return loaded{b.config}
	}
}

// loaded provides one configuration.
type loaded struct{ config config.RateLimitConfig }

func (l loaded) GetConfig() (config.RateLimitConfig, any) { return l.config, nil }
func (loaded) Stop()                                      {}

func (l loaded) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent {
	events := make(chan provider.ConfigUpdateEvent, 1)
	events <- l
	return events
}

// free is an address at which nobody listens, and its port.
func free(t *testing.T) (address, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	address = l.Addr().String()
	_, port, _ = net.SplitHostPort(address)
	return address, port
}

// startOurs starts the gateway on throttle-dev, whose decisions are those of the module and whose clock can be set.
func (b *both) startOurs(more []string, args ...string) {
	b.t.Helper()
	address, port := free(b.t)
	var err error
	b.run(os.Getenv("THROTTLE_DEV"), nil, nil, "--bind", "127.0.0.1", "--port", port)
	require.Eventually(b.t, func() bool {
		b.dev, err = proto.Dial(address)
		return err == nil
	}, patience, 5*time.Millisecond)
	b.t.Cleanup(func() { _ = b.dev.Close() })

	debug, debugPort := free(b.t)
	b.debug = debug
	// A denial would be remembered by the clock of the machine.
	env := []string{
		"REDIS_URL=" + address, "REDIS_TIMEOUT=30s", "DENIALS=-1", "HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0",
		"DEBUG_PORT=" + debugPort, "USE_PROMETHEUS=false",
	}
	listening := b.run(os.Getenv("THROTTLE_GATEWAY"), regexp.MustCompile(`msg="redis-throttle: listening" for=grpc at=(\S+)`), append(env, more...), args...)
	conn, err := grpc.NewClient(listening, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	b.ours = pb.NewRateLimitServiceClient(conn)
}

// run runs a program until the test ends, and returns what its log tells, if something is awaited.
func (b *both) run(program string, tells *regexp.Regexp, env []string, args ...string) (told string) {
	b.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, cmd.Start())
	told, log, found := "", "", make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if tells == nil {
				continue
			}
			log += lines.Text() + "\n"
			if m := tells.FindStringSubmatch(lines.Text()); m != nil {
				told, tells = m[1], nil
				found <- true
			}
		}
		found <- false
	}()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if tells != nil && !<-found {
		b.t.Fatalf("%s ended: %s", program, log)
	}
	return told
}

// ask asks both.
func (b *both) ask(ours, upstreams *pb.RateLimitRequest) (mine, theirs *pb.RateLimitResponse) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	mine, err := b.ours.ShouldRateLimit(ctx, ours)
	require.NoError(b.t, err, "%v", ours)
	theirs, err = b.upstream.ShouldRateLimit(ctx, upstreams)
	require.NoError(b.t, err, "%v", upstreams)
	return mine, theirs
}

// shown is a response in a line: the code, and of each descriptor what remains of which limit and the seconds until the
// reset; "!" is one that is over.
func shown(r *pb.RateLimitResponse) string {
	text := fmt.Sprint(r.OverallCode)
	for _, s := range r.Statuses {
		text += fmt.Sprintf(" | %d", s.LimitRemaining)
		if s.CurrentLimit != nil {
			text += fmt.Sprintf(" of %d/%v %q in %ds", s.CurrentLimit.RequestsPerUnit, s.CurrentLimit.Unit, s.CurrentLimit.Name, seconds(s))
		}
		if s.Code == pb.RateLimitResponse_OVER_LIMIT {
			text += "!"
		}
	}
	return text
}

// seconds are whole ones, rounded up: upstream's clock has no others.
func seconds(s *pb.RateLimitResponse_DescriptorStatus) int64 {
	return int64((s.DurationUntilReset.AsDuration() + time.Second - 1) / time.Second)
}
