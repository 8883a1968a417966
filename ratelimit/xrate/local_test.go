package xrate_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/taken"
	"redis-throttle/ratelimit/xrate"
)

// instead decides in place of a server, which is back for whatever comes next.
type instead struct {
	by string

	mu    sync.Mutex
	calls []ratelimit.Verb
}

func (d *instead) Decide(_ context.Context, c ratelimit.Call) (ratelimit.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c.Verb)
	if c.Verb == ratelimit.VerbLimit {
		return ratelimit.Result{Granted: taken.Of(c.Cost, c.NoCost), Wait: time.Hour, Limit: 5, By: d.by}, nil
	}
	return ratelimit.Result{By: "server"}, nil
}

// The server must not be given back units that it never charged.
func TestOnlyUnitsOfTheServerAreGivenBack(t *testing.T) {
	t.Parallel()
	for by, want := range map[string][]ratelimit.Verb{
		"server": {ratelimit.VerbLimit, ratelimit.VerbPeek, ratelimit.VerbRefund},
		"local":  {ratelimit.VerbLimit},
		"policy": {ratelimit.VerbLimit},
	} {
		d := &instead{by: by}
		r := xrate.New(d, xrate.Options{Key: "k", Limit: ratelimit.Rate(5, time.Hour)}).Reserve()
		require.True(t, r.OK())
		r.Cancel()
		assert.Equal(t, want, d.calls, by)
	}
}
