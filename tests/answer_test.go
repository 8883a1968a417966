// Package tests holds what the module promises, tried on a real server. Each file
// is one part of the promise; package server runs the servers.
package tests

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"redis-throttle/tests/resp"
)

// answer is CL.THROTTLE's reply, with names.
type answer struct {
	Limited    int64 // 0 allowed, 1 limited
	Limit      int64
	Remaining  int64
	RetryAfter int64 // seconds, -1 for allowed and for never
	ResetAfter int64 // seconds
}

func answerOf(integers []int64) (answer, error) {
	if len(integers) != 5 {
		return answer{}, fmt.Errorf("%d integers in %v, want 5", len(integers), integers)
	}
	return answer{integers[0], integers[1], integers[2], integers[3], integers[4]}, nil
}

// throttle sends CL.THROTTLE with the arguments given as one text, as one would type
// them: "15 30 60 1".
func throttle(ctx context.Context, c redis.UniversalClient, key, args string) (answer, error) {
	integers, err := c.Do(ctx, callOf(key, args)...).Int64Slice()
	if err != nil {
		return answer{}, err
	}
	return answerOf(integers)
}

func callOf(key, args string) []any {
	var call []any
	for _, word := range rawCallOf(key, args) {
		call = append(call, word)
	}
	return call
}

// answerIn is the answer in a reply read on a raw connection.
func answerIn(v resp.Value) (answer, error) {
	integers, err := v.Ints()
	if err != nil {
		return answer{}, err
	}
	return answerOf(integers)
}
