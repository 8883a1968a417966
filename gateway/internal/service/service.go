// Package service answers proxies: by the Rate Limit Service of Envoy, as JSON, and by the status of an HTTP response.
package service

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/gateway/internal/explain"
	"redis-throttle/gateway/internal/settings"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
)

// Service decides about requests by the configuration of the moment. It is safe for concurrent use.
type Service struct {
	rls.UnimplementedRateLimitServiceServer
	settings *settings.Settings
	decider  *decide.Decider
	metrics  *metrics
	config   atomic.Pointer[config.Config]
	loadedMs atomic.Int64
	refused  atomic.Pointer[string] // why the last configuration does not count
	room     chan struct{}          // for the requests that are being decided
	token    explain.Token

	mu      sync.Mutex
	unknown map[string]bool      // domains that no file names
	logged  map[string]time.Time // when a line of each kind was written
}

// New returns a Service. Load comes before everything else. out says whether Redis is left alone.
func New(o *settings.Settings, redis decide.Redis, out func() bool, registry prometheus.Registerer) *Service {
	s := &Service{settings: o, metrics: newMetrics(registry, out), token: explain.NewToken(o.ExplainToken),
		room: make(chan struct{}, o.MaxConcurrency), logged: map[string]time.Time{}, unknown: map[string]bool{}}
	s.decider = &decide.Decider{
		Redis: redis, Prefix: o.CacheKeyPrefix, Shadow: o.ShadowMode, Quota: o.QuotaMode,
		Lost: func(units int64, err error) {
			s.metrics.lost.Add(float64(units))
			s.logError("units of a denied request could not be given back", err)
		},
	}
	return s
}

// Follow has rules with a policy decided by what a hash says of them.
func (s *Service) Follow(hash *policies.Reader) {
	told := func(field string, err error) {
		slog.Warn("a policy is not for this rule: the limits of the file count", "field", field, "because", err)
	}
	s.decider.InForce = func(ctx context.Context, rule *config.Rule, key string) *config.Rule {
		return decide.By(hash.Rules(ctx), rule, key, told)
	}
}

// Load has the requests from now on decided by what the files say. If they have mistakes, the configuration stays as it
// was.
func (s *Service) Load(files config.Files) error {
	c, err := files.Parse(s.settings.MergeDomains)
	if err != nil {
		s.metrics.loadFails.Inc()
		s.metrics.loadFailed.Set(1)
		s.refused.Store(new(err.Error()))
		return err
	}
	for _, doubt := range c.Doubts {
		slog.Warn("the configuration is hardly what you want", "at", doubt)
	}
	before := s.config.Swap(c)
	s.metrics.loaded(c.Version)
	s.refused.Store(nil)
	s.loadedMs.Store(time.Now().UnixMilli())
	if before != nil {
		for _, name := range slices.Sorted(maps.Keys(before.Domains)) {
			if c.Domains[name] == nil {
				slog.Warn("a domain has gone: its requests are let through", "domain", name)
			}
		}
	}
	slog.Info("configuration loaded", "domains", len(c.Domains), "version", c.Version)
	return nil
}

// Config is the configuration of the moment; nil if there is none yet.
func (s *Service) Config() *config.Config { return s.config.Load() }

// Loaded says whether there is a configuration, and whether it has a domain.
func (s *Service) Loaded() (loaded, hasDomain bool) {
	c := s.config.Load()
	return c != nil, c != nil && len(c.Domains) > 0
}

// ProbeKeys returns keys of the domains to ask Redis about; see decide.Keys.
func (s *Service) ProbeKeys(n int) (all []string) {
	c := s.config.Load()
	if c == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Domains)) {
		all = append(all, s.settings.CacheKeyPrefix+c.Domains[name].ProbeKey(n))
	}
	return all
}

// mostUnknown bounds the names of domains that are kept.
const mostUnknown = 100

// unknownDomain tells of a domain that no file names, for which everything is let through: in the log once.
func (s *Service) unknownDomain(name string) {
	name = valid(name[:min(len(name), longestLabel)])
	s.mu.Lock()
	known := s.unknown[name]
	if !known && len(s.unknown) < mostUnknown {
		s.unknown[name] = true
	} else if !known {
		name = "other"
	}
	s.mu.Unlock()
	if s.metrics.unknown.WithLabelValues(name).Inc(); !known && name != "other" {
		slog.Warn("nothing configures this domain: its requests are let through", "domain", name)
	}
}

// outcome is the verdict about the descriptors of a request.
type outcome struct {
	decide.Verdict
	asks []decide.Ask
	told bool // the request has the token, by which it is told the rule
}

// errBusy is for requests beyond MAX_CONCURRENCY.
var errBusy = errors.New("there are as many requests as can be decided at a time")

// errNoConfig is for requests before the first configuration, with FORCE_START_WITHOUT_INITIAL_CONFIG.
var errNoConfig = errors.New("no configuration has been loaded yet")

// mistake is the caller's.
type mistake string

func (m mistake) Error() string { return string(m) }

// decideDescriptors decides about the descriptors of a request. via is how it came.
func (s *Service) decideDescriptors(ctx context.Context, d *config.Domain, asks []decide.Ask, via string) (outcome, error) {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		s.metrics.failed(d.Name, via, errBusy)
		s.refuse(via, busy)
		return outcome{}, errBusy
	}
	verdict, err := s.decider.Decide(ctx, d, asks)
	if err != nil {
		s.metrics.failed(d.Name, via, err)
		return outcome{}, err
	}
	o := outcome{Verdict: verdict, asks: asks}
	s.metrics.countDecision(d.Name, via, &o, s.settings.NearLimitRatio)
	return o, nil
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// failure is what a request that was not decided is answered. The log tells of those that are nobody's but ours.
func (s *Service) failure(ctx context.Context, err error) error {
	code := codes.Internal
	var wrong mistake
	switch {
	case errors.As(err, &wrong):
		return status.Error(codes.InvalidArgument, err.Error())
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, errNoConfig):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, errBusy):
		return status.Error(codes.ResourceExhausted, err.Error())
	case decide.IsOutage(err), ratelimit.IsOverload(err): // too few connections: nobody can decide now
		code = codes.Unavailable
	}
	s.logError("a request was not decided", err)
	return status.Error(code, err.Error())
}

// logError logs err, which must hold nothing of a request: at most one line a second of each kind.
func (s *Service) logError(kind string, err error) {
	attrs := []any{"error", err}
	if advice := decide.Advice(err); advice != "" {
		attrs = append(attrs, "advice", advice)
	}
	s.log(slog.LevelError, kind, attrs...)
}

// logWarn is logError for what is no error of ours.
func (s *Service) logWarn(kind string, attrs ...any) { s.log(slog.LevelWarn, kind, attrs...) }

func (s *Service) log(level slog.Level, kind string, attrs ...any) {
	s.mu.Lock()
	now := time.Now()
	quiet := now.Sub(s.logged[kind]) < time.Second
	if !quiet {
		s.logged[kind] = now
	}
	s.mu.Unlock()
	if !quiet {
		slog.Log(context.Background(), level, kind, attrs...)
	}
}
