// Every answer compared with a token bucket in exact rational arithmetic.
package gcra_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/size"
)

// model is the textbook token bucket: a level in units, and the instant it was
// read. It rises by one unit per emission interval, up to the capacity. Going back
// in time takes out again what had come in.
type model struct {
	capacity *big.Rat
	emission *big.Rat // ns per unit
	level    *big.Rat // units
	at       *big.Rat // ns
}

func integer(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// newModel returns a bucket that is full from the epoch on.
func newModel(p params) *model {
	m := &model{at: new(big.Rat)}
	m.setLimit(p)
	m.level = integer(p.capacity)
	return m
}

// newModelFullAt returns a bucket that will be full at fullNs.
func newModelFullAt(p params, fullNs uint64) *model {
	m := newModel(p)
	m.at.SetUint64(fullNs)
	return m
}

func (m *model) setLimit(p params) {
	emission, _, _ := wanted(p.capacity, p.count, p.periodNs, 1)
	m.capacity, m.emission = integer(p.capacity), new(big.Rat).SetInt(emission)
}

// changeLimit keeps the time until the bucket is full.
func (m *model) changeLimit(p params) {
	missing := new(big.Rat).Sub(m.fullAt(), m.at)
	m.setLimit(p)
	m.level = missing.Sub(m.capacity, missing.Quo(missing, m.emission))
}

// timeFor is how long, in ns, units take to come in.
func (m *model) timeFor(units *big.Rat) *big.Rat { return new(big.Rat).Mul(units, m.emission) }

// fullAt is the instant at which the level reaches, or reached, the capacity.
func (m *model) fullAt() *big.Rat {
	full := m.timeFor(new(big.Rat).Sub(m.capacity, m.level))
	return full.Add(full, m.at)
}

// take is Take; the Decision's TAT is left out, fullAt is what a caller stores.
func (m *model) take(nowNs, quantity int64) gcra.Decision {
	now, asked := integer(nowNs), integer(quantity)

	level := new(big.Rat).Sub(now, m.at)
	level.Quo(level, m.emission).Add(level, m.level)
	if level.Cmp(m.capacity) > 0 {
		level.Set(m.capacity)
	}
	overdrawn := level.Sign() < 0
	if overdrawn {
		level.SetInt64(0)
	}

	d := gcra.Decision{RetryAfter: gcra.Never}
	switch {
	case asked.Cmp(m.capacity) > 0:
	case asked.Cmp(level) > 0:
		d.RetryAfter = whole(m.timeFor(asked.Sub(asked, level)))
	default:
		d.Allowed = true
		level.Sub(level, asked)
	}
	if quantity > 0 && (d.Allowed || overdrawn) {
		d.Changed = true
		m.level, m.at = level, now
	}
	d.Remaining = new(big.Int).Quo(level.Num(), level.Denom()).Int64()
	d.ResetAfter = whole(m.timeFor(new(big.Rat).Sub(m.capacity, level)))
	return d
}

// whole is r as an integer; that it is one, although every level is a fraction, is
// part of what the model shows.
func whole(r *big.Rat) int64 {
	if !r.IsInt() || !r.Num().IsInt64() {
		panic("not a 63 bit integer: " + r.String())
	}
	return r.Num().Int64()
}

// pair is a bucket and its model, asked the same.
type pair struct {
	bucket
	model *model
}

func newPair(t require.TestingT, p params, tat uint64) *pair {
	return &pair{bucket{p.limit(t), tat}, newModelFullAt(p, tat)}
}

func (p *pair) changeLimit(t require.TestingT, to params) {
	p.limit = to.limit(t)
	p.model.changeLimit(to)
}

// take asks both and requires every field and the state to be equal.
func (p *pair) take(t require.TestingT, nowNs, quantity int64) gcra.Decision {
	before := p.tat
	got := p.bucket.take(nowNs, quantity)
	want := p.model.take(nowNs, quantity)
	want.TAT = got.TAT // compared below, as the state
	full := p.model.fullAt()
	if got != want || !full.IsInt() || !full.Num().IsUint64() || full.Num().Uint64() != p.tat {
		limit := p.limit
		require.Equal(t, want, got, "capacity %d, emission %d, tat %d, now %d, quantity %d",
			limit.Capacity(), limit.EmissionInterval(), before, nowNs, quantity)
		require.Equal(t, full.RatString(), new(big.Int).SetUint64(p.tat).String(), "state after tat %d, now %d, quantity %d",
			before, nowNs, quantity)
	}
	return got
}

// seen counts what a run came across, so that it cannot pass by avoiding the cases.
type seen struct {
	steps, allowed, denied, never, peeked, corrected, back, exhausted, full int
}

func (s *seen) count(d gcra.Decision, limit gcra.Limit, quantity int64, back bool) {
	tally := func(counter *int, hit bool) {
		if hit {
			*counter++
		}
	}
	tally(&s.steps, true)
	tally(&s.allowed, d.Allowed && quantity > 0)
	tally(&s.denied, d.RetryAfter > 0)
	tally(&s.never, !d.Allowed && d.RetryAfter == gcra.Never)
	tally(&s.peeked, quantity == 0)
	tally(&s.corrected, !d.Allowed && d.Changed)
	tally(&s.back, back)
	tally(&s.exhausted, d.ResetAfter == limit.BurstTolerance())
	tally(&s.full, d.ResetAfter == 0)
}

func (s *seen) requireEverything(t *testing.T) {
	t.Logf("%+v", *s)
	for _, n := range []int{s.allowed, s.denied, s.never, s.peeked, s.corrected, s.back, s.exhausted, s.full} {
		require.Greater(t, n, s.steps/500)
	}
}

// follow sends random traffic to one bucket, whose limit changes now and then.
func follow(t require.TestingT, pick chance.Draw, drawParams func(chance.Draw) params, tat uint64, nowNs int64, steps int, s *seen) {
	p := newPair(t, drawParams(pick), tat)
	tr := traffic{pick: pick, limit: p.limit, nowNs: nowNs}
	for range steps {
		if pick("change the limit", 0, 31) == 31 {
			p.changeLimit(t, drawParams(pick))
			tr.limit = p.limit
		}
		before := tr.nowNs
		now, quantity := tr.next()
		tr.last = p.take(t, now, quantity)
		s.count(tr.last, tr.limit, quantity, now < before)
	}
}

func TestEveryFieldEqualsTheModel(t *testing.T) {
	pick := drawFromSeed(t)
	steps := size.Of(50_000, 1_000_000)
	var s seen
	for s.steps < steps {
		follow(t, pick, drawRealistic, 0, start, 100, &s)
	}
	s.requireEverything(t)
}

func TestEveryFieldEqualsTheModelAtTheExtremes(t *testing.T) {
	pick := drawFromSeed(t)
	steps := size.Of(25_000, 250_000)
	var s seen
	for s.steps < steps {
		tat := uint64(pick("tat", math.MinInt64, math.MaxInt64))
		follow(t, pick, drawExtreme, tat, pick("now", 0, math.MaxInt64), 20, &s)
	}
	s.requireEverything(t)
}

// The same at a smaller scale, for the smallest case that fails.
func TestEveryFieldEqualsTheModelShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		follow(t, chance.FromRapid(t), drawEither(t), rapid.Uint64().Draw(t, "tat"),
			rapid.Int64Range(0, math.MaxInt64).Draw(t, "now"), 50, &seen{})
	})
}

// The model itself, on the example that everybody can check by hand.
func TestTheModelIsATokenBucket(t *testing.T) {
	const s = int64(1e9)
	m := newModel(params{capacity: 16, count: 30, periodNs: 60 * s})
	for range 16 {
		assert.True(t, m.take(start, 1).Allowed)
	}
	assert.Equal(t, gcra.Decision{RetryAfter: 2 * s, ResetAfter: 32 * s}, m.take(start, 1))
	assert.Equal(t, gcra.Decision{RetryAfter: 1 * s, ResetAfter: 31 * s}, m.take(start+s, 1))
	assert.True(t, m.take(start+2*s, 1).Allowed)
	assert.Equal(t, gcra.Decision{Allowed: true, Remaining: 16, RetryAfter: gcra.Never}, m.take(start+34*s, 0))
}
