package migrating

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
)

// numbers are the arguments of a call that are integers of 64 bits.
type numbers struct{ maxBurst, count, period, quantity int64 }

// answer is a reply: five integers, or an error.
type answer struct {
	limited, limit, remaining, retryAfter, resetAfter int64
	refused                                           bool
}

func (a answer) String() string {
	if a.refused {
		return "an error"
	}
	return fmt.Sprint([]int64{a.limited, a.limit, a.remaining, a.retryAfter, a.resetAfter})
}

// rules are those by which the two modules differ on the same state at the same instant. All false is this
// module, all true is redis-cell 0.5.0. They are turned on in the order of ladder, so that a
// difference in a reply is put down to the rule that makes it.
type rules struct {
	// forgets: a key is gone up to a millisecond before its bucket is full.
	forgets bool
	// fastInterval: the emission interval is rounded down, by a division of floating point numbers.
	fastInterval bool
	// keepsOldRate: a time further ahead than an empty bucket of this limit is waited for.
	keepsOldRate bool
	// microseconds: what remains is counted in whole microseconds.
	microseconds bool
	// shortSeconds: a rest of less than a millisecond is not rounded up to a second.
	shortSeconds bool
	// wraps: products beyond 2^63 wrap around.
	wraps bool
}

type rung struct {
	class string
	rule  func(*rules)
}

var ladder = []rung{
	{"redis-cell forgot the last millisecond of a bucket", func(r *rules) { r.forgets = true }},
	{"emission interval rounded down", func(r *rules) { r.fastInterval = true }},
	{"a raised rate: redis-cell waits for the old one", func(r *rules) { r.keepsOldRate = true }},
	{"remaining counted in microseconds", func(r *rules) { r.microseconds = true }},
	{"seconds rounded down", func(r *rules) { r.shortSeconds = true }},
	{"numbers wrap around", func(r *rules) { r.wraps = true }},
}

// state is what a key holds before a call: the theoretical arrival time, and the instant in ms after which
// redis-cell's key is gone.
type state struct {
	exists    bool
	tat       uint64
	expiresMs int64
}

// decide is the reply to a call by these rules.
func (r rules) decide(n numbers, s state, now int64) answer {
	interval, ok := emissionInterval(n, r.fastInterval)
	if !ok {
		return answer{refused: true}
	}
	product := func(a, b int64) *big.Int {
		if r.wraps {
			return big.NewInt(a * b)
		}
		return new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	}
	a := answer{limit: n.maxBurst + 1, retryAfter: -1}
	tolerance, increment := product(interval, a.limit), product(interval, n.quantity)

	backlog := new(big.Int)
	gone := r.forgets && s.expiresMs < now/int64(time.Millisecond)
	if s.exists && !gone {
		backlog.Sub(new(big.Int).SetUint64(s.tat), big.NewInt(now))
	}
	if !r.keepsOldRate && backlog.Cmp(tolerance) > 0 {
		backlog.Set(tolerance)
	}
	after := new(big.Int).Set(backlog)
	if after.Sign() < 0 {
		after.SetInt64(0)
	}
	full := new(big.Int).Set(after) // by when the bucket is full if nothing is taken
	after.Add(after, increment)
	if missing := new(big.Int).Sub(after, tolerance); missing.Sign() > 0 {
		a.limited = 1
		if increment.Cmp(tolerance) <= 0 {
			a.retryAfter = r.seconds(missing)
		}
		after = full
		if r.keepsOldRate {
			after = backlog
		}
	} else if ms := new(big.Int).Quo(after, big.NewInt(int64(time.Millisecond))).Int64(); ms < -1 {
		return answer{refused: true} // redis-cell cannot set such an expiry
	}
	a.remaining = r.units(new(big.Int).Sub(tolerance, after), interval)
	a.resetAfter = r.seconds(after)
	return a
}

// emissionInterval is in ns, exact and rounded up or as redis-cell has it.
func emissionInterval(n numbers, fast bool) (int64, bool) {
	ns := new(big.Int).Mul(big.NewInt(n.period), big.NewInt(int64(time.Second)))
	if n.count == 0 || ns.Sign() == 0 {
		return 0, false
	}
	if fast {
		f, _ := new(big.Float).SetInt(ns).Float64()
		interval := saturated(f / float64(n.count))
		return interval, interval != 0
	}
	return exactInterval(n).Int64(), true
}

// exactInterval is in ns, rounded up, for a positive count and period.
func exactInterval(n numbers) *big.Int {
	ns := new(big.Int).Mul(big.NewInt(n.period), big.NewInt(int64(time.Second)))
	ns.Add(ns, big.NewInt(n.count-1))
	return ns.Div(ns, big.NewInt(n.count))
}

// seconds are whole ones, rounded up, or as redis-cell rounds them: it cuts off a floating point number, and adds
// one if there are whole milliseconds besides.
func (r rules) seconds(ns *big.Int) int64 {
	rest := new(big.Int)
	whole, _ := new(big.Int).QuoRem(ns, big.NewInt(int64(time.Second)), rest)
	if r.shortSeconds {
		seconds := saturated(float64(whole.Int64()) + float64(rest.Int64())/1e9)
		if rest.Cmp(big.NewInt(int64(time.Millisecond))) >= 0 {
			seconds++
		}
		return seconds
	}
	if rest.Sign() > 0 {
		return whole.Int64() + 1
	}
	return whole.Int64()
}

func (r rules) units(ns *big.Int, interval int64) int64 {
	if !r.microseconds {
		if ns.Sign() < 0 {
			return 0
		}
		return new(big.Int).Quo(ns, big.NewInt(interval)).Int64()
	}
	if ns.Cmp(new(big.Int).Neg(big.NewInt(interval))) <= 0 {
		return 0
	}
	micros, _ := new(big.Float).SetInt(new(big.Int).Quo(ns, big.NewInt(1000))).Float64()
	return saturated(micros / float64(interval/1000))
}

// saturated is a floating point number as an integer: cut off, the nearest there is, 0 for none.
func saturated(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// parse reads the words as redis-cell does.
func parse(words []string) (n numbers, ok bool) {
	if len(words) != 3 && len(words) != 4 {
		return n, false
	}
	n.quantity = 1
	for i, field := range []*int64{&n.maxBurst, &n.count, &n.period, &n.quantity}[:len(words)] {
		var err error
		if *field, err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return n, false
		}
	}
	return n, true
}
