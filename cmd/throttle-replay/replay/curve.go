package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"redis-throttle/gcra"
)

// The curve of a token bucket: for each rate, the burst that a client needs never to be limited.
//
// A bucket with the emission interval E that never denies anything adds E to its backlog with each unit, and the
// backlog falls by the time that passes. A limit with burst B denies as soon as the backlog would exceed B x E (package
// gcra). So the burst that a client needs is the highest backlog, in emission intervals, rounded up: one pass over its
// requests, with two numbers. No estimate is in it, and no limit has to be tried. A faster rate never needs a larger
// burst.

// rate is a rate that people write: count per unit.
type rate struct {
	count      int64
	unit       string
	emissionNs int64
}

// String is the rate as CL.LIMIT takes it.
func (r rate) String() string { return fmt.Sprintf("%d/%s", r.count, r.unit) }

func (r rate) perSecond() float64 { return 1e9 / float64(r.emissionNs) }

// limit is the rate with a burst; ok is false for a burst that no RATE can have.
func (r rate) limit(burst int64) (l gcra.Limit, ok bool) {
	l, err := gcra.New(burst, r.count, 1, lengths[r.unit])
	return l, err == nil
}

// words are what CL.LIMIT is told.
func (r rate) words(burst int64) string { return fmt.Sprintf("RATE %s BURST %d", r, burst) }

// rates are those that a report offers, from the slowest to the fastest: numbers that people choose, eight or so for
// each power of ten.
var rates = func() (all []rate) {
	add := func(unit string, counts ...int64) {
		for _, n := range counts {
			length := int64(lengths[unit])
			all = append(all, rate{n, unit, (length + n - 1) / n})
		}
	}
	add("d", 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
	add("h", 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)
	add("m", 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)
	add("s", 1)
	add("m", 90)
	for _, power := range []int64{1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000} {
		add("s", 2*power, 3*power, 4*power, 5*power, 6*power, 8*power, 10*power, 12*power, 15*power)
	}
	slices.SortFunc(all, func(a, b rate) int { return cmp.Compare(b.emissionNs, a.emissionNs) })
	return slices.CompactFunc(all, func(a, b rate) bool { return a.emissionNs == b.emissionNs })
}()

// mostRates is how many of them a report has at most.
const mostRates = 48

// chooseRates returns the rates at which there is something to choose: from half of what an ordinary client does in its
// busiest hour, to what the largest client does in its busiest second.
func chooseRates(perHour, perSecond, mostUnits int64) []rate {
	from := slices.IndexFunc(rates, func(r rate) bool { return r.emissionNs <= 2*hourNs/max(perHour, 1) })
	to := slices.IndexFunc(rates, func(r rate) bool { return r.emissionNs <= 1e9/max(perSecond, 1) })
	if to < 0 {
		to = len(rates) - 1
	}
	if from < 0 {
		from = len(rates) - 1
	}
	from = max(min(from, to-8), 0)
	// A backlog of 2^62 ns or more is none of a limit.
	for from < to && rates[from].emissionNs > (1<<62)/max(mostUnits, 1) {
		from++
	}
	chosen := rates[from : to+1]
	for len(chosen) > mostRates { // every other one, from the fastest on
		var half []rate
		for i := len(chosen) - 1; i >= 0; i -= 2 {
			half = append(half, chosen[i])
		}
		slices.Reverse(half)
		chosen = half
	}
	return chosen
}

// backlog is what a bucket that never denies has to hold, for one client and one rate.
type backlog struct{ tat, highest int64 }

// need returns the burst that it takes, which is at least 1.
func (b *backlog) need(emissionNs int64) int64 {
	if b.highest <= emissionNs { // most clients, at most rates
		return 1
	}
	return (b.highest-1)/emissionNs + 1
}

// feed adds requests. emissionNs times all units of a client is below 2^62.
func (b *backlog) feed(times, costs []int64, emissionNs int64) {
	tat, highest := b.tat, b.highest
	if len(costs) == 0 {
		for _, ns := range times {
			tat = max(tat, ns) + emissionNs
			highest = max(highest, tat-ns)
		}
	} else {
		for i, ns := range times {
			tat = max(tat, ns) + costs[i]*emissionNs
			highest = max(highest, tat-ns)
		}
	}
	b.tat, b.highest = tat, highest
}

// bucket is a rate with a burst that denies, for one client: what package gcra decides, without all that a reply says.
type bucket struct {
	limit  gcra.Limit
	tat    uint64
	denied int64
}

func (b *bucket) feed(times, costs []int64) {
	var d gcra.Decision
	tat, denied := b.tat, b.denied
	for i, ns := range times {
		cost := int64(1)
		if len(costs) > 0 {
			cost = costs[i]
		}
		b.limit.TakeTo(&d, tat, ns, cost)
		if d.Changed {
			tat = d.TAT
		}
		if !d.Allowed {
			denied++
		}
	}
	b.tat, b.denied = tat, denied
}

// column is a line of a curve: the clients that a burst spares.
type column struct {
	name string
	share
	isOrdinary  bool // all that do not stand out
	isSuggested bool
}

// fewClients is how many make a share of 99.9 % none that leaves a client out.
const fewClients = 1000

// columnsOf are the columns of a curve. Of few clients, a share leaves nobody out, so the largest one, two and five are
// left out instead: the largest may be who should be limited.
func columnsOf(clients, outliers int64) (all []column) {
	all = append(all, column{name: "50 %", share: share{50, 100}})
	if clients >= fewClients {
		all = append(all, column{name: "90 %", share: share{90, 100}}, column{name: "99 %", share: share{99, 100}, isSuggested: true},
			column{name: "99.9 %", share: share{999, 1000}, isSuggested: true})
	} else {
		for _, n := range []int64{5, 2, 1} {
			if 2*n < clients && n != outliers {
				all = append(all, column{name: fmt.Sprintf("all but %d", n), share: share{clients - n, clients}, isSuggested: true})
			}
		}
	}
	if outliers > 0 {
		all = append(all, column{name: Ordinary, isOrdinary: true, isSuggested: true})
	}
	return append(all, column{name: "all", share: share{1, 1}, isSuggested: true})
}

// Ordinary is the name of the share that is all clients which do not stand out.
const Ordinary = "ordinary"

// point is a rate of the curve.
type point struct {
	rate
	needs    counts  // the burst that each client needs
	ordinary int64   // the burst that the clients need that do not stand out
	bursts   []int64 // by column
	clients  []int64 // that each burst limits
	denied   []int64 // requests that each burst denies
}

// finish determines the bursts and the clients that need more.
func (p *point) finish(columns []column) {
	for _, q := range columns {
		burst := max(p.ordinary, 1)
		if !q.isOrdinary {
			burst = p.needs.quantile(q.share)
		}
		p.bursts = append(p.bursts, burst)
	}
	for _, burst := range p.bursts {
		p.clients = append(p.clients, p.needs.above(burst))
	}
	p.denied = make([]int64, len(p.bursts))
}

// knee is the point of a curve at which a limit lets the least through in any minute: its burst, and what comes back
// meanwhile. At slower rates the burst grows by more than the rate spares, and at faster ones it shrinks by less. Of
// equal points it is the one with the smallest burst.
func knee(points []point, at int) (best int) {
	least := int64(math.MaxInt64)
	for i := range points {
		if most := points[i].bursts[at] + minuteNs/points[i].emissionNs; most <= least {
			best, least = i, most
		}
	}
	return best
}
