package ratelimit_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

// answerOf is what a middleware answers during an outage.
func answerOf(failClosed bool) httplimit.Answer {
	if failClosed {
		return httplimit.Deny
	}
	return httplimit.Allow
}

// answer is what a call returned, for tables.
type answer struct {
	result ratelimit.Result
	err    error
}

func answered(result ratelimit.Result, err error) answer { return answer{result, err} }

func (a answer) Result() (ratelimit.Result, error) { return a.result, a.err }

// client is what ratelimit.New takes.
type client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}
