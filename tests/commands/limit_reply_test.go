package commands_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Ten an hour: one unit comes back every six minutes, 360,000 ms. On a fresh key nothing
// of the reply depends on the clock.
func TestLimitFamilyAnswersItsFields(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []string{"2", "3"} {
		c := s.Raw()
		_, err := c.Do("HELLO", protocol)
		require.NoError(t, err)
		kind := map[string]resp.Kind{"2": resp.Array, "3": resp.Map}[protocol]
		for _, tc := range []struct {
			command string
			want    kit.Standing
		}{
			{"CL.PEEK %s RATE 10/h", kit.NewStanding(0, 1, 10, 10, -1, 0, 0, 0, 0, 0)},
			{"CL.REFUND %s RATE 10/h", kit.NewStanding(0, 1, 10, 10, -1, 0, 0, 0, 0, 0)},
			{"CL.LIMIT %s RATE 10/h", kit.NewStanding(0, 1, 10, 9, -1, 360_000, 360_000, 1, 0, 0)},
			{"cl.limit %s rate 10/1h burst 20 cost 5", kit.NewStanding(0, 1, 20, 15, -1, 5*360_000, 360_000, 5, 0, 0)},
			{"CL.LIMIT %s WINDOW 10/h RATE 3/h SHADOW COST 4", kit.NewStanding(0, 1, 10, 6, -1, 3_600_000, 3_600_000, 4, 0, 2)},
			{"CL.WAIT %s RATE 10/h TIMEOUT 1s", kit.NewStanding(0, 1, 10, 9, -1, 360_000, 360_000, 1, 0, 0)},
		} {
			v := kit.Do(t, c, tc.command, "key")
			assert.Equal(t, kind, v.Kind, tc.command)
			have, err := kit.StandingIn(v)
			require.NoError(t, err, tc.command)
			assert.Equal(t, tc.want, have, tc.command)
			kit.Do(t, c, "DEL key")
		}
	}
}
