package table_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/cmd/throttle-replay/replay"
	"redis-throttle/cmd/throttle-replay/table"
)

// report is what came of some log.
func report() *replay.Report {
	at := time.Date(2026, 10, 24, 21, 30, 0, 0, time.UTC)
	waits := replay.Waits{P50: 100, P90: 1500, P99: 61_000, Max: 90_000_000}
	return &replay.Report{
		Files: []string{"access.log"}, Key: "{remote_addr/64}", Requests: 12_000, Units: 12_000, Clients: 34, From: at, To: at.Add(time.Hour), ResolutionNs: 1e9,
		Lines: replay.Lines{All: 12_003, Requests: 12_000, Late: 1, Unreadable: []replay.Problem{{Why: "not JSON", Count: 2, File: "access.log", Line: 7}}},
		Time:  replay.Series{Start: at, WidthNs: 60e9, Requests: make([]int64, 60)},
		Peaks: []replay.Peak{{Period: "second", P50: 1, P90: 2, P99: 3, Max: 4, Client: "a", At: at}},
		Top:   []replay.Client{{Name: "a", Requests: 9000, PerSecond: 4, PerMinute: 50, PerHour: 1000}},
		Sets: []replay.Result{{
			Name: "strict", Words: "RATE 5/s WINDOW 9/m", Requests: 12_000, Denied: 1200, Clients: 34, DeniedClients: 1, Waits: waits, Shadowed: 3, Delayed: 4, Delays: waits,
			Rules: []replay.Rule{{Words: "RATE 5/s", Denied: 1000, Alone: 1100}, {Words: "WINDOW 9/m", Denied: 200, Alone: 300}}, Series: make([]int64, 60),
			Top: []replay.Client{{Name: "a", Requests: 9000, Denied: 1200, LongestMs: 90_000_000}},
		}},
		Kinds: []replay.Result{{Name: "FIXED", Words: "FIXED 5/s", Requests: 12_000, Clients: 34}},
		Curve: replay.Curve{Shares: []string{"50 %", "all"},
			Points: []replay.CurvePoint{{Rate: "1/s", Bursts: []int64{3, 4000}}, {Rate: "2/s", Bursts: []int64{2, 9}}}},
		Suggestions: []replay.Suggestion{{Share: "99 %", Copy: true, Result: replay.Result{Words: "RATE 2/s BURST 9", Requests: 12_000, Denied: 3, Clients: 34, DeniedClients: 1}}},
	}
}

func write(t testing.TB, r *replay.Report, o table.Options) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, table.Write(&b, r, o))
	return b.String()
}

func TestAReportSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	r := report()
	r.Sets[0].Series[59] = 1200
	text := write(t, r, table.Options{})
	for _, want := range []string{
		"throttle-replay access.log\n  12,000 requests of 34 clients, by {remote_addr/64}, 2026-10-24 21:30:00 UTC to 2026-10-24 22:30:00 UTC\n",
		"  1 line: out of order by more than --late, and left out: <0.01 % of all. Give files",
		"  2 lines could not be read: not JSON. The first is access.log:7\n",
		"Times are to the second.",
		"in an hour", "strict", "10.0 %", "2.9 %", "100 ms", "1.5 s", "1.0 min", "1.0 d", "WINDOW 9/m", "RATE 2/s BURST 9", "spares 99 %", "█  most: 1,200",
		"CL.LIMIT key RATE 2/s BURST 9 SHADOW",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "\x1b")
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	text = write(t, r, table.Options{Zone: berlin, Colors: true})
	assert.Contains(t, text, "2026-10-24 23:30:00 CEST")
	assert.Contains(t, text, "\x1b[1mLimits\x1b[0m")
}

func TestOneLimitIsNotToldApart(t *testing.T) {
	t.Parallel()
	one := []replay.Rule{{Words: "RATE 5/s"}}
	assert.Empty(t, table.Rules(&replay.Result{Words: "rate 5/s BAN 1m", Rules: one}))
	assert.Equal(t, one, table.Rules(&replay.Result{Words: "domain web of limits.yaml", Rules: one}))
	assert.Len(t, table.Rules(&replay.Result{Words: "RATE 5/s RATE 5/s", Rules: append(one, one...)}), 2)
}

// Requests that no wait makes possible have no wait of 0.
func TestNoWaitIsNotAWaitOfNothing(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"never", "never", "never", "never"}, table.Waits(&replay.Result{Denied: 3, Waits: replay.Waits{Never: 3}}))
	assert.Equal(t, []string{"1 s", "1 s", "1 s", "2 s"}, table.Waits(&replay.Result{Denied: 4, Waits: replay.Waits{P50: 1000, P90: 1000, P99: 1000, Max: 2000, Never: 3}}))
}

// Whatever a client has sent, a terminal shows it and does not obey it.
func TestHostileKeysAreShownAndNotObeyed(t *testing.T) {
	t.Parallel()
	hostile := "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\r\n\u0000\x9b1m\xff"
	r := report()
	r.Files, r.Key = []string{hostile}, hostile
	r.Top[0].Name, r.Peaks[0].Client, r.Sets[0].Top[0].Name = hostile, hostile, hostile
	r.Sets[0].Name, r.Sets[0].Errors, r.Sets[0].Example = hostile, 1, hostile
	r.Lines.Unreadable[0].Text, r.Lines.Unreadable[0].File = hostile, hostile
	r.Lines.Damaged = []replay.Damage{{File: hostile, Why: hostile}}
	text := write(t, r, table.Options{})
	assert.NotContains(t, strings.Trim(text, "\n"), "\x1b")
	for _, c := range []string{"\r", "\x07", "\u202e", "\x00", "\u009b", "\xff"} {
		assert.NotContains(t, text, c)
	}
	assert.Contains(t, text, `\x1b]0;owned\a\x1b[2J\u202egnp.exe\r\n\x00\ufffd1m\ufffd`)
}

func TestALogWithoutRequestsSaysSo(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "throttle-replay empty.log\n  No request was read.\n", write(t, &replay.Report{Files: []string{"empty.log"}, ResolutionNs: 1e9}, table.Options{}))
}

func TestSharesThatAreNotAllAreNotCalledAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		part, whole int64
		want        string
	}{{0, 5, "0 %"}, {5, 5, "100.0 %"}, {1, 1_000_000, "<0.01 %"}, {999_999, 1_000_000, ">99.99 %"}, {1, 1000, "0.10 %"}, {1, 3, "33.3 %"}, {0, 0, ""}} {
		assert.Equal(t, c.want, table.Percent(c.part, c.whole))
	}
	for ms, want := range map[int64]string{-1: "never", 0: "0 ms", 999: "999 ms", 1000: "1 s", 1500: "1.5 s", 59_999: "60 s", 60_000: "1 min", 600_000: "10 min", 5_400_000: "1.5 h", 864_000_000: "10 d"} {
		assert.Equal(t, want, table.Duration(ms))
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", 1_234_567: "1,234,567"} {
		assert.Equal(t, want, table.Number(n))
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	assert.ErrorContains(t, table.Write(full{}, report(), table.Options{}), "no space left")
}
