package service

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/gateway/internal/explain"
	"redis-throttle/ratelimit"
)

// ShouldRateLimit decides about the descriptors of a request.
func (s *Service) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	defer s.metrics.took("ShouldRateLimit", time.Now())
	return s.answer(ctx, request, "grpc")
}

func (s *Service) answer(ctx context.Context, request *rls.RateLimitRequest, via string) (*rls.RateLimitResponse, error) {
	o, err := s.decideRequest(ctx, request, via)
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	return s.write(request, &o), nil
}

func (s *Service) decideRequest(ctx context.Context, request *rls.RateLimitRequest, via string) (outcome, error) {
	switch n := len(request.GetDescriptors()); {
	case request.GetDomain() == "":
		s.refuse(via, incomplete)
		return outcome{}, mistake("rate limit domain must not be empty")
	case n == 0:
		s.refuse(via, incomplete)
		return outcome{}, mistake("rate limit descriptor list must not be empty")
	case n > s.settings.MaxDescriptors:
		s.refuse(via, excessive)
		return outcome{}, mistake(fmt.Sprintf("the request has %d descriptors, and MAX_DESCRIPTORS is %d", n, s.settings.MaxDescriptors))
	}
	c := s.config.Load()
	if c == nil {
		s.refuse(via, noConfig)
		return outcome{}, errNoConfig
	}
	d := c.Domains[request.Domain]
	if d == nil { // nothing is limited
		s.unknownDomain(request.Domain)
		asks := make([]decide.Ask, len(request.Descriptors))
		return outcome{asks: asks, told: s.setAside(request, asks)}, nil
	}
	asks, err := decide.AsksFor(d, request)
	if err != nil {
		wrong := mistake(err.Error())
		s.metrics.failed(d.Name, via, wrong)
		s.refuse(via, wrongLimit)
		return outcome{}, wrong
	}
	told := s.setAside(request, asks)
	o, err := s.decideDescriptors(ctx, d, asks, via)
	o.told = told
	return o, err
}

// told is what a response tells of a descriptor.
type told struct {
	code      rls.RateLimitResponse_Code
	known     bool // a limit was asked; otherwise there are no numbers but remaining
	name      string
	limit     config.Shown
	remaining uint32
	reset     time.Duration
}

// untilReset is reset as protobuf has it.
func (t *told) untilReset() (seconds int64, nanos int32) {
	return int64(t.reset / time.Second), int32(t.reset % time.Second)
}

// tell appends what a response tells of each descriptor, also of one without a rule. tightest is the one that header
// fields tell of, -1 if there is none. never says that it does not let the request through, however long it waits.
func (s *Service) tell(o *outcome, all []told) (whole []told, tightest int, never bool) {
	tightest = -1
	for i := range o.asks {
		all = append(all, told{code: rls.RateLimitResponse_OK})
		one := &all[i]
		rule := o.asks[i].Rule
		if rule == nil {
			continue
		}
		if rule.Unlimited {
			one.remaining = math.MaxUint32
			continue
		}
		st := &o.Statuses[i]
		one.code = code(st.Over && !st.Shadow)
		if !st.Known {
			continue
		}
		one.known, one.name, one.limit, one.reset = true, rule.Name, shown(rule, st), st.ResetAfter
		hopeless := st.Over && !st.Shadow && st.RetryAfter == ratelimit.Never
		switch { // until the limit lets the request through; otherwise until it is full
		case hopeless: // 0 would invite to try again at once
			one.reset = max(one.reset, one.limit.Period)
		case st.Over && st.RetryAfter > 0:
			one.reset = st.RetryAfter
		}
		if !st.Over {
			one.remaining = uint32(min(max(st.Remaining, 0), math.MaxUint32))
		}
		if tightest < 0 || tighter(one, &all[tightest]) || (hopeless && !never && one.code == rls.RateLimitResponse_OVER_LIMIT) {
			tightest, never = i, hopeless
		}
	}
	return all, tightest, never
}

// statusOf is one of a response with what it points to, in one piece of memory.
type statusOf struct {
	rls.RateLimitResponse_DescriptorStatus
	limit rls.RateLimitResponse_RateLimit
	reset durationpb.Duration
}

// set sets a status to what is told.
func (s *statusOf) set(t *told) {
	s.Code, s.LimitRemaining = t.code, t.remaining
	if !t.known {
		return
	}
	s.CurrentLimit, s.DurationUntilReset = &s.limit, &s.reset
	s.limit.Name, s.limit.RequestsPerUnit, s.limit.Unit = t.name, t.limit.Requests, t.limit.Unit
	if t.limit.Units > 1 {
		s.limit.UnitMultiplier = wrapperspb.UInt32(t.limit.Units)
	}
	s.reset.Seconds, s.reset.Nanos = t.untilReset()
}

// write writes the response.
func (s *Service) write(request *rls.RateLimitRequest, o *outcome) *rls.RateLimitResponse {
	response := &rls.RateLimitResponse{OverallCode: code(o.Over), Statuses: make([]*rls.RateLimitResponse_DescriptorStatus, len(o.asks))}
	all, tightest, never := s.tell(o, make([]told, 0, len(o.asks)))
	statuses := make([]statusOf, len(all))
	for i := range all {
		statuses[i].set(&all[i])
		response.Statuses[i] = &statuses[i].RateLimitResponse_DescriptorStatus
	}
	if s.settings.Headers && tightest >= 0 {
		response.ResponseHeadersToAdd = s.headers(o, &all[tightest], never)
	}
	if o.told {
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, &core.HeaderValue{Key: ruleField, Value: ruleOf(o)})
	}
	if s.settings.DynamicMetadata {
		response.DynamicMetadata = s.metadata(request, o)
	}
	return response
}

func code(over bool) rls.RateLimitResponse_Code {
	if over {
		return rls.RateLimitResponse_OVER_LIMIT
	}
	return rls.RateLimitResponse_OK
}

func tighter(a, b *told) bool {
	if a.code != b.code {
		return a.code == rls.RateLimitResponse_OVER_LIMIT
	}
	return a.remaining < b.remaining
}

// headers are upstream's three, and Retry-After of a request that is over. One that never passes is told no time.
func (s *Service) headers(o *outcome, t *told, never bool) []*core.HeaderValue {
	all := []*core.HeaderValue{
		{Key: s.settings.LimitHeader, Value: strconv.FormatUint(uint64(t.limit.Requests), 10)},
		{Key: s.settings.RemainingHeader, Value: strconv.FormatUint(uint64(t.remaining), 10)},
	}
	if never {
		return all
	}
	reset := strconv.FormatInt(seconds(t.reset), 10)
	all = append(all, &core.HeaderValue{Key: s.settings.ResetHeader, Value: reset})
	if o.Over && o.Result.RetryAfter != ratelimit.Never && reset != "0" {
		all = append(all, &core.HeaderValue{Key: "Retry-After", Value: reset})
	}
	return all
}

// metadata is what upstream tells the filters of Envoy about a request.
func (s *Service) metadata(request *rls.RateLimitRequest, o *outcome) *structpb.Struct {
	descriptors := []any{}
	for _, d := range request.Descriptors {
		entries := []any{}
		for _, e := range d.GetEntries() {
			value := e.GetValue()
			if s.token.IsSet() && explain.BringsToken(d) { // which logs must not hold
				value = ""
			}
			entries = append(entries, e.GetKey()+"="+value)
		}
		one := map[string]any{"entries": entries}
		if d.GetLimit() != nil {
			one["limit"] = d.GetLimit().String()
		}
		if d.GetHitsAddend() != nil {
			one["hitsAddend"] = d.GetHitsAddend().GetValue()
		}
		descriptors = append(descriptors, one)
	}
	// Upstream's names for quotas: whether a rule is one, and which descriptors are over one.
	quotas, violations, passed := false, []any{}, map[string]any{}
	for i := range o.asks {
		rule := o.asks[i].Rule
		if rule == nil || rule.Unlimited {
			continue
		}
		over := o.Statuses[i].Over && !o.Statuses[i].Shadow
		quotas = quotas || rule.Quota
		if (rule.Quota || s.settings.QuotaMode) && over {
			violations = append(violations, i)
		}
		if !over {
			merge(passed, rule.Metadata)
		}
	}
	whole := map[string]any{"domain": request.Domain, "descriptors": descriptors, "quotaModeEnabled": quotas}
	if request.HitsAddend != 0 {
		whole["hitsAddend"] = request.HitsAddend
	}
	if len(violations) > 0 {
		whole["quotaModeViolations"] = violations
	}
	if len(passed) > 0 {
		whole["metadata"] = passed
	}
	m, _ := structpb.NewStruct(whole) // texts of a request are UTF-8, and metadata was tried when it was loaded
	return m
}

// merge adds what is new of more to a mapping, whose inner mappings are its own.
func merge(to, more map[string]any) {
	for name, value := range more {
		inner, isMapping := value.(map[string]any)
		known, isThere := to[name]
		switch {
		case isThere && isMapping:
			if own, ok := known.(map[string]any); ok {
				merge(own, inner)
			}
		case isThere:
		case isMapping:
			own := map[string]any{}
			merge(own, inner)
			to[name] = own
		default:
			to[name] = value
		}
	}
}
