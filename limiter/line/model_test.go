// Lines compared with a naive one, which works out every slot anew from the list of callers
// that wait.
package line

import (
	"flag"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/stack"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		panic(err)
	}
	m.Run()
}

// quota is a rate in plain numbers.
type quota struct{ count, periodNs, capacity int64 }

func (q quota) unitNs() int64 { return (q.periodNs-1)/q.count + 1 }

// ask is what a call asks of one limit: units, and such that have to stay behind.
type ask struct{ units, spare int64 }

// naiveLine is who waits for a key, and the instants at which its limits are full: before the
// first who may still move up, as the last who waits left them, and as the key says now.
type naiveLine struct {
	quotas  []quota
	waiters []*naiveWaiter
	before  []int64
	after   []int64
	now     []int64
}

type naiveWaiter struct {
	caller      uintptr
	asks        []ask
	fromNs      int64
	comesNs     int64 // of its reservation; the slot is not before those ahead
	slotNs      int64
	left, fixed bool // fixed: somebody else changed the key since
}

// reserve is the earliest instant from fromNs on for what is asked, after which the limits are
// full at other instants.
func (l *naiveLine) reserve(full []int64, asks []ask, fromNs int64) (atNs int64, after []int64) {
	atNs = fromNs
	for i, q := range l.quotas {
		if asks[i].units > 0 {
			atNs = max(atNs, full[i]-(q.capacity-asks[i].units-asks[i].spare)*q.unitNs())
		}
	}
	after = slices.Clone(full)
	for i, q := range l.quotas {
		if asks[i].units > 0 {
			after[i] = max(full[i], atNs) + asks[i].units*q.unitNs()
		}
	}
	return atNs, after
}

// fix is what everybody's slot becomes when somebody else has changed the key.
func (l *naiveLine) fix() {
	for _, w := range l.waiters {
		w.fixed = true
	}
	l.before = l.now
}

// missed reports whether the key is not as the last who waits left it: others took or deleted something, and that is
// not over by now.
func (l *naiveLine) missed(nowNs int64) bool {
	for i := range l.quotas {
		if max(l.now[i]-nowNs, 0) != max(l.after[i]-nowNs, 0) {
			return true
		}
	}
	return false
}

// wait returns how long a caller has to. It is in line if that is not 0.
func (l *naiveLine) wait(caller uintptr, asks []ask, nowNs int64) int64 {
	atNs, after := l.reserve(l.now, asks, nowNs)
	if atNs == nowNs {
		l.now = after
		return 0
	}
	w := &naiveWaiter{caller: caller, asks: asks, fromNs: nowNs, comesNs: atNs, slotNs: atNs}
	n := len(l.waiters)
	if n > 0 {
		w.slotNs = max(atNs, l.waiters[n-1].slotNs)
	}
	if n == 0 || l.missed(nowNs) {
		l.fix()
	}
	l.now, l.after = after, after
	l.waiters = append(l.waiters, w)
	return atNs - nowNs
}

// giveBack drops the callers that left, as if they had never come.
func (l *naiveLine) giveBack(nowNs int64) {
	if !slices.ContainsFunc(l.waiters, func(w *naiveWaiter) bool { return w.left }) {
		return
	}
	if l.missed(nowNs) {
		l.fix()
	}
	moving, stay, full, lastNs := false, []*naiveWaiter(nil), l.before, int64(0)
	for _, w := range l.waiters {
		if w.left {
			moving = moving || !w.fixed
			continue
		}
		stay = append(stay, w)
		if moving {
			w.fromNs = min(nowNs, w.comesNs) // not into the past, unless due by now
		}
		if !w.fixed {
			var atNs int64
			if atNs, full = l.reserve(full, w.asks, w.fromNs); moving {
				w.comesNs, w.slotNs = atNs, max(atNs, lastNs)
			}
		}
		lastNs = w.slotNs
	}
	l.waiters = stay
	if moving {
		l.now, l.after = full, full
	}
}

// answer drops those whose slot has come, and returns them.
func (l *naiveLine) answer(nowNs int64) (answered []*naiveWaiter) {
	for len(l.waiters) > 0 && l.waiters[0].slotNs <= nowNs {
		w := l.waiters[0]
		if !w.fixed {
			_, l.before = l.reserve(l.before, w.asks, w.fromNs)
		}
		l.waiters = l.waiters[1:]
		answered = append(answered, w)
	}
	return answered
}

// granted is units that somebody got at an instant.
type granted struct{ at, units int64 }

// requirePromise fails if an interval holds more units than capacity + rate x time.
func requirePromise(t require.TestingT, q quota, log []granted) {
	slices.SortStableFunc(log, func(a, b granted) int { return int(min(max(a.at-b.at, -1), 1)) })
	perNs := big.NewRat(q.count, q.periodNs)
	units, lowest := new(big.Rat), new(big.Rat)
	for i, g := range log {
		due := new(big.Rat).Mul(perNs, big.NewRat(g.at-log[0].at, 1))
		if above := new(big.Rat).Sub(units, due); i == 0 || above.Cmp(lowest) < 0 {
			lowest = above
		}
		units = new(big.Rat).Add(units, big.NewRat(g.units, 1))
		above := new(big.Rat).Sub(units, due)
		if above.Sub(above, lowest).Cmp(big.NewRat(q.capacity, 1)) > 0 {
			require.Fail(t, "more units than capacity + rate x time", "%+v up to %d: %v", q, g.at, log)
		}
	}
}

// world is a database and its naive copy.
type world struct {
	*database
	pick   chance.Draw
	names  []string
	limits map[string][]stack.Limit
	naive  map[string]*naiveLine
	line   map[string]*line
	log    map[string][][]granted // what callers of a key got of each limit, unless it was deleted
	nowNs  int64
	caller uintptr
	slots  map[uintptr]int64 // the slot that a caller was told last
	others bool              // somebody else changes keys
	seen   *tally
}

type tally struct{ steps, jumped, waited, answered, left, moved, lapsed, overdue, reserved, deleted int }

func newWorld(t require.TestingT, pick chance.Draw, others bool, seen *tally) *world {
	w := emptyWorld(t, pick, others, seen)
	for i := range pick("keys", 1, 3) {
		var quotas []quota
		for range pick("limits", 1, 3) {
			q := quota{periodNs: []int64{1e6, 1e6 + 1, second}[pick("period", 0, 2)], capacity: pick("capacity", 1, 5)}
			q.count = pick("count", 1, min(q.periodNs, 20))
			quotas = append(quotas, q)
		}
		w.add(fmt.Sprint("key", i), quotas)
	}
	return w
}

func emptyWorld(t require.TestingT, pick chance.Draw, others bool, seen *tally) *world {
	return &world{database: newDatabase(t), pick: pick, nowNs: start, others: others, seen: seen,
		limits: make(map[string][]stack.Limit), naive: make(map[string]*naiveLine), line: make(map[string]*line),
		log: make(map[string][][]granted), slots: make(map[uintptr]int64)}
}

// add adds a key that is untouched.
func (w *world) add(key string, quotas []quota) {
	for _, q := range quotas {
		w.limits[key] = append(w.limits[key], rate(w.t, q.count, q.periodNs, q.capacity))
	}
	full := func() []int64 { return make([]int64, len(quotas)) }
	w.names = append(w.names, key)
	w.naive[key] = &naiveLine{quotas: quotas, before: full(), after: full(), now: full()}
	w.log[key] = make([][]granted, len(quotas))
}

func (w *world) anyKey() string { return w.names[w.pick("key", 0, int64(len(w.names))-1)] }

func (w *world) step() {
	w.seen.steps++
	key := w.anyKey()
	switch op := w.pick("operation", 1, 20); {
	case op <= 8:
		w.call(key)
	case op <= 12:
		w.leave(key)
	case op <= 14:
		w.wake(key)
	case op <= 18 || !w.others:
		w.passTime(key)
	default:
		w.interfere(key)
	}
	w.compare(key)
}

// asked makes up what a call asks, with TAKE and SPARE for some of the limits.
func (w *world) asked(key string) (cost int64, limits []stack.Limit, asks []ask) {
	quotas := w.naive[key].quotas
	cost = quotas[0].capacity
	for _, q := range quotas {
		cost = min(cost, q.capacity)
	}
	cost = w.pick("cost", 1, cost)
	for i, q := range quotas {
		a, terms := ask{units: cost}, stack.Terms{}
		if terms.HasTake = w.pick("TAKE", 0, 3) == 0; terms.HasTake {
			a.units = w.pick("units", 0, q.capacity)
			terms.Take = a.units
		}
		if w.pick("SPARE", 0, 3) == 0 {
			a.spare = w.pick("spare", 0, q.capacity-a.units)
			terms.Spare = a.spare
		}
		asks, limits = append(asks, a), append(limits, w.limits[key][i].With(terms))
	}
	return cost, limits, asks
}

func (w *world) call(key string) {
	cost, limits, asks := w.asked(key)
	w.callFor(key, cost, limits, asks)
}

func (w *world) callFor(key string, cost int64, limits []stack.Limit, asks []ask) {
	w.caller++
	want := w.naive[key].wait(w.caller, asks, w.nowNs)
	got := w.wait(key, w.caller, limits, cost, w.nowNs)
	require.Equal(w.t, want, got.WaitNs)
	if got.WaitNs == 0 {
		if len(w.naive[key].waiters) > 0 {
			w.seen.jumped++
		}
		w.grant(key, w.nowNs, asks)
		return
	}
	w.seen.waited++
	w.line[key] = w.lines.byCaller[w.caller].line
	w.slots[w.caller] = w.lines.byCaller[w.caller].slotNs
}

func (w *world) grant(key string, atNs int64, asks []ask) {
	for i := range w.log[key] {
		if asks[i].units > 0 {
			w.log[key][i] = append(w.log[key][i], granted{atNs, asks[i].units})
		}
	}
}

// leave has one or more go, and gives their slots back now or later.
func (w *world) leave(key string) {
	waiting := w.waiting(key)
	for range min(w.pick("how many leave", 1, 3), int64(len(waiting))) {
		i := w.pick("who leaves", 0, int64(len(waiting))-1)
		w.goes(key, waiting[i])
		waiting = slices.Delete(waiting, int(i), int(i)+1)
	}
	if w.pick("give back at once", 0, 1) == 1 {
		w.wake(key)
	}
}

func (w *world) goes(key string, x *naiveWaiter) {
	x.left = true
	host, _, ok := w.lines.Leave(x.caller)
	require.True(w.t, ok)
	require.Equal(w.t, x.caller, host)
	w.seen.left++
}

// waiting are those in line who have not left.
func (w *world) waiting(key string) (waiting []*naiveWaiter) {
	for _, x := range w.naive[key].waiters {
		if !x.left {
			waiting = append(waiting, x)
		}
	}
	return waiting
}

// passTime moves the clock to where the next slot comes, or past several.
func (w *world) passTime(key string) {
	if w.others {
		// Every line is woken when it wants to be.
		until := w.nowNs + w.pick("elapsed", 0, 2*w.naive[key].quotas[0].unitNs())
		for {
			next, at := "", until+1
			for _, k := range w.names {
				if l := w.naive[k]; len(l.waiters) > 0 && l.waiters[0].slotNs < at {
					next, at = k, l.waiters[0].slotNs
				}
			}
			if next == "" {
				w.nowNs = until
				return
			}
			w.nowNs = max(w.nowNs, at)
			w.wake(next)
		}
	}
	w.nowNs += w.pick("elapsed", 0, 3*w.naive[key].quotas[0].unitNs())
	if w.pick("woken in time", 0, 3) > 0 {
		w.wake(key)
	}
}

func (w *world) wake(key string) {
	line := w.naive[key]
	if len(line.waiters) == 0 {
		return
	}
	for _, x := range line.waiters {
		if x.left && x.fixed {
			w.seen.lapsed++
		}
	}
	line.giveBack(w.nowNs)
	var want []uintptr
	for _, x := range line.answer(w.nowNs) {
		want = append(want, x.caller)
		w.grant(key, x.comesNs, x.asks) // what the limits promise; who asks for less may be kept behind those ahead
		w.seen.answered++
		if x.slotNs < w.nowNs {
			w.seen.overdue++
		}
	}
	require.Equal(w.t, want, w.database.wake(w.line[key], w.nowNs), "answered at %d", w.nowNs-start)
}

// interfere is a call of somebody who is in no line.
func (w *world) interfere(key string) {
	line := w.naive[key]
	if w.pick("DEL", 0, 3) == 0 {
		delete(w.keys, key)
		line.now = make([]int64, len(line.quotas))
		w.log[key] = nil
		w.nowNs += w.pick("elapsed", 1, 1000) // or it could come to the same state by other ways
		w.seen.deleted++
		return
	}
	cost, limits, asks := w.asked(key)
	r := w.limit(key, limits, stack.Request{Cost: cost, MaxWaitNs: second}, w.nowNs)
	atNs, after := line.reserve(line.now, asks, w.nowNs)
	require.Equal(w.t, atNs-w.nowNs > second, r.Limited)
	if !r.Limited {
		require.Equal(w.t, atNs-w.nowNs, r.WaitNs)
		line.now = after
		w.grant(key, atNs, asks)
		w.seen.reserved++
	}
}

func (w *world) compare(key string) {
	naive := w.naive[key]
	var want, got []*naiveWaiter
	for _, x := range naive.waiters {
		want = append(want, &naiveWaiter{caller: x.caller, slotNs: x.slotNs, left: x.left})
	}
	if len(want) > 0 {
		for _, x := range w.line[key].waiting() {
			got = append(got, &naiveWaiter{caller: x.caller, slotNs: x.slotNs, left: x.left})
			was := w.slots[x.caller]
			if x.slotNs > was {
				require.LessOrEqual(w.t, x.slotNs, was, "the slot of %d got later", x.caller)
			}
			if x.slotNs < was {
				w.seen.moved++
			}
			w.slots[x.caller] = x.slotNs
		}
	}
	same := func(a, b *naiveWaiter) bool { return a.caller == b.caller && a.slotNs == b.slotNs && a.left == b.left }
	if !slices.EqualFunc(want, got, same) {
		require.Equal(w.t, want, got, "%s at %d", key, w.nowNs)
	}
	w.open(key, w.limits[key])
	for i, rate := range w.s.Rates(nil, w.nowNs) {
		backlogNs := rate.FullIn(w.nowNs)
		if wantNs := max(naive.now[i]-w.nowNs, 0); backlogNs != wantNs {
			require.Equal(w.t, wantNs, backlogNs, "limit %d of %s at %d", i, key, w.nowNs)
		}
	}
	waiting := 0
	for _, l := range w.naive {
		for _, x := range l.waiters {
			if !x.left {
				waiting++
			}
		}
	}
	require.Equal(w.t, waiting, w.lines.waits())
}

// finish lets everybody be answered: nothing may be left then.
func (w *world) finish() {
	for _, key := range w.names {
		for len(w.naive[key].waiters) > 0 {
			w.nowNs = max(w.nowNs, w.naive[key].waiters[0].slotNs)
			w.wake(key)
			w.compare(key)
		}
		for i, log := range w.log[key] {
			requirePromise(w.t, w.naive[key].quotas[i], log)
		}
	}
	require.Empty(w.t, w.lines.byName)
	require.Empty(w.t, w.lines.byCaller)
	require.Len(w.t, w.lines.spareLines, len(w.lines.lines))
}

func run(t require.TestingT, pick chance.Draw, steps int, others bool, seen *tally) {
	w := newWorld(t, pick, others, seen)
	for range steps {
		w.step()
	}
	w.finish()
}

func TestLinesEqualTheNaiveOnes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		others bool
	}{
		{"only the lines change their keys, and may be woken late", false},
		{"others reserve and delete", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pick := chance.FromSeed(t)
			steps := size.Of(15_000, 150_000)
			var seen tally
			for seen.steps < steps {
				run(t, pick, 100, tt.others, &seen)
			}
			t.Logf("%+v", seen)
			for _, n := range []int{seen.waited, seen.answered, seen.left, seen.moved} {
				assert.Greater(t, n, steps/50)
			}
			assert.Greater(t, seen.jumped, steps/150)
			if tt.others {
				for _, n := range []int{seen.reserved, seen.deleted, seen.lapsed} {
					assert.Greater(t, n, steps/100)
				}
			} else {
				assert.Greater(t, seen.overdue, steps/100)
			}
		})
	}
}

func TestLinesEqualTheNaiveOnesShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run(t, chance.FromRapid(t), 40, rapid.Bool().Draw(t, "others"), &tally{})
	})
}
