package replay

import "container/heap"

// event is a request on its way from a line to the limits.
type event struct {
	ns       int64
	cost     int64
	seq      int64 // of events with the same time, the first comes first
	client   uint32
	requests []any // one for each gateway
}

func (e *event) before(o *event) bool { return e.ns < o.ns || e.ns == o.ns && e.seq < o.seq }

// order brings requests into the order of their times. A server writes a line when a request ends, so lines are out of
// order by as much as requests take. It holds requests back for a while, but no more than some number of them. A line
// that is in order costs the same however many are held back, and another one the logarithm of that.
type order struct {
	lateNs int64
	most   int

	ring      []event // a power of two of places; from first on, by time: events that came in order
	first     int
	n         int
	others    events // those that did not
	seq       int64
	now       newest
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
	o.seq++
	e.seq = o.seq
	o.now.add(e.ns)
	mask := len(o.ring) - 1
	if o.n > 0 && e.ns < o.ring[(o.first+o.n-1)&mask].ns {
		heap.Push(&o.others, e)
		return true
	}
	if o.n == len(o.ring) {
		o.grow()
		mask = len(o.ring) - 1
	}
	o.ring[(o.first+o.n)&mask] = e
	o.n++
	return true
}

// restart begins anew with whatever comes next, once everything was handed on.
func (o *order) restart() { o.begun, o.now = false, newest{} }

func (o *order) grow() {
	larger := make([]event, 2*len(o.ring))
	for i := range o.n {
		larger[i] = o.ring[(o.first+i)&(len(o.ring)-1)]
	}
	o.ring, o.first = larger, 0
}

// take hands on the next event that is old enough; with all the next one. It is valid until the next put.
func (o *order) take(all bool) *event {
	var e *event
	if o.n > 0 {
		e = &o.ring[o.first&(len(o.ring)-1)]
	}
	isOther := len(o.others) > 0 && (e == nil || o.others[0].before(e))
	if isOther {
		e = &o.others[0]
	}
	if e == nil {
		return nil
	}
	if !all && o.now.ns()-e.ns < o.lateNs {
		if o.n+len(o.others) < o.most {
			return nil
		}
		o.shortened = true
	}
	if isOther {
		taken := heap.Pop(&o.others).(event)
		e = &taken
	} else {
		o.first = (o.first + 1) & (len(o.ring) - 1)
		o.n--
	}
	o.latestNs, o.begun = e.ns, true
	return e
}

// forget takes the events of clients out that were dropped.
func (o *order) forget(isDropped func(uint32) bool) {
	forget := func(e *event) {
		if e.client != nobody && isDropped(e.client) {
			e.client = nobody
		}
	}
	for i := range o.n {
		forget(&o.ring[(o.first+i)&(len(o.ring)-1)])
	}
	for i := range o.others {
		forget(&o.others[i])
	}
}

// events is a heap, the earliest first.
type events []event

func (h events) Len() int           { return len(h) }
func (h events) Less(i, j int) bool { return h[i].before(&h[j]) }
func (h events) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *events) Push(e any)        { *h = append(*h, e.(event)) }
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// mostFuture is how many lines may be from the future, by a clock that was wrong, without any line being late because
// of them.
const mostFuture = 256

// newest tells how far a log has come: to what all but the mostFuture latest lines say.
type newest struct {
	ring     [mostFuture + 1]int64 // the latest times, from first on
	first, n int
}

func (w *newest) at(i int) *int64 { return &w.ring[(w.first+i)%len(w.ring)] }

func (w *newest) add(ns int64) {
	if w.n == len(w.ring) {
		if ns <= *w.at(0) {
			return
		}
		w.first, w.n = (w.first+1)%len(w.ring), w.n-1
	}
	i := w.n
	for ; i > 0 && *w.at(i - 1) > ns; i-- {
		*w.at(i) = *w.at(i - 1)
	}
	*w.at(i) = ns
	w.n++
}

// ns is how far the log has come.
func (w *newest) ns() int64 { return *w.at(0) }
