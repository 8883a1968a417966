// Package otellimit counts and times the decisions of a rate limiter through OpenTelemetry, and writes denials and
// errors into the spans of the requests.
//
//	observe, err := otellimit.New(otellimit.Options{})
//	limiter := observed.New(ratelimit.New(client, ratelimit.Options{}), observe)
//
// It has three instruments, two counters and a histogram in seconds:
//
//	ratelimit.decisions           ratelimit.verb, ratelimit.outcome, ratelimit.policy, ratelimit.by
//	ratelimit.shadowed            ratelimit.policy
//	ratelimit.decision.duration   ratelimit.verb, ratelimit.by
//
// The verb is what was done: limit, refund, lease and so on (ratelimit.Verb). The outcome is allowed, limited, outage,
// overload, cancelled or error. The policy is the name of the limit that decided (ratelimit.Limit.Named), "" where none
// did; of shadowed it is the limit that would have denied the call if it were enforced (ratelimit.Limit.Shadow). By is
// where it was decided: server, cache, batch, local or policy.
//
// There is no attribute for keys: each value would be a time series, clients could make as many as they like, and keys
// may hold addresses or secrets. CL.TOP shows which keys are limited most. For the same reason the names of limits must
// come from the program, never from a request.
package otellimit

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/observed"
)

// Scope is the name of the instrumentation scope.
const Scope = "redis-throttle/ratelimit/otellimit"

// The attributes of instruments and events.
const (
	OutcomeKey    = attribute.Key("ratelimit.outcome")
	PolicyKey     = attribute.Key("ratelimit.policy")
	VerbKey       = attribute.Key("ratelimit.verb")
	ByKey         = attribute.Key("ratelimit.by")
	RemainingKey  = attribute.Key("ratelimit.remaining")
	RetryAfterKey = attribute.Key("ratelimit.retry_after_ms") // of events; -1 is never
)

// Options may be left as they are.
type Options struct {
	// MeterProvider is nil for the global one.
	MeterProvider metric.MeterProvider
	// Attributes are added to all measurements, such as which limiter of several this is.
	Attributes []attribute.KeyValue
	// WithoutEvents leaves spans alone. Otherwise the span of a context in which a call was denied or failed gets an
	// event "ratelimit", with the attributes above, how many units remain and when to retry.
	WithoutEvents bool
}

// New returns an observer for observed.New.
func New(o Options) (func(context.Context, observed.Decision), error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	meter := o.MeterProvider.Meter(Scope)
	decisions, err := meter.Int64Counter("ratelimit.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions of the rate limiter."))
	if err != nil {
		return nil, err
	}
	shadowed, err := meter.Int64Counter("ratelimit.shadowed", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions that a limit would have denied if it were enforced."))
	if err != nil {
		return nil, err
	}
	durations, err := meter.Float64Histogram("ratelimit.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("How long callers waited for a decision of the rate limiter."),
		metric.WithExplicitBucketBoundaries(50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1))
	if err != nil {
		return nil, err
	}
	r := &recorder{Options: o, decisions: decisions, shadowed: shadowed, durations: durations, sets: map[kind]measured{}}
	return r.observe, nil
}

type recorder struct {
	Options
	decisions metric.Int64Counter
	shadowed  metric.Int64Counter
	durations metric.Float64Histogram

	mu   sync.RWMutex
	sets map[kind]measured
}

// kind is what decisions are told apart by: of a program's limits there are few.
type kind struct {
	outcome observed.Outcome
	policy  string
	by      string
	verb    ratelimit.Verb
}

// measured are the attributes of a kind, which are made once.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func (r *recorder) observe(ctx context.Context, d observed.Decision) {
	k := kind{d.Outcome(), d.Policy(), d.By(), d.Call.Verb}
	m := r.attributes(k)
	r.decisions.Add(ctx, 1, m.add...)
	r.durations.Record(ctx, d.Duration.Seconds(), m.record...)
	if policy := d.Shadowed(); policy != "" {
		r.shadowed.Add(ctx, 1, metric.WithAttributeSet(r.set(PolicyKey.String(policy))))
	}
	if r.WithoutEvents || k.outcome == observed.Allowed || k.outcome == observed.Cancelled {
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("ratelimit", trace.WithAttributes(event(k, d)...))
	}
}

func (r *recorder) attributes(k kind) measured {
	r.mu.RLock()
	m, ok := r.sets[k]
	r.mu.RUnlock()
	if ok {
		return m
	}
	by, verb := ByKey.String(k.by), VerbKey.String(k.verb.String())
	m = measured{
		add:    []metric.AddOption{metric.WithAttributeSet(r.set(OutcomeKey.String(k.outcome.String()), PolicyKey.String(k.policy), by, verb))},
		record: []metric.RecordOption{metric.WithAttributeSet(r.set(by, verb))},
	}
	r.mu.Lock()
	r.sets[k] = m
	r.mu.Unlock()
	return m
}

// set is own with the attributes of all measurements.
func (r *recorder) set(own ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(own, r.Attributes...)...)
}

func event(k kind, d observed.Decision) []attribute.KeyValue {
	attributes := []attribute.KeyValue{OutcomeKey.String(k.outcome.String()), PolicyKey.String(k.policy), ByKey.String(k.by), VerbKey.String(k.verb.String())}
	if k.outcome != observed.Denied {
		return attributes // the error itself may name the server or the key
	}
	retryAfterMs := d.Result.RetryAfter.Milliseconds()
	if d.Result.RetryAfter == ratelimit.Never {
		retryAfterMs = -1
	}
	return append(attributes, RemainingKey.Int64(d.Result.Remaining), RetryAfterKey.Int64(retryAfterMs))
}
