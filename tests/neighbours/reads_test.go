package neighbours_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/neighbour"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Opening a key that has expired tells another module of its end, which may write to any key then. The call is answered
// as if the key had never been there.
func TestExpiredKeysAreAbsentBesideANeighbour(t *testing.T) {
	t.Parallel()
	_, c := kit.StartKeepingExpired(t)
	for _, call := range writtenInto {
		if strings.Contains(call, "FIXED") {
			continue // the end of its window comes nearer
		}
		kit.Do(t, c, "FLUSHALL")
		want := ofADay(kit.Do(t, c, "%s", call))
		for _, state := range []string{"b has expired", "both have expired"} {
			for _, write := range []string{"", "NEIGHBOUR.ON expired b SET elsewhere x", "NEIGHBOUR.ON expired b SET a x PXAT 1"} {
				kit.Do(t, c, "NEIGHBOUR.DO")
				kit.MustDoAll(t, c, append([]string{"FLUSHALL"}, keyStates[state]...)...)
				if state == "b has expired" {
					kit.Do(t, c, "DEL a")
				}
				if write != "" {
					kit.Do(t, c, "%s", write)
				}
				assert.Equal(t, want, ofADay(kit.Do(t, c, "%s", call)), "%s, %s, %q", call, state, write)
			}
		}
	}
}

// ofADay is a reply in which a lease of a day has a day left: an answer in the middle of a ms rounds the rest of that
// up.
func ofADay(v resp.Value) string {
	return serversClock.ReplaceAllString(strings.ReplaceAll(v.String(), "86400001", "86400000"), `"now_ms" now`)
}

var serversClock = regexp.MustCompile(`"now_ms" \d+`) // in a reply of CL.INSPECT

// While the server adds a key, a call of another module sees what it will hold, or that it is of the wrong type.
func TestACallReadsAKeyThatIsBeingAdded(t *testing.T) {
	t.Parallel()
	s := neighbour.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("event new")
	}
	c := s.Raw()
	const peek = "CL.PEEK b RATE 5/h COMPACT"
	const script = "local r = redis.pcall('CL.PEEK', 'b', 'RATE', '5/h', 'COMPACT') redis.call('SET', 'seen', r.err or r[2])"
	for _, command := range slices.Concat(adding, []string{"COPY limit b"}) {
		if strings.HasPrefix(command, "EVAL") || strings.HasPrefix(command, "SETRANGE") {
			continue // no server runs a script within a script, and the range is written after the event
		}
		kit.MustDoAll(t, c, "NEIGHBOUR.DO", "FLUSHALL", "SET digits 5", "SET bucket 1700000000000000000 PX 100000000", "ZADD leases 1700000000000 a", "CL.LIMIT limit RATE 5/h COST 2")
		_, err := c.Do("NEIGHBOUR.ON", "new", "b", "EVAL", script, "0")
		require.NoError(t, err)
		kit.Do(t, c, "%s", command)
		kit.Do(t, c, "NEIGHBOUR.DO")
		want := kit.Do(t, c, peek)
		if !want.IsError() {
			want = want.Elems[1]
		}
		assert.Equal(t, strings.TrimPrefix(want.String(), "(error) "), kit.Do(t, c, "GET seen").Text, command)
	}
}

// A call in a script reads a copy of a value that the script may just have written. It answers as it does outside of a
// script, whatever the length of the value, up to that of the longest that a limiter writes. It copies none that is
// longer, which is of the wrong type.
func TestACallInAScriptReadsValuesOfAnyLength(t *testing.T) {
	t.Parallel()
	c := neighbour.Start(t).Raw()
	for _, length := range []int{0, 1, 8, 9, 100, command.MaxValueLen - 1, command.MaxValueLen, command.MaxValueLen + 1, 1 << 20} {
		_, err := c.Do("SET", "k", strings.Repeat("x", length))
		require.NoError(t, err)
		want := kit.Do(t, c, "CL.PEEK k RATE 5/h").Text
		assert.Contains(t, want, "is not the state of a rate limiter", "%d bytes", length)
		have := kit.Do(t, c, "EVAL return(redis.pcall('CL.PEEK','k','RATE','5/h').err) 0").Text
		if length > command.MaxValueLen {
			want = "WRONGTYPE Operation against a key holding the wrong kind of value"
		}
		assert.Equal(t, want, have, "%d bytes", length)
	}
}

// A call that is refused because the server is still adding its key counts as nothing but a call.
func TestACallRefusedWhileItsKeyIsAddedCountsAsNothing(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...server.Option) *server.Server{"before": neighbour.StartEarlier, "after": neighbour.Start} {
		t.Run("the other module was loaded "+name, func(t *testing.T) {
			t.Parallel()
			requireUncounted(t, start(t))
		})
		t.Run("the other module was loaded "+name+", and MODULE LIST is renamed", func(t *testing.T) {
			t.Parallel()
			requireUncounted(t, start(t, server.Config(`rename-command MODULE ""`)))
		})
		t.Run("the other module was loaded "+name+", and lets its calls block", func(t *testing.T) {
			t.Parallel()
			s := start(t)
			if !s.Program.AtLeast(7, 2) {
				t.Skip("calls of modules that may block")
			}
			s.MustDo("NEIGHBOUR.FORMAT", "!Kv")
			requireUncounted(t, s)
		})
	}
}

func requireUncounted(t *testing.T, s *server.Server) {
	t.Helper()
	if !s.Program.AtLeast(7, 0) {
		t.Skip("event new")
	}
	if s.Program.AddsWithExpiry() {
		t.Skip("nothing shows that a key is new that has its expiry already")
	}
	c := s.Raw()
	kit.MustDoAll(t, c, "CL.LIMIT limit RATE 5/h COST 4", "CL.LEASE leases SLOTS 5 TTL 1h ID a")
	counts := func() (all []int64) {
		for _, name := range strings.Fields("allowed limited shadowed refunded_units leases_granted leases_renewed leases_released settled") {
			all = append(all, s.InfoInt("throttle", "throttle_"+name))
		}
		return all
	}
	want := counts()
	for call, add := range map[string]string{
		"CL.LIMIT b RATE 5/h":                          "COPY limit b",
		"CL.LIMIT b RATE 5/h SHADOW RATE 100/d COST 2": "COPY limit b",
		"CL.REFUND b RATE 5/h COST 2":                  "COPY limit b",
		"CL.LEASE b SLOTS 5 TTL 1h ID x":               "COPY leases b",
		"CL.RELEASE b ID a":                            "COPY leases b",
		"CL.RENEW b ID a TTL 1h":                       "COPY leases b",
		"CL.MLIMIT 2 other b RATE 5/h":                 "COPY limit b",
	} {
		kit.Do(t, c, "DEL b")
		kit.Do(t, c, "NEIGHBOUR.ON new b %s", call)
		kit.Do(t, c, "%s", add)
		seen := kit.Do(t, c, "NEIGHBOUR.SEEN")
		kit.Do(t, c, "NEIGHBOUR.DO")
		assert.EqualValues(t, 1, seen.Elems[0].Int, call)
		assert.Contains(t, seen.Elems[1].Text, "is being", call)
		assert.Equal(t, want, counts(), call)
	}
}
