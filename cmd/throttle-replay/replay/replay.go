// Package replay tries limits on requests that were made: who would have been denied, when, and for how long. The
// decisions are those of the module, by its own packages and by the clock of the log.
//
// It goes through the log once. What it keeps of a request is who made it, when, and what it took: two or three bytes,
// of which a few per client stay in memory. Limits are tried afterwards, on one client after the other.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/cmd/throttle-replay/logs"
)

// Options say what is tried on what.
type Options struct {
	Files []string // paths; logs.Stdin is standard input
	Log   logs.Options
	Key   *fields.Key
	Where fields.Where
	Cost  fields.Cost
	Sets  []Set
	// Keyed are sets whose limits depend on the key.
	Keyed []Keyed
	// Known are groups of clients that the report tells apart.
	Known []Known
	// Gateways are rules that decide requests as a whole, beside the sets.
	Gateways []Gateway

	// Late is by how much lines may be out of order.
	Late time.Duration
	// MaxClients is how many clients are kept. Beyond that, of those with few requests a sample is.
	MaxClients int
	// Top is how many clients are listed.
	Top int
	// ShowKeys has reports show keys. Otherwise they show a hash of each, with Salt.
	ShowKeys bool
	Salt     []byte
	// TempDir is the folder of a temporary file for what memory has no room for; "" is the system's.
	TempDir string

	// Progress is told, now and then, how many bytes of how many were read, and how many lines. Total is 0 if nobody
	// knows.
	Progress func(read, total, lines int64)

	memoryBytes int // of requests in memory before the temporary file; 0 is 64 MiB
}

func (o *Options) spoolBytes() int {
	if o.memoryBytes > 0 {
		return o.memoryBytes
	}
	return 64 << 20
}

// Run reads the log and tries the limits. It stops reading when the context ends, and reports what was read by then.
func Run(ctx context.Context, o Options) (*Report, error) {
	if len(o.Files) == 0 {
		return nil, errors.New("there is no log to read")
	}
	r := &run{Options: o, clients: newClients(&o), order: newOrder(int64(o.Late), mostHeldBack), finest: 1e9}
	defer r.clients.spool.close()
	for _, s := range o.Sets {
		c, err := s.compile(!o.Cost.IsOne())
		if err != nil {
			return nil, err
		}
		r.sets = append(r.sets, c)
	}
	for _, k := range o.Keyed {
		r.sets = append(r.sets, &compiled{Set: Set{k.Name, k.Words}, keys: &chooser{Keyed: k}})
	}
	for _, path := range o.Files {
		size := sizeOf(path)
		if r.total += size; size == 0 {
			r.total = 0
			break
		}
	}
	for _, g := range o.Gateways {
		r.gateways = append(r.gateways, newGatewayTrial(g))
	}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	r.interrupted = ctx.Err() != nil
	if err := r.checkAddresses(); err != nil {
		return nil, err
	}
	return r.report()
}

// mostWithoutAddress is the share of lines, in percent, that may lack an address where the key asks for one.
const mostWithoutAddress = 5

// checkAddresses refuses a log of which too much has no address: each client would be one that nobody has, or all would
// be one.
func (r *run) checkAddresses() error {
	n := r.count.NoAddress
	all := n + r.count.Requests + r.count.Late
	if n*100 <= all*mostWithoutAddress {
		return nil
	}
	return fmt.Errorf("%d of %d requests have no address where --key %s asks for one: %s. Name the field that has it with --key, or the format with --log-format; "+
		"what is no request is left out by --where", n, all, r.Key, r.wrong)
}

// mostHeldBack is how many requests are held back to bring them into order.
const mostHeldBack = 1 << 21

// run is a log on its way through.
type run struct {
	Options
	sets     []*compiled
	gateways []*gatewayTrial
	clients  *clients
	order    *order
	streams  []*stream
	began    []*stream // for progress

	seen        int64 // lines
	total       int64 // bytes of all files, 0 if that is not known
	count       Lines
	finest      int64 // ns: the largest unit that all times are multiples of
	firstNs     int64
	lastNs      int64
	interrupted bool
	outliers    outliers
	wrong       string  // what the first line without an address has
	told        int64   // lines, when Progress was told last
	late        []event // that may begin a chapter
}

// read reads all files by the order of their times.
func (r *run) read(ctx context.Context) error {
	defer func() {
		for _, s := range r.began {
			s.close()
		}
	}()
	waiting, err := r.line(ctx)
	if err != nil {
		return err
	}
	for {
		// The stream whose next request came first goes on. One that was not opened yet is opened when its first
		// request may be next.
		next := r.earliest()
		if len(waiting) > 0 && (next == nil || waiting[0].first <= next.next.ns) {
			if err := r.open(ctx, waiting[0]); err != nil {
				return err
			}
			waiting = waiting[1:]
			continue
		}
		if next == nil {
			break
		}
		if err := r.hand(next.next); err != nil {
			return err
		}
		if !next.advance() {
			if err := r.ended(next); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := r.beginChapter(); err != nil {
		return err
	}
	if err := r.deliverAll(); err != nil {
		return err
	}
	r.tell()
	return r.clients.spool.finish()
}

// line brings the files into the order of their first requests, if there are several.
func (r *run) line(ctx context.Context) (waiting []*stream, err error) {
	for _, path := range r.Files {
		s := &stream{run: r, path: path}
		if len(r.Files) > 1 && path != logs.Stdin {
			if s.first, err = s.peek(ctx); err != nil {
				return nil, err
			}
		}
		waiting = append(waiting, s)
	}
	slices.SortStableFunc(waiting, func(a, b *stream) int {
		switch {
		case a.first < b.first:
			return -1
		case a.first > b.first:
			return 1
		}
		return 0
	})
	return waiting, nil
}

// earliest is the open stream whose next request came first.
func (r *run) earliest() (first *stream) {
	for _, s := range r.streams {
		if first == nil || s.next.ns < first.next.ns {
			first = s
		}
	}
	return first
}

func (r *run) open(ctx context.Context, s *stream) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	r.began = append(r.began, s)
	r.streams = append(r.streams, s)
	if !s.advance() {
		return r.ended(s)
	}
	return nil
}

// ended takes a stream out that has no more requests.
func (r *run) ended(s *stream) error {
	r.streams = slices.DeleteFunc(r.streams, func(o *stream) bool { return o == s })
	s.close()
	switch {
	case s.err == nil, errors.Is(s.err, io.EOF), errors.Is(s.err, context.Canceled):
		return nil
	case s.file.Progress() == 0:
		return fmt.Errorf("%s: %w", s.path, s.err)
	}
	r.count.Damaged = append(r.count.Damaged, Damage{s.path, s.lines.Number(), s.err.Error()})
	return nil
}

// hand brings a request into order, and hands on those whose turn has come.
func (r *run) hand(e event) error {
	if !r.order.put(e) {
		return r.setAside(e)
	}
	r.leaveOut()
	for e := r.order.take(false); e != nil; e = r.order.take(false) {
		if err := r.deliver(e); err != nil {
			return err
		}
	}
	return nil
}

// deliver adds a request to its client.
func (r *run) deliver(e *event) error {
	if r.count.Requests == 0 {
		r.firstNs = e.ns
	}
	r.count.Requests++
	r.firstNs, r.lastNs = min(r.firstNs, e.ns), max(r.lastNs, e.ns)
	for e.ns%r.finest != 0 {
		r.finest /= 1000
	}
	for i, g := range r.gateways {
		if err := g.decide(e, e.requests[i]); err != nil {
			return err
		}
	}
	if e.client == nobody {
		return nil
	}
	return r.clients.note(e.client, e.ns, e.cost)
}

// find is clients.find. Events of clients that it dropped are left out, too.
func (r *run) find(key []byte) uint32 {
	i, thinned := r.clients.find(key)
	if thinned {
		isDropped := r.clients.isDropped
		r.order.forget(isDropped)
		for i := range r.late {
			if e := &r.late[i]; e.client != nobody && isDropped(e.client) {
				e.client = nobody
			}
		}
		for _, s := range r.streams {
			if s.next.client != nobody && isDropped(s.next.client) {
				s.next.client = nobody
			}
		}
		for _, g := range r.gateways {
			g.forget(isDropped)
		}
	}
	return i
}

// tellEvery is after how many lines Progress is told, at least.
const tellEvery = 1 << 14

func (r *run) tell() {
	if r.told = r.seen; r.Progress == nil {
		return
	}
	read := int64(0)
	for _, s := range r.began {
		read += s.file.Progress()
	}
	r.Progress(read, r.total, r.seen)
}
