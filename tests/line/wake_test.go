package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
)

// A state out of reach is corrected by the call that finds it, also if that call then has to wait. What another module gives back
// when it hears of the correction is free for the caller at once.
func TestAUnitGivenBackWhileACallerJoinsTheLineIsNotMissed(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"FIXED 1/1h", "FIXED 1/1h FIRST", "WINDOW 1/1h"} {
		for _, when := range []string{"it comes", "it is looked at"} {
			t.Run(limit+", when "+when, func(t *testing.T) {
				t.Parallel()
				s, stepBy := kit.StartWithSteps(t, neighbour.Beside(t))
				c := s.Raw()
				kit.Ask(t, c, "CL.LIMIT k %s", limit)
				call := "CL.WAIT k " + limit + " TIMEOUT 0"
				if when == "it comes" {
					stepBy(-24 * time.Hour)
					<-time.After(turnsOfCron) // nobody is woken by the step later
					neighbour.Do(t, s, "CL.REFUND k "+limit)
				}
				waiting := kit.StartWaiting(t, s, call)
				if when != "it comes" {
					kit.AwaitWaiting(t, c, 1)
					neighbour.Do(t, s, "CL.REFUND k "+limit)
					stepBy(-24 * time.Hour)
					kit.Do(t, c, "SWAPDB 0 0") // every line is looked at
				}
				kit.RequireAdmitted(t, waiting)
				assert.Positive(t, s.MustDo("NEIGHBOUR.SEEN").Elems[0].Int)
			})
		}
	}
}
