// Every answer compared with a window that remembers every grant.
package window_test

import (
	"flag"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
	"redis-throttle/window"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	m.Run()
}

// model is the naive window. It keeps one event for every charge, in order, and sums
// them anew for every answer.
//
// With a lag it gives two answers: the exact one, and the latest one allowed, in which
// every unit counts up to lag ns longer. An event that has left the exact window at the
// time of a write is gone for the exact answer, also if the clock is set back later.
type model struct {
	count, period, lag int64
	events             []event
}

type event struct {
	at, units int64
	gone      bool
}

type answer bool

const (
	exact  answer = false
	latest answer = true
)

// leavesIn is the time in ns until e no longer counts, 0 or less if it does not.
// An event later than now is read as now.
func (m *model) leavesIn(e event, nowNs int64, which answer) int64 {
	age := nowNs - min(e.at, nowNs)
	if which == exact {
		if e.gone {
			return 0
		}
		return m.period - age
	}
	if left := m.period - age; left <= math.MaxInt64-m.lag {
		return left + m.lag
	}
	return math.MaxInt64
}

func (m *model) available(nowNs int64, which answer) int64 {
	left := m.count
	for _, e := range m.events {
		if m.leavesIn(e, nowNs, which) > 0 {
			left -= min(e.units, left)
		}
	}
	return left
}

func (m *model) retryAfter(nowNs, quantity int64, which answer) int64 {
	if quantity > m.count {
		return window.Never
	}
	// The last one to leave decides: go back from the newest for as long as they
	// and the quantity fit together.
	room := m.count - quantity
	for i := len(m.events) - 1; i >= 0; i-- {
		e := m.events[i]
		wait := m.leavesIn(e, nowNs, which)
		if wait <= 0 {
			continue
		}
		if quantity > 0 && e.units > room {
			return wait
		}
		room -= min(e.units, room)
	}
	return 0
}

func (m *model) resetAfter(nowNs int64, which answer) int64 {
	longest := int64(0)
	for _, e := range m.events {
		longest = max(longest, m.leavesIn(e, nowNs, which))
	}
	return longest
}

// settle is what every write begins with.
func (m *model) settle(nowNs int64) {
	kept := m.events[:0]
	for _, e := range m.events {
		e.gone = m.leavesIn(e, nowNs, exact) <= 0
		if m.leavesIn(e, nowNs, latest) <= 0 {
			continue
		}
		e.at = min(e.at, nowNs)
		kept = append(kept, e)
	}
	m.events = kept
}

func (m *model) charge(nowNs, quantity int64) {
	m.settle(nowNs)
	m.events = append(m.events, event{at: nowNs, units: quantity})
}

// chargeDenied lets the oldest units make room for quantity more. With a lag, the limiter may
// still count some that are gone and let those make room instead: so the latest answer
// goes on counting what made room here.
func (m *model) chargeDenied(nowNs, quantity int64) {
	quantity = min(quantity, m.count)
	if quantity <= 0 {
		return
	}
	m.settle(nowNs)
	used := int64(0)
	for _, e := range m.events {
		if !e.gone {
			used += e.units
		}
	}
	excess := max(0, min(used-(m.count-quantity), quantity))
	var kept []event
	for _, e := range m.events {
		if drop := min(excess, e.units); drop > 0 && !e.gone {
			excess -= drop
			if m.lag > 0 {
				kept = append(kept, event{at: e.at, units: drop, gone: true})
			}
			e.units -= drop
		}
		if e.units > 0 {
			kept = append(kept, e)
		}
	}
	m.events = append(kept, event{at: nowNs, units: quantity})
}

func (m *model) refund(nowNs, quantity int64) {
	if quantity <= 0 {
		return
	}
	m.settle(nowNs)
	for i := len(m.events) - 1; i >= 0 && quantity > 0; i-- {
		e := &m.events[i]
		if e.gone {
			break
		}
		back := min(e.units, quantity)
		e.units -= back
		quantity -= back
	}
	kept := m.events[:0]
	for _, e := range m.events {
		if e.units > 0 {
			kept = append(kept, e)
		}
	}
	m.events = kept
}

// liveInstants is the number of different instants in the exact window.
func (m *model) liveInstants(nowNs int64) int {
	n, last := 0, int64(-1)
	for _, e := range m.events {
		if at := min(e.at, nowNs); m.leavesIn(e, nowNs, exact) > 0 && at != last {
			n, last = n+1, at
		}
	}
	return n
}

// pair is a limiter and the model that it has to equal.
type pair struct {
	t     require.TestingT
	limit window.Limit
	state window.Window // of limit
	model model
	now   int64
}

// between fails unless lo <= got <= hi. It is cheap enough for tens of millions.
func (p *pair) between(lo, got, hi int64, what string) {
	if got < lo || got > hi {
		require.Failf(p.t, what, "%d is not in %d..%d; %+v, now %d, model %+v", got, lo, hi, p.limit, p.now, p.model)
	}
}

func (p *pair) equal(want, got int64, what string) { p.between(want, got, want, what) }

// compare checks all answers at the current instant.
func (p *pair) compare(quantity int64) {
	m, s, now := &p.model, &p.state, p.now
	available := s.Available(now)
	p.between(m.available(now, latest), available, m.available(now, exact), "available")
	p.between(m.resetAfter(now, exact), resetAfter(s, now), m.resetAfter(now, latest), "reset after")
	retry := s.RetryAfter(now, quantity)
	p.between(m.retryAfter(now, quantity, exact), retry, m.retryAfter(now, quantity, latest), "retry after")
	next := nextAfter(s, now)
	if available < count(p.limit) {
		p.equal(s.RetryAfter(now, available+1), next, "next after")
	} else {
		p.equal(0, resetAfter(s, now), "reset of a full one")
		p.equal(0, next, "next of a full one")
	}
}

// keepsItsWord checks that what a state promises for later comes true to the nanosecond.
// Only a settled state promises: another is read differently at every instant.
func (p *pair) keepsItsWord(quantity int64) {
	s := p.state
	s.Settle(p.now)
	later := func(wait int64) int64 { return s.Available(p.now + wait) }

	const most = math.MaxInt64 // what a longer time is given as
	if wait := s.RetryAfter(p.now, quantity); 0 < wait && wait < most && wait <= most-p.now {
		p.between(quantity, later(wait), count(p.limit), "available when told")
		p.between(0, later(wait-1), quantity-1, "available before told")
	}
	if wait := resetAfter(&s, p.now); 0 < wait && wait < most && wait <= most-p.now {
		p.equal(int64(s.ExpireAt()), p.now+wait, "expire at")
		p.equal(0, resetAfter(&s, p.now+wait), "reset when told")
		p.equal(1, resetAfter(&s, p.now+wait-1), "reset before told")
	}
}

func (p *pair) charge(quantity int64) {
	taken := charge(&p.state, p.now, quantity)
	if taken > 0 {
		p.model.charge(p.now, taken)
	}
}

// reload stores the state and reads it back, as every command does.
func (p *pair) reload() {
	encoded := p.state.Append(nil)
	require.LessOrEqual(p.t, len(encoded), window.MaxEncodedLen)
	s := window.Window{Limit: p.limit}
	require.NoError(p.t, s.Decode(encoded))
	require.Equal(p.t, encoded, s.Append(nil))
	p.state = s
}

// chargeAndRefund checks what a refund right after a charge leaves, and leaves it so.
func (p *pair) chargeAndRefund(quantity int64) {
	before := p.state
	before.Settle(p.now)
	taken := charge(&p.state, p.now, quantity)
	if taken == 0 {
		return
	}
	p.equal(taken, p.state.Refund(p.now, taken), "refunded")
	p.model.settle(p.now)

	was, is := before.Append(nil), p.state.Append(nil)
	expireAt := int64(before.ExpireAt())
	joined := expireAt < math.MaxInt64 && expireAt-period(p.limit) >= p.now
	if len(was) == 0 || was[0] < 65 || joined {
		require.Equal(p.t, was, is, "refund after charge")
		return
	}
	// Two entries have become one. From now on that makes no more available than
	// there would have been, and no later than a slot.
	lag := period(p.limit) / 64
	for i := range int64(18) {
		at := p.now + min(period(p.limit)/16*i, math.MaxInt64-p.now)
		p.between(before.Available(max(at-lag, p.now)), p.state.Available(at),
			before.Available(at), "available after a refund")
	}
	p.equal(before.Available(p.now), p.state.Available(p.now), "available right after a refund")
}

// traffic is how a run behaves; drawing it once makes runs differ.
type traffic struct {
	gap         int64 // the usual time between two steps, at most, in ns
	maxQuantity int64
	maxCount    int64
	clockJumps  bool
}

func drawPair(t require.TestingT, pick chance.Draw, exactOnly bool) (*pair, traffic) {
	period := pick.OfAnyMagnitude("period", 1, math.MaxInt64)
	if pick.OneIn("usual period", 2) {
		period = []int64{127, 128, 4096, second, minute, 60 * minute, 24 * 60 * minute}[pick("period", 0, 6)]
	}
	perPeriod := []int64{2, 20, 50, 70, 130, 500, 2000}[pick("steps per period", 0, 6)]
	tr := traffic{
		gap:         max(2*(period/perPeriod), 1),
		maxCount:    pick.OfAnyMagnitude("count", 1, math.MaxInt64),
		maxQuantity: pick.OfAnyMagnitude("quantity", 1, math.MaxInt64),
		clockJumps:  pick.OneIn("clock jumps", 2),
	}
	if !pick.OneIn("unusual quantities", 4) {
		tr.maxQuantity = pick.OfAnyMagnitude("usual quantity", 1, math.MaxInt64/4000)
		tr.maxCount = tr.maxQuantity * pick("quantities in count", 1, 2*perPeriod)
	}
	p := &pair{t: t, now: pick.OfAnyMagnitude("now", 0, 1<<62)}
	p.setCount(tr.maxCount, period)
	if !exactOnly {
		p.model.lag = period / 64
	}
	return p, tr
}

func (p *pair) setCount(count, period int64) {
	p.limit = newLimit(p.t, count, period)
	p.state.Limit = p.limit
	p.model.count, p.model.period = count, period
}

func (p *pair) moveClock(pick chance.Draw, tr traffic) {
	step := pick("step", 0, tr.gap)
	switch kind := pick("clock", 0, 1023); {
	case kind < 100:
		step = 0
	case kind < 105:
		step = pick("pause", 0, period(p.limit))
	case kind < 107:
		step = pick.OfAnyMagnitude("long pause", 0, math.MaxInt64)
	case kind < 109 && tr.clockJumps:
		step = -pick.OfAnyMagnitude("set back", 0, p.now)
	case kind < 114 && tr.clockJumps:
		step = -min(pick("set back within a period", 0, period(p.limit)), p.now)
	case kind < 119 && tr.clockJumps:
		step = -min(pick("set back within a slot", 0, period(p.limit)/64), p.now)
	}
	if step > math.MaxInt64-p.now {
		step = -p.now // time is up; begin again
	}
	p.now += step
}

// run makes steps random steps and compares after each.
func run(t require.TestingT, pick chance.Draw, steps int, exactOnly bool) {
	p, tr := drawPair(t, pick, exactOnly)
	strict := pick.OneIn("strict", 4)
	for range steps {
		p.moveClock(pick, tr)
		if exactOnly {
			if !p.staysExact() {
				continue
			}
		}
		quantity := pick("quantity", 0, min(tr.maxQuantity, tr.maxCount)+1)
		p.compare(quantity)
		switch op := pick("operation", 0, 31); {
		case op < 16: // all or nothing
			if p.state.Available(p.now) >= quantity {
				p.charge(quantity)
			}
		case op < 22: // as many as fit
			p.charge(quantity)
		case op < 24:
			p.state.Refund(p.now, quantity)
			p.model.refund(p.now, quantity)
		case op < 26:
			p.chargeAndRefund(quantity)
		case op < 27:
			p.setCount(tr.maxCount-pick.OfAnyMagnitude("count lowered by", 0, tr.maxCount-1), period(p.limit))
		case op < 28 && strict:
			p.state.ChargeDenied(p.now, quantity, 0)
			p.model.chargeDenied(p.now, quantity)
		case op < 28: // denied
			p.state.Settle(p.now)
			p.model.settle(p.now)
		case op < 30:
			p.keepsItsWord(quantity)
		default:
			p.reload()
		}
		p.compare(quantity)
	}
}

// staysExact says whether a charge now leaves no more than 64 instants in the window. It
// steps aside from where the clock is set back by less than a slot, and charges join what
// is there instead of keeping their own instant.
func (p *pair) staysExact() bool {
	slot := period(p.limit)/64 + 1
	if n := len(p.model.events); n > 0 && p.now < p.model.events[n-1].at {
		for _, e := range p.model.events {
			if e.at > p.now && e.at/slot == p.now/slot {
				p.now = e.at
			}
		}
	}
	return p.model.liveInstants(p.now) < 64
}

// steps is how many random steps a test makes in all.
func steps() int { return size.Of(200_000, 1_000_000) }

func TestUpToSixtyFourChargesItEqualsTheModel(t *testing.T) {
	pick := chance.FromSeed(t)
	for range steps() / 1000 {
		run(t, pick, 1000, true)
	}
}

func TestItNeverLagsTheModelByMoreThanASlot(t *testing.T) {
	pick := chance.FromSeed(t)
	for range steps() / 1000 {
		run(t, pick, 1000, false)
	}
}

func TestUpToSixtyFourChargesItEqualsTheModelShrinkable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { run(t, chance.FromRapid(t), 100, true) })
}

func TestItNeverLagsTheModelByMoreThanASlotShrinkable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { run(t, chance.FromRapid(t), 150, false) })
}
