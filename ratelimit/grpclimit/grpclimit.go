// Package grpclimit limits the calls of a gRPC server, or those to one: interceptors for unary calls and streams over
// ratelimit.
//
//	limited := grpclimit.New(ratelimit.New(client, ratelimit.Options{}), grpclimit.Options{
//		Limits: ratelimit.Limits{ratelimit.Rate(100, time.Minute)},
//		Key:    grpclimit.By(keyby.Prefixed("api:", keyby.RemoteHost)),
//	})
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limited.Unary()),
//		grpc.ChainStreamInterceptor(limited.Stream()),
//	)
package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/bans"
	"redis-throttle/ratelimit/internal/chosen"
	"redis-throttle/ratelimit/internal/field"
	"redis-throttle/ratelimit/internal/keys"
	"redis-throttle/ratelimit/internal/quiet"
)

// Options configure New. Limits and Key are required, unless each of Methods has its own. Calls of other methods are
// not limited then.
type Options struct {
	Limits ratelimit.Limits
	// Key says who is limited: the key in Redis for a call. Calls with the key
	// "" are not limited. The method is its full name, /package.Service/Method.
	Key func(ctx context.Context, method string) string

	// Methods are limits of their own for some methods, in place of Limits.
	Methods []Method

	// LimitsFor picks the limits of a call that none of Methods matches, such as by the plan of the caller. Where it
	// returns none, Limits apply, which are then required.
	LimitsFor func(ctx context.Context, method string) ratelimit.Limits

	// Cost is how many units something takes, 0 being none; nil is 1 for each. The message is the request of a unary
	// call, nil when a stream is opened, and one of those that the client sends when Messages is set.
	Cost func(ctx context.Context, method string, message any) int64

	// Skip says which calls are not limited, such as those of networks of your own: By(keyby.From(...)). Nil is none.
	Skip func(ctx context.Context, method string) bool

	// HealthChecks limits the health checks of balancers and probes, too: calls of grpc.health.v1.Health, which
	// otherwise are limited only by Methods that name them. A server that refused them would be taken for a dead one.
	HealthChecks bool

	// Messages charges each message that a client sends on a stream as well. The stream of one that is not let through
	// ends, if its handler returns the error of RecvMsg. Without it, opening a stream is charged, and nothing on it.
	Messages bool

	// Ban bans the keys of a call that is limited for so long: until then every call on them is limited. 0 bans nobody.
	// BanAfter is of which denial the ban begins, such as "10/1h": with the tenth within an hour of the first. Without
	// it, the first one bans. Whatever a client can put into a key, it can have banned: a ban on an account alone shuts
	// its owner out.
	Ban      time.Duration
	BanAfter string

	// Outage, Overload and Mistake say what happens to calls when the limiter fails: during an outage of Redis
	// (ratelimit.IsOutage), when this process asks for more connections than it has (ratelimit.IsOverload), and at any
	// other error. Usually calls are let through, UNAVAILABLE and INTERNAL, in this order.
	Outage, Overload, Mistake Answer

	// RetryAfter is what RetryInfo says with UNAVAILABLE: 1 s when it is 0; negative leaves it out.
	RetryAfter time.Duration

	// OnError is called with every error. Nil logs through slog, of each kind one line in ten seconds.
	OnError func(ctx context.Context, method string, err error)
}

// Answer is what happens to a call when the limiter fails.
type Answer int

// The answers. The zero Answer is the usual one of its field.
const (
	Usual Answer = iota
	Allow        // handle the call without a limit
	Deny         // UNAVAILABLE, and when to come back
	Raise        // INTERNAL
)

// The answers as they were called before.
//
// Deprecated: use Allow, Deny and Raise.
const (
	LetThrough  = Allow
	Unavailable = Deny
	Internal    = Raise
)

// Method is the limits for some methods of a server.
type Method struct {
	// Name is the full name of a method, /package.Service/Method, or of a service with a slash, /package.Service/, for
	// those of its methods that are not named themselves.
	Name   string
	Limits ratelimit.Limits
	// Key says who is limited. Nil is Options.Key with the Name and a space before it, since limits that
	// differ must not share a key.
	Key func(ctx context.Context, method string) string
}

// Interceptor limits calls. One that is let through gets the header fields RateLimit-Policy and RateLimit of
// package httplimit as header metadata (their names in small letters). One that is not gets status RESOURCE_EXHAUSTED
// with the details RetryInfo, when to come back, and QuotaFailure, which limit it was; RetryInfo is missing when no
// waiting helps, QuotaFailure when the key is banned.
type Interceptor struct{ gate *gate }

// New returns an Interceptor. It panics when decider is nil, a required option is missing or a limit is invalid: those
// are mistakes in the program.
func New(decider ratelimit.Decider, o Options) *Interceptor {
	g := &gate{Options: o, decider: ratelimit.With(decider), byName: map[string]rule{}}
	if err := g.compile(); err != nil {
		panic(err)
	}
	return &Interceptor{g}
}

// Unary is the interceptor for unary calls.
func (i *Interceptor) Unary() grpc.UnaryServerInterceptor {
	g := i.gate
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, sent := withFields(ctx)
		set := func(md map[string][]string) error { return grpc.SetHeader(ctx, md) }
		if err := g.pass(ctx, info.FullMethod, req, sent, set); err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
}

// Stream is the interceptor for streams.
func (i *Interceptor) Stream() grpc.StreamServerInterceptor {
	g := i.gate
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, sent := withFields(stream.Context())
		set := func(md map[string][]string) error { return stream.SetHeader(md) }
		if err := g.pass(ctx, info.FullMethod, nil, sent, set); err != nil {
			return err
		}
		stream = &streamWith{stream, ctx}
		if g.Messages {
			stream = &limitedStream{stream, g, info.FullMethod}
		}
		return handler(srv, stream)
	}
}

// sentFields is the key of a context's value: the fields that interceptors of the call have sent, an http.Header.
type sentFields struct{}

// withFields is ctx with the fields that interceptors send, so that those further inside find other names for their
// limits.
func withFields(ctx context.Context) (context.Context, http.Header) {
	if sent, ok := ctx.Value(sentFields{}).(http.Header); ok {
		return ctx, sent
	}
	sent := http.Header{}
	return context.WithValue(ctx, sentFields{}, sent), sent
}

// streamWith is a stream with another context.
type streamWith struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWith) Context() context.Context { return s.ctx }

// limitedStream charges each message received.
type limitedStream struct {
	grpc.ServerStream
	gate   *gate
	method string
}

func (s *limitedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.gate.pass(s.Context(), s.method, m, nil, nil) // the header may have been sent
}

// rule is what applies to a call. Without limits, nothing does.
type rule struct {
	limits ratelimit.Limits
	fields *field.Policies
	prefix string
	key    func(context.Context, string) string
}

// gate is Options that are ready to use.
type gate struct {
	Options
	decider  ratelimit.Decider
	byName   map[string]rule
	fallback rule
	chosen   chosen.Cache[rule] // by LimitsFor
	inForce  chosen.InForce     // of policies
	log      quiet.Log

	outgoing bool // of a client
	maxWait  time.Duration
}

func (g *gate) banError() error { return bans.Check(g.Ban, g.BanAfter) }

func (g *gate) compile() (err error) {
	all := len(g.Limits) > 0 || g.LimitsFor != nil
	switch {
	case !all && len(g.Methods) == 0, g.LimitsFor != nil && len(g.Limits) == 0:
		return errors.New("grpclimit: Options need Limits")
	case all && g.Key == nil:
		return errors.New("grpclimit: Options need a Key")
	case g.banError() != nil:
		return fmt.Errorf("grpclimit: %w", g.banError())
	}
	g.fallback = rule{limits: g.Limits, key: g.Key}
	if len(g.Limits) > 0 {
		if g.fallback.fields, err = field.Valid(g.Limits); err != nil {
			return err
		}
	}
	for _, m := range g.Methods {
		if err := g.add(m); err != nil {
			return fmt.Errorf("%w, in the method %q", err, m.Name)
		}
	}
	return nil
}

func (g *gate) add(m Method) (err error) {
	r := rule{limits: m.Limits, key: m.Key}
	if r.key == nil {
		r.key, r.prefix = g.Key, m.Name+" "
	}
	switch _, twice := g.byName[m.Name]; {
	case twice:
		return errors.New("grpclimit: this name is there twice")
	case !strings.HasPrefix(m.Name, "/") || strings.Count(m.Name, "/") != 2:
		return errors.New("grpclimit: Name must be /package.Service/Method or /package.Service/")
	case len(m.Limits) == 0 || r.key == nil:
		return errors.New("grpclimit: Method needs Limits, and a Key unless the Options have one")
	}
	if r.fields, err = field.Valid(m.Limits); err != nil {
		return err
	}
	g.byName[m.Name] = r
	return nil
}

// healthService begins the methods that probes and balancers ask whether a server lives.
const healthService = "/grpc.health.v1.Health/"

// of finds the rule of a method. It fails for limits of LimitsFor that are none.
func (g *gate) of(ctx context.Context, method string) (rule, error) {
	if r, ok := g.byName[method]; ok {
		return r, nil
	}
	if r, ok := g.byName[method[:strings.LastIndexByte(method, '/')+1]]; ok {
		return r, nil
	}
	if !g.HealthChecks && !g.outgoing && strings.HasPrefix(method, healthService) {
		return rule{}, nil
	}
	if g.LimitsFor == nil {
		return g.fallback, nil
	}
	limits := g.LimitsFor(ctx, method)
	if len(limits) == 0 {
		return g.fallback, nil
	}
	return g.chosen.Of(limits, func(limits ratelimit.Limits, fields *field.Policies) rule {
		return rule{limits: limits, fields: fields, key: g.fallback.key}
	})
}

// pass is nil for what is let through, and a status for what is not. sent are the fields of interceptors of this call
// so far. setHeader may be nil.
func (g *gate) pass(ctx context.Context, method string, message any, sent http.Header, setHeader func(map[string][]string) error) error {
	if g.Skip != nil && g.Skip(ctx, method) {
		return nil
	}
	r, err := g.of(ctx, method)
	if err != nil {
		return g.failed(ctx, method, err)
	}
	if len(r.limits) == 0 {
		return nil
	}
	key := r.key(ctx, method)
	if key == "" {
		return nil
	}
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: r.prefix + keys.Plain(key), Limits: r.limits}}}
	if g.Cost != nil {
		call.Cost = g.Cost(ctx, method, message)
		call.NoCost = call.Cost == 0
	}
	if g.maxWait > 0 {
		call.Verb, call.MaxWait = ratelimit.VerbWait, g.maxWait
	}
	call.Ban, call.BanAfter = g.Ban, g.BanAfter
	result, err := g.decider.Decide(ctx, call)
	if err != nil {
		return g.failed(ctx, method, err)
	}
	fields := g.inForce.Of(&result, 0, r.fields)
	if setHeader != nil {
		if !field.Nobody(result.By) {
			named := []*field.Policies{fields}
			field.Apart(sent, named)
			fields = named[0]
			fields.AddPolicy(sent, "")
		}
		_ = setHeader(metadataOf(fields, result)) // fails for a header that was sent, which none was
	}
	switch {
	case !result.Limited:
		return nil
	case result.By == "policy":
		return g.unavailable(result.RetryAfter)
	case g.outgoing:
		return &notSent{&ratelimit.LimitedError{Result: result}, denied(fields, result)}
	}
	return denied(fields, result)
}

func (g *gate) failed(ctx context.Context, method string, err error) error {
	// The client chooses the deadline: a short one is no way round a limit, and no outage.
	if err := over(ctx); err != nil {
		return err
	}
	kind, answer := "mistake", or(g.Mistake, Raise)
	switch {
	case ratelimit.IsOutage(err):
		kind, answer = "outage", or(g.Outage, Allow)
	case ratelimit.IsOverload(err):
		kind, answer = "overload", or(g.Overload, Deny)
	}
	if g.OnError != nil {
		g.OnError(ctx, method, err)
	} else {
		g.log.Error(ctx, kind, "a call could not be checked against its rate limit", err)
	}
	switch answer {
	case Allow:
		return nil
	case Deny:
		return g.unavailable(0)
	}
	return errMistake
}

func or(answer, usual Answer) Answer {
	if answer == Usual {
		return usual
	}
	return answer
}
