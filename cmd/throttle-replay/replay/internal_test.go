package replay

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// requests draws what a client does: instants in their order, with gaps of all sizes, and costs.
func requests(random *rand.Rand, n int) (times, costs []int64) {
	at := int64(1_700_000_000_000_000_000) + random.Int64N(1e12)
	for range n {
		switch random.IntN(6) {
		case 0: // at the same instant
		case 1:
			at += 1e9 * random.Int64N(100)
		case 2:
			at += 1e6 * random.Int64N(3000)
		case 3:
			at += 1e3 * random.Int64N(1e6)
		default:
			at += random.Int64N(3e9)
		}
		times, costs = append(times, at), append(costs, random.Int64N(5))
	}
	return times, costs
}

// What is kept of requests is read back as it was, from memory and from a file.
func TestRequestsAreReadBackAsTheyWere(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	for _, bytes := range []int{1, 1 << 30} {
		for _, hasCosts := range []bool{false, true} {
			dir := t.TempDir()
			all := &clients{most: 100, hasCosts: hasCosts, index: map[uint64]uint32{}, spool: spool{most: bytes, dir: dir}}
			const n = 7
			var times, costs [n][]int64
			for i := range n {
				times[i], costs[i] = requests(random, []int{1, 63, 64, 65, 4096, 4160, 10_000}[i])
				require.Equal(t, uint32(i), all.add(uint64(i), uint64(i), nil))
			}
			for at := range 10_000 { // taking turns
				for i := range n {
					if at < len(times[i]) {
						require.NoError(t, all.note(uint32(i), times[i][at], costs[i][at]))
					}
				}
			}
			require.NoError(t, all.spool.finish())
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, files, map[int]int{1: 1, 1 << 30: 0}[bytes])
			h := all.history()
			for i := range n {
				var haveTimes, haveCosts []int64
				for range 2 {
					haveTimes, haveCosts = nil, nil
					require.NoError(t, h.each(all.at(uint32(i)), func(times, costs []int64) {
						haveTimes, haveCosts = append(haveTimes, times...), append(haveCosts, costs...)
					}))
				}
				assert.Equal(t, times[i], haveTimes)
				if hasCosts {
					assert.Equal(t, costs[i], haveCosts)
				} else {
					assert.Empty(t, haveCosts)
				}
			}
			all.spool.close()
			files, err = os.ReadDir(dir)
			require.NoError(t, err)
			assert.Empty(t, files, "the file is gone")
		}
	}
}

// Requests of several chapters, each in order by itself, are read back in the order of all, with what they cost.
func TestRequestsOfSeveralChaptersAreReadBackInOrder(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	type request struct{ ns, cost int64 }
	for range size.Of(50, 500) {
		hasCosts := random.IntN(2) == 0
		all := &clients{most: 100, hasCosts: hasCosts, index: map[uint64]uint32{}, spool: spool{most: []int{1, 1 << 30}[random.IntN(2)], dir: t.TempDir()}}
		i := all.add(1, 1, nil)
		var want, have []request
		for range 1 + random.IntN(12) {
			times, costs := requests(random, random.IntN([]int{3, 70, 5000}[random.IntN(3)]))
			for j, ns := range times {
				require.NoError(t, all.note(i, ns, costs[j]))
				want = append(want, request{ns, costs[j]})
			}
		}
		slices.SortStableFunc(want, func(a, b request) int { return cmp.Compare(a.ns, b.ns) })
		require.NoError(t, all.spool.finish())
		require.NoError(t, all.history().each(all.at(i), func(times, costs []int64) {
			require.LessOrEqual(t, len(times), historyEvents)
			for j, ns := range times {
				have = append(have, request{ns, want[len(have)].cost})
				if hasCosts {
					have[len(have)-1].cost = costs[j]
				}
			}
		}))
		all.spool.close()
		require.Equal(t, want, have)
	}
}

// Requests come out by their times, those of one instant in the order of the log, and those that are too late do not.
func TestRequestsComeOutByTheirTimes(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	for range size.Of(30, 200) {
		const late = 50
		o := newOrder(late, 1<<20)
		var want, have []event
		newest, handed := int64(0), int64(math.MinInt64)
		for i := range 3000 {
			newest += random.Int64N(4)
			e := event{ns: newest - random.Int64N(60), cost: int64(i)}
			isTaken := o.put(e)
			require.Equal(t, e.ns >= handed, isTaken)
			if newest-e.ns <= late {
				require.True(t, isTaken, "it is late by no more than the bound")
			}
			if isTaken {
				want = append(want, e)
			}
			for next := o.take(false); next != nil; next = o.take(false) {
				have, handed = append(have, *next), next.ns
				have[len(have)-1].seq = 0
			}
		}
		for next := o.take(true); next != nil; next = o.take(true) {
			have = append(have, *next)
			have[len(have)-1].seq = 0
		}
		slices.SortStableFunc(want, func(a, b event) int { return cmp.Compare(a.ns, b.ns) })
		require.Equal(t, want, have)
		require.False(t, o.shortened)
	}
	o := newOrder(1000, 10)
	for i := range int64(100) {
		o.put(event{ns: i})
		o.take(false)
	}
	assert.True(t, o.shortened, "no more than ten are held back")
}

// A quantile is what the sorted numbers have at its place, and no wait is called shorter than it is.
func TestQuantilesAreThoseOfTheSortedNumbers(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	for range 100 {
		var c, other counts
		var w waits
		var all []int64
		for range 1 + random.IntN(2000) {
			n := int64(math.Exp(random.Float64() * 30))
			all = append(all, n)
			if random.IntN(2) == 0 {
				c.add(n, 1)
			} else {
				other.add(n, 1)
			}
			w.add(n, 1)
		}
		c.merge(&other)
		slices.Sort(all)
		for _, q := range []share{{1, 1000}, {50, 100}, {90, 100}, {99, 100}, {999, 1000}, {1, 1}} {
			at := (int64(len(all))*q.part+q.of-1)/q.of - 1
			want := all[at]
			require.Equal(t, want, c.quantile(q))
			require.Equal(t, int64(len(all)-1-lastIndex(all, want)), c.above(want))
			have := w.quantile(q)
			require.GreaterOrEqual(t, have, want)
			require.LessOrEqual(t, float64(have), float64(want)*1.01)
		}
		require.Equal(t, all[len(all)-1], w.quantile(share{1, 1}), "the longest is exact")
	}
	for ms := range int64(256) {
		assert.Equal(t, ms, longestOf(classOf(ms)))
	}
	assert.Equal(t, int64(math.MaxInt64), longestOf(classOf(math.MaxInt64)))
}

func lastIndex(all []int64, n int64) int {
	i, _ := slices.BinarySearch(all, n+1)
	return i - 1
}

// The burst that the curve says is the smallest with which the limit itself denies nothing: each smaller one denies
// something.
func TestTheCurveIsTheSmallestBurstThatDeniesNothing(t *testing.T) {
	t.Parallel()
	require.True(t, slices.IsSortedFunc(rates, func(a, b rate) int { return cmp.Compare(b.emissionNs, a.emissionNs) }))
	random := chance.New(t)
	for range size.Of(40, 300) {
		times, costs := requests(random, 1+random.IntN(80))
		if random.IntN(2) == 0 {
			costs = nil
		}
		before := int64(math.MaxInt64)
		for _, r := range []rate{rates[0], rates[random.IntN(len(rates))], rates[len(rates)/2], rates[len(rates)-1]} {
			var b backlog
			half := random.IntN(len(times) + 1)
			b.feed(times[:half], upTo(costs, half), r.emissionNs)
			b.feed(times[half:], from(costs, half), r.emissionNs)
			need := b.need(r.emissionNs)
			require.Zero(t, deniedBy(t, r, need, times, costs), "%s BURST %d", r, need)
			if need > 1 {
				require.Positive(t, deniedBy(t, r, need-1, times, costs), "%s BURST %d", r, need-1)
			}
			for _, burst := range []int64{1, max(need/2, 1), need} {
				limit, ok := r.limit(burst)
				require.True(t, ok)
				one := bucket{limit: limit}
				one.feed(times, costs)
				require.Equal(t, deniedBy(t, r, burst, times, costs), one.denied)
				require.Equal(t, one.denied > 0, b.highest > burst*r.emissionNs, "who is denied anything needs more")
			}
			before = min(before, need)
		}
	}
}

func upTo(all []int64, n int) []int64 { return all[:min(n, len(all))] }
func from(all []int64, n int) []int64 { return all[min(n, len(all)):] }

// deniedBy is how many requests the module's command denies.
func deniedBy(t testing.TB, r rate, burst int64, times, costs []int64) (denied int64) {
	t.Helper()
	var runner embedded.Runner
	var key embedded.Key
	for i, ns := range times {
		words := "CL.LIMIT k " + r.words(burst) + " COMPACT"
		if len(costs) > 0 {
			words += " COST " + strconv.FormatInt(costs[i], 10)
		}
		call := embedded.Call{NowNs: ns}
		for _, word := range strings.Fields(words) {
			call.Words = append(call.Words, []byte(word))
		}
		c := runner.Run(command.Limit, &call, &key)
		require.Equal(t, command.ReplyIntegers, c.Reply, string(c.Error))
		denied += c.Integers[0]
	}
	return denied
}

func TestMistakesInLimitsAreTheModules(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"":                     "there must be a limit after the key",
		"RATE":                 "strict: syntax error near 'RATE'",
		"RATE 5":               "strict: ",
		"RATE 5/s BURST":       "strict: syntax error near 'BURST'",
		"RATE 5/s COST 2":      "strict: COST: --cost says",
		"RATE 5/s COMPACT":     "strict: COMPACT: ",
		"RATE 5/s each":        "strict: each: ",
		"SPEED 5/s":            "strict: syntax error near 'SPEED'",
		"FIXED 5/d TZ Nowhere": "strict: ",
	} {
		_, err := Set{"strict", words}.compile(false)
		assert.ErrorContains(t, err, want, words)
	}
}

// What belongs to a limit is what the parser takes for it: options of the call do not.
func TestTheWordsOfALimitAreThoseThatTheParserTakes(t *testing.T) {
	t.Parallel()
	for words, want := range map[string][]string{
		"rate 5/s BURST 9 SPARE 3 BAN 1h AFTER 10/1h":          {"RATE 5/s BURST 9 SPARE 3"},
		"RATE 5/s BAN 2m AFTER 3/10m WINDOW 9/m TAKE 2 SHADOW": {"RATE 5/s", "WINDOW 9/m TAKE 2 SHADOW"},
		"FIXED 9/d TZ Europe/Berlin STRICT RATE 1/s":           {"FIXED 9/d TZ Europe/Berlin", "RATE 1/s"},
	} {
		c, err := Set{"a", words}.compile(false)
		require.NoError(t, err, words)
		assert.Equal(t, want, c.limits, words)
	}
}

// The knee is the pair that lets the least through in a minute.
func TestTheKneeLetsTheLeastThroughInAMinute(t *testing.T) {
	t.Parallel()
	var points []point
	for _, p := range []struct {
		rate  string
		burst int64
	}{{"1/m", 500}, {"10/m", 100}, {"1/s", 60}, {"2/s", 55}, {"10/s", 5}} {
		at := slices.IndexFunc(rates, func(r rate) bool { return r.String() == p.rate })
		require.GreaterOrEqual(t, at, 0, p.rate)
		points = append(points, point{rate: rates[at], bursts: []int64{p.burst}})
	}
	assert.Equal(t, "10/m", points[knee(points, 0)].String())
}

// Clients beyond the bound are sampled: those with many requests are all there, of the others so many that their
// weights add up.
func TestRareClientsAreSampled(t *testing.T) {
	t.Parallel()
	const many, rareOnes = 50, 200_000
	all := &clients{most: 2000, seed: newClients(&Options{MaxClients: 2000}).seed, index: map[uint64]uint32{}, salt: []byte("salt")}
	noted := int64(0)
	note := func(key string, at int64) {
		i, thinned := all.find([]byte(key))
		if thinned {
			require.LessOrEqual(t, len(all.index), 1501)
		}
		if i != nobody {
			require.NoError(t, all.note(i, at, 1))
			noted++
		}
	}
	for n := range rareOnes {
		for k := range 1 + n%3 {
			note("rare"+strconv.Itoa(n), int64(n*10+k))
		}
		if n%100 == 0 {
			for m := range many {
				note("often"+strconv.Itoa(m), int64(n*10+3))
			}
		}
	}
	require.LessOrEqual(t, len(all.index), 2000)
	require.Greater(t, all.level, uint(5))
	often, weights, lines := 0, int64(0), int64(0)
	for i := range all.count {
		c := all.at(i)
		if c.lines <= 0 {
			continue
		}
		w := all.weight(c)
		weights += w
		lines += w * c.lines
		if c.lines >= 1000 {
			often++
			assert.Equal(t, int64(1), w)
			assert.GreaterOrEqual(t, c.lines, int64(rareOnes/100-rare-1), "little of it was left out")
		}
	}
	assert.Equal(t, many, often)
	assert.InEpsilon(t, rareOnes, weights, 0.15)
	assert.InEpsilon(t, rareOnes*2+many*rareOnes/100, lines, 0.15)
	assert.Equal(t, int64(rareOnes*2-1+many*rareOnes/100), noted+all.leftOut-droppedOf(all, noted), "every request is counted once")
}

// droppedOf is how many requests were noted of clients that were dropped later: these are among those that were left
// out.
func droppedOf(all *clients, noted int64) int64 {
	kept := int64(0)
	for i := range all.count {
		if c := all.at(i); c.lines > 0 {
			kept += c.lines
		}
	}
	return noted - kept
}

// access writes a log of some clients, by the times of their requests.
func access(t testing.TB, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	return path
}

func usual(t testing.TB) Options {
	t.Helper()
	key, err := fields.ParseKey("{remote_addr/64}", nil)
	require.NoError(t, err)
	return Options{Key: key, Late: 60e9, MaxClients: 1_000_000, Top: 10, ShowKeys: true}
}

// reported is the report of a run that succeeds.
func reported(t testing.TB, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	return r
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// What a gateway denies is counted by time, however long the log is.
func TestDenialsOfAGatewayAreCountedByTime(t *testing.T) {
	t.Parallel()
	random := chance.New(t)
	for _, span := range []int64{1e9, 7000e9, 30_000e9, 20 * dayNs, 2000 * dayNs} {
		first := int64(1_790_000_000_123_456_789)
		s := newSeries(first, first+span)
		when, want := newInstants(), make([]int64, s.n)
		for range size.Of(60_000, 200_000) {
			ns := first + random.Int64N(span+1)
			when.add(ns)
			want[s.index(ns)]++
		}
		require.LessOrEqual(t, len(when.counts), 60_000)
		require.Equal(t, want, when.spread(&s), "%d ns", span)
	}
}
