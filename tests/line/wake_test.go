package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
)

// A state out of reach is corrected by the call that finds it, also if that call then has to wait. What another module
// gives back when it hears of the correction is free for the caller at once.
func TestAUnitGivenBackWhileACallerJoinsTheLineIsNotMissed(t *testing.T) {
	t.Parallel()
	comes, looked := "it comes", "it is looked at"
	for limit, small := range map[string][]string{"FIXED 1/1h": {comes}, "FIXED 1/1h FIRST": {looked}, "WINDOW 1/1h": {comes, looked}} {
		for _, when := range size.Of(small, []string{comes, looked}) {
			t.Run(limit+", when "+when, func(t *testing.T) {
				t.Parallel()
				s, stepBy := kit.StartWithSteps(t, neighbour.Beside(t))
				c := s.Raw()
				kit.Ask(t, c, "CL.LIMIT k %s", limit)
				call := "CL.WAIT k " + limit + " TIMEOUT 0"
				if when == comes {
					stepBy(-24 * time.Hour)
					<-time.After(turnsOfCron) // nobody is woken by the step later
					neighbour.Do(t, s, "CL.REFUND k "+limit)
				}
				waiting := kit.StartWaiting(t, s, call)
				if when == looked {
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
