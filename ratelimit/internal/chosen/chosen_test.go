package chosen

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/field"
)

func TestEachKindOfLimitsIsComputedOnce(t *testing.T) {
	t.Parallel()
	var c Cache[string]
	computed := 0
	of := func(limits ratelimit.Limits) string {
		value, err := c.Of(limits, func(copied ratelimit.Limits, p *field.Policies) string {
			computed++
			return copied.String() + " " + p.Name(0)
		})
		require.NoError(t, err)
		return value
	}
	five := ratelimit.Limits{ratelimit.Rate(5, time.Second)}
	for range 3 {
		assert.Equal(t, "RATE 5/1s default", of(five))
		assert.Equal(t, `RATE 5/1s NAME free free`, of(ratelimit.Limits{five[0].Named("free")}))
		assert.Equal(t, "RATE 5/1s UNIT bytes default", of(ratelimit.Limits{five[0].Unit("bytes")}))
		assert.Equal(t, "RATE 6/1s default", of(ratelimit.Limits{ratelimit.Rate(6, time.Second)}))
	}
	assert.Equal(t, 4, computed)

	_, err := c.Of(ratelimit.Limits{ratelimit.Rate(-1, time.Second)}, nil)
	require.ErrorContains(t, err, "is negative")
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	var c Cache[int64]
	var asking sync.WaitGroup
	for caller := range int64(4) {
		asking.Go(func() {
			for i := int64(1); i <= Most; i++ {
				limits := ratelimit.Limits{ratelimit.Rate(caller*Most+i, time.Second)}
				value, err := c.Of(limits, func(ratelimit.Limits, *field.Policies) int64 { return i })
				if !assert.NoError(t, err) || !assert.Equal(t, i, value) {
					return
				}
			}
		})
	}
	asking.Wait()
	assert.LessOrEqual(t, len(c.values), Most)
	assert.NotEmpty(t, c.values)
}
