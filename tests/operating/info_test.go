package operating_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

func sortedTexts(v resp.Value) (texts []string) {
	for _, e := range v.Elems {
		texts = append(texts, e.Text)
	}
	slices.Sort(texts)
	return texts
}

// Callers that wait are counted in tests/wait/leave_test.go.
func TestInfoCounts(t *testing.T) {
	t.Parallel()
	before := time.Now().Unix()
	s := kit.StartCheckBuild(t)
	c := s.Raw()
	kit.Do(t, c, "RPUSH list 1")
	now := kit.NowIn(t, c) / int64(time.Millisecond)
	kit.Do(t, c, "ZADD lapsed %d a %d b", now-1, now-2)
	counts := func() map[string]int64 {
		fields := map[string]int64{}
		var texts []string
		for name, text := range server.ParseInfo(kit.Do(t, c, "INFO throttle").Text) {
			name, ok := strings.CutPrefix(name, "throttle_")
			require.True(t, ok, "%s in section throttle", name)
			if name == "version" {
				assert.Regexp(t, `^\d+\.\d+\.\d+ \(commit \w+, go\S+\)$`, text)
				texts = append(texts, name)
				continue
			}
			if name == "zone_data" {
				assert.Equal(t, calendar.BuiltIn().Version(), text)
				texts = append(texts, name)
				continue
			}
			if name == "zone_data_source" {
				assert.Equal(t, "built-in", text)
				texts = append(texts, name)
				continue
			}
			n, err := strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
			fields[name] = n
		}
		assert.ElementsMatch(t, []string{"version", "zone_data", "zone_data_source"}, texts)
		return fields
	}
	have := counts()
	assert.GreaterOrEqual(t, have["since_unix_time"], before)
	assert.LessOrEqual(t, have["since_unix_time"], time.Now().Unix())
	for _, tc := range []struct{ call, counts string }{
		{"CL.THROTTLE a 0 1 1h", "calls calls_throttle allowed"},
		{"CL.THROTTLE a 0 1 1h", "calls calls_throttle limited"},
		{"CL.THROTTLE a 0 1 1h 1 1", "calls calls_throttle errors_arity"},
		{"CL.THROTTLE a 0 1 x", "calls calls_throttle errors_argument"},
		{"CL.THROTTLE list 0 1 1h", "calls calls_throttle errors_wrongtype"},
		{"CL.LIMIT b RATE 1/h", "calls calls_limit allowed"},
		{"CL.LIMIT b RATE 1/h", "calls calls_limit limited"},
		{"CL.LIMIT b RATTE 1/h", "calls calls_limit errors_argument"},
		{"CL.LIMIT list RATE 1/h", "calls calls_limit errors_wrongtype"},
		{"CL.LIMIT fault:panic RATE 1/h", "calls calls_limit errors_internal"},
		{"CL.PEEK unused RATE 1/h", "calls calls_peek"},
		{"CL.REFUND b RATE 1/h", "calls calls_refund refunded_units"},
		{"CL.REFUND b RATE 1/h", "calls calls_refund"},
		{"CL.WAIT c RATE 1/h TIMEOUT 1s", "calls calls_wait allowed"},
		{"CL.WAIT c RATE 1/h TIMEOUT 1s", "calls calls_wait limited"},
		{"CL.WAIT d RATE 100/s BURST 1 TIMEOUT 1s", "calls calls_wait allowed"},
		{"CL.WAIT d RATE 100/s BURST 1 COST 2 TIMEOUT 1s", "calls calls_wait limited"},
		{"CL.LIMIT shadow RATE 2/h RATE 1/h SHADOW", "calls calls_limit allowed"},
		{"CL.LIMIT shadow RATE 2/h RATE 1/h SHADOW", "calls calls_limit allowed shadowed"},
		{"CL.LIMIT shadow RATE 2/h RATE 1/h SHADOW", "calls calls_limit limited"},
		{"CL.PEEK shadow RATE 2/h RATE 1/h SHADOW", "calls calls_peek"},
		{"CL.LIMIT shadow RATE 2/h RATE 1/h SHADOW FORCE", "calls calls_limit limited"},
		{"CL.LEASE slots SLOTS 1 TTL 1h ID a", "calls calls_lease allowed leases_granted"},
		{"CL.LEASE slots SLOTS 1 TTL 1h ID b", "calls calls_lease limited leases_limited"},
		{"CL.LEASE slots SLOTS 1 TTL 2h ID a", "calls calls_lease allowed leases_renewed"},
		{"CL.LEASE slots SLOTS 9 TTL 2h ID a", "calls calls_lease allowed leases_renewed"},
		{"CL.RENEW slots ID a TTL 3h", "calls calls_renew allowed leases_renewed"},
		{"CL.RENEW slots ID b TTL 3h", "calls calls_renew limited leases_limited"},
		{"CL.LEASES slots", "calls calls_leases"},
		{"CL.INSPECT slots", "calls calls_inspect"},
		{"CL.RELEASE slots ID a b", "calls calls_release leases_released"},
		{"CL.RELEASE slots ID a b", "calls calls_release"},
		{"CL.LEASE lapsed SLOTS 2 TTL 1h ID c", "calls calls_lease allowed leases_granted leases_lapsed leases_lapsed"},
		{"CL.LEASE lapsed SLOTS 2 TTL 1h ID d", "calls calls_lease allowed leases_granted"},
		{"CL.RELEASE lapsed ID c d", "calls calls_release leases_released leases_released"},
		{"CL.MLIMIT 2 units slots RATE 9/h TAKE 5 NEXT SLOTS 1 TTL 1h ID a", "calls calls_mlimit allowed leases_granted"},
		{"CL.MLIMIT 2 units slots RATE 9/h TAKE 5 NEXT SLOTS 1 TTL 1h ID a", "calls calls_mlimit allowed leases_renewed"},
		{"CL.MLIMIT 2 units slots RATE 9/h TAKE 1 NEXT SLOTS 1 TTL 1h ID b", "calls calls_mlimit limited leases_limited"},
		{"CL.SETTLE 2 units slots RATE 9/h TAKE 5 USED 4 NEXT SLOTS ID b", "calls calls_settle not_settled"},
		{"CL.SETTLE 2 units slots RATE 9/h TAKE 5 USED 4 NEXT SLOTS ID a", "calls calls_settle settled leases_released refunded_units"},
		{"CL.SETTLE 2 units slots RATE 9/h TAKE 5 USED 4 NEXT SLOTS ID a", "calls calls_settle not_settled"},
		{"CL.SETTLE 2 units slots RATE 9/h TAKE 5 NEXT SLOTS ID a", "calls calls_settle errors_argument"},
		{"GET a", ""},
	} {
		want := maps.Clone(have)
		for _, name := range strings.Fields(tc.counts) {
			require.Contains(t, want, name)
			want[name]++
		}
		kit.Do(t, c, "%s", tc.call)
		have = counts()
		assert.Equal(t, want, have, tc.call)
	}
}

// The section is among those of modules, and the server's own are what they were.
func TestInfoSections(t *testing.T) {
	t.Parallel()
	with, without := server.Start(t), server.Start(t, server.WithoutModule())
	headings := func(s *server.Server, section string) (all []string) {
		for line := range strings.Lines(s.MustDo("INFO", section).Text) {
			if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok {
				all = append(all, heading)
			}
		}
		return all
	}
	assert.Equal(t, []string{"throttle"}, headings(with, "throttle"))
	for _, section := range []string{"everything", "modules"} {
		assert.ElementsMatch(t, append(headings(without, section), "throttle"), headings(with, section), section)
	}
	for _, section := range []string{"default", "server", "all"} {
		assert.Equal(t, headings(without, section), headings(with, section), section)
	}
	assert.Equal(t, slices.Sorted(maps.Keys(without.Info("server"))), slices.Sorted(maps.Keys(with.Info("server"))))
}
