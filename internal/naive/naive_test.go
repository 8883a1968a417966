package naive_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/internal/naive"
)

const (
	start  = int64(1_800_000_000_000_000_000)
	second = int64(time.Second)
	minute = int64(time.Minute)
)

// The examples of docs/cl.limit.md and docs/cl.refund.md, without the time that goes by between two commands.
func TestTheModelAnswersTheExamplesOfTheDocumentation(t *testing.T) {
	var user, sms, mail, report naive.Model
	stack := []naive.Limit{{Kind: naive.Rate, Count: 60, Period: time.Hour, Burst: 10}, {Kind: naive.Rate, Count: 500, Period: 24 * time.Hour}}
	assert.Equal(t, [10]int64{0, 1, 10, 7, -1, 180_000, 60_000, 3, 0}, user.Take(start, stack, naive.Options{Cost: 3}).Fields())
	assert.Equal(t, [10]int64{1, 1, 10, 7, 60_000, 180_000, 60_000, 0, 0}, user.Take(start, stack, naive.Options{Cost: 8}).Fields())
	assert.Equal(t, [10]int64{0, 1, 10, 0, -1, 600_000, 60_000, 7, 0}, user.Take(start, stack, naive.Options{Cost: 8, UpTo: true}).Fields())

	three, five := []naive.Limit{{Kind: naive.Window, Count: 3, Period: time.Hour}}, []naive.Limit{{Kind: naive.Window, Count: 5, Period: time.Hour}}
	assert.Equal(t, [10]int64{0, 1, 3, 0, -1, 3_600_000, 3_600_000, 3, 0}, sms.Take(start, three, naive.Options{Cost: 3}).Fields())
	assert.Equal(t, [10]int64{1, 1, 3, 0, 3_600_000, 3_600_000, 3_600_000, 0, 0}, sms.Take(start, three, naive.Options{Cost: 1}).Fields())
	assert.Equal(t, [10]int64{0, 1, 5, 1, -1, 3_600_000, 3_600_000, 1, 0}, sms.Take(start, five, naive.Options{Cost: 1}).Fields())

	one := []naive.Limit{{Kind: naive.Rate, Count: 1, Period: time.Minute}}
	patient := naive.Options{Cost: 1, MaxWait: 5 * time.Minute}
	assert.Equal(t, [10]int64{0, 1, 1, 0, -1, 60_000, 60_000, 1, 0}, mail.Take(start, one, patient).Fields())
	assert.Equal(t, [10]int64{0, 1, 1, 0, -1, 120_000, 120_000, 1, 60_000}, mail.Take(start, one, patient).Fields())

	slow := []naive.Limit{{Kind: naive.Rate, Count: 60, Period: time.Hour, Burst: 10}, {Kind: naive.Rate, Count: 60, Period: time.Minute, Burst: 20}}
	report.Take(start, slow, naive.Options{Cost: 10})
	assert.Equal(t, int64(300_000), report.Take(start, slow, naive.Options{Cost: 5, MaxWait: 10 * time.Minute}).Fields()[8])
	assert.Equal(t, [10]int64{1, 1, 20, 0, 286_000, 305_000, 286_000, 0, 0}, report.Peek(start, slow[1:], 1).Fields())

	var throttled naive.Model
	assert.Equal(t, [5]int64{0, 10, 4, -1, 360}, throttled.Throttle(start, 9, 60, time.Hour, 6).Throttle())
	assert.Equal(t, [10]int64{0, 1, 10, 6, -1, 240_000, 60_000, -2, 0}, throttled.Refund(start, stack[:1], 2).Fields())
	assert.Equal(t, [10]int64{0, 1, 10, 10, -1, 0, 0, -4, 0}, throttled.Refund(start, stack[:1], 100).Fields())
	assert.Equal(t, int64(-2), throttled.ExpiresMs(start))
}

func TestTheModelUndoesAReservationOnAStack(t *testing.T) {
	var m naive.Model
	stack := []naive.Limit{{Kind: naive.Rate, Count: 60, Period: time.Hour, Burst: 10}, {Kind: naive.Rate, Count: 60, Period: time.Minute, Burst: 20}}
	m.Take(start, stack, naive.Options{Cost: 5})
	before := m.Clone()
	assert.Equal(t, int64(180_000), m.Take(start, stack, naive.Options{Cost: 8, MaxWait: 10 * time.Minute}).Fields()[8])
	m.Refund(start, stack, 8)
	for _, limit := range stack {
		one := []naive.Limit{limit}
		assert.Equal(t, before.Peek(start, one, 1), m.Peek(start, one, 1))
	}
	assert.Equal(t, before.ExpiresMs(start), m.ExpiresMs(start))
}

// What a WINDOW is for, counted from outside: no interval holds more than count units, also where the model
// no longer keeps the instant of each.
func TestTheModelsWindowHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	const count, period = 300, 10_000
	var m naive.Model
	limits := []naive.Limit{{Kind: naive.Window, Count: count, Period: period}}
	type grant struct{ at, units int64 }
	var granted []grant
	for now := start; len(granted) < 1000; now += r.Int64N(period / 60) {
		if f := m.Take(now, limits, naive.Options{Cost: 1 + r.Int64N(4), UpTo: true}).Fields(); f[7] > 0 {
			granted = append(granted, grant{now, f[7]})
		}
	}
	fullest := int64(0)
	for i := range granted {
		units := int64(0)
		for _, g := range granted[i:] {
			if g.at < granted[i].at+period {
				units += g.units
			}
		}
		fullest = max(fullest, units)
	}
	assert.LessOrEqual(t, fullest, int64(count))
	assert.Greater(t, fullest, int64(count*9/10))
}

func TestAModelsClockMayGoBack(t *testing.T) {
	for _, tt := range []struct {
		limit naive.Limit
		wait  int64 // ms, a day before
	}{
		{naive.Limit{Kind: naive.Rate, Count: 2, Period: time.Minute}, 30_000},
		{naive.Limit{Kind: naive.Window, Count: 2, Period: time.Minute}, 60_000},
		{naive.Limit{Kind: naive.Fixed, Count: 2, Period: time.Minute}, 50_000},
	} {
		var m naive.Model
		limits := []naive.Limit{tt.limit}
		now := start - start%minute
		m.Take(now, limits, naive.Options{Cost: 2})
		now -= 24*60*minute - 10*second
		assert.Equal(t, tt.wait, m.Peek(now, limits, 1).Fields()[4], tt.limit)
		m.Take(now, limits, naive.Options{Cost: 1})
		assert.Equal(t, tt.wait-1000, m.Peek(now+second, limits, 1).Fields()[4], tt.limit)
	}
}
