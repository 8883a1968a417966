package command

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where nobody else may wait, a caller that would wait gets the answer of one that cannot be made to, and so do the
// others. Only the first is turned away. At the front, and when they leave, callers are decided as ever.
func TestWhereNobodyElseMayWaitACallIsAnsweredAsOneThatCannot(t *testing.T) {
	waited, turnedAway := 0, 0
	for _, value := range []string{"", tatIn(nsPerSecond), tatIn(3600 * nsPerSecond), valueAfter(t, "k WINDOW 2/m COST 2"), banned(1500*ms, "")} {
		for _, limits := range []string{"RATE 5/s", "RATE 5/s RATE 2/h", "WINDOW 2/m", "FIXED 2/m"} {
			for _, rest := range []string{"TIMEOUT 0", "TIMEOUT 1ms", "TIMEOUT 200ms", "TIMEOUT 1d", "COST 3 TIMEOUT 1d EACH"} {
				for _, ahead := range []int64{0, 1} {
					name := fmt.Sprintf("%q: k %s %s, %d ahead", value, limits, rest, ahead)
					answers := func(mayBlock, isFull bool) (c *Call, waits bool) {
						c = decide(Wait, value, "k "+limits+" "+rest)
						c.MayBlock, c.IsFull, c.First.Ahead = mayBlock, isFull, ahead
						c.Run(Wait)
						return c, c.Reply == ReplyLater || c.Reply == ReplyInTurn
					}
					free, waits := answers(true, false)
					require.False(t, free.TurnedAway, name)
					cannot, _ := answers(false, true)
					require.False(t, cannot.TurnedAway, name)
					full, alsoWaits := answers(true, true)
					require.False(t, alsoWaits, name)
					assert.Equal(t, cannot.Integers, full.Integers, name)
					assert.Equal(t, cannot.First.Effect, full.First.Effect, name)
					assert.Equal(t, waits, full.TurnedAway, name)
					if waits {
						waited++
					} else {
						turnedAway++
					}
				}
			}
		}
	}
	assert.Positive(t, waited)
	assert.Positive(t, turnedAway)
}
