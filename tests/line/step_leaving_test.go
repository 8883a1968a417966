package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// However a caller leaves its line right after a step, before the server's cron has seen it, all lines go on: those
// that were there, whose timers the step has overtaken or put off, and those that come later.
func TestALineGoesOnWhenACallerLeavesRightAfterAStep(t *testing.T) {
	t.Parallel()
	ways := map[string]struct {
		leave string
		by    time.Duration // at the small size
	}{
		"unblocked": {"CLIENT UNBLOCK ID-OF-IT", 6 * time.Minute}, "unblocked with an error": {"CLIENT UNBLOCK ID-OF-IT ERROR", -step},
		"killed": {"CLIENT KILL ID ID-OF-IT", -step}, "let in": {"DEL k", 6 * time.Minute},
	}
	for name, kind := range kit.WaitsOfAllKinds() {
		for how, way := range ways {
			for _, by := range size.Of([]time.Duration{way.by}, []time.Duration{step, 6 * time.Minute, -step, -6 * time.Minute}) {
				t.Run(fmt.Sprintf("%s, %s, %v", name, how, by), func(t *testing.T) {
					t.Parallel()
					s, c := kit.StartWithClock(t, server.Config("hz 1", "dynamic-hz no")) // the cron hardly comes between the step and what follows
					admin, waiting := s.Raw(), s.Raw()
					id := kit.Do(t, waiting, "CLIENT ID").Int
					kit.Do(t, admin, "%s", kind.Take)
					kind.WaitAs(t, s, waiting, 1)
					kit.AskLease(t, admin, "CL.LEASE l SLOTS 1 TTL 1d ID holder")
					others := int(s.InfoInt("throttle", "throttle_leases_waiting"))
					there := kit.WaitForLease(t, s, others+1, "CL.LEASE l SLOTS 1 TTL 1d ID there TIMEOUT 0") // the server sleeps for five minutes
					c.SetAhead(0, by.Nanoseconds())
					v := kit.Do(t, admin, "%s", strings.ReplaceAll(way.leave, "ID-OF-IT", fmt.Sprint(id)))
					require.False(t, v.IsError(), "%v", v)
					kit.Do(t, admin, "CONFIG SET hz 10")

					<-time.After(turnsOfCron)
					kit.AskLease(t, admin, "CL.LEASE m SLOTS 1 TTL 1d ID holder")
					came := s.Raw()
					kit.Send(t, came, "CL.LEASE m SLOTS 1 TTL 1d ID came TIMEOUT 200ms")
					l, err := kit.LeasedIn(kit.ReceiveSoon(t, came))
					require.NoError(t, err)
					assert.EqualValues(t, 1, l.Limited, "its time is over")
					kit.Send(t, came, "CL.LEASE m SLOTS 1 TTL 1d ID came TIMEOUT 1m")
					require.EqualValues(t, 1, kit.Do(t, admin, "CL.RELEASE m ID holder").Int)
					l, err = kit.LeasedIn(kit.ReceiveSoon(t, came))
					require.NoError(t, err)
					assert.EqualValues(t, 0, l.Limited, "the slot is free")
					require.EqualValues(t, 1, kit.Do(t, admin, "CL.RELEASE l ID holder").Int)
					l, err = kit.LeasedIn(kit.ReceiveSoon(t, there))
					require.NoError(t, err)
					assert.EqualValues(t, 0, l.Limited, "the slot is free")
				})
			}
		}
	}
}
