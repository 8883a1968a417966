package migrating

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// The same random calls go to redis-cell and to this module, on the same state, at the same instant of a clock that
// the test sets. Every reply has to be what is known of the module that gave it, to the nanosecond, and every
// difference has to be of a known class.
//
// MIGRATING_CALLS is how many calls to make.
func TestEveryDifferenceInTheRepliesIsKnown(t *testing.T) {
	cell := begin(t)
	calls := chance.Calls(t, "MIGRATING_CALLS", 100_000)
	r := newComparison(t, cell)
	for r.made < calls {
		r.season()
	}
	t.Logf("%d calls on %s, of these %d let through and %d limited by both, %d by one; on the same state the times stored after a call differ by at most %d ns for each unit",
		r.made, r.program, r.letThrough, r.limited, r.undecided, r.drift)
	t.Logf("\n%s", r.table())
	require.Greater(t, r.limited, calls/10, "too few calls were limited")
	require.Greater(t, r.letThrough, calls/5, "too few calls were let through")
	for _, class := range allClasses() {
		assert.NotZero(t, r.counts[class], "no call shows: %s", class)
	}
}

// Limits of up to 100 a second that do not change, at instants by chance, each module on a state of its own: what most
// callers have. Hardly a reply differs.
func TestUsualLimitsDecideAlike(t *testing.T) {
	cell := begin(t)
	calls := chance.Calls(t, "MIGRATING_CALLS", 20_000)
	r := newComparison(t, cell)
	r.usual = true
	all, equal := rules{}, 0
	for _, rung := range ladder {
		rung.rule(&all)
	}
	for r.made < calls {
		r.both("FLUSHALL")
		limit, theirState, ourState := r.someLimit(), state{}, state{}
		for range 100 {
			r.advance(limit, ourState)
			words := append(slices.Clone(limit), r.quantity(limit))
			n, _ := parse(words)
			theirs, stored := r.call(r.cell, "key", words)
			our, ourStored := r.call(r.ours, "key", words)
			require.Equal(t, all.decide(n, theirState, r.now), theirs, "redis-cell on %q at %d on %+v", words, r.now, theirState)
			require.Equal(t, rules{}.decide(n, ourState, r.now), our, "this module on %q at %d on %+v", words, r.now, ourState)
			theirState, ourState = r.kept(theirState, theirs, stored), r.kept(ourState, our, ourStored)
			r.made++
			if theirs == our {
				equal++
			}
			r.tally(our, theirs)
		}
	}
	t.Logf("%d calls on %s: %d replies are the same; %d calls were let through and %d limited by both, %d by one",
		r.made, r.program, equal, r.letThrough, r.limited, r.undecided)
	require.Greater(t, r.limited, calls/10, "too few calls were limited")
	require.Greater(t, r.letThrough, calls/5, "too few calls were let through")
	assert.Less(t, r.undecided, calls/1000)
	assert.Greater(t, equal, calls*98/100)
}

// tally counts which of the two let a call through.
func (r *comparison) tally(our, theirs answer) {
	switch our.limited + theirs.limited {
	case 0:
		r.letThrough++
	case 1:
		r.undecided++
	case 2:
		r.limited++
	}
}

// kept is the state that a call leaves, of which redis-cell drops the last millisecond.
func (r *comparison) kept(before state, a answer, v resp.Value) state {
	next := before
	if next.tat, next.exists = tatOf(r.t, v); next.exists && a.limited == 0 {
		next.expiresMs = r.now/int64(time.Millisecond) + max(int64(next.tat)-r.now, 0)/int64(time.Millisecond)
	}
	return next
}

// Classes of differences that are no rungs of the ladder.
const (
	same        = "the same reply"
	bothRefuse  = "both refuse, in other words"
	negative    = "a negative number: redis-cell takes it, this module refuses it"
	plusOrZeros = "+1 or 01: redis-cell takes it, this module refuses it"
	tooLong     = "a bucket that takes more than 292 years to refill: redis-cell wraps around, this module refuses it"
	withUnit    = "period with a unit or a fraction: redis-cell refuses it"
	cellRefuses = "numbers wrap around until redis-cell refuses"
)

func allClasses() []string {
	classes := []string{same, bothRefuse, negative, plusOrZeros, tooLong, withUnit, cellRefuses}
	for _, rung := range ladder {
		classes = append(classes, rung.class)
	}
	return classes
}

// comparison is two servers under one clock.
type comparison struct {
	*rand.Rand
	t          *testing.T
	clock      *clock.Clock
	cell, ours *resp.Conn
	program    server.Program
	// tick is the finest difference that both servers' clocks show to a command, in ns.
	tick, now int64
	keys      int
	// usual leaves out what is rare: limits that change, odd arguments, instants at which something changes.
	usual bool

	made, letThrough, limited, undecided int
	drift                                int64
	// counts are the calls of each class, decisions those that only one of the two limited, and examples a few of them.
	counts, decisions map[string]int
	examples          map[string][]string
}

func newComparison(t *testing.T, cell server.Option) *comparison {
	t.Helper()
	r := &comparison{Rand: chance.New(t), t: t, tick: 1,
		counts: map[string]int{}, decisions: map[string]int{}, examples: map[string][]string{}}
	r.now = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	r.clock = clock.New(t, r.now)
	theirs, our := startUnder(t, r.clock, r.now, cell), r.clock.Start()
	r.program = our.Program
	// Where the server tells a module its clock, it is in microseconds. redis-cell asks the kernel always.
	if r.program.AtLeast(7, 2) {
		r.tick = int64(time.Microsecond)
	}
	r.cell, r.ours = theirs.Raw(), our.Raw()
	r.both("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	return r
}

func (r *comparison) both(words ...string) {
	r.t.Helper()
	for _, c := range []*resp.Conn{r.cell, r.ours} {
		v, err := c.Do(words...)
		require.NoError(r.t, err)
		require.False(r.t, v.IsError(), "%q answers %v", words, v)
	}
}

// season is some keys, each with a limit of its own that most calls on it have.
func (r *comparison) season() {
	r.both("FLUSHALL")
	for range 20 {
		r.keys++
		key := fmt.Sprint("key:", r.keys)
		limit := r.someLimit()
		s := state{}
		for range 5 + r.IntN(25) {
			r.advance(limit, s)
			words := slices.Clone(limit)
			switch odd := r.IntN(12); {
			case r.usual:
			case odd == 0:
				words = r.someLimit()
			case odd == 1:
				words = r.oddWords()
			}
			if len(words) == 3 && r.IntN(3) > 0 {
				words = append(words, r.quantity(words))
			}
			s = r.compare(key, words, s)
		}
	}
}

// someLimit is max_burst, count and period.
func (r *comparison) someLimit() []string {
	burst, count, period := r.Int64N(30), 1+r.Int64N(60), 1+r.Int64N(120)
	switch kind := r.IntN(8); {
	case r.usual:
		count, period = 1+r.Int64N(100), []int64{1, 10, 60, 3600}[kind%4]
	case kind == 0: // fast
		burst, count, period = r.upTo(1<<20), r.upTo(1e9), 1
	case kind == 1: // about a thousand a second
		burst, count, period = r.Int64N(5), 900+r.Int64N(400), 1
	case kind == 2: // long
		burst, count, period = r.Int64N(10), r.upTo(100), r.upTo(1e9)
	}
	return []string{fmt.Sprint(burst), fmt.Sprint(count), fmt.Sprint(period)}
}

// upTo is a number from 1 to n of any length.
func (r *comparison) upTo(n int64) int64 {
	return max(1, int64(math.Pow(float64(n), r.Float64())))
}

// oddWords are arguments with something about them that is rare, or wrong.
func (r *comparison) oddWords() []string {
	words := append(r.someLimit(), fmt.Sprint(r.Int64N(5)))
	odd := []string{"0", "-1", "-7", "+5", "007", "-0", "9223372036854775807", "9223372036854775806", "-9223372036854775808", "9223372036854775808",
		"4611686018427387904", "9007199254740993", "9223372036", "1000000000", "1000000001", "10s", "1m", "500ms", "0.5", "1.5h", "", " 1", "1e3", "0x10", "many"}
	switch r.IntN(8) {
	case 0:
		return words[:r.IntN(3)]
	case 1:
		return append(words, "1")
	case 2:
		words[r.IntN(4)] = odd[r.IntN(len(odd))]
	}
	words[r.IntN(4)] = odd[r.IntN(len(odd))]
	return words
}

func (r *comparison) quantity(limit []string) string {
	burst, err := strconv.ParseInt(limit[0], 10, 64)
	switch {
	case err != nil || r.IntN(3) == 0:
		return "1"
	case r.IntN(6) == 0:
		return "0"
	case !r.usual && r.IntN(40) == 0:
		return fmt.Sprint(r.upTo(math.MaxInt64))
	}
	return fmt.Sprint(1 + r.Int64N(min(max(burst, 0), 1<<40)+2))
}

// advance moves the clock: not at all, by chance, or to about the instant at which something changes.
func (r *comparison) advance(limit []string, s state) {
	n, _ := parse(limit)
	interval, _ := emissionInterval(n, false)
	step := int64(0)
	switch kind := r.IntN(5); {
	case kind == 0:
	case r.usual:
		step = r.upTo(interval * 4)
	case kind == 1:
		step = r.upTo(int64(time.Millisecond))
	case kind == 2:
		step = r.upTo(min(interval*4, math.MaxInt64/8))
	case kind == 3:
		step = r.upTo(int64(time.Hour))
	case kind == 4:
		if ahead := int64(s.tat) - r.now; s.exists && ahead > 0 {
			edge := []int64{0, 1, -1, 999_999, -999_999, 1_000_000}[r.IntN(6)]
			step = ahead - min(interval*r.Int64N(n.maxBurst%1000+2), ahead) + edge
		}
	}
	step = min(max(step, 0), int64(400*24*time.Hour)) / r.tick * r.tick
	if r.now > time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() {
		return // nobody's instants leave their range
	}
	r.now += step
	r.clock.Set(r.now)
}

// compare makes one call on both servers, whose state is s, and returns the state it leaves.
func (r *comparison) compare(key string, words []string, s state) state {
	r.t.Helper()
	theirs, stored := r.call(r.cell, key, words)
	our, ourStored := r.call(r.ours, key, words)
	about := fmt.Sprintf("CL.THROTTLE %s %q at %d on %+v: redis-cell %v, this module %v", key, words, r.now, s, theirs, our)
	r.made++

	n, parses := parse(words)
	reason := refusal(words)
	want := answer{refused: true}
	all := rules{}
	for _, rung := range ladder {
		rung.rule(&all)
	}
	if parses {
		want = all.decide(n, s, r.now)
	}
	require.Equal(r.t, want, theirs, "not what is known of redis-cell: %s", about)
	switch {
	case reason == withUnit: // what it is otherwise, tests of the command say
	case reason != "":
		require.True(r.t, our.refused, "%s, but is not refused: %s", reason, about)
	default:
		require.Equal(r.t, rules{}.decide(n, s, r.now), our, "not what is known of this module: %s", about)
	}

	split := !our.refused && !theirs.refused && our.limited != theirs.limited
	for _, class := range r.classify(n, s, reason, theirs, our) {
		r.counts[class]++
		if split {
			r.decisions[class]++
		}
		if len(r.examples[class]) < 3 {
			r.examples[class] = append(r.examples[class], about)
		}
	}
	if !our.refused && !theirs.refused && reason == "" {
		r.tally(our, theirs)
	}
	return r.agree(key, s, stored, ourStored, theirs, our, n)
}

// call returns the reply and what the key holds afterwards.
func (r *comparison) call(c *resp.Conn, key string, words []string) (answer, resp.Value) {
	r.t.Helper()
	replies, err := c.Pipeline(append([]string{"CL.THROTTLE", key}, words...), []string{"GET", key})
	require.NoError(r.t, err)
	if replies[0].IsError() {
		if c == r.cell {
			require.Regexp(r.t, "^Cell error: Store error: ", replies[0].Text)
		} else {
			require.Regexp(r.t, "^ERR ", replies[0].Text)
		}
		return answer{refused: true}, replies[1]
	}
	ints, err := replies[0].Ints()
	require.NoError(r.t, err)
	require.Len(r.t, ints, 5)
	return answer{ints[0], ints[1], ints[2], ints[3], ints[4], false}, replies[1]
}

// classify climbs the ladder from this module's rules to redis-cell's.
func (r *comparison) classify(n numbers, s state, reason string, theirs, our answer) []string {
	switch {
	case theirs.refused && our.refused:
		return []string{bothRefuse}
	case theirs == our:
		return []string{same}
	case theirs.refused && reason == withUnit, our.refused && !theirs.refused:
		return []string{reason}
	case theirs.refused:
		return []string{cellRefuses}
	}
	var classes []string
	on, before := rules{}, our
	for _, rung := range ladder {
		rung.rule(&on)
		after := on.decide(n, s, r.now)
		if after != before {
			classes = append(classes, rung.class)
		}
		before = after
	}
	require.NotEmpty(r.t, classes, "a difference of no known class: %+v on %+v: redis-cell %v, this module %v", n, s, theirs, our)
	return classes
}

// agree makes both keys hold the same, so that the next call is on one state again. What redis-cell has written stays
// if it is the same number. Otherwise its key gets this module's number, with the expiry that redis-cell would have
// set.
func (r *comparison) agree(key string, before state, theirs, our resp.Value, a, b answer, n numbers) state {
	r.t.Helper()
	ourTAT, exists := tatOf(r.t, our)
	remembered := !before.exists || before.expiresMs >= r.now/int64(time.Millisecond)
	if a.limited+b.limited == 0 && !a.refused && !b.refused && n.quantity > 0 && remembered && exists {
		tat, _ := tatOf(r.t, theirs)
		apart := int64(ourTAT - tat)
		r.drift = max(r.drift, (max(apart, -apart)+n.quantity-1)/n.quantity)
	}
	ahead := int64(ourTAT) - r.now
	if !exists || ahead < int64(2*time.Millisecond) && theirs.Text != our.Text {
		r.both("DEL", key)
		return state{}
	}
	nowMs := r.now / int64(time.Millisecond)
	next := state{exists: true, tat: ourTAT, expiresMs: before.expiresMs}
	switch {
	case theirs.Text != our.Text:
		next.expiresMs = nowMs + ahead/int64(time.Millisecond)
		v, err := r.cell.Do("SET", key, our.Text, "PXAT", fmt.Sprint(next.expiresMs))
		require.NoError(r.t, err)
		require.False(r.t, v.IsError(), "%v", v)
	case !a.refused && a.limited == 0:
		next.expiresMs = nowMs + max(ahead, 0)/int64(time.Millisecond)
	}
	return next
}

var (
	strictNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	lengthOfTime = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?$`)
)

// refusal says why this module refuses a call, or withUnit where redis-cell does and this module need not; "" for
// neither.
func refusal(words []string) string {
	n, ok := parse(words)
	if !ok {
		if len(words) > 2 && lengthOfTime.MatchString(words[2]) {
			if _, err := strconv.ParseInt(words[2], 10, 64); err != nil {
				return withUnit
			}
		}
		return bothRefuse
	}
	for _, word := range words {
		if !strictNumber.MatchString(word) {
			return plusOrZeros
		}
	}
	if n.maxBurst < 0 || n.count < 0 || n.period < 0 || n.quantity < 0 {
		return negative
	}
	if n.count == 0 || n.period == 0 {
		return bothRefuse
	}
	interval := exactInterval(n)
	fullIn := new(big.Int).Mul(interval, new(big.Int).Add(big.NewInt(n.maxBurst), big.NewInt(1)))
	ns := new(big.Int).Mul(big.NewInt(n.period), big.NewInt(int64(time.Second)))
	switch {
	case ns.Cmp(big.NewInt(n.count)) < 0:
		return bothRefuse // more than one a nanosecond
	case n.maxBurst == math.MaxInt64 || !fullIn.IsInt64():
		return tooLong
	}
	return ""
}

// table is how many calls are of each class, with an example.
func (r *comparison) table() string {
	var b strings.Builder
	b.WriteString("   calls  split  class (split: one limits the call and the other does not)\n")
	classes := slices.SortedFunc(maps.Keys(r.counts), func(x, y string) int { return cmp.Compare(r.counts[y], r.counts[x]) })
	for _, class := range classes {
		fmt.Fprintf(&b, "%8d %6d  %s\n", r.counts[class], r.decisions[class], class)
	}
	for _, class := range classes {
		fmt.Fprintf(&b, "\n%s\n  %s\n", class, strings.Join(r.examples[class], "\n  "))
	}
	return b.String()
}

// A caller that asks every 10 us: redis-cell forgets a bucket up to a millisecond too early, and so lets
// more through than the rate.
func TestFastRatesHoldHereAndNotInRedisCell(t *testing.T) {
	cell := begin(t)
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	wall := clock.New(t, now)
	theirs, our := startUnder(t, wall, now, cell), wall.Start()
	// Left on, it makes redis-cell forget even more on Redis 8.0, and how much goes by chance.
	theirs.MustDo("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	a, b := theirs.Raw(), our.Raw()
	for _, c := range []struct{ rate, mostTheirs int64 }{{1000, 1000}, {1500, 2000}, {3000, 4000}, {7000, 8000}} {
		words := call(fmt.Sprint("rate:", c.rate), fmt.Sprint("0 ", c.rate, " 1"))
		admitted := map[*resp.Conn]int64{}
		const steps = 10_000 // a tenth of a second
		for range steps {
			now += int64(10 * time.Microsecond)
			wall.Set(now)
			for _, conn := range []*resp.Conn{a, b} {
				v, err := conn.Do(words...)
				require.NoError(t, err)
				admitted[conn] += 1 - v.Elems[0].Int
			}
		}
		t.Logf("%d a second: redis-cell lets %d a second through, this module %d", c.rate, 10*admitted[a], 10*admitted[b])
		assert.LessOrEqual(t, admitted[b], c.rate/10+1)
		assert.LessOrEqual(t, admitted[a], c.mostTheirs/10+1)
	}
}
