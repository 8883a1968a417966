package replay

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/cmd/throttle-replay/logs"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// made is a request of a log that a test has made.
type made struct {
	at     time.Time
	client string
	cost   int64
}

func (m made) line() string {
	return fmt.Sprintf(`{"time":%q,"remote_addr":%q,"cost":%d}`, m.at.UTC().Format(time.RFC3339Nano), m.client, m.cost)
}

// autumn is before the night in which clocks in Berlin are set back.
var autumn = time.Date(2026, 10, 24, 21, 0, 0, 0, time.UTC)

// traffic is what some clients ask for, in the order of time, from an instant on.
func traffic(t testing.TB, at time.Time, clients, n int) (all []made) {
	random := chance.New(t)
	for range n {
		if random.IntN(50) == 0 {
			at = at.Add(time.Duration(random.IntN(600)) * time.Second)
		}
		at = at.Add(time.Duration(random.IntN(40)) * 10 * time.Millisecond)
		client := min(random.IntN(clients), random.IntN(clients)) // some more than others
		all = append(all, made{at, fmt.Sprintf("10.0.%d.%d", client>>8, client&255), random.Int64N(3)})
	}
	return all
}

func linesOf(all []made) (lines []string) {
	for _, m := range all {
		lines = append(lines, m.line())
	}
	return lines
}

// denials are a client's: how many, and the longest wait that it was told, -1 if once none helped.
type denials struct{ denied, longestMs int64 }

// counted is what a naive replay makes of a log.
type counted struct {
	denied         int64
	decided, alone []int64
	of             map[string]denials
}

// naively asks a host with all keys, one request after the other.
func naively(t testing.TB, all []made, words string, costs bool, limits int) counted {
	t.Helper()
	var host embedded.Host
	c := counted{decided: make([]int64, limits), alone: make([]int64, limits), of: map[string]denials{}}
	for _, m := range all {
		line := "CL.LIMIT " + m.client + " " + words + " COMPACT EACH"
		if costs {
			line += fmt.Sprint(" COST ", m.cost)
		}
		call := embedded.Call{NowNs: m.at.UnixNano()}
		for _, word := range strings.Fields(line) {
			call.Words = append(call.Words, []byte(word))
		}
		reply := host.Do(call)
		require.Equal(t, command.ReplyIntegersEach, reply.Kind, reply.Error)
		for i, each := range reply.Each {
			c.alone[i] += each[0]
		}
		if reply.Integers[0] == 0 {
			continue
		}
		c.denied++
		if reply.Integers[1] > 0 {
			c.decided[reply.Integers[1]-1]++
		}
		of, retryMs := c.of[m.client], reply.Integers[4]
		if of.longestMs >= 0 && retryMs >= 0 {
			retryMs = max(retryMs, of.longestMs)
		} else {
			retryMs = -1
		}
		c.of[m.client] = denials{of.denied + 1, retryMs}
	}
	return c
}

// Every kind of limit, with every option, decides each request as a server would that had all keys, on whatever day the
// log was written.
func TestDecisionsAreThoseOfAServerWithAllKeys(t *testing.T) {
	t.Parallel()
	tried := []string{
		"RATE 1/s BURST 5", "RATE 20/m", "rate 7/3s", "RATE 3/2s BURST 2", "RATE 50/2h BURST 20", "WINDOW 10/m", "FIXED 30/h", "FIXED 100/d TZ Europe/Berlin", "FIXED 20/10m FIRST", "RATE 1/s BURST 5 WINDOW 30/m FIXED 100/h",
		"RATE 1/s BURST 5 BAN 2m", "RATE 1/s BURST 5 BAN 2m AFTER 3/10m", "RATE 1/s BURST 5 FIXED 0/d SHADOW", "FIXED 0/d", "RATE 1/s BURST 5 STRICT", "RATE 1/s BURST 3 MAXWAIT 2s", "RATE 1/s BURST 5 FORCE", "RATE 1/s BURST 9 SPARE 3",
		"RATE 1/s BURST 50 RATE 10/m BURST 3 SHADOW", "RATE 1/s BURST 4 TAKE 2 WINDOW 100/h", "FIXED 90/d TZ America/New_York FIXED 12/m",
	}
	for day, start := range map[string]time.Time{
		"the night before clocks are set back in Berlin": autumn,
		"the hour that comes twice in New York":          time.Date(2026, 11, 1, 4, 50, 0, 0, time.UTC),
		"the hour that clocks leave out in New York":     time.Date(2026, 3, 8, 6, 50, 0, 0, time.UTC),
		"a leap day":                       time.Date(2028, 2, 28, 23, 50, 0, 0, time.UTC),
		"the first midnight of a new year": time.Date(2026, 12, 31, 23, 50, 0, 0, time.UTC),
	} {
		for _, costs := range []bool{false, true} {
			all := traffic(t, start, 40, size.Of(1000, 5000))
			o := usual(t)
			o.Files = []string{access(t, "access.log", linesOf(all)...)}
			o.memoryBytes, o.Top = 1, 100
			for _, words := range tried {
				o.Sets = append(o.Sets, Set{fmt.Sprint("set", len(o.Sets)), words})
			}
			if costs {
				var err error
				o.Cost, err = fields.ParseCost("cost")
				require.NoError(t, err)
			} else { // with a cost of 0 it asks for nothing
				o.Sets = append(o.Sets, Set{"upto", "RATE 1/s BURST 5 UPTO"})
			}
			r := reported(t, o)
			for i, result := range r.Sets {
				about := day + ": " + o.Sets[i].Words
				want := naively(t, all, o.Sets[i].Words, costs, len(result.Rules))
				require.Equal(t, want.denied, result.Denied, about)
				assert.Equal(t, int64(len(want.of)), result.DeniedClients, about)
				assert.Equal(t, int64(len(all)), result.Requests)
				assert.Zero(t, result.Errors)
				for k, rule := range result.Rules {
					assert.Equal(t, want.decided[k], rule.Denied, "%s: %s", about, rule.Words)
					assert.Equal(t, want.alone[k], rule.Alone, "%s: %s", about, rule.Words)
				}
				assert.Equal(t, want.denied, sum(result.Series), about)
				longestMs := int64(0)
				for _, c := range want.of {
					longestMs = max(longestMs, c.longestMs)
				}
				assert.Equal(t, longestMs, result.Waits.Max, about)
				for _, c := range result.Top {
					assert.Equal(t, want.of[c.Name], denials{c.Denied, c.LongestMs}, about)
				}
			}
		}
	}
}

func sum(all []int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}

// What the curve says of a rate and a burst is what the limit does, for all clients together.
func TestPointsOfTheCurveDenyWhatTheySay(t *testing.T) {
	t.Parallel()
	all := traffic(t, autumn, 60, size.Of(2000, 6000))
	o := usual(t)
	o.Files = []string{access(t, "access.log", linesOf(all)...)}
	r := reported(t, o)
	require.Greater(t, len(r.Curve.Points), 5)
	for i, p := range r.Curve.Points {
		if i%3 > 0 && i < len(r.Curve.Points)-1 {
			continue
		}
		for q, burst := range p.Bursts {
			want := naively(t, all, fmt.Sprintf("RATE %s BURST %d", p.Rate, burst), false, 1)
			require.Equal(t, want.denied, p.Denied[q], "RATE %s BURST %d", p.Rate, burst)
			require.Len(t, want.of, int(p.Clients[q]), "RATE %s BURST %d", p.Rate, burst)
		}
		require.Zero(t, p.Denied[len(p.Denied)-1])
		if i > 0 {
			for q := range p.Bursts {
				require.LessOrEqual(t, p.Bursts[q], r.Curve.Points[i-1].Bursts[q], "a faster rate never needs more")
			}
		}
	}
	require.NotEmpty(t, r.Suggestions)
	for _, s := range r.Suggestions {
		want := naively(t, all, s.Result.Words, false, 1)
		assert.Equal(t, want.denied, s.Result.Denied, s.Result.Words)
	}
	require.Len(t, r.Kinds, 4)
	for _, k := range r.Kinds {
		assert.Equal(t, naively(t, all, k.Words, false, 1).denied, k.Denied, k.Words)
	}
}

// Peaks are by the clock: of each client its fullest second, minute and hour.
func TestPeaksAreThoseOfTheClock(t *testing.T) {
	t.Parallel()
	all := traffic(t, autumn, 30, 4000)
	o := usual(t)
	o.Files = []string{access(t, "access.log", linesOf(all)...)}
	r := reported(t, o)
	for i, period := range []time.Duration{time.Second, time.Minute, time.Hour} {
		counts := map[string]map[time.Time]int64{}
		for _, m := range all {
			if counts[m.client] == nil {
				counts[m.client] = map[time.Time]int64{}
			}
			counts[m.client][m.at.Truncate(period)]++
		}
		var peaks []int64
		for _, of := range counts {
			most := int64(0)
			for _, n := range of {
				most = max(most, n)
			}
			peaks = append(peaks, most)
		}
		slices.Sort(peaks)
		p := r.Peaks[i]
		assert.Equal(t, peaks[(len(peaks)-1)/2], p.P50, p.Period)
		assert.Equal(t, peaks[len(peaks)-1], p.Max, p.Period)
		assert.Equal(t, p.Max, counts[p.Client][p.At.Truncate(period)], "it was that client, and then")
	}
	assert.Equal(t, int64(len(all)), sum(r.Time.Requests))
	assert.Equal(t, all[0].at.UTC(), r.From)
	assert.Equal(t, all[len(all)-1].at.UTC(), r.To)
	assert.Equal(t, int64(10e6/10), r.ResolutionNs, "milliseconds")
}

// However the log is cut into files, and however lines are out of order within the bound, the report is the same.
func TestFilesAndTheOrderOfLinesMakeNoDifference(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	all := traffic(t, autumn, 40, 3000)
	base := usual(t)
	base.Sets = []Set{{"a", "RATE 1/s BURST 3 WINDOW 10/h"}}
	run := func(files ...string) *Report {
		o := base
		o.Files = files
		r := reported(t, o)
		r.Files = nil
		return r
	}
	lines := linesOf(all)
	want := run(access(t, "whole", lines...))
	require.Positive(t, want.Sets[0].Denied)
	assert.Equal(t, want, run(access(t, "second", lines[1200:]...), access(t, "first", lines[:1200]...)), "rotated files, the newer first")

	several := func(chapters int64, cut ...[]string) {
		t.Helper()
		got := run(access(t, "several", slices.Concat(cut...)...))
		assert.Equal(t, chapters, got.Lines.Chapters)
		got.Lines.Chapters = 0
		assert.Equal(t, want, got)
	}
	several(1, lines[1200:], lines[:1200])
	several(2, lines[2000:], lines[1000:2000], lines[:1000])
	several(1, lines[20:], lines[:20])
	several(1, lines[1000:2000], lines[:1000], lines[2000:])

	var hosts [3][]string
	for _, line := range lines {
		i := random.IntN(3)
		hosts[i] = append(hosts[i], line)
	}
	assert.Equal(t, want, run(access(t, "a", hosts[0]...), access(t, "b", hosts[1]...), access(t, "c", hosts[2]...)), "three hosts at the same time")
	several(2, hosts[0], hosts[1], hosts[2])

	type late struct {
		made
		ends time.Time
	}
	var order []late
	for i, m := range all {
		if i > 0 && m.at.Equal(all[i-1].at) {
			m.at = m.at.Add(time.Millisecond) // so that there is one order
		}
		all[i] = m
		order = append(order, late{m, m.at.Add(time.Duration(random.Int64N(int64(base.Late))))})
	}
	want = run(access(t, "whole", linesOf(all)...))
	slices.SortStableFunc(order, func(a, b late) int { return a.ends.Compare(b.ends) })
	lines = nil
	for _, l := range order {
		lines = append(lines, l.line())
	}
	assert.Equal(t, want, run(access(t, "late", lines...)), "written when requests end")
}

func TestLinesThatAreNoRequestsAreCounted(t *testing.T) {
	t.Parallel()
	o := usual(t)
	var err error
	o.Where, err = fields.ParseWhere([]string{"method = GET"})
	require.NoError(t, err)
	o.Key, err = fields.ParseKey("{tenant}", nil)
	require.NoError(t, err)
	o.Cost, err = fields.ParseCost("n")
	require.NoError(t, err)
	lines := []string{
		`{"time":"2026-10-24T21:00:00Z","method":"GET","tenant":"a","n":1}`,
		``,
		`{"time":"2026-10-24T21:10:00Z","method":"GET","tenant":"a","n":1}`,
		`{"time":"2026-10-24T21:20:00Z","method":"GET","tenant":"a","n":1}`,
		`{"time":"2026-10-24T21:05:00Z","method":"GET","tenant":"a","n":1}`, // late by a quarter of an hour
		`{"time":"2026-10-24T21:21:00Z","method":"GET","tenant":"a","n":1}`, // so that no chapter begins
		`{"time":"2026-10-24T21:20:00Z","method":"POST","tenant":"a","n":1}`,
		`{"time":"2026-10-24T21:20:00Z","method":"GET","tenant":"-","n":1}`,
		`{"time":"2026-10-24T21:20:00Z","method":"GET","tenant":"a","n":"x"}`,
		`{"time":"2026-10-24T21:2`,
		`{"time":"soon"}`, `{"time":"later"}`,
		`{"a":1}`,
	}
	path := access(t, "a.log", slices.Insert(lines, 3, slices.Repeat([]string{lines[3]}, mostFuture)...)...)
	o.Files = []string{path}
	r := reported(t, o)
	assert.Equal(t, Lines{All: 12 + mostFuture, Requests: 4 + mostFuture, Filtered: 1, Keyless: 1, NoCost: 1, Late: 1, Unreadable: []Problem{
		{Why: "not JSON", Count: 1, File: path, Line: 10 + mostFuture, Text: `{"time":"2026-10-24T21:2`},
		{Why: "a time that cannot be read", Count: 2, File: path, Line: 11 + mostFuture, Text: `{"time":"soon"}`},
		{Why: "no time", Count: 1, File: path, Line: 13 + mostFuture, Text: `{"a":1}`},
	}}, r.Lines)
	o.ShowKeys = false
	r = reported(t, o)
	assert.Empty(t, r.Lines.Unreadable[0].Text, "a line has keys in it")
}

// Reports show keys only if they are told to. Otherwise a salt makes the same names in each run, and none makes others.
func TestKeysAreHashedUnlessTheyAreToBeShown(t *testing.T) {
	t.Parallel()
	path := access(t, "a.log", `{"time":1,"remote_addr":"203.0.113.9"}`)
	names := func(show bool, salt string) (names []string) {
		for range 2 {
			o := usual(t)
			o.Files, o.ShowKeys, o.Salt = []string{path}, show, []byte(salt)
			r := reported(t, o)
			require.Equal(t, r.Top[0].Name, r.Peaks[0].Client)
			names = append(names, r.Top[0].Name)
		}
		return names
	}
	assert.Equal(t, []string{"203.0.113.9", "203.0.113.9"}, names(true, ""))
	salted := names(false, "salt")
	assert.Equal(t, salted[0], salted[1])
	assert.Regexp(t, "^[0-9a-f]{12}$", salted[0])
	assert.NotEqual(t, salted, names(false, "other salt"))
}

// Of more clients than there may be, the report says what it estimates. Clients with many requests are all there, as
// they are.
func TestAReportOfASampleSaysSo(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	var all []made
	at := time.Date(2026, 10, 24, 21, 0, 0, 0, time.UTC)
	const rareClients, often = 12_000, 20
	for n := range 3 * rareClients {
		at = at.Add(time.Duration(random.IntN(30)) * time.Millisecond)
		client := random.IntN(rareClients)
		all = append(all, made{at, fmt.Sprintf("10.1.%d.%d", client>>8, client&255), 1})
		if n%4 == 0 {
			all = append(all, made{at, fmt.Sprintf("10.2.0.%d", n/4%often), 1})
		}
	}
	o := usual(t)
	o.Files, o.Top, o.Salt = []string{access(t, "a.log", linesOf(all)...)}, 100, []byte("salt")
	o.Sets = []Set{{"a", "RATE 1/m BURST 2"}}
	whole := reported(t, o)
	require.Nil(t, whole.Sampling)
	o.MaxClients = 1000
	r := reported(t, o)
	require.NotNil(t, r.Sampling)
	assert.GreaterOrEqual(t, r.Sampling.OneIn, int64(16))
	assert.Positive(t, r.Sampling.LeftOut)
	assert.Equal(t, whole.Lines, r.Lines, "lines are counted, not estimated")
	assert.InEpsilon(t, whole.Clients, r.Clients, 0.25)
	assert.InEpsilon(t, whole.Requests, r.Requests, 0.25)
	assert.InEpsilon(t, whole.Sets[0].Denied, r.Sets[0].Denied, 0.25)
	names := map[string]bool{}
	for _, c := range r.Top {
		names[c.Name] = true
	}
	for i := range often {
		assert.True(t, names[fmt.Sprintf("10.2.0.%d", i)], "a client with many requests")
	}
}

// A context that ends has the run report what was read.
func TestWhatWasReadIsReportedWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	all := traffic(t, autumn, 40, 60_000)
	o := usual(t)
	o.Files = []string{access(t, "a.log", linesOf(all)...)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = func(read, total, lines int64) {
		assert.LessOrEqual(t, read, total)
		cancel()
	}
	r, err := Run(ctx, o)
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.Less(t, r.Requests, int64(len(all)))
	assert.GreaterOrEqual(t, r.Requests, int64(tellEvery-1))
	assert.NotEmpty(t, r.Curve.Points)
}

func TestALogWithoutRequestsIsReportedAsSuch(t *testing.T) {
	t.Parallel()
	o := usual(t)
	empty := access(t, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	o.Files = []string{empty}
	r := reported(t, o)
	assert.Zero(t, r.Lines.All)
	o.Log.Format = logs.JSON
	o.Files = []string{access(t, "other", "nothing", "of use")}
	r = reported(t, o)
	assert.Equal(t, int64(2), r.Lines.Unreadable[0].Count)
	for _, files := range [][]string{nil, {"/nowhere/at/all"}} {
		o.Files = files
		_, err := Run(t.Context(), o)
		assert.Error(t, err)
	}
}

// A compressed log that was cut off is reported as far as it goes.
func TestADamagedFileIsReportedAsFarAsItGoes(t *testing.T) {
	t.Parallel()
	o := usual(t)
	path := access(t, "a.log.gz", string(gzipped(t, strings.Join(linesOf(traffic(t, autumn, 400, 30_000)), "\n")+"\n")))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)/2], 0o644))
	o.Files = []string{path}
	r := reported(t, o)
	require.Len(t, r.Lines.Damaged, 1)
	assert.Equal(t, path, r.Lines.Damaged[0].File)
	assert.Greater(t, r.Requests, int64(1000))
}

// Of one client there may be more units than a slow rate has nanoseconds for.
func TestHugeCostsAreNoOverflow(t *testing.T) {
	t.Parallel()
	o := usual(t)
	var err error
	o.Cost, err = fields.ParseCost("cost")
	require.NoError(t, err)
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf(`{"time":%d,"remote_addr":"10.0.0.1","cost":%d}`, 1_700_000_000+i, int64(1<<31)))
	}
	o.Files = []string{access(t, "a.log", lines...)}
	o.Sets = []Set{{"a", "RATE 1/s"}, {"b", "WINDOW 5000000000/s"}}
	r := reported(t, o)
	assert.Equal(t, int64(100), r.Sets[0].Denied)
	assert.Equal(t, int64(100), r.Sets[0].Waits.Never)
	assert.Zero(t, r.Sets[1].Denied)
	for _, p := range r.Curve.Points {
		for _, burst := range p.Bursts {
			assert.GreaterOrEqual(t, burst, int64(1<<31))
		}
	}
}

// A year of a log has few parts, and the last instant lies in the last of them.
func TestTimeIsDividedIntoAFewParts(t *testing.T) {
	t.Parallel()
	for _, length := range []time.Duration{0, time.Second, time.Minute, 3 * time.Hour, 24 * time.Hour, 365 * 24 * time.Hour, 200 * 365 * 24 * time.Hour} {
		first := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC).UnixNano()
		s := newSeries(first, first+int64(length))
		assert.LessOrEqual(t, s.n, mostParts+30)
		assert.Equal(t, s.n-1, s.index(first+int64(length)))
		assert.Zero(t, s.index(first))
	}
}
