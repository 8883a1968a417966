package replay

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// Clients that stand out: attackers, loops, monitors. A limit that spares them is their own rate, so suggestions leave
// them out, and the report names them. Who stands out is far from the others by what it does in its fullest minute or
// hour. Only where nobody does, the whole log is looked at: a client that tries twice an hour all day.

// measure is something that clients are compared by.
type measure int

const (
	inMinute measure = iota
	inHour
	inAll
	measureCount
)

// How far a client has to be from the others to stand out. These are judgements, which the mixtures in suggest_test.go
// hold.
const (
	leastOutlier    = 10 // units: fewer are no load, whatever the others do
	overMedian      = 10 // times
	overNinetieth   = 3  // times what 90 % of the others do
	gap             = 2  // times the largest of the others
	farOverMedian   = 30 // without a gap
	farOverNinetith = 10
	wideGap         = 10 // with which up to a third of the clients may stand out; otherwise a tenth
)

// cut returns the number above which clients stand out, and whether any do. It is the lowest such number, so that the
// largest of several attackers does not hide the others.
func cut(c *counts) (most int64, ok bool) {
	if c.total < 3 {
		return 0, false
	}
	numbers, times := c.sorted()
	median := max(c.quantile(share{50, 100}), 1)
	below, ninetieth, upToNinetieth := int64(0), 0, int64(0)
	for i := range len(numbers) - 1 {
		below += times[i]
		for upToNinetieth+times[ninetieth] < below-below/10 {
			upToNinetieth += times[ninetieth]
			ninetieth++
		}
		above, last, next := c.total-below, max(numbers[i], 1), numbers[i+1]
		many := max(numbers[ninetieth], 1)
		isApart := next >= gap*last && next >= overMedian*median && next >= overNinetieth*many
		isFar := next >= farOverMedian*median && next >= farOverNinetith*many
		isFew := above <= max(c.total/10, 1) || above <= c.total/3 && next >= wideGap*last
		if next >= leastOutlier && isFew && (isApart || isFar) {
			return numbers[i], true
		}
	}
	return 0, false
}

// sorted are the numbers that came, in rising order, and how often each did.
func (c *counts) sorted() (numbers, times []int64) {
	for n, k := range c.dense {
		if k > 0 {
			numbers, times = append(numbers, int64(n)), append(times, k)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.sparse)) {
		numbers, times = append(numbers, n), append(times, c.sparse[n])
	}
	return numbers, times
}

// measures are what a client did, by measure. Of an address that many share, it is what each of its user agents did.
func (c *client) measures() [measureCount]int64 {
	people := int64(1)
	if c.isShared() {
		people = c.agentCount()
	}
	return [measureCount]int64{(int64(c.perMinute) + people - 1) / people, (int64(c.perHour) + people - 1) / people, (c.units + people - 1) / people}
}

// outliers are the numbers above which clients stand out.
type outliers struct {
	most    [measureCount]int64
	is      [measureCount]bool
	medians [measureCount]int64
}

func findOutliers(f *first) (o outliers) {
	for i := range f.measures {
		o.medians[i] = max(f.measures[i].quantile(share{50, 100}), 1)
		if measure(i) == inAll && (o.is[inMinute] || o.is[inHour]) {
			continue
		}
		o.most[i], o.is[i] = cut(&f.measures[i])
	}
	return o
}

// has reports whether a client stands out. One of a group that the user has named never does.
func (o *outliers) has(c *client) bool {
	if c.groups>>ownGroups != 0 {
		return false
	}
	for i, n := range c.measures() {
		if o.is[i] && n > o.most[i] {
			return true
		}
	}
	return false
}

// times is how far a client is from the median, where it is farthest.
func (o *outliers) times(c *client) (times int64) {
	for i, n := range [measureCount]int64{int64(c.perMinute), int64(c.perHour), c.units} {
		times = max(times, n/o.medians[i])
	}
	return times
}

// Outliers are the clients that stand out.
type Outliers struct {
	Clients  int64     `json:"clients"`
	Requests int64     `json:"requests"`
	Networks int64     `json:"networks"` // that their addresses are of: /24 of IPv4, /48 of IPv6; 0 if the key is no address
	List     []Outlier `json:"list"`     // the largest
}

// Outlier is one of them.
type Outlier struct {
	Client
	Times int64 `json:"times"` // what the median does, in the minute, the hour or the log in which it is farthest from it
}

// mostOutliers is how many are listed.
const mostOutliers = 5

// describe gathers the outliers.
func (r *run) describe(o *outliers) Outliers {
	var all Outliers
	var found []topClient
	networks := map[uint32]bool{}
	for i := range r.clients.count {
		c := r.clients.at(i)
		if c.lines <= 0 || r.clients.weight(c) == 0 || !o.has(c) {
			continue
		}
		weight := r.clients.weight(c)
		all.Clients += weight
		all.Requests += c.lines * weight
		if c.network != 0 {
			networks[c.network] = true
		}
		found = append(found, topClient{client: i, id: c.id, lines: c.lines, peaks: [len(periodsNs)]int64{0, int64(c.perMinute), int64(c.perHour)}})
	}
	all.Networks = int64(len(networks))
	slices.SortFunc(found, func(a, b topClient) int { return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(a.id, b.id)) })
	found = found[:min(len(found), mostOutliers)]
	for i, c := range r.list(found) {
		all.List = append(all.List, Outlier{c, o.times(r.clients.at(found[i].client))})
	}
	return all
}

// stop says what the points of the curve, each with the burst of the column, do to the clients that stand out.
type stop struct {
	clients int64   // that lose half of their requests
	lost    float64 // the shares that they lose, added up
}

// stops tries each point on each client that stands out.
func (r *run) stops(o *outliers, points []point, column int) ([]stop, error) {
	parts := make([][]stop, workers())
	for i := range parts {
		parts[i] = make([]stop, len(points))
	}
	err := r.clients.everyClient(func(worker int, h *history, _ uint32, c *client, weight int64) error {
		if !o.has(c) {
			return nil
		}
		buckets := make([]bucket, len(points))
		for j := range points {
			buckets[j].limit, _ = points[j].limit(points[j].bursts[column])
		}
		err := h.each(c, func(times, costs []int64) {
			for j := range buckets {
				if points[j].isLimit(column) {
					buckets[j].feed(times, costs)
				}
			}
		})
		for j := range buckets {
			s := &parts[worker][j]
			s.lost += float64(buckets[j].denied*weight) / float64(c.lines)
			if 2*buckets[j].denied >= c.lines {
				s.clients += weight
			}
		}
		return err
	})
	all := parts[0]
	for _, part := range parts[1:] {
		for j := range part {
			all[j].clients += part[j].clients
			all[j].lost += part[j].lost
		}
	}
	return all, err
}

// isLimit reports whether the point with a burst of its own is one that a RATE can have.
func (p *point) isLimit(column int) bool {
	_, ok := p.limit(p.bursts[column])
	return ok
}

// stopping is the point that lets the least through in a minute, of those that stop as many of the clients that stand
// out as any, and take nearly as much from them.
func stopping(points []point, stops []stop, column int) (best int, ok bool) {
	most, lost := int64(0), 0.0
	for _, s := range stops {
		most = max(most, s.clients)
	}
	for _, s := range stops {
		if s.clients == most {
			lost = max(lost, s.lost)
		}
	}
	if lost == 0 {
		return 0, false
	}
	var good []int
	for i, s := range stops {
		if s.clients == most && s.lost >= 0.9*lost {
			good = append(good, i)
		}
	}
	kept := make([]point, len(good))
	for i, at := range good {
		kept[i] = points[at]
	}
	return good[knee(kept, column)], true
}

// isShared reports whether an address seems to have many people behind it.
func (c *client) isShared() bool { return c.agentCount() >= sharedAgents }

// agentCount is how many user agents a client has had, about: by a bitmap of their hashes (linear counting), up to 64
// or so.
func (c *client) agentCount() int64 { return agentsOf[bits.OnesCount64(c.agents)] }
