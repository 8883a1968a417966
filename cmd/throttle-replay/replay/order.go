package replay

// event is a request on its way from a line to the limits.
type event struct {
	ns       int64
	cost     int64
	client   uint32
	requests []any // one for each gateway
}

// order brings requests into the order of their times. A server writes a line when a request ends, so lines are out of order by as much
// as requests take. It holds requests back for a while, but no more than some number of them.
type order struct {
	lateNs int64
	most   int

	ring      []event // a power of two of places; from first on, by time
	first     int
	n         int
	latestNs  int64 // the time of the last event that was handed on
	begun     bool
	shortened bool // requests were handed on early, because there were too many
}

func newOrder(lateNs int64, most int) *order {
	return &order{lateNs: lateNs, most: most, ring: make([]event, 1024)}
}

// put takes an event. It is false for one that is too late: events behind it were handed on already.
func (o *order) put(e event) bool {
	if o.begun && e.ns < o.latestNs {
		return false
	}
	if o.n == len(o.ring) {
		o.grow()
	}
	mask := len(o.ring) - 1
	at := o.first + o.n
	for at > o.first {
		before := &o.ring[(at-1)&mask]
		if before.ns <= e.ns {
			break
		}
		o.ring[at&mask] = *before
		at--
	}
	o.ring[at&mask] = e
	o.n++
	return true
}

func (o *order) grow() {
	larger := make([]event, 2*len(o.ring))
	for i := range o.n {
		larger[i] = o.ring[(o.first+i)&(len(o.ring)-1)]
	}
	o.ring, o.first = larger, 0
}

// take hands on the next event that is old enough; with all the next one. It is valid until the next put.
func (o *order) take(all bool) *event {
	if o.n == 0 {
		return nil
	}
	mask := len(o.ring) - 1
	e := &o.ring[o.first&mask]
	if !all && o.ring[(o.first+o.n-1)&mask].ns-e.ns < o.lateNs {
		if o.n < o.most {
			return nil
		}
		o.shortened = true
	}
	o.first = (o.first + 1) & mask
	o.n--
	o.latestNs, o.begun = e.ns, true
	return e
}

// forget takes the events of clients out that were dropped.
func (o *order) forget(isDropped func(uint32) bool) {
	for i := range o.n {
		if e := &o.ring[(o.first+i)&(len(o.ring)-1)]; e.client != nobody && isDropped(e.client) {
			e.client = nobody
		}
	}
}
