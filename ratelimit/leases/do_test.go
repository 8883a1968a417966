package leases_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/leases"
)

// A lease that is lost is an error at the end of its work, whatever the work returns.
func TestWorkUnderALeaseLearnsThatItIsLost(t *testing.T) {
	t.Parallel()
	granted := func() (ratelimit.Result, error) {
		return ratelimit.Result{Lasts: 3 * time.Second, By: "server"}, nil
	}
	lapsed := func() (ratelimit.Result, error) { return ratelimit.Result{Limited: true, By: "server"}, nil }
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		renewal       step
		works, wanted []error
	}{
		"held": {granted, []error{nil, broken}, []error{nil, broken}},
		"lost": {lapsed, []error{nil, broken, leases.ErrLost}, []error{leases.ErrLost, broken, leases.ErrLost}},
	} {
		for i, result := range c.works {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLease: {granted}, ratelimit.VerbRenew: {c.renewal}, ratelimit.VerbRelease: {gave(1)}}}
				err := leases.Do(t.Context(), s, leases.Options{Key: "k", Slots: 1, TTL: time.Minute}, func(ctx context.Context) error {
					time.Sleep(2 * time.Minute)
					assert.Equal(t, name == "lost", ctx.Err() != nil, name)
					return result
				})
				if c.wanted[i] == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.wanted[i], name)
				}
				assert.Equal(t, name == "lost", errors.Is(err, leases.ErrLost), name)
				assert.Len(t, s.of(ratelimit.VerbRelease), 1, name)
			})
		}
	}
	s := &script{answers: map[ratelimit.Verb][]step{ratelimit.VerbLease: {lapsed}}}
	err := leases.Do(t.Context(), s, leases.Options{Key: "k", Slots: 1, TTL: time.Minute}, func(context.Context) error { return io.EOF })
	require.ErrorIs(t, err, ratelimit.ErrLimited, "no slot is free, and nothing is done")
}
