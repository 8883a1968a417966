package linearizability

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/naive"
)

// Histories made by hand: of calls for the only unit that there is in an hour.
func TestTheCheckerTellsHistoriesApart(t *testing.T) {
	hour := []naive.Limit{{Kind: naive.Fixed, Count: 1, Period: time.Hour}}
	ask := subject{"key", hour}.call("CL.LIMIT", naive.Options{Cost: 1}, func(m *naive.Model, nowNs int64) naive.Reply {
		return m.Take(nowNs, hour, naive.Options{Cost: 1})
	})
	// What the model says at the beginning of the first hour and of the second.
	const second = int64(time.Hour)
	var m naive.Model
	yes, no := &outcome{reply: ask.run(&m, 0)}, &outcome{reply: ask.run(&m, 0)}
	yesLater, lost := &outcome{reply: ask.run(&m, second)}, &outcome{unknown: true}
	clock, take, safe := &operation{event: clockMoves, nowNs: second}, &operation{event: forgets}, &operation{event: replicated}
	type done struct {
		what         *operation
		began, ended int64
		out          *outcome
	}
	for name, test := range map[string]struct {
		history []done
		ok      bool
	}{
		"one of two":                             {[]done{{ask, 0, 10, yes}, {ask, 5, 15, no}}, true},
		"one of two, the later one":              {[]done{{ask, 0, 10, no}, {ask, 5, 15, yes}}, true},
		"both of two: one too many":              {[]done{{ask, 0, 10, yes}, {ask, 5, 15, yes}}, false},
		"limited before anybody took it":         {[]done{{ask, 0, 10, no}, {ask, 20, 30, yes}}, false},
		"limited by a call that happened twice":  {[]done{{ask, 0, 10, no}}, false},
		"limited by a call without a reply":      {[]done{{ask, 0, 5, lost}, {ask, 20, 30, no}}, true},
		"a call without a reply did not happen":  {[]done{{ask, 0, 5, lost}, {ask, 20, 30, yes}}, true},
		"limited by a call that came afterwards": {[]done{{ask, 0, 10, no}, {ask, 20, never, lost}}, false},
		"one in each hour":                       {[]done{{ask, 0, 10, yes}, {clock, 20, 30, lost}, {ask, 25, 35, yesLater}}, true},
		"one in each hour, before that came":     {[]done{{ask, 0, 10, yes}, {ask, 12, 18, yesLater}, {clock, 20, 30, lost}}, false},
		"one in each hour, in time":              {[]done{{ask, 0, 10, yes}, {ask, 12, 21, yesLater}, {clock, 20, 30, lost}}, true},
		"a takeover forgets the last write":      {[]done{{ask, 0, 10, yes}, {take, 20, 30, lost}, {ask, 40, 50, yes}}, true},
		"a takeover forgets nothing":             {[]done{{ask, 0, 10, yes}, {take, 20, 30, lost}, {ask, 40, 50, no}}, true},
		"nothing is forgotten before a takeover": {[]done{{ask, 0, 10, yes}, {ask, 12, 18, yes}, {take, 20, 30, lost}}, false},
		"what is replicated is not forgotten":    {[]done{{ask, 0, 10, yes}, {safe, 11, 12, lost}, {take, 20, 30, lost}, {ask, 40, 50, yes}}, false},
	} {
		h := &history{}
		for i, d := range test.history {
			h.noteUntil(i, d.what, d.began, d.ended, d.out)
		}
		failed, err := h.check()
		require.NoError(t, err)
		assert.Equal(t, test.ok, len(failed) == 0, name)
	}
}
