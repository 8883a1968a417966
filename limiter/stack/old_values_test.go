// Values that version 0.1.0 has written are read as it read them.
package stack_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/stack"
)

// Each line of the file is limits, periods in ns; the value that 0.1.0 left after calls on them; and
// what it answered to a peek for one unit at an instant after the last.
func TestValuesOfVersion010AreReadAsItReadThem(t *testing.T) {
	file, err := os.ReadFile("testdata/values-0.1.0.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	require.Greater(t, len(lines), 40)
	for _, line := range lines {
		parts := strings.Split(line, "|")
		require.Len(t, parts, 3)
		value, err := hex.DecodeString(strings.TrimSpace(parts[1]))
		require.NoError(t, err)
		var nowNs int64
		_, err = fmt.Sscanf(parts[2], " at %d:", &nowNs)
		require.NoError(t, err)

		var s stack.Stack
		s.Load(limits(t, specsIn(t, parts[0])...))
		require.NoError(t, s.Decode(value), line)
		assert.Equal(t, value, s.Append(nil), "written again it is the same: %s", line)
		r := s.Peek(1, nowNs)
		have := fmt.Sprintf(" at %d: limited %t rule %d remaining %d retry %d reset %d next %d",
			nowNs, r.Limited, r.Rule+1, r.Remaining, r.RetryAfterNs, r.ResetAfterNs, r.NextAfterNs)
		assert.Equal(t, parts[2], have, line)
	}
}

// specsIn reads limits, with the period as a number of ns.
func specsIn(t *testing.T, text string) (specs []spec) {
	words := strings.Fields(text)
	for i := 0; i < len(words); i += 2 {
		var count, periodNs int64
		if words[i] == "BURST" {
			_, err := fmt.Sscan(words[i+1], &specs[len(specs)-1].capacity)
			require.NoError(t, err)
			continue
		}
		_, err := fmt.Sscanf(words[i+1], "%d/%d", &count, &periodNs)
		require.NoError(t, err)
		specs = append(specs, spec{kind: map[string]stack.Kind{"RATE": stack.Rate, "WINDOW": stack.Window, "FIXED": stack.Fixed}[words[i]],
			count: count, periodNs: periodNs})
	}
	return specs
}
