// Every answer compared with a model that is written from the documentation alone, and the promise itself
// checked on the log of granted units alone.
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

// pair is a limiter and the model that it has to equal.
type pair struct {
	t     require.TestingT
	limit fixed.Limit
	state fixed.Window // of limit
	model *naive.Alone
	now   int64
}

// equal is cheap enough for tens of millions.
func (p *pair) equal(want, got int64, what string) {
	if want != got {
		require.Failf(p.t, what, "want %d, got %d; %+v %+v, now %d", want, got, p.limit, p.state, p.now)
	}
}

func (p *pair) compare(quantity int64) {
	s, now := &p.state, p.now
	retryNs := p.model.RetryAfter(now, quantity)
	if retryNs == naive.Never {
		retryNs = fixed.Never
	}
	_, left, resetNs, nextNs := p.model.Standing(now)
	p.equal(left, s.Available(now), "available")
	p.equal(retryNs, s.RetryAfter(now, quantity), "retry after")
	p.equal(resetNs, resetAfter(s, now), "reset after")
	p.equal(nextNs, nextAfter(s, now), "next after")
}

// bringToNow checks also that the state then expires when it says.
func (p *pair) bringToNow() {
	later := p.state.Append(nil)
	corrected := p.state.BringTo(p.now)
	require.Equal(p.t, p.model.BringTo(p.now), corrected)
	require.Equal(p.t, corrected, len(p.state.Append(nil)) > 0 && string(later) != string(p.state.Append(nil)))
	if reset := resetAfter(&p.state, p.now); reset > 0 && p.now <= math.MaxInt64-reset {
		p.equal(p.now+reset, int64(p.state.ExpireAt()), "expire at")
		p.equal(count(p.limit), p.state.Available(p.now+reset), "available when reset")
	}
}

// chargeAndRefund checks that the two leave the bytes as they were.
func (p *pair) chargeAndRefund(quantity int64) {
	before := p.state
	before.BringTo(p.now)
	if taken := charge(&p.state, p.now, quantity); taken > 0 {
		p.equal(taken, p.state.Refund(p.now, taken), "refunded")
		p.model.BringTo(p.now)
		require.Equal(p.t, before.Append(nil), p.state.Append(nil))
	}
}

// reload stores the state and reads it back, as every command does.
func (p *pair) reload() {
	encoded := p.state.Append(nil)
	s := windowOf(p.limit)
	require.NoError(p.t, s.Decode(encoded))
	require.Equal(p.t, encoded, s.Append(nil))
	p.state = s
}

// run makes steps random steps and compares after each.
func run(t require.TestingT, pick chance.Draw, steps int) {
	period := pick.OfAnyMagnitude("period", 1, math.MaxInt64)
	maxCount := pick.OfAnyMagnitude("count", 1, math.MaxInt64)
	maxQuantity := pick.OfAnyMagnitude("quantity", 1, maxCount)
	p := &pair{t: t, now: pick.OfAnyMagnitude("now", 0, 1<<62), model: naive.Limit{Kind: naive.Fixed, Count: 1, Period: time.Duration(period)}.Alone()}
	setCount := func(count int64) {
		p.limit = newLimit(t, count, period)
		p.state.Set(&p.limit, &calendar.Cache{})
		p.model.Change(naive.Limit{Kind: naive.Fixed, Count: count, Period: time.Duration(period)})
	}
	setCount(maxCount)

	for range steps {
		step := pick("step", 0, period/8)
		switch pick("clock", 0, 63) {
		case 0:
			step = pick.OfAnyMagnitude("pause", 0, math.MaxInt64)
		case 1:
			step = -pick.OfAnyMagnitude("set back", 0, p.now)
		case 2, 3:
			step = -min(pick("set back within two periods", 0, min(period, math.MaxInt64/2)*2), p.now)
		case 4, 5:
			step = period - 1 - p.now%period // to the last instant of the window
		}
		if step > math.MaxInt64-p.now {
			step = -p.now // time is up; begin again
		}
		p.now += step

		quantity := pick("quantity", 0, min(maxQuantity, math.MaxInt64-1)+1)
		p.compare(quantity)
		switch op := pick("operation", 0, 31); {
		case op < 16: // all or nothing
			if p.state.Available(p.now) >= quantity && quantity > 0 {
				p.equal(quantity, charge(&p.state, p.now, quantity), "charged")
				p.model.Charge(p.now, quantity, 0)
			}
		case op < 22: // as many as fit
			want := min(quantity, p.model.Available(p.now))
			p.equal(want, charge(&p.state, p.now, quantity), "charged")
			if want > 0 {
				p.model.Charge(p.now, want, 0)
			}
		case op < 24:
			if quantity > 0 {
				p.equal(p.model.Refund(p.now, quantity), p.state.Refund(p.now, quantity), "refunded")
			}
		case op < 26:
			p.chargeAndRefund(quantity)
		case op < 27:
			setCount(maxCount - pick.OfAnyMagnitude("count lowered by", 0, maxCount-1))
		case op < 28: // denied
			p.bringToNow()
		default:
			p.reload()
		}
		p.compare(quantity)
	}
}

// steps is how many random steps a test makes in all.
func steps() int { return size.Of(100_000, 1_000_000) }

func TestItEqualsTheModel(t *testing.T) {
	pick := chance.FromSeed(t)
	for range steps() / 1000 {
		run(t, pick, 1000)
	}
}

func TestItEqualsTheModelShrinkable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { run(t, chance.FromRapid(t), 100) })
}
