package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"redis-throttle/ratelimit"
)

// ClientOptions configure NewClient. Limits and Key are required.
type ClientOptions struct {
	Limits ratelimit.Limits
	// Key says whose limits a call counts for, such as "partner" for all of them. Calls with the key "" are not
	// limited.
	Key func(ctx context.Context, method string) string

	// Cost is how many units a call takes, 0 being none; nil is 1 for each. The message is the request of a unary call,
	// nil for a stream.
	Cost func(ctx context.Context, method string, message any) int64

	// MaxWait is how long a call waits for its turn, at most until its deadline: 0 is not at all, ratelimit.Forever as
	// long as it takes. See ratelimit.Limiter.Wait.
	MaxWait time.Duration

	// Outage, Overload, Mistake, RetryAfter and OnError are as in Options.
	Outage, Overload, Mistake Answer
	RetryAfter                time.Duration
	OnError                   func(ctx context.Context, method string, err error)
}

// ClientInterceptor keeps calls to the limits of somebody else's service, in all processes together. A call beyond the
// limits is not sent. Its error has the status and details of Interceptor, and is a *ratelimit.LimitedError, for
// errors.As.
type ClientInterceptor struct{ gate *gate }

// NewClient returns a ClientInterceptor. It panics when decider is nil, a required option is missing or a limit is
// invalid.
func NewClient(decider ratelimit.Decider, o ClientOptions) *ClientInterceptor {
	g := &gate{
		Options: Options{
			Limits: o.Limits, Key: o.Key, Cost: o.Cost, Outage: o.Outage, Overload: o.Overload, Mistake: o.Mistake, RetryAfter: o.RetryAfter,
			OnError: o.OnError,
		},
		decider: ratelimit.With(decider), maxWait: o.MaxWait, outgoing: true,
	}
	if err := g.compile(); err != nil {
		panic(err)
	}
	return &ClientInterceptor{g}
}

// Unary is the interceptor for unary calls. A call that gRPC sends again by itself counts once.
func (i *ClientInterceptor) Unary() grpc.UnaryClientInterceptor {
	g := i.gate
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := g.pass(ctx, method, req, nil, nil); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}
}

// Stream is the interceptor for streams. Opening a stream is charged, and nothing on it.
func (i *ClientInterceptor) Stream() grpc.StreamClientInterceptor {
	g := i.gate
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if err := g.pass(ctx, method, nil, nil, nil); err != nil {
			return nil, err
		}
		return open(ctx, desc, conn, method, opts...)
	}
}

// notSent is the error of a call beyond its limits: a status, as of any other call, and what was decided.
type notSent struct {
	*ratelimit.LimitedError
	status error
}

func (e *notSent) GRPCStatus() *status.Status { return status.Convert(e.status) }

func (e *notSent) Unwrap() error { return e.LimitedError }
