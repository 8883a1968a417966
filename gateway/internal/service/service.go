// Package service answers proxies: by the Rate Limit Service of Envoy, as JSON, and by the status of an HTTP response.
package service

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/ratelimit"
)

// Options configure a Service. They have the names of upstream's environment variables.
type Options struct {
	ShadowMode, QuotaMode   bool
	ResponseDynamicMetadata bool
	// NearLimitRatio is the share of a limit from which on its hits count as near it.
	NearLimitRatio float64
	// The header fields that the Rate Limit Service adds to responses; none if Headers is false.
	Headers                                   bool
	LimitHeader, RemainingHeader, ResetHeader string
	// Concurrency is how many requests are decided at a time; others are refused.
	Concurrency int
	// MaxBytes is how long a request can be, and Descriptors is how many it can have.
	MaxBytes    int64
	Descriptors int
}

// Service decides about requests by the configuration of the moment. It is safe for concurrent use.
type Service struct {
	Decider *decide.Decider
	Metrics *Metrics
	Options Options

	config atomic.Pointer[config.Config]
	room   chan struct{}
	once   sync.Once
}

// Use has the requests from now on decided by c.
func (s *Service) Use(c *config.Config) {
	s.config.Store(c)
	s.Metrics.loaded(c.Version)
}

// Ready says whether there is a configuration.
func (s *Service) Ready() bool { return s.config.Load() != nil }

// descriptor is what a request is about, with what it takes.
type descriptor struct {
	entries  []config.Entry
	hits     int64
	override *override
}

type override struct {
	requests uint32
	unit     config.Unit
}

// outcome is the verdict about a request, and which of the asks each descriptor became: -1 is one without a rule.
type outcome struct {
	decide.Verdict
	asks  []decide.Ask
	place []int
}

// errBusy is for requests beyond Options.Concurrency.
var errBusy = errors.New("there are as many requests as can be decided at a time")

var errNotLoaded = errors.New("no configuration has been loaded")

// mistake is the caller's.
type mistake string

func (m mistake) Error() string { return string(m) }

// decide decides about the descriptors of a request. via is how it came.
func (s *Service) decide(ctx context.Context, d *config.Domain, descriptors []descriptor, via string) (o outcome, err error) {
	s.once.Do(func() { s.room = make(chan struct{}, max(s.Options.Concurrency, 1)) })
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		s.Metrics.failed(d.Name, via, errBusy)
		return outcome{}, errBusy
	}
	o, passed, err := s.match(d, descriptors)
	if err == nil {
		o.Verdict, err = s.Decider.Decide(ctx, o.asks, decide.Options{
			Down: d.Down, Compat: d.Compat, Shadow: s.Options.ShadowMode, Quota: s.Options.QuotaMode, Passed: passed,
		})
	}
	if err != nil {
		s.Metrics.failed(d.Name, via, err)
		return outcome{}, err
	}
	s.Metrics.decided(d.Name, via, &o, s.Options.NearLimitRatio)
	return o, nil
}

// match finds the rules. passed says that a descriptor has none.
func (s *Service) match(d *config.Domain, descriptors []descriptor) (o outcome, passed bool, err error) {
	o.asks, o.place = make([]decide.Ask, 0, len(descriptors)), make([]int, len(descriptors))
	replaced := map[string]bool(nil)
	matched := make([]config.Match, len(descriptors))
	for i := range descriptors {
		given := &descriptors[i]
		if given.override != nil {
			if matched[i], err = d.Override(given.entries, given.override.requests, given.override.unit); err != nil {
				return o, false, mistake("the limit in the request: " + err.Error())
			}
		} else {
			matched[i] = d.Match(given.entries)
		}
		if rule := matched[i].Rule; rule != nil {
			for _, name := range rule.Replaces {
				if replaced == nil {
					replaced = map[string]bool{}
				}
				replaced[name] = true
			}
		}
	}
	for i, m := range matched {
		if m.Rule == nil || (m.Rule.Name != "" && !m.Rule.Unlimited && replaced[m.Rule.Name]) {
			o.place[i], passed = -1, true
			continue
		}
		o.place[i] = len(o.asks)
		o.asks = append(o.asks, decide.Ask{Match: m, Hits: descriptors[i].hits})
	}
	return o, passed, nil
}

// domain finds a domain. Without one nothing is limited.
func (s *Service) domain(name string) (*config.Domain, error) {
	c := s.config.Load()
	if c == nil {
		return nil, errNotLoaded
	}
	d := c.Domains[name]
	if d == nil {
		s.Metrics.unknownDomain()
	}
	return d, nil
}

// clamp is n as the Rate Limit Service can say it.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// pause is what a client is told to wait: of a limit that denies, until it lets the request through; otherwise until it is full.
func pause(s *decide.Status) time.Duration {
	if s.Over && s.RetryAfter > 0 {
		return s.RetryAfter
	}
	return s.ResetAfter
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// isOutage also is true for a process that has too few connections: nobody can decide now.
func isOutage(err error) bool { return ratelimit.IsOutage(err) || ratelimit.IsOverload(err) }

// Logged writes at most one line a second of each kind, without keys.
type Logged struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// Error logs err, which must hold nothing of a request.
func (l *Logged) Error(kind string, err error) {
	l.mu.Lock()
	now := time.Now()
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	if now.Sub(l.last[kind]) < time.Second {
		l.mu.Unlock()
		return
	}
	l.last[kind] = now
	l.mu.Unlock()
	slog.Error(kind, "error", err)
}
