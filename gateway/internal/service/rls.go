package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/ratelimit"
)

// RLS is the Rate Limit Service.
type RLS struct {
	rls.UnimplementedRateLimitServiceServer
	*Service
	Log *Logged
}

// ShouldRateLimit decides about the descriptors of a request.
func (s *RLS) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	defer s.Metrics.took("ShouldRateLimit", time.Now())
	return s.answer(ctx, request, "grpc")
}

func (s *RLS) answer(ctx context.Context, request *rls.RateLimitRequest, via string) (*rls.RateLimitResponse, error) {
	response, err := s.decideRequest(ctx, request, via)
	var wrong mistake
	switch {
	case err == nil:
		return response, nil
	case errors.As(err, &wrong):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, errBusy):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	s.Log.Error("a request was not decided", err)
	if isOutage(err) || errors.Is(err, errNotLoaded) {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return nil, status.Error(codes.Internal, err.Error())
}

func (s *RLS) decideRequest(ctx context.Context, request *rls.RateLimitRequest, via string) (*rls.RateLimitResponse, error) {
	switch {
	case request.GetDomain() == "":
		return nil, mistake("rate limit domain must not be empty")
	case len(request.GetDescriptors()) == 0:
		return nil, mistake("rate limit descriptor list must not be empty")
	case len(request.Descriptors) > s.Options.Descriptors:
		return nil, mistake(fmt.Sprintf("the request has %d descriptors, and MAX_DESCRIPTORS is %d", len(request.Descriptors), s.Options.Descriptors))
	}
	d, err := s.domain(request.Domain)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return s.write(request, outcome{place: none(len(request.Descriptors))}), nil
	}
	descriptors := make([]descriptor, len(request.Descriptors))
	for i, given := range request.Descriptors {
		descriptors[i] = descriptor{entries: entriesOf(given), hits: hitsOf(request, given)}
		if limit := given.GetLimit(); limit != nil {
			unit := config.Unit(limit.GetUnit())
			if unit <= config.Unknown || unit > config.Week {
				return nil, mistake("the limit in the request needs a unit")
			}
			descriptors[i].override = &override{limit.GetRequestsPerUnit(), unit}
		}
	}
	o, err := s.decide(ctx, d, descriptors, via)
	if err != nil {
		return nil, err
	}
	return s.write(request, o), nil
}

func none(n int) []int {
	place := make([]int, n)
	for i := range place {
		place[i] = -1
	}
	return place
}

func entriesOf(d *common.RateLimitDescriptor) []config.Entry {
	entries := make([]config.Entry, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = config.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return entries
}

// hitsOf is what a descriptor takes: what it says itself, which may be 0, else what the request says, else 1.
func hitsOf(request *rls.RateLimitRequest, d *common.RateLimitDescriptor) int64 {
	if d.GetHitsAddend() != nil {
		return int64(min(d.GetHitsAddend().GetValue(), math.MaxInt64))
	}
	return int64(max(request.GetHitsAddend(), 1))
}

// write writes the response. Each descriptor has a status, also one without a rule.
func (s *RLS) write(request *rls.RateLimitRequest, o outcome) *rls.RateLimitResponse {
	response := &rls.RateLimitResponse{OverallCode: code(o.Over), Statuses: make([]*rls.RateLimitResponse_DescriptorStatus, len(o.place))}
	tightest := -1
	for i, at := range o.place {
		one := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
		response.Statuses[i] = one
		if at < 0 {
			continue
		}
		rule, st := o.asks[at].Rule, &o.Statuses[at]
		if rule.Unlimited {
			one.LimitRemaining = math.MaxUint32
			continue
		}
		one.Code = code(st.Over && !st.Shadow)
		if !st.Known {
			continue
		}
		limit := shown(rule, st)
		one.CurrentLimit = &rls.RateLimitResponse_RateLimit{
			Name: rule.Name, RequestsPerUnit: limit.Requests, Unit: rls.RateLimitResponse_RateLimit_Unit(limit.Unit),
		}
		one.LimitRemaining = clamp(st.Remaining)
		if st.Over {
			one.LimitRemaining = 0
		}
		one.DurationUntilReset = durationpb.New(pause(st))
		if tightest < 0 || tighter(one, response.Statuses[tightest]) {
			tightest = i
		}
	}
	if s.Options.Headers && tightest >= 0 {
		response.ResponseHeadersToAdd = s.headers(&o, response.Statuses[tightest])
	}
	if s.Options.ResponseDynamicMetadata {
		response.DynamicMetadata = metadata(request, &o, s.Options.QuotaMode)
	}
	return response
}

func code(over bool) rls.RateLimitResponse_Code {
	if over {
		return rls.RateLimitResponse_OVER_LIMIT
	}
	return rls.RateLimitResponse_OK
}

func tighter(a, b *rls.RateLimitResponse_DescriptorStatus) bool {
	if a.Code != b.Code {
		return a.Code == rls.RateLimitResponse_OVER_LIMIT
	}
	return a.LimitRemaining < b.LimitRemaining
}

// headers are upstream's three, and Retry-After of a request that is over.
func (s *RLS) headers(o *outcome, st *rls.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	reset := seconds(st.DurationUntilReset.AsDuration())
	all := []*core.HeaderValue{
		{Key: s.Options.LimitHeader, Value: strconv.FormatUint(uint64(st.CurrentLimit.RequestsPerUnit), 10)},
		{Key: s.Options.RemainingHeader, Value: strconv.FormatUint(uint64(st.LimitRemaining), 10)},
		{Key: s.Options.ResetHeader, Value: strconv.FormatInt(reset, 10)},
	}
	if o.Over && o.Result.RetryAfter != ratelimit.Never && reset > 0 {
		all = append(all, &core.HeaderValue{Key: "Retry-After", Value: strconv.FormatInt(reset, 10)})
	}
	return all
}

// metadata is what upstream tells the filters of Envoy about a request.
func metadata(request *rls.RateLimitRequest, o *outcome, quotaMode bool) *structpb.Struct {
	texts := func(all []string) *structpb.Value {
		list := &structpb.ListValue{}
		for _, text := range all {
			list.Values = append(list.Values, structpb.NewStringValue(text))
		}
		return structpb.NewListValue(list)
	}
	descriptors := &structpb.ListValue{}
	for _, d := range request.Descriptors {
		var entries []string
		for _, e := range d.GetEntries() {
			entries = append(entries, e.GetKey()+"="+e.GetValue())
		}
		fields := map[string]*structpb.Value{"entries": texts(entries)}
		if d.GetLimit() != nil {
			fields["limit"] = structpb.NewStringValue(d.GetLimit().String())
		}
		if d.GetHitsAddend() != nil {
			fields["hitsAddend"] = structpb.NewNumberValue(float64(d.GetHitsAddend().GetValue()))
		}
		descriptors.Values = append(descriptors.Values, structpb.NewStructValue(&structpb.Struct{Fields: fields}))
	}
	whole := map[string]*structpb.Value{"domain": structpb.NewStringValue(request.Domain), "descriptors": structpb.NewListValue(descriptors)}
	if request.HitsAddend != 0 {
		whole["hitsAddend"] = structpb.NewNumberValue(float64(request.HitsAddend))
	}
	// Upstream's names for quotas: whether a rule is one, and which descriptors are over one.
	quotas, violations := false, &structpb.ListValue{}
	for i, at := range o.place {
		if at < 0 || o.asks[at].Rule.Unlimited {
			continue
		}
		rule, st := o.asks[at].Rule, &o.Statuses[at]
		quotas = quotas || rule.Quota
		if (rule.Quota || quotaMode) && st.Over && !st.Shadow {
			violations.Values = append(violations.Values, structpb.NewNumberValue(float64(i)))
		}
	}
	whole["quotaModeEnabled"] = structpb.NewBoolValue(quotas)
	if len(violations.Values) > 0 {
		whole["quotaModeViolations"] = structpb.NewListValue(violations)
	}
	passed := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range o.asks {
		if m := o.asks[i].Rule.Metadata; m != nil && (!o.Statuses[i].Over || o.Statuses[i].Shadow) && !o.asks[i].Rule.Unlimited {
			merge(passed, m)
		}
	}
	if len(passed.Fields) > 0 {
		whole["metadata"] = structpb.NewStructValue(passed)
	}
	return &structpb.Struct{Fields: whole}
}

// merge adds what is new of more to a struct.
func merge(to, more *structpb.Struct) {
	for name, value := range more.Fields {
		known, ok := to.Fields[name]
		if !ok {
			if inner := value.GetStructValue(); inner != nil { // a copy, which may be merged into
				fresh := &structpb.Struct{Fields: map[string]*structpb.Value{}}
				merge(fresh, inner)
				value = structpb.NewStructValue(fresh)
			}
			to.Fields[name] = value
		} else if known.GetStructValue() != nil && value.GetStructValue() != nil {
			merge(known.GetStructValue(), value.GetStructValue())
		}
	}
}
