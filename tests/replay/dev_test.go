package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

// throttle-dev, whose clock shows the times of the log, denies the same requests of the same clients for as long.
func TestDecisionsAreThoseOfThrottleDev(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]time.Time{
		"a leap day":                      time.Date(2028, 2, 28, 23, 50, 0, 0, time.UTC),
		"the hour that comes twice":       time.Date(2026, 11, 1, 4, 50, 0, 0, time.UTC), // in New York
		"the hour that clocks leave out":  time.Date(2026, 3, 8, 6, 50, 0, 0, time.UTC),
		"the first midnight of a new day": time.Date(2026, 12, 31, 23, 50, 0, 0, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareWithDev(t, start)
		})
	}
}

func compareWithDev(t *testing.T, start time.Time) {
	dev, err := server.DevProgram()
	require.NoError(t, err)
	random := chance.New(t)
	type request struct {
		at     time.Time
		client string
	}
	var all []request
	var lines []string
	at := start
	for range size.Of(800, 4000) {
		at = at.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
		if random.IntN(3) == 0 {
			at = at.Truncate(time.Second).Add(time.Second)
		}
		r := request{at, fmt.Sprintf("10.0.0.%d", min(random.IntN(12), random.IntN(12)))}
		all = append(all, r)
		lines = append(lines, fmt.Sprintf(`{"ts":%d.%03d,"request":{"remote_ip":%q}}`, r.at.Unix(), r.at.Nanosecond()/1e6, r.client))
	}
	path := access(t, lines)
	sets := []string{
		"RATE 10/m BURST 3", "RATE 1/s BURST 2 WINDOW 60/10m", "WINDOW 20/2m", "FIXED 40/h", "FIXED 90/d TZ America/New_York FIXED 12/m", "FIXED 5/1m FIRST", "RATE 6/m BURST 4 BAN 90s", "RATE 12/m BURST 2 MAXWAIT 5s",
		"RATE 6/m BURST 2 STRICT",
	}
	var args []string
	for i, words := range sets {
		args = append(args, "--set", fmt.Sprintf("set%d=%s", i, words))
	}
	r := replay(t, append(args, path, "--top", "100")...)
	s := server.Start(t, server.Run(dev))
	client := s.Client()
	for i, words := range sets {
		denied, longest := map[string]int64{}, map[string]int64{}
		alone, decided := make([]int64, len(r.Sets[i].Rules)), make([]int64, len(r.Sets[i].Rules))
		for from := 0; from < len(all); from += 500 {
			part := all[from:min(from+500, len(all))]
			var replies []*redis.Cmd
			_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for _, one := range part {
					p.Do(t.Context(), "CL.DEV.TIME", one.at.Format(time.RFC3339Nano), "STOP")
					call := []any{"CL.LIMIT", fmt.Sprintf("%d:%s", i, one.client)}
					for _, word := range strings.Fields(words) {
						call = append(call, word)
					}
					replies = append(replies, p.Do(t.Context(), append(call, "COMPACT", "EACH")...))
				}
				return nil
			})
			require.NoError(t, err, words)
			for j, reply := range replies {
				values, err := reply.Slice()
				require.NoError(t, err)
				for k := range alone {
					alone[k] += values[10+k].([]any)[0].(int64)
				}
				if values[0].(int64) == 0 {
					continue
				}
				name := part[j].client
				denied[name]++
				longest[name] = max(longest[name], values[4].(int64))
				if rule := values[1].(int64); rule > 0 {
					decided[rule-1]++
				}
			}
		}
		require.NotEmpty(t, denied, words)
		haveDenied, haveLongest := map[string]int64{}, map[string]int64{}
		for _, c := range r.Sets[i].Top {
			haveDenied[c.Name], haveLongest[c.Name] = c.Denied, c.LongestMs
		}
		assert.Equal(t, denied, haveDenied, words)
		assert.Equal(t, longest, haveLongest, words)
		for k, rule := range r.Sets[i].Rules {
			assert.Equal(t, alone[k], rule.Alone, words)
			assert.Equal(t, decided[k], rule.Denied, words)
		}
	}
}
