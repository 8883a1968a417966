// Package codes tells errors apart by the codes that the clients of all languages have, for logs, metrics and answers
// of your own.
//
//	switch code := codes.Of(err); code {
//	case codes.Outage:
//		return next(ctx) // Redis is out of reach
//	case codes.Limited:
//		return tooManyRequests
//	default:
//		log.Error("rate limit", "code", code)
//	}
package codes

import (
	"context"
	"errors"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/leases"
)

// Code is which error it is. It stays the same from version to version.
type Code string

const (
	// Outage is an error for which ratelimit.IsOutage is true: Redis is out of reach, or does not decide now.
	Outage Code = "OUTAGE"
	// Overload is one for which ratelimit.IsOverload is true: this process has more to do than it can.
	Overload Code = "OVERLOAD"
	// Limited is a denied call, a *ratelimit.LimitedError.
	Limited Code = "LIMITED"
	// LeaseLost is leases.ErrLost: somebody else may have the slot.
	LeaseLost Code = "LEASE_LOST"
	// Interrupted is a caller that left: its context was cancelled. (When its deadline passed, that is an Outage, or an
	// Overload.)
	Interrupted Code = "INTERRUPTED"
	// Mistake is any other error: of the program, or of how the server is set up.
	Mistake Code = "MISTAKE"
)

// Of returns the code for an error that package ratelimit or one beside it returned, "" for nil.
func Of(err error) Code {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, leases.ErrLost):
		return LeaseLost
	case errors.Is(err, ratelimit.ErrLimited):
		return Limited
	case ratelimit.IsOverload(err):
		return Overload
	case ratelimit.IsOutage(err):
		return Outage
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Mistake
}
