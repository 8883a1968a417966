package commands_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// From the night in which the clocks of Berlin are put forward on, to the nanosecond.
func TestAQuotaOfAZoneIsThereAgainAtItsMidnight(t *testing.T) {
	t.Parallel()
	at := func(text string) int64 {
		instant, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return instant.UnixNano()
	}
	for _, protocol := range []string{"2", "3"} {
		from := at("2026-03-29T00:30:00+01:00")
		wall := clock.New(t, from)
		c := wall.Start().Raw()
		if _, err := c.Do("HELLO", protocol); err != nil {
			t.Skip(err)
		}
		for _, tt := range []struct{ limit, ends string }{
			{"FIXED 3/d TZ Europe/Berlin", "2026-03-30T00:00:00+02:00"},
			{"FIXED 3/d TZ Europe/Berlin OFFSET 6h", "2026-03-29T06:00:00+02:00"},
			{"FIXED 3/w TZ Europe/Berlin", "2026-03-30T00:00:00+02:00"},
			{"FIXED 3/mo TZ America/New_York", "2026-04-01T00:00:00-04:00"},
			{"FIXED 3/mo", "2026-04-01T00:00:00Z"},
			{"FIXED 3/y TZ Asia/Kathmandu", "2027-01-01T00:00:00+05:45"},
			{"FIXED 3/1h FIRST", "2026-03-29T01:30:00+01:00"},
		} {
			end, key := at(tt.ends), "key "+protocol+tt.limit
			call := func(command string, more ...string) kit.Standing {
				v, err := c.Do(append(append([]string{command, key}, strings.Fields(tt.limit)...), more...)...)
				require.NoError(t, err)
				s, err := kit.StandingIn(v)
				require.NoError(t, err, "%s: %v", tt.limit, v)
				return s
			}
			wall.Set(from)
			untilMs := (end - from) / 1e6
			assert.Equal(t, kit.NewStanding(0, 1, 3, 1, -1, untilMs, untilMs, 2, 0, 0), call("CL.LIMIT", "COST", "2"), tt.limit)
			assert.Equal(t, kit.NewStanding(1, 1, 3, 1, untilMs, untilMs, untilMs, 0, 0, 0), call("CL.LIMIT", "COST", "2"), tt.limit)
			if v, err := c.Do("PEXPIRETIME", key); err == nil && !v.IsError() {
				assert.Equal(t, end/1e6, v.Int, tt.limit)
			}
			assert.Equal(t, int64(-1), call("CL.REFUND").Granted, tt.limit)
			wall.Set(end - 1e6)
			assert.Equal(t, kit.NewStanding(0, 1, 3, 2, -1, 1, 1, 0, 0, 0), call("CL.PEEK"), tt.limit)
			wall.Set(end)
			assert.Equal(t, kit.NewStanding(0, 1, 3, 3, -1, 0, 0, 0, 0, 0), call("CL.PEEK"), tt.limit)
		}
	}
}

// Values as version 0.1.0 wrote them.
func TestAFixedOfVersion010IsReadAsItWas(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	day := time.Now().Unix() / 86400
	// Version, one limit, kind 3, a day in ns, the length, the day and 300 units as LEB128.
	value := []byte{1, 1, 3, 0, 0, 0x4f, 0x91, 0x94, 0x4e, 0, 0, 5, 0, byte(day)&0x7f | 0x80, byte(day>>7)&0x7f | 0x80, byte(day >> 14), 0xac, 2}
	for _, limit := range []string{"FIXED 1000/d", "FIXED 1000/24h", "FIXED 1000/d TZ UTC", "FIXED 1000/d OFFSET 0"} {
		s.MustDo("SET", "key", string(value))
		peek := kit.Ask(t, c, "CL.PEEK key %s", limit)
		if time.Now().Unix()/86400 != day {
			t.Skip("midnight")
		}
		assert.Equal(t, int64(700), peek.Remaining, limit)
		kit.Ask(t, c, "CL.LIMIT key %s", limit)
		written := []byte(s.MustDo("GET", "key").Text)
		value[16]++
		assert.Equal(t, fmt.Sprintf("%x", value), fmt.Sprintf("%x", written), limit)
		value[16]--
	}
}
