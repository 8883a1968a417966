package replay

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// periodsNs are the periods whose fullest one is found for each client: a second, a minute and an hour of the clock,
// UTC.
var periodsNs = [...]int64{1e9, minuteNs, hourNs}

// crest is the fullest period of a client.
type crest struct {
	period, units, most, mostAtNs int64
}

// peaks are the fullest second, minute and hour.
type peaks [len(periodsNs)]crest

func (p *peaks) feed(times, costs []int64) {
	second, cost := &p[0], int64(1)
	for i, ns := range times {
		if len(costs) > 0 {
			cost = costs[i]
		}
		at := ns / 1e9
		if at == second.period { // so are the minute and the hour
			for j := range p {
				p[j].add(cost, ns)
			}
			continue
		}
		for j, period := range [...]int64{at, at / 60, at / 3600} {
			if p[j].period != period {
				p[j].period, p[j].units = period, 0
			}
			p[j].add(cost, ns)
		}
	}
}

func (c *crest) add(cost, ns int64) {
	if c.units += cost; c.units > c.most {
		c.most, c.mostAtNs = c.units, ns
	}
}

// first is the first look at all clients: what they did, and what the sets make of it.
type first struct {
	clients, requests, units int64
	series                   []int64
	peaks                    [len(periodsNs)]counts
	fullest                  [len(periodsNs)]topClient
	fullestAtNs              [len(periodsNs)]int64
	mostUnits                int64 // of a client
	measures                 [measureCount]counts
	top                      topClients
	trials                   []*trial
}

// everyClient has each goroutine look at some of the clients. A client's weight is how many it stands for.
func (t *clients) everyClient(look func(worker int, h *history, i uint32, c *client, weight int64) error) error {
	var next atomic.Uint32
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for worker := range workers() {
		all.Go(func() {
			h := t.history()
			for failed.Load() == nil {
				to := next.Add(pageClients)
				from := to - pageClients
				if from >= t.count {
					return
				}
				for i := from; i < min(to, t.count); i++ {
					c := t.at(i)
					if c.lines <= 0 {
						continue
					}
					if weight := t.weight(c); weight > 0 {
						if err := look(worker, h, i, c, weight); err != nil {
							failed.CompareAndSwap(nil, &err)
							return
						}
					}
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func workers() int { return runtime.GOMAXPROCS(0) }

// lookFirst takes the first look.
func (r *run) lookFirst(s *series) (*first, error) {
	parts := make([]*first, workers())
	for i := range parts {
		f := &first{series: make([]int64, s.n)}
		f.top.most = r.Top
		for _, c := range r.sets {
			f.trials = append(f.trials, c.trial(s.n, r.Top))
		}
		parts[i] = f
	}
	err := r.clients.everyClient(func(worker int, h *history, i uint32, c *client, weight int64) error {
		f := parts[worker]
		var p peaks
		for _, t := range f.trials {
			t.begin(i, weight)
		}
		at, until := 0, int64(-1)
		err := h.each(c, func(times, costs []int64) {
			p.feed(times, costs)
			for _, ns := range times {
				if ns >= until {
					at = s.index(ns)
					until = s.startNs + int64(at+1)*s.widthNs
				}
				f.series[at] += weight
			}
			for _, t := range f.trials {
				t.feed(times, costs, s)
			}
		})
		if err != nil {
			return err
		}
		for _, t := range f.trials {
			t.end(i, c)
			if r.outliers.has(c) {
				t.tally.outliersDenied += t.denied * weight
			}
		}
		f.note(i, c, &p, weight)
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := parts[0]
	for _, f := range parts[1:] {
		all.merge(f)
	}
	return all, nil
}

func (f *first) note(i uint32, c *client, p *peaks, weight int64) {
	f.clients += weight
	f.requests += c.lines * weight
	f.units += c.units * weight
	f.mostUnits = max(f.mostUnits, c.units)
	c.perMinute, c.perHour = uint32(min(p[1].most, math.MaxUint32)), uint32(min(p[2].most, math.MaxUint32))
	for j, n := range c.measures() {
		f.measures[j].add(n, weight)
	}
	entry := topClient{client: i, id: c.id, lines: c.lines}
	for j := range p {
		entry.peaks[j] = p[j].most
	}
	for j := range p {
		f.peaks[j].add(p[j].most, weight)
		f.contend(j, entry, p[j].mostAtNs)
	}
	f.top.add(entry)
}

// contend makes a client that of the fullest period, if it is.
func (f *first) contend(period int, c topClient, atNs int64) {
	best := &f.fullest[period]
	if c.peaks[period] > best.peaks[period] || c.peaks[period] == best.peaks[period] && c.id < best.id {
		*best, f.fullestAtNs[period] = c, atNs
	}
}

func (f *first) merge(o *first) {
	f.clients += o.clients
	f.requests += o.requests
	f.units += o.units
	f.mostUnits = max(f.mostUnits, o.mostUnits)
	for i := range f.series {
		f.series[i] += o.series[i]
	}
	for i := range f.measures {
		f.measures[i].merge(&o.measures[i])
	}
	for i := range f.peaks {
		f.peaks[i].merge(&o.peaks[i])
		f.contend(i, o.fullest[i], o.fullestAtNs[i])
	}
	for _, c := range o.top.all {
		f.top.add(c)
	}
	for i := range f.trials {
		f.trials[i].tally.merge(o.trials[i].tally)
	}
}

// curve returns the points of the curve, with what each burst denies.
func (r *run) curve(chosen []rate, columns []column, o *outliers) ([]point, error) {
	type part struct {
		points   []point
		backlogs []backlog
	}
	parts := make([]part, workers())
	for i := range parts {
		parts[i] = part{make([]point, len(chosen)), make([]backlog, len(chosen))}
		for j := range chosen {
			parts[i].points[j].rate = chosen[j]
		}
	}
	err := r.clients.everyClient(func(worker int, h *history, _ uint32, c *client, weight int64) error {
		points, backlogs := parts[worker].points, parts[worker].backlogs
		err := h.backlogs(c, chosen, backlogs)
		isOrdinary := !o.has(c)
		for j := range backlogs {
			need := backlogs[j].need(chosen[j].emissionNs)
			points[j].needs.add(need, weight)
			if isOrdinary {
				points[j].ordinary = max(points[j].ordinary, need)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	points := parts[0].points
	for _, part := range parts[1:] {
		for j := range points {
			points[j].needs.merge(&part.points[j].needs)
			points[j].ordinary = max(points[j].ordinary, part.points[j].ordinary)
		}
	}
	for j := range points {
		points[j].finish(columns)
	}
	return points, r.tryPoints(points, chosen)
}

// backlogs sets those of a client, one for each rate.
func (h *history) backlogs(c *client, rates []rate, to []backlog) error {
	clear(to)
	return h.each(c, func(times, costs []int64) {
		for j := range to {
			to[j].feed(times, costs, rates[j].emissionNs)
		}
	})
}

// pair is a rate and one of its bursts.
type pair struct {
	point, share int
	bucket       bucket
	toleranceNs  int64 // a client with a higher backlog is denied something
}

// tryPoints counts what each rate with each of its bursts denies.
func (r *run) tryPoints(points []point, chosen []rate) error {
	var pairs []pair
	for j := range points {
		p := &points[j]
		for q, burst := range p.bursts {
			if limit, ok := p.limit(burst); ok && p.clients[q] > 0 && (q == 0 || burst != p.bursts[q-1]) {
				pairs = append(pairs, pair{j, q, bucket{limit: limit}, burst * p.emissionNs})
			}
		}
	}
	type part struct {
		backlogs []backlog
		buckets  []bucket // those that deny the client in hand anything
		pairs    []int    // which these are
		denied   []int64  // by pairs
	}
	parts := make([]part, workers())
	for i := range parts {
		parts[i] = part{backlogs: make([]backlog, len(chosen)), denied: make([]int64, len(pairs))}
	}
	err := r.clients.everyClient(func(worker int, h *history, _ uint32, c *client, weight int64) error {
		w := &parts[worker]
		if err := h.backlogs(c, chosen, w.backlogs); err != nil {
			return err
		}
		w.buckets, w.pairs = w.buckets[:0], w.pairs[:0]
		for k := range pairs {
			p := &pairs[k]
			if w.backlogs[p.point].highest > p.toleranceNs {
				w.buckets, w.pairs = append(w.buckets, p.bucket), append(w.pairs, k)
			}
		}
		if len(w.buckets) == 0 {
			return nil
		}
		err := h.each(c, func(times, costs []int64) {
			for k := range w.buckets {
				w.buckets[k].feed(times, costs)
			}
		})
		for k, at := range w.pairs {
			w.denied[at] += w.buckets[k].denied * weight
		}
		return err
	})
	if err != nil {
		return err
	}
	for k, p := range pairs {
		point := &points[p.point]
		for i := range parts {
			point.denied[p.share] += parts[i].denied[k]
		}
		for q := p.share + 1; q < len(point.bursts) && point.bursts[q] == point.bursts[p.share]; q++ {
			point.denied[q] = point.denied[p.share]
		}
	}
	return nil
}
