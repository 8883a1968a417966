package codes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/codes"
	"redis-throttle/ratelimit/leases"
)

// The codes are those of the other languages, which undecided.json has.
func TestErrorsHaveTheCodesOfAllLanguages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../spec/clients/undecided.json")
	require.NoError(t, err)
	var table struct{ Codes map[string]codes.Code }
	require.NoError(t, json.Unmarshal(text, &table))
	require.NotEmpty(t, table.Codes)
	limited := ratelimit.Result{Limited: true, RetryAfter: time.Second}.Err()
	for kind, errs := range map[string][]error{
		"outage":      {io.EOF, context.DeadlineExceeded},
		"overload":    {redis.ErrPoolTimeout, redis.ErrPoolExhausted},
		"mistake":     {ratelimit.ErrNoModule, redis.ErrClosed, errors.New("any other")},
		"limited":     {limited},
		"lease lost":  {leases.ErrLost, errors.Join(leases.ErrLost, io.EOF)},
		"interrupted": {context.Canceled},
	} {
		for _, err := range errs {
			for _, err := range []error{err, fmt.Errorf("wrapped: %w", err)} {
				assert.Equal(t, table.Codes[kind], codes.Of(err), "%s: %v", kind, err)
			}
		}
		delete(table.Codes, kind)
	}
	assert.Empty(t, table.Codes, "codes that no error has")
	assert.Empty(t, codes.Of(nil))
}
