package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/field"
)

var errMistake = status.Error(codes.Internal, "the rate limit of this call could not be checked")

// over is the status of a call that its client has ended, and nil as long as it goes on.
func over(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	// The connection to Redis has the deadline of ctx, and may have noticed it first.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return status.FromContextError(context.DeadlineExceeded).Err()
	}
	return nil
}

func denied(fields *field.Policies, result ratelimit.Result) error {
	limited := result.Err()
	var details []protoadapt.MessageV1
	if result.RetryAfter != ratelimit.Never {
		details = append(details, retryInfo(result.RetryAfter))
	}
	if !result.Banned {
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: fields.Name(result.Rule), Description: limited.Error()},
		}})
	}
	return withDetails(codes.ResourceExhausted, limited, details...)
}

// unavailable answers a call that nobody could decide about. retryAfter is when somebody may, 0 if unknown.
func (g *gate) unavailable(retryAfter time.Duration) error {
	err := errors.New("the rate limit of this call cannot be checked right now")
	if g.RetryAfter < 0 {
		return withDetails(codes.Unavailable, err)
	}
	return withDetails(codes.Unavailable, err, retryInfo(cmp.Or(max(g.RetryAfter, retryAfter), time.Second)))
}

func retryInfo(d time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
}

func withDetails(code codes.Code, err error, details ...protoadapt.MessageV1) error {
	plain := status.New(code, err.Error())
	detailed, failed := plain.WithDetails(details...)
	if failed != nil { // a message that cannot be encoded: its texts are not UTF-8
		return plain.Err()
	}
	return detailed.Err()
}

// metadataOf is the header fields as metadata, whose names are in small letters.
func metadataOf(fields *field.Policies, result ratelimit.Result) metadata.MD {
	h := http.Header{}
	fields.Set(h, &result)
	md := make(metadata.MD, len(h))
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	return md
}
