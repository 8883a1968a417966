package operating_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A clock that was ahead left a TAT that the clock of today will not reach for years.
func TestTATFromAWrongClockHeals(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	l := kit.LimitOf(4, 100, time.Second)
	for i, tat := range []string{"9223372036854775807", fmt.Sprint(time.Now().AddDate(10, 0, 0).UnixNano())} {
		key := fmt.Sprint("key", i)
		_, err := c.Do("SET", key, tat)
		require.NoError(t, err)
		admitted := 0
		require.Eventually(t, func() bool {
			p := kit.Probes(t, c, 1, key, "4 100 1 1")[0]
			l.Judge(t, p, 1)
			admitted += 1 - int(p.Limited)
			return admitted >= 10
		}, 30*time.Second, time.Millisecond)
	}
	// The largest TAT of all is of 64 bits.
	_, err := c.Do("SET", "largest", "18446744073709551615")
	require.NoError(t, err)
	v, err := c.Do(kit.RawCallOf("largest", "4 100 1 1")...)
	require.NoError(t, err)
	assert.Equal(t, "*[1 5 0 1 1]", v.String())
}
