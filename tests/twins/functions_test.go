package twins_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// The calls of TestRepliesUnderAVirtualClockAreThoseOfTheDocumentation, where the library of functions makes every
// other one, on the same keys. So a key moves between the two at any time, and replies, bytes and expiry are those of
// the module, of the embedded host and of the model.
//
// FUNCTIONS_CALLS is how many calls to make, at least.
func TestFunctionsAndTheModuleTakeTurnsOnAKey(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	r := newVirtualRun(t)
	r.functions, r.tick = true, int64(time.Microsecond) // TIME tells no more
	kit.LoadFunctions(t, r.server)
	calls := chance.Calls(t, "FUNCTIONS_CALLS", size.Of(3_000, 30_000))
	r.run(calls)
	t.Logf("%d calls by functions", r.byFunctions)
	require.Greater(t, r.byFunctions, calls/3)
}

// inTurns is the calls, some of them by functions.
func (r *virtualRun) inTurns(calls [][]string) [][]string {
	if !r.functions {
		return calls
	}
	sent := slices.Clone(calls)
	for i, words := range sent {
		if strings.HasPrefix(words[0], "CL.") && r.knowsClocks(words) && r.IntN(2) == 0 {
			sent[i] = kit.AsFunction(words)
			r.byFunctions++
		}
	}
	return sent
}

// knowsClocks reports whether functions know the clocks of the zones of a call as long as its windows last. Those of
// years last up to 40.
func (r *virtualRun) knowsClocks(words []string) bool {
	year := time.Unix(0, r.now).Year()
	hasZone := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "/") && slices.Contains(zones, word) })
	hasYears := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "/") && strings.HasSuffix(word, "y") })
	return !hasZone || year > 2021 && year < 2046 && !hasYears
}

// A call with wrong words gets the same error from a function as from the embedded host, and one that happens to be
// right the same answer.
func TestErrorsOfFunctionsAreThoseOfTheModule(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	r := chance.New(t)
	at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).UnixNano()
	virtual := clock.New(t, at)
	s := virtual.Start(server.WithoutModule())
	kit.LoadFunctions(t, s)
	c := s.Raw()
	kit.Do(t, c, "DEBUG SET-ACTIVE-EXPIRE 0")
	w := twin{nowNs: at}
	compared, errors, refused := 0, 0, 0
	for range size.Of(3000, 60_000) {
		words := changed(r, strings.Fields(functionLines[r.IntN(len(functionLines))]))
		sent := words
		if strings.HasPrefix(words[0], "CL.") {
			if len(words) < 2 || !kit.ServerCounts(words) {
				continue // the server itself counts the keys
			}
			sent = kit.AsFunction(words)
		}
		v, err := c.Do(sent...)
		require.NoError(t, err)
		if kit.NeedsModule(v) {
			refused++
			continue
		}
		if words[0] == "ZRANGE" {
			writeScoresPlainly(v)
		}
		own := w.Do(words...)
		require.True(t, alike(own, v), "%d %s\nfunction %v\nembedded %v", w.nowNs, strings.Join(words, " "), v, own)
		compared++
		if v.IsError() {
			errors++
		}
		if r.IntN(50) == 0 {
			w.nowNs += r.Int64N(int64(20*time.Second)) / 1000 * 1000
			virtual.Set(w.nowNs)
		}
	}
	t.Logf("%d calls compared, %d errors; %d need the module", compared, errors, refused)
	require.Greater(t, errors, compared/5)
	require.Greater(t, compared, 2*refused)
}

// functionLines are the lines that functions can do, and some more.
var functionLines = append(slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
	return strings.HasPrefix(line, "CL.WAIT") || strings.HasPrefix(line, "CL.TOP") || strings.HasPrefix(line, "CL.DENIED")
}), "CL.MLIMIT 3 k l jobs RATE 5/s NEXT WINDOW 5/1h NEXT SLOTS 3 TTL 10s ID a COMPACT", "CL.SETTLE 2 k jobs RATE 5/s TAKE 2 USED 1 NEXT SLOTS ID a",
	"CL.LIMIT k FIXED 100/w OFFSET 36h EACH", "CL.LIMIT k RATE 5/s SPARE 1 SHADOW TAKE 2 EACH COMPACT")
