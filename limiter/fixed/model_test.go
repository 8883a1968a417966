// Every answer compared with a model that is written from the documentation alone. It finds windows of the calendar
// with the standard library.
package fixed_test

import (
	"flag"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/fixed"
)

// Rapid's own default of 100 cases is made for slower code than this.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	m.Run()
}

// limiter is a Window or a First.
type limiter interface {
	BringTo(nowNs int64) (corrected bool)
	Available(nowNs int64) int64
	RetryAfter(nowNs, quantity int64) int64
	Standing(nowNs int64) (count, available, resetNs, nextNs int64)
	ExpireAt() uint64
	Charge(nowNs, quantity, waitNs int64)
	ChargeDenied(nowNs, quantity, spare int64) int64
	Force(nowNs, quantity int64) int64
	Refund(nowNs, quantity int64) int64
	Append(dst []byte) []byte
	Decode(encoded []byte) error
}

// pair is a limiter and the model that it has to equal.
type pair struct {
	t               require.TestingT
	state           limiter
	model           *naive.Alone
	setCount        func(count int64)
	periodNs        int64 // of the calendar, longer than any of its windows
	now, beginsAtNs int64
	endsAtNs        int64 // then the clock begins again
}

func drawMultiples(t require.TestingT, pick chance.Draw, cache *calendar.Cache) *pair {
	period := pick.OfAnyMagnitude("period", 1, math.MaxInt64)
	like := naive.Limit{Kind: naive.Fixed, Period: time.Duration(period)}
	w := &fixed.Window{}
	p := &pair{t: t, state: w, periodNs: period, now: pick.OfAnyMagnitude("now", 0, 1<<62), endsAtNs: math.MaxInt64}
	p.model, p.setCount = modelOf(like, func(count int64) {
		limit := newLimit(t, count, period)
		w.Set(&limit, cache)
	})
	return p
}

func drawCalendar(t require.TestingT, pick chance.Draw, cache *calendar.Cache) *pair {
	c := drawCivil(pick)
	longestDays := map[string]int64{"d": 2, "w": 8, "mo": 32, "y": 367}[c.Unit]
	w := &fixed.Window{}
	begin, end := instant(t, "1971-01-01T00:00:00Z"), instant(t, "2060-01-01T00:00:00Z")
	p := &pair{t: t, state: w, periodNs: c.N * longestDays * 24 * 60 * minute, now: pick("now", begin, end), beginsAtNs: begin, endsAtNs: end}
	p.model, p.setCount = modelOf(naive.Limit{Kind: naive.Fixed, Calendar: c}, func(count int64) {
		limit, err := fixed.NewIn(spec(t, c), count)
		require.NoError(t, err)
		w.Set(&limit, cache)
	})
	return p
}

func drawFirst(t require.TestingT, pick chance.Draw, _ *calendar.Cache) *pair {
	period := pick.OfAnyMagnitude("period", 1, math.MaxInt64)
	f := &fixed.First{}
	p := &pair{t: t, state: f, periodNs: period, now: pick.OfAnyMagnitude("now", 0, 1<<62), endsAtNs: math.MaxInt64}
	p.model, p.setCount = modelOf(naive.Limit{Kind: naive.First, Period: time.Duration(period)}, func(count int64) {
		f.Limit = newLimit(t, count, period)
	})
	return p
}

// modelOf returns the model of a limit, and what sets the count of both.
func modelOf(limit naive.Limit, set func(count int64)) (model *naive.Alone, setCount func(count int64)) {
	limit.Count = 1
	model = limit.Alone()
	return model, func(count int64) {
		set(count)
		limit.Count = count
		model.Change(limit)
	}
}

// equal is cheap enough for tens of millions.
func (p *pair) equal(want, got int64, what string) {
	if want != got {
		require.Failf(p.t, what, "want %d, got %d; %+v, now %d", want, got, p.state, p.now)
	}
}

func (p *pair) compare(quantity int64) {
	s, now := p.state, p.now
	retryNs := p.model.RetryAfter(now, quantity)
	if retryNs == naive.Never {
		retryNs = fixed.Never
	}
	count, left, resetNs, nextNs := p.model.Standing(now)
	gotCount, gotLeft, gotReset, gotNext := s.Standing(now)
	p.equal(left, s.Available(now), "available")
	p.equal(retryNs, s.RetryAfter(now, quantity), "retry after")
	p.equal(count, gotCount, "count")
	p.equal(left, gotLeft, "available, beside the others")
	p.equal(resetNs, gotReset, "reset after")
	p.equal(nextNs, gotNext, "next after")
}

// bringToNow checks also that the state then expires when it says.
func (p *pair) bringToNow() {
	later := p.state.Append(nil)
	corrected := p.state.BringTo(p.now)
	require.Equal(p.t, p.model.BringTo(p.now), corrected)
	require.Equal(p.t, corrected, len(p.state.Append(nil)) > 0 && string(later) != string(p.state.Append(nil)))
	if count, _, reset, _ := p.state.Standing(p.now); reset > 0 && p.now <= math.MaxInt64-reset {
		p.equal(p.now+reset, int64(p.state.ExpireAt()), "expire at")
		p.equal(count, p.state.Available(p.now+reset), "available when reset")
	}
}

// chargeAndRefund checks that the two leave the bytes as they were.
func (p *pair) chargeAndRefund(quantity int64) {
	p.bringToNow()
	before := p.state.Append(nil)
	taken := min(quantity, p.state.Available(p.now))
	p.state.Charge(p.now, quantity, 0)
	p.equal(taken, p.state.Refund(p.now, taken), "refunded")
	require.Equal(p.t, before, p.state.Append(nil))
}

// reload reads the state back from what is stored, as every command does.
func (p *pair) reload() {
	encoded := p.state.Append(nil)
	require.LessOrEqual(p.t, len(encoded), fixed.MaxEncodedLen)
	require.NoError(p.t, p.state.Decode(encoded))
	require.Equal(p.t, encoded, p.state.Append(nil))
}

func (p *pair) moveClock(pick chance.Draw) {
	_, _, reset, _ := p.model.Standing(p.now)
	step := pick("step", 0, p.periodNs/8)
	switch pick("clock", 0, 63) {
	case 0:
		step = pick.OfAnyMagnitude("pause", 0, math.MaxInt64)
	case 1:
		step = -pick.OfAnyMagnitude("set back", 0, p.now)
	case 2, 3:
		step = -pick("set back within two periods", 0, min(p.periodNs, math.MaxInt64/2)*2)
	case 4, 5, 6, 7:
		step = max(reset-1, 0) // to the last instant of the window
	case 8, 9:
		step = reset
	}
	if step > p.endsAtNs-p.now {
		step = p.beginsAtNs - p.now
	}
	p.now = max(p.now+step, p.beginsAtNs)
}

// run makes steps random steps and compares after each.
func (p *pair) run(pick chance.Draw, steps int) {
	maxCount := pick.OfAnyMagnitude("count", 1, math.MaxInt64)
	maxQuantity := pick.OfAnyMagnitude("quantity", 1, maxCount)
	p.setCount(maxCount)
	for range steps {
		p.moveClock(pick)
		quantity := pick("quantity", 0, min(maxQuantity, math.MaxInt64-1)+1)
		p.compare(quantity)
		switch op := pick("operation", 0, 31); {
		case op < 20: // as many as fit
			if taken := min(quantity, p.state.Available(p.now)); taken > 0 {
				p.state.Charge(p.now, quantity, 0)
				p.model.Charge(p.now, taken, 0)
			}
		case op < 22:
			if quantity > 0 {
				p.state.Force(p.now, quantity)
				p.model.Charge(p.now, quantity, 0)
			}
		case op < 24:
			if quantity > 0 {
				p.equal(p.model.Refund(p.now, quantity), p.state.Refund(p.now, quantity), "refunded")
			}
		case op < 26:
			p.chargeAndRefund(quantity)
		case op < 27:
			p.setCount(maxCount - pick.OfAnyMagnitude("count lowered by", 0, maxCount-1))
		case op < 28:
			p.bringToNow()
		case op < 30:
			p.bringToNow()
			spare := pick.OfAnyMagnitude("spare", 0, maxCount)
			p.equal(p.model.ChargeDenied(p.now, quantity, spare), p.state.ChargeDenied(p.now, quantity, spare), "charged when denied")
		default:
			p.reload()
		}
		p.compare(quantity)
	}
}

func TestItEqualsTheModel(t *testing.T) {
	for _, tt := range []struct {
		name string
		draw func(require.TestingT, chance.Draw, *calendar.Cache) *pair
		runs int
	}{
		{"multiples of a period", drawMultiples, size.Of(100, 1000)},
		{"windows of a calendar", drawCalendar, size.Of(10, 50)},
		{"from the first unit on", drawFirst, size.Of(100, 1000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pick, cache := chance.FromSeed(t), &calendar.Cache{}
			for range tt.runs {
				tt.draw(t, pick, cache).run(pick, 1000)
			}
			rapid.Check(t, func(t *rapid.T) {
				shrinks := chance.FromRapid(t)
				tt.draw(t, shrinks, cache).run(shrinks, 50)
			})
		})
	}
}
