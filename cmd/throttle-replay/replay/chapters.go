package replay

// A stream may be several logs one behind the other, not all of them in order: zcat access.log.*.gz puts the newest
// first. Lines that are far too late, many of them without one between that is not, begin a chapter. Each chapter is
// brought into order by itself, and the requests of a client are merged when they are read back.

const (
	leastChapter = mostFuture // late lines without any other between begin a chapter; so do those at the end of the log
	mostChapters = 100        // as many logs, one behind the other; a client has a cursor for each when its requests are read back
)

// setAside keeps an event that is too late, until it is known whether it begins a chapter.
func (r *run) setAside(e event) error {
	if r.late = append(r.late, e); len(r.late) < leastChapter {
		return nil
	}
	return r.beginChapter()
}

// beginChapter has the log go on at the events that were set aside. The rules of a gateway decide all requests in turn,
// so that there they stay left out.
func (r *run) beginChapter() error {
	if len(r.late) == 0 {
		return nil
	}
	if len(r.gateways) > 0 || r.count.Chapters == mostChapters {
		r.leaveOut()
		return nil
	}
	if err := r.deliverAll(); err != nil {
		return err
	}
	r.count.Chapters++
	r.order.restart()
	for _, e := range r.late {
		r.order.put(e)
	}
	r.late = r.late[:0]
	return nil
}

// leaveOut counts the events that were set aside: they are no chapter.
func (r *run) leaveOut() {
	r.count.Late += int64(len(r.late))
	r.late = r.late[:0]
}

// deliverAll hands on all requests that are held back.
func (r *run) deliverAll() error {
	for e := r.order.take(true); e != nil; e = r.order.take(true) {
		if err := r.deliver(e); err != nil {
			return err
		}
	}
	return nil
}

// cursor reads the requests of a client that are in order: of one chapter, or of several.
type cursor struct {
	blocks       []int64
	tail         *client // whose last requests are still in memory; nil for none, or once they were read
	times, costs []int64
	at           int
}

// fill reads on if all of what was read is used. It is false at the end.
func (u *cursor) fill(h *history) (bool, error) {
	if u.at < len(u.times) {
		return true, nil
	}
	u.at, u.times, u.costs = 0, u.times[:0], u.costs[:0]
	switch {
	case len(u.blocks) > 0:
		b, err := h.of.spool.read(u.blocks[0], h.room)
		if err != nil {
			return false, err
		}
		u.blocks = u.blocks[1:]
		u.times, u.costs = decode(b.encoded, b.held, b.baseNs, h.of.hasCosts, u.times, u.costs)
	case u.tail != nil:
		u.times, u.costs = decode(u.tail.encoded, int(u.tail.held), u.tail.baseNs, h.of.hasCosts, u.times, u.costs)
		u.tail = nil
	}
	return len(u.times) > 0, nil
}

// cursors are those of a client, whose blocks were collected, the newest first.
func (h *history) cursors(c *client) (all []*cursor, err error) {
	for i := len(h.blocks) - 1; i >= 0; i-- {
		b, err := h.of.spool.read(h.blocks[i], h.room)
		if err != nil {
			return nil, err
		}
		if b.isEarlier || len(all) == 0 {
			all = append(all, &cursor{})
		}
		last := all[len(all)-1]
		last.blocks = append(last.blocks, h.blocks[i])
	}
	if c.held > 0 && (c.isEarlier || len(all) == 0) {
		all = append(all, &cursor{})
	}
	if c.held > 0 {
		all[len(all)-1].tail = c
	}
	return all, nil
}

// merged hands all requests of a client to feed that are of several chapters, the oldest first.
func (h *history) merged(c *client, feed func(times, costs []int64)) error {
	all, err := h.cursors(c)
	if err != nil {
		return err
	}
	for {
		var first *cursor
		until := int64(1<<63 - 1) // when the next request of another cursor came
		open := all[:0]
		for _, u := range all {
			more, err := u.fill(h)
			if err != nil {
				return err
			}
			if !more {
				continue
			}
			open = append(open, u)
			switch ns := u.times[u.at]; {
			case first == nil:
				first = u
			case ns < first.times[first.at]:
				first, until = u, first.times[first.at]
			default:
				until = min(until, ns)
			}
		}
		if all = open; first == nil {
			break
		}
		for first.at < len(first.times) && first.times[first.at] <= until {
			h.times = append(h.times, first.times[first.at])
			if h.of.hasCosts {
				h.costs = append(h.costs, first.costs[first.at])
			}
			first.at++
		}
		h.feedFull(feed)
	}
	h.feedRest(feed)
	return nil
}
