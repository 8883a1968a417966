package twins_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/civil"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
	"redis-throttle/tests/clock"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// Random calls at instants that the test sets, forward by anything from nothing to years, and sometimes
// back. Every field of every reply is what the documentation says, to the nanosecond, and so is the
// expiry of every key.
//
// VIRTUAL_CLOCK_CALLS is how many calls to make, and more if something has come up too seldom by then.
func TestRepliesUnderAVirtualClockAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	newVirtualRun(t).run(chance.Calls(t, "VIRTUAL_CLOCK_CALLS", size.Of(3_000, 30_000)))
}

// run makes so many calls, and more if something has come up too seldom by then.
func (r *virtualRun) run(calls int) {
	t := r.t
	t.Helper()
	for told := 0; r.made < calls || r.made < max(4*calls, 100_000) && r.tooSeldom(calls) != ""; {
		r.season()
		if r.made >= told+100_000 { // what a long run that is ended has done
			told = r.made
			t.Logf("%d calls so far, %d of them by functions", r.made, r.byFunctions)
		}
	}
	t.Logf("%d calls: %d limited, %d of them by a ban, %d reserved, %d into debt, %d shadowed, %d by the calendar, %d with FIRST; %d steps back",
		r.made, r.limited, r.banned, r.reserved, r.forced, r.shadowed, r.byCalendar, r.first, r.stepsBack)
	t.Logf("%d calls on several keys: %d let through, %d limited, %d with ANY", r.several[0]+r.several[1], r.several[0], r.several[1], r.withAny)
	t.Logf("%d calls about leases: %d granted, %d limited, %d renewed, %d lost, %d released; %d lapsed leases in the way of a call at most",
		r.leases.made, r.leases.granted, r.leases.limited, r.leases.renewed, r.leases.lost, r.leases.released, r.leases.mostLapsed)
	t.Logf("%d admissions with slots, %d retries, %d denied; %d settled, %d not", r.admissions.admitted, r.admissions.retried, r.admissions.denied,
		r.admissions.settled, r.admissions.tooLate)
	require.Empty(t, r.tooSeldom(calls), "came up too seldom")
}

// tooSeldom says what has not come up as often as a run of so many calls has to see it, or nothing.
func (r *virtualRun) tooSeldom(calls int) string {
	for _, came := range []struct {
		what         string
		times, least int
	}{
		{"a call that is limited", r.limited, calls / 10},
		{"a call that is let through", r.made - r.limited, calls / 5},
		{"a slot that is reserved", r.reserved, calls / 200},
		{"a debt", r.forced, calls / 200},
		{"a shadowed limit", r.shadowed, calls / 200},
		{"a ban", r.banned, calls / 200},
		{"a ban that the limits outlast", r.outlasted, calls / 200},
		{"a limit of 63 bits", r.widest, map[bool]int{false: calls / 200}[r.functions]},
		{"a decision by the calendar", r.byCalendar, calls / 200},
		{"a denial that is counted", r.counted, calls / 1000},
		{"a limit of nobody", r.nobody, calls / 1000},
		{"a decision by a FIRST", r.first, calls / 200},
		{"a clock that is set back", r.stepsBack, calls / 500},
		{"a call on several keys", min(r.several[0], r.several[1]), calls / 200},
		{"a call with ANY", r.withAny, calls / 200},
		{"EACH of a call that is limited by one limit and not by another", r.each.partly, calls / 200},
		{"EACH of a call that is let through, though a shadow would not have", r.each.shadowed, calls / 800},
		{"a lease that is granted or limited", min(r.leases.granted, r.leases.limited), calls / 200},
		{"a lease that is renewed or lost", min(r.leases.renewed, r.leases.lost), calls / 800},
		{"a lease that is released", r.leases.released, calls / 800},
		{"an admission with slots, or a retry of one", min(r.admissions.admitted, r.admissions.denied, 4*r.admissions.retried), calls / 400},
		{"an admission that is settled, or too late", min(r.admissions.settled, r.admissions.tooLate), calls / 800},
		{"a call that finds more lapsed leases than it removes", r.leases.mostLapsed, 17},
	} {
		if came.times < came.least {
			return came.what
		}
	}
	return ""
}

// virtualRun is a server under a virtual clock, and what it has to answer.
type virtualRun struct {
	*rand.Rand
	t     *testing.T
	clock *clock.Clock
	// functions is a run in which functions take turns with the module.
	functions   bool
	byFunctions int
	server      *server.Server
	conn        *resp.Conn
	twin        twin // gets the same calls at the same instants
	// tick is the finest difference that the server's clock shows to a command, in ns.
	tick int64
	now  int64
	keys []*virtualKey
	// scale is about how long the periods of a season are, in ns.
	scale int64
	// crowded is a season with so many calls within a period that a WINDOW cannot keep the instant of each.
	crowded bool
	// kinds lists the kinds of limits that are made up.
	kinds   []naive.Kind
	seasons int

	made, limited, banned, outlasted, widest, reserved, forced, shadowed, byCalendar, first, nobody, counted, stepsBack int
	several                                                                                                             [2]int // let through, and limited
	withAny                                                                                                             int

	each       virtualEach
	leases     virtualLeases
	admissions virtualAdmissions
}

// virtualKey is a key that nobody but the run uses.
type virtualKey struct {
	name   string
	model  naive.Model
	limits []naive.Limit // what most calls on it ask
	past   past
}

func newVirtualRun(t *testing.T) *virtualRun {
	t.Helper()
	r := &virtualRun{Rand: chance.New(t), t: t, tick: 1}
	r.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	r.clock = clock.New(t, r.now)
	s := r.clock.Start()
	// Where the server tells the module its clock, it is in microseconds.
	if s.Program.AtLeast(7, 2) {
		r.tick = int64(time.Microsecond)
	}
	r.server, r.conn = s, s.Raw()
	// A key whose time is over goes when it is next looked at, and no earlier: the clock may be set
	// back in between.
	r.mustDo("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	return r
}

func (r *virtualRun) mustDo(args ...string) {
	r.t.Helper()
	v, err := r.conn.Do(args...)
	require.NoError(r.t, err)
	require.False(r.t, v.IsError(), "%q answers %v", args, v)
}

// season is some hundred calls on new keys, whose periods are about alike.
func (r *virtualRun) season() {
	r.t.Helper()
	for range r.beginSeason() {
		r.step()
		r.batch()
	}
}

// beginSeason makes up the keys of a season, and how many batches it has.
func (r *virtualRun) beginSeason() (batches int) {
	r.t.Helper()
	r.seasons++
	r.mustDo("FLUSHALL")
	r.twin.Do("FLUSHALL")
	r.setClock(time.Date(2000+r.IntN(60), 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() + r.Int64N(int64(366*24*time.Hour)))
	r.scale = r.upTo(int64(3 * 365 * 24 * time.Hour))
	switch r.seasons % 3 {
	case 0:
		r.scale = []int64{1e9, 1e10, 6e10, 36e11, 864e11}[r.IntN(5)]
	case 1: // of the calendar
		r.scale = int64(24*time.Hour) * r.upTo(3*365)
	}
	r.keys = nil
	keys := 1 + r.IntN(4)
	batches = 30 + r.IntN(100)
	if r.crowded = r.IntN(8) == 0; r.crowded {
		keys, batches = 1, 300
	}
	for i := range keys {
		k := &virtualKey{name: fmt.Sprintf("season%d:%d", r.seasons, i)}
		r.kinds = []naive.Kind{naive.Rate, naive.Window, naive.Fixed, naive.Fixed, naive.First}
		if r.IntN(2) == 0 {
			r.kinds = r.kinds[:1] // the only kind that slots are reserved of
		}
		for range 1 + r.IntN(8)*r.IntN(2)/2 {
			k.limits = append(k.limits, r.limit())
		}
		r.keys = append(r.keys, k)
	}
	r.beginLeases()
	return batches
}

// upTo is a random number from 1 to most, of any number of digits.
func (r *virtualRun) upTo(most int64) int64 {
	return min(most, max(1, int64(math.Exp(r.Float64()*math.Log(float64(most)+1)))))
}

// limit is one that fits the season.
func (r *virtualRun) limit() naive.Limit {
	l := naive.Limit{Kind: r.kinds[r.IntN(len(r.kinds))], Count: 1 + r.Int64N(20)}
	if r.IntN(4) == 0 {
		l.Count = r.upTo(1_000_000)
	}
	if r.crowded {
		l.Kind, l.Count = naive.Window, 200+r.Int64N(1000)
	}
	period := r.scale * (1 + r.Int64N(4)) / (1 + r.Int64N(3))
	l.Period = time.Duration(max(period/int64(time.Millisecond), 1)) * time.Millisecond
	l.Count = min(l.Count, int64(l.Period)) // at most one unit a nanosecond
	if l.Kind != naive.Rate && !r.crowded && !r.functions && r.IntN(7) == 0 {
		l.Count = math.MaxInt64 - r.Int64N(3) // with a cost and units to spare, more than 63 bits
	}
	switch {
	case l.Kind == naive.Rate && r.IntN(2) == 0:
		l.Burst = 1 + r.Int64N(min(30, mostBurst(l)))
	case l.Kind == naive.Fixed && l.Period >= 12*time.Hour && r.IntN(5) > 0:
		l.Calendar = r.calendar(l.Period)
	case l.Kind == naive.Fixed && r.IntN(3) == 0:
		l.Offset = time.Duration(r.Int64N(l.Period.Milliseconds())) * time.Millisecond
	}
	return l
}

// Zones with clocks that are changed at midnight, by half an hour, on no two days of the same date, or that
// once skipped a day; and with none.
var zones = []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Asia/Beirut"}

// calendar is windows of about the length of a period.
func (r *virtualRun) calendar(period time.Duration) *civil.Windows {
	const day = 24 * time.Hour
	units := []struct {
		name     string
		shortest time.Duration
	}{{"d", day}, {"w", 7 * day}, {"mo", 28 * day}, {"y", 365 * day}}
	unit := units[0]
	for _, u := range units {
		if u.shortest <= period && r.IntN(3) > 0 {
			unit = u
		}
	}
	w := &civil.Windows{N: min(max(1, int64(period/unit.shortest)), 40), Unit: unit.name, Zone: zones[r.IntN(len(zones))]}
	if r.IntN(3) == 0 {
		w.Offset = time.Duration(r.Int64N(w.N*int64(unit.shortest/(15*time.Minute)))) * 15 * time.Minute
	}
	return w
}

// step moves the clock between two batches.
func (r *virtualRun) step() {
	step := int64(0)
	kind := r.IntN(10)
	if r.crowded && r.IntN(100) > 0 {
		kind = 10
	}
	switch kind {
	case 0, 1:
		step = r.upTo(1000)
	case 2, 3:
		step = r.upTo(r.scale / 10)
	case 4, 5:
		step = r.upTo(3 * r.scale)
	case 6:
		step = r.Int64N(r.scale/5 + 1)
	case 7: // to the first instant at which something changes, or next to it
		if until := r.untilLapse(); until > 0 && r.IntN(4) == 0 {
			step = until + []int64{-1, 0, 0, 1}[r.IntN(4)]*r.tick
			break
		}
		k := r.keys[r.IntN(len(r.keys))]
		a := k.model.Peek(r.now, k.limits, 1+r.Int64N(3))
		until := []naive.Nanoseconds{a.RetryAfter, a.NextAfter, a.ResetAfter}[r.IntN(3)].Int64()
		if until > 0 && until < 4*r.scale {
			step = until + []int64{-1, 0, 0, 1}[r.IntN(4)]
		}
	case 8:
		if r.IntN(4) == 0 {
			step = -r.upTo(2 * r.scale)
			r.stepsBack++
		}
	case 10:
		step = r.Int64N(r.scale/50 + 1)
	}
	r.setClock(r.now + step)
}

func (r *virtualRun) setClock(now int64) {
	r.now = now - now%r.tick
	r.clock.Set(r.now)
	r.twin.nowNs = r.now
}

// virtualCall is a command and what it has to answer. It concerns what has a past.
type virtualCall struct {
	pasts []*past
	words []string
	want  string
	shown func(resp.Value) string
}

// past is the last calls on a key, for the message of a failure.
type past []string

func (p *past) add(line string) { *p = append((*p)[max(0, len(*p)-60):], line) }

// batch is calls of one instant, in one pipeline.
func (r *virtualRun) batch() {
	r.t.Helper()
	var calls []virtualCall
	for range 1 + r.IntN(6) {
		switch {
		case (r.IntN(5) == 0 || r.leases.crowded && r.IntN(2) == 0) && r.leases.key != "":
			if r.IntN(3) == 0 && !r.crowded {
				calls = append(calls, r.callOfAdmission())
				break
			}
			calls = append(calls, r.callOfLeases())
		case r.IntN(5) == 0 && !r.crowded:
			calls = append(calls, r.callOfKeys())
		default:
			calls = append(calls, r.call(r.keys[r.IntN(len(r.keys))]))
		}
	}
	for _, k := range r.keys {
		calls = append(calls, virtualCall{[]*past{&k.past}, []string{"PEXPIRETIME", k.name}, fmt.Sprint(k.model.ExpiresMs(r.now)), shown})
	}
	calls = append(calls, r.looksAtLeases()...)
	var commands [][]string
	for _, c := range calls {
		commands = append(commands, c.words)
	}
	for _, k := range r.keys { // the model does not know the bytes, but a server and the embedded host agree on them
		commands = append(commands, []string{"GET", k.name}, []string{"CL.INSPECT", k.name})
	}
	if r.leases.key != "" {
		commands = append(commands, []string{"CL.INSPECT", r.leases.key})
	}
	replies, err := r.conn.Pipeline(r.inTurns(commands)...)
	require.NoError(r.t, err)
	for i, words := range commands {
		if words[0] == "ZRANGE" {
			writeScoresPlainly(replies[i])
		}
	}
	differences := r.twin.differences(commands, replies)
	for i, c := range calls {
		have := c.shown(replies[i])
		line := fmt.Sprintf("%d %s: %s", r.now, strings.Join(c.words, " "), have)
		if have != c.want {
			for _, p := range c.pasts {
				r.t.Log(strings.Join(*p, "\n"))
			}
			require.Failf(r.t, "a reply is not what the documentation says",
				"%s\nwant %s", line, c.want)
		}
		if c.words[0] != "PEXPIRETIME" && c.words[0] != "ZRANGE" {
			for _, p := range c.pasts {
				p.add(line)
			}
		}
	}
	require.Empty(r.t, differences, "the embedded host and the server differ")
}

// shown is a reply as the model shows it: the numbers alone.
func shown(v resp.Value) string {
	if a, err := kit.StandingIn(v); err == nil {
		return fmt.Sprint([10]int64{a.Limited, a.Rule, a.Limit, a.Remaining, a.RetryAfterMs, a.ResetAfterMs, a.NextAfterMs, a.Granted, a.WaitMs, a.Shadow})
	}
	if ints, err := v.Ints(); err == nil {
		return fmt.Sprint(ints)
	}
	if v.IsError() {
		return strings.Fields(v.Text)[0]
	}
	return v.String()
}

// call makes up a call, and asks the model.
func (r *virtualRun) call(k *virtualKey) virtualCall {
	name, limits, o := r.request(k)
	words, pasts := []string{name, k.name}, []*past{&k.past}
	asked := naive.Call{Model: &k.model, Limits: limits, Terms: o.Terms}
	var reply naive.Reply
	var each []naive.Each
	switch name {
	case "CL.BAN":
		d := o.Ban.Milliseconds()
		return virtualCall{pasts, append(words, fmt.Sprint(d, "ms")), fmt.Sprint(k.model.Ban(r.now, int64(o.Ban))), shown}
	case "CL.THROTTLE":
		l := limits[0]
		words = append(words, fmt.Sprint(l.Burst-1), fmt.Sprint(l.Count), naive.Duration(l.Period), fmt.Sprint(o.Cost))
		reply = k.model.Throttle(r.now, l.Burst-1, l.Count, l.Period, o.Cost)
		r.count(limits[:1], reply)
		return virtualCall{pasts, words, fmt.Sprint(reply.Throttle()), shown}
	case "CL.PEEK":
		reply, each = naive.EachOf(r.now, []naive.Call{asked}, naive.Options{Cost: o.Cost}, func() naive.Reply {
			return k.model.Peek(r.now, limits, o.Cost, o.Terms...)
		})
	case "CL.REFUND":
		for i := range o.Terms {
			o.Terms[i].Spare = 0 // the command does not know the word
		}
		reply, each = naive.EachRefunded(r.now, asked, o.Cost)
	default:
		reply, each = naive.EachOf(r.now, []naive.Call{asked}, o, func() naive.Reply { return k.model.Take(r.now, limits, o) })
	}
	r.count(limits, reply)
	words = append(append(words, naive.Words(limits, o.Terms...)...), o.Words()...)
	return r.withEach(virtualCall{pasts, words, fmt.Sprint(reply.Fields()), shown}, reply, each)
}

// asked makes up limits, a cost and what the call says of each limit.
func (r *virtualRun) asked(k *virtualKey) (limits []naive.Limit, o naive.Options) {
	limits = r.vary(k.limits)
	o.Cost = 1
	if r.IntN(2) == 0 {
		o.Cost = r.Int64N(4)
	}
	if r.IntN(10) == 0 && !r.crowded {
		o.Cost = r.upTo(2*min(limits[0].Count, math.MaxInt64/2-1) + 2)
	}
	if limits[0].Count > math.MaxInt64-3 && r.IntN(3) == 0 {
		o.Cost = math.MaxInt64 - r.Int64N(5)
	}
	if r.IntN(4) == 0 {
		o.Terms = r.terms(limits)
	}
	return limits, o
}

// request makes up a command, its limits and its options.
func (r *virtualRun) request(k *virtualKey) (name string, limits []naive.Limit, o naive.Options) {
	limits, o = r.asked(k)
	switch r.IntN(24) {
	case 0:
		if r.IntN(4) == 0 {
			if r.IntN(2) == 0 {
				o.Ban = r.aBan()
			}
			return "CL.BAN", limits, o
		}
		return "CL.PEEK", limits, o
	case 1:
		return "CL.PEEK", limits, o
	case 2, 3:
		return "CL.REFUND", limits, o
	case 4, 5, 6:
		limits[0].Count = max(min(limits[0].Count, 1_000_000, int64(limits[0].Period)), 1) // a rate is never as wide as others
		limits[0].Burst = cmp.Or(limits[0].Burst, limits[0].Count)
		o.Terms = nil
		return "CL.THROTTLE", limits[:1], o
	}
	o = r.options(limits, o)
	if len(limits) == 8 {
		o.After = naive.After{} // there is no room for it
	}
	return "CL.LIMIT", limits, o
}

// aBan is how long to ban: rather not for so long that a season sees nothing else.
func (r *virtualRun) aBan() time.Duration {
	return time.Duration(r.upTo(r.scale/3/int64(time.Millisecond)+1)) * time.Millisecond
}

func (r *virtualRun) count(limits []naive.Limit, reply naive.Reply) {
	r.made++
	if reply.Counts() {
		r.counted++
	}
	fields := reply.Fields()
	r.limited += int(fields[0])
	if fields[1] == 0 {
		r.banned++
		if fields[4] > fields[5] {
			r.outlasted++
		}
	} else if rule := limits[fields[1]-1]; rule.Calendar != nil {
		r.byCalendar++
	} else if rule.Kind == naive.First {
		r.first++
	}
	if fields[2] > math.MaxInt64-3 {
		r.widest++
	}
	if fields[8] > 0 {
		r.reserved++
	}
	if fields[0] > 0 && fields[7] > 0 {
		r.forced++
	}
	if fields[9] > 0 {
		r.shadowed++
	}
}

// options makes up those of CL.LIMIT.
func (r *virtualRun) options(limits []naive.Limit, o naive.Options) naive.Options {
	rates := true
	for _, l := range limits {
		rates = rates && l.Kind == naive.Rate
	}
	switch r.IntN(6) {
	case 0, 1:
		if rates {
			longest := 4*r.scale/int64(time.Millisecond) + 1
			o.MaxWait = time.Duration(r.upTo(longest)) * time.Millisecond
			if r.IntN(2) == 0 {
				o.MaxWait = time.Duration(1+r.Int64N(longest)) * time.Millisecond
			}
		}
	case 2:
		o.UpTo = !slices.ContainsFunc(o.Terms, func(t naive.Terms) bool { return t.HasTake })
	case 3:
		o.Strict = true
	case 4:
		o.Force = r.IntN(2) == 0 && r.mayForce(limits, o)
	}
	if o.MaxWait == 0 && r.IntN(60) == 0 {
		o.Ban = r.aBan()
	}
	if o.MaxWait == 0 && r.IntN(20) == 0 {
		period := r.upTo(3*r.scale/int64(time.Millisecond) + 1)
		o.Ban, o.After = r.aBan(), naive.After{Count: 1 + r.Int64N(4), Period: time.Duration(period) * time.Millisecond}
	}
	return o
}

// mayForce reports whether a debt stays within a few periods: replies and the model differ where
// 2^63 ns are too few.
func (r *virtualRun) mayForce(limits []naive.Limit, o naive.Options) bool {
	for i, l := range limits {
		units := o.Cost
		if i < len(o.Terms) && o.Terms[i].HasTake {
			units = o.Terms[i].Take
		}
		if units/3 > l.Count || l.Count > math.MaxInt64-3 {
			return false
		}
	}
	return true
}

// terms makes up what a call says of each of its limits.
func (r *virtualRun) terms(limits []naive.Limit) (terms []naive.Terms) {
	for _, l := range limits {
		t := naive.Terms{Shadow: r.IntN(3) == 0}
		if t.HasTake = r.IntN(3) == 0; t.HasTake {
			t.Take = r.Int64N(4)
		}
		if r.IntN(3) == 0 {
			most := max(l.Count, l.Burst)
			t.Spare = min(r.upTo(most)+r.Int64N(2), most)
			if r.IntN(4) == 0 {
				t.Spare = max(most-r.Int64N(2), 0)
			}
		}
		terms = append(terms, t)
	}
	return terms
}

// mostBurst is how many units a bucket may hold: it has to be full again within 292 years.
func mostBurst(l naive.Limit) int64 { return math.MaxInt64 / (int64(l.Period)/l.Count + 1) }

// vary is a key's limits, or now and then something close to them.
func (r *virtualRun) vary(limits []naive.Limit) []naive.Limit {
	limits = append([]naive.Limit(nil), limits...)
	if r.IntN(10) > 0 {
		return limits
	}
	i := r.IntN(len(limits))
	switch r.IntN(8) {
	case 0: // another count or capacity
		limits[i].Count = min(1+r.Int64N(20), int64(limits[i].Period))
		limits[i].Burst = min(limits[i].Burst, mostBurst(limits[i]))
	case 1:
		if limits[i].Kind == naive.Rate {
			limits[i].Burst = 1 + r.Int64N(min(30, mostBurst(limits[i])))
		}
	case 2: // one less
		if len(limits) > 1 {
			limits = append(limits[:i], limits[i+1:]...)
		}
	case 3: // one more, perhaps one that is there already
		if len(limits) < 8 {
			more := r.limit()
			if r.IntN(2) == 0 {
				more = limits[i]
			}
			limits = append(limits, more)
		}
	case 4: // the same rate in other words
		if limits[i].Kind == naive.Rate && limits[i].Period < 365*24*time.Hour {
			limits[i].Burst = cmp.Or(limits[i].Burst, limits[i].Count)
			limits[i].Count, limits[i].Period = limits[i].Count*2, limits[i].Period*2
		}
	case 5: // other windows
		if limits[i].Kind == naive.Fixed || limits[i].Kind == naive.First {
			other := r.limit()
			other.Kind, other.Burst = limits[i].Kind, 0
			if other.Kind == naive.First {
				other.Calendar, other.Offset = nil, 0
			}
			limits[i] = other
		}
	case 7: // for nobody
		limits[i].Count, limits[i].Burst = 0, 0
		r.nobody++
	case 6: // in another order
		r.Shuffle(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
	}
	return limits
}
