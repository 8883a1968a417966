package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
)

// A program that chooses rules by itself gets the call that a Policies would hand on.
func TestARuleIsAppliedToACall(t *testing.T) {
	t.Parallel()
	rules, errs := policies.Parse(map[string]string{"api": "RATE 60/m BAN 15m AFTER 3/h", "api/many": "RATE 1/s RATE 2/m", "api/window": "WINDOW 5/m"})
	require.Empty(t, errs)
	own := ratelimit.Policy("api", ratelimit.Rate(100, time.Minute).Spare(5))
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: "k", Limits: own}}, Cost: 2, Ban: time.Minute}
	applied, err := rules.Choose("api", "k").Apply(call)
	require.NoError(t, err)
	assert.Equal(t, "RATE 60/1m SPARE 5", applied.Keys[0].Limits.String())
	assert.Equal(t, 15*time.Minute, applied.Ban)
	assert.Equal(t, "3/h", applied.BanAfter)
	assert.Equal(t, int64(2), applied.Cost)
	assert.Equal(t, "RATE 100/1m SPARE 5", call.Keys[0].Limits.String(), "the call itself is left alone")
	call.Keys[0].Limits = ratelimit.Policy("api", ratelimit.Rate(100, time.Minute).Spare(5), ratelimit.Rate(9, time.Second), ratelimit.Rate(900, time.Hour))
	_, err = rules.Choose("api", "many").Apply(call)
	assert.ErrorContains(t, err, "it has 2 limits, and the 3 of the code take different units")
	call.MaxWait, call.Ban = time.Second, 0
	_, err = rules.Choose("api", "window").Apply(call)
	assert.ErrorContains(t, err, "RATE alone")
}
