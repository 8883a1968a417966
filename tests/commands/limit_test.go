package commands_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// A WINDOW stays small whatever its traffic. 1.2 KB is what the server takes for all of
// the key: its name, its value, its expiry.
func TestWindowKeyStaysSmall(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Raw()
	var most int64
	for since := time.Now(); time.Since(since) < 1500*time.Millisecond; {
		var commands [][]string
		for i := range 200 {
			commands = append(commands,
				[]string{"CL.LIMIT", "many", "WINDOW", "1000000000/s", "COST", fmt.Sprint(1 + i%7)},
				[]string{"CL.LIMIT", "slow", "WINDOW", "1000000000000/365d", "COST", fmt.Sprint(1 << (i % 30))},
				[]string{"CL.REFUND", "many", "WINDOW", "1000000000/s"})
		}
		commands = append(commands, []string{"MEMORY", "USAGE", "many"}, []string{"MEMORY", "USAGE", "slow"})
		replies, err := c.Pipeline(commands...)
		require.NoError(t, err)
		for i, v := range replies[:600] {
			require.False(t, v.IsError(), "%q answers %v", commands[i], v)
		}
		most = max(most, replies[600].Int, replies[601].Int)
	}
	t.Logf("at most %d bytes", most)
	assert.LessOrEqual(t, most, int64(1228))
}
