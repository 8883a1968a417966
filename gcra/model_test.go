// Every answer compared with a model that is written from the documentation alone, in numbers of any size.
package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/gcra"
	"redis-throttle/internal/chance"
	"redis-throttle/internal/naive"
	"redis-throttle/internal/size"
)

// naive is the limit as the model has it.
func (p params) naive() naive.Limit {
	return naive.Limit{Kind: naive.Rate, Count: p.count, Period: time.Duration(p.periodNs), Burst: p.capacity}
}

// pair is a bucket that is a lone number, as CL.THROTTLE has it, and its model.
type pair struct {
	bucket
	model *naive.Alone
}

func newPair(t require.TestingT, p params, tat uint64) *pair {
	return &pair{bucket{p.limit(t), tat}, p.naive().FullAt(tat)}
}

func (p *pair) changeLimit(t require.TestingT, to params) {
	p.limit = to.limit(t)
	p.model.Change(to.naive())
}

// take asks both and requires every field to be equal. The next call shows whether the states are.
func (p *pair) take(t require.TestingT, nowNs, quantity int64) gcra.Decision {
	before := p.tat
	got := p.bucket.take(nowNs, quantity)
	reply, stored := p.model.Throttle(nowNs, quantity)
	want := gcra.Decision{
		Allowed: reply.Limited == 0, Changed: stored, TAT: uint64(nowNs) + uint64(reply.ResetAfter.Int64()),
		Remaining: reply.Remaining, RetryAfter: reply.RetryAfter.Int64(), ResetAfter: reply.ResetAfter.Int64(),
	}
	if !stored {
		want.TAT = got.TAT
	}
	if got != want {
		require.Equal(t, want, got, "capacity %d, emission %d, tat %d, now %d, quantity %d",
			p.limit.Capacity(), emission(p.limit), before, nowNs, quantity)
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
	tally(&s.exhausted, d.ResetAfter == tolerance(limit))
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

// queuePair is a bucket that also takes reservations, as package stack has it, and its model.
type queuePair struct {
	t require.TestingT
	gcra.Bucket
	model *naive.Alone
}

func (p *queuePair) same(want, got any, what string, nowNs, quantity int64) {
	if want != got {
		require.Equal(p.t, want, got, "%s of %+v at %d, quantity %d", what, p.Bucket, nowNs, quantity)
	}
}

// reload stores the state and reads it back, as every command does.
func (p *queuePair) reload(nowNs int64) {
	encoded, was := p.Append(make([]byte, 0, gcra.MaxEncodedLen)), p.State
	p.State = gcra.State{TAT: 5}
	require.NoError(p.t, p.Decode(encoded))
	p.same(was, p.State, "what is read back", nowNs, 0)
	words := 0
	if p.TAT > 0 {
		words = 1
	}
	if lifts := (len(encoded)/8 - 2) / 2; lifts > 0 || !p.Plain() {
		words = 2 + 2*lifts
	}
	p.same(8*words, len(encoded), "bytes", nowNs, 0)
}

// compare checks all answers, and returns them in the form of a Decision.
func (p *queuePair) compare(nowNs, quantity int64) gcra.Decision {
	capacity, available, reset, next := p.Standing(nowNs)
	wantCapacity, wantAvailable, wantReset, wantNext := p.model.Standing(nowNs)
	p.same(wantCapacity, capacity, "capacity", nowNs, quantity)
	p.same(wantAvailable, available, "available", nowNs, quantity)
	p.same(wantReset, reset, "reset after", nowNs, quantity)
	p.same(wantNext, next, "next after", nowNs, quantity)
	p.same(available, p.Available(nowNs), "available", nowNs, quantity)
	retry := p.RetryAfter(nowNs, quantity)
	p.same(p.model.RetryAfter(nowNs, quantity), retry, "retry after", nowNs, quantity)
	return gcra.Decision{Remaining: available, RetryAfter: retry, ResetAfter: reset}
}

// queueSeen counts what a run came across, so that it cannot pass by avoiding the cases.
type queueSeen struct {
	steps, reservations, idle, denied, spared, forced, refunds, undone, many, corrected, queued, full int
}

// everything reports whether all of it came up as often as in so many steps it has to.
func (s *queueSeen) everything(steps int) bool {
	return min(s.reservations, s.idle, s.denied, s.spared, s.forced, s.refunds, s.undone, s.many, s.corrected, s.queued, s.full) > steps/500
}

// reserve charges units of which another limit may make the request wait longer than this one.
func (p *queuePair) reserve(pick chance.Draw, nowNs, quantity int64, last gcra.Decision, lifts bool, seen *queueSeen) {
	wait, longest := last.RetryAfter, p.LongestWait()
	if wait == gcra.Never || wait > longest || quantity == 0 {
		return
	}
	if lifts || pick("another limit waits longer", 1, 4) == 1 {
		wait = pick("wait", wait, min(longest, add(last.ResetAfter, tolerance(p.Limit))))
		seen.idle++
	}
	seen.reservations++
	p.Charge(nowNs, quantity, wait)
	p.model.Charge(nowNs, quantity, wait)
	if len(p.model.Lifts(nowNs)) == 4 {
		seen.many++
	}
}

func (p *queuePair) step(pick chance.Draw, nowNs, quantity int64, last gcra.Decision, lifts bool, seen *queueSeen) {
	if last.ResetAfter == 0 {
		seen.full++
	}
	if last.ResetAfter > tolerance(p.Limit) {
		seen.queued++
	}
	switch pick("operation", 1, 9) {
	case 1, 2, 3, 8:
		p.reserve(pick, nowNs, quantity, last, lifts, seen)
	case 4:
		seen.denied++
		spare := int64(0)
		if pick("units to spare", 1, 2) == 1 {
			spare = pick("spare", 0, add(p.Capacity(), 1))
			seen.spared++
		}
		p.same(p.model.ChargeDenied(nowNs, quantity, spare), p.ChargeDenied(nowNs, quantity, spare), "charged denied", nowNs, quantity)
	case 5, 7:
		seen.refunds++
		if last := p.model.Lifts(nowNs); len(last) > 0 && pick("a refund of the last charge", 0, 1) == 1 {
			quantity = last[0]
			seen.undone++
		}
		p.same(p.model.Refund(nowNs, quantity), p.Refund(nowNs, quantity), "refunded", nowNs, quantity)
	case 9: // what does not fit into 63 bits is in TestForceFillsUpTo63Bits
		if room := (math.MaxInt64 - last.ResetAfter) / emission(p.Limit); quantity <= room && quantity > 0 {
			seen.forced++
			p.same(quantity, p.Force(nowNs, quantity), "forced", nowNs, quantity)
			p.model.Charge(nowNs, quantity, 0)
		}
	case 6:
		corrected := p.BringTo(nowNs)
		if corrected {
			seen.corrected++
		}
		p.same(p.model.BringTo(nowNs), corrected, "corrected", nowNs, quantity)
	}
}

func followQueue(t require.TestingT, pick chance.Draw, drawParams func(chance.Draw) params, nowNs int64, steps int, seen *queueSeen) {
	params := drawParams(pick)
	p := &queuePair{t: t, Bucket: gcra.Bucket{Limit: params.limit(t)}, model: params.naive().Alone()}
	tr := traffic{pick: pick, limit: p.Limit, nowNs: nowNs}
	lifts := pick("one lift after another", 1, 2) == 1
	for range steps {
		if pick("change the limit", 0, 31) == 31 {
			params = drawParams(pick)
			p.Limit = params.limit(t)
			p.model.Change(params.naive())
			tr.limit = p.Limit
		}
		was := tr.nowNs
		now, quantity := tr.next()
		if lifts && pick("time goes by", 1, 8) > 1 {
			now, tr.nowNs = was, was
		}
		tr.last = p.compare(now, quantity)
		p.step(pick, now, quantity, tr.last, lifts, seen)
		p.reload(now)
		seen.steps++
	}
}

func TestEveryAnswerOfAStateEqualsTheModel(t *testing.T) {
	pick := drawFromSeed(t)
	steps := size.Of(10_000, 100_000)
	for _, drawParams := range []func(chance.Draw) params{drawRealistic, drawExtreme} {
		var seen queueSeen
		for seen.steps < steps || seen.steps < 4*steps && !seen.everything(steps) {
			followQueue(t, pick, drawParams, pick("now", 0, math.MaxInt64), 50, &seen)
		}
		t.Logf("%+v", seen)
		require.True(t, seen.everything(steps), "%+v", seen)
	}
}

func TestEveryAnswerOfAStateEqualsTheModelShrunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		followQueue(t, chance.FromRapid(t), drawEither(t), rapid.Int64Range(0, math.MaxInt64).Draw(t, "now"), 10, &queueSeen{})
	})
}
