package adaptive

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
)

const (
	// closed is the part of the slots that closes when all holders find the service overloaded.
	closed = 0.3
	// leastCalls is how many calls a window has at least, as in Netflix's concurrency-limits.
	leastCalls = 10
	// mostCalls bounds how many calls of a window are looked at.
	mostCalls = 1000
	// medians is how many windows a process learns from how fast the service can be.
	medians = 60
	// patience bounds how long the server is asked for a number.
	patience = 5 * time.Second
)

// service is what this process knows of the service behind a key.
type service struct {
	adaptive *Adaptive
	name     string

	mu     sync.Mutex
	most   int64
	limits ratelimit.Limits // on the server: what remains of it are the slots above Floor

	slots   int64         // as the server said at last
	asked   time.Time     // when the server was asked at last; zero if never
	asking  bool          // it is being asked right now
	toClose int64         // what it is to be told next
	known   chan struct{} // closed when the server was asked once

	held    map[string]holding // by id
	window  window
	medians []time.Duration // of the last windows, in a ring
	next    int             // the place of the next one, when the ring is full
}

// holding is a lease that this process holds.
type holding struct{ since, until time.Time }

// window is what was seen of the calls that began at or after an instant.
type window struct {
	began     time.Time
	judged    time.Time       // when it was last too early to end it
	took      []time.Duration // by calls that have ended
	failed    int             // how many of them did
	mine, all int64           // the most leases that were held at a time, by this process and by all
}

// setMost notes how many slots there are at most: a change makes a new limit of the same state. The caller has the lock.
func (s *service) setMost(most int64) {
	if s.most == most {
		return
	}
	s.most = most
	s.limits = ratelimit.Limits{ratelimit.Rate(most-s.adaptive.o.Floor, s.adaptive.o.Recovery)}
	s.slots, s.asked, s.asking, s.toClose, s.known = most, time.Time{}, false, 0, make(chan struct{})
}

// slotsNow is how many of most slots there are. Only the first call waits until the server has said so.
func (s *service) slotsNow(ctx context.Context, most int64) int64 {
	s.mu.Lock()
	s.setMost(most)
	s.look(ctx, time.Now())
	known := s.known
	s.mu.Unlock()
	select {
	case <-known:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.slots, most) // another caller may have said another number meanwhile
}

// look asks the server for the number when that is due, or when there are slots to close.
func (s *service) look(ctx context.Context, now time.Time) {
	if s.asking || (s.toClose == 0 && !s.asked.IsZero() && now.Sub(s.asked) < s.adaptive.o.Window) {
		return
	}
	go s.ask(context.WithoutCancel(ctx), s.limits, s.known, s.toClose)
	s.asking, s.asked, s.toClose = true, now, 0
}

func (s *service) ask(ctx context.Context, limits ratelimit.Limits, known chan struct{}, toClose int64) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	call := ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: []ratelimit.Key{{Name: s.name + " adaptive slots", Limits: limits}}, NoCost: true}
	if toClose > 0 {
		call.Verb, call.Cost, call.NoCost, call.Charge = ratelimit.VerbLimit, toClose, false, charge.UpTo
	}
	result, err := s.adaptive.next.Decide(ctx, call)
	if err != nil {
		s.adaptive.failed(ctx, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-known:
	default:
		defer close(known)
	}
	if s.known != known { // this was about another number of slots
		return
	}
	s.asking = false
	if err == nil && result.By == "server" {
		s.slots = s.adaptive.o.Floor + result.Remaining
	}
}

// noteLease notes that a lease was asked for, and how many leases of the key are held by all.
func (s *service) noteLease(ctx context.Context, call *ratelimit.Call, ttl time.Duration, all int64, granted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.window.began.IsZero() {
		s.window.began = now
	}
	if granted {
		h, again := s.held[call.ID]
		if !again {
			h.since = now
		}
		h.until = now.Add(ttl)
		s.held[call.ID] = h
	}
	s.window.mine = max(s.window.mine, int64(len(s.held)))
	s.window.all = max(s.window.all, all)
	s.judge(ctx, now)
}

func (s *service) noteRenewal(id string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[id]; ok {
		h.until = time.Now().Add(ttl)
		s.held[id] = h
	}
}

// noteEnd notes how long a slot was held. Calls from before the window say nothing about the number of slots that there are now.
func (s *service) noteEnd(ctx context.Context, call *ratelimit.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[call.ID]
	if !ok {
		return
	}
	delete(s.held, call.ID)
	now := time.Now()
	if w := &s.window; !h.since.Before(w.began) && len(w.took) < mostCalls {
		w.took = append(w.took, now.Sub(h.since))
		if call.Failed {
			w.failed++
		}
	}
	s.judge(ctx, now)
}

// judge ends a window when it has lasted long enough, and closes slots if the service was overloaded in it.
func (s *service) judge(ctx context.Context, now time.Time) {
	w, least := &s.window, s.adaptive.o.Window
	if now.Sub(w.began) < least || now.Sub(w.judged) < least/10 || len(w.took)+len(s.held) < leastCalls {
		return
	}
	w.judged = now
	slow := s.slow()
	calls, late := len(w.took), 0
	for id, h := range s.held {
		switch {
		case now.After(h.until): // the holder has never said that it has ended
			delete(s.held, id)
		case slow > 0 && !h.since.Before(w.began) && now.Sub(h.since) > slow: // a service that hangs lets no call end
			calls, late = calls+1, late+1
		}
	}
	if calls < leastCalls {
		return
	}
	for _, took := range w.took {
		if slow > 0 && took > slow {
			late++
		}
	}
	if 2*late > calls || 10*w.failed >= calls {
		s.toClose = min(s.share(), s.slots-s.adaptive.o.Floor)
	}
	s.learn()
	*w = window{began: now, took: w.took[:0], mine: int64(len(s.held))}
	s.look(ctx, now)
}

// slow is how long a call takes at most while the service is well; 0 if nobody knows.
func (s *service) slow() time.Duration {
	switch {
	case s.adaptive.o.Slow > 0:
		return s.adaptive.o.Slow
	case len(s.medians) > 0:
		return 2 * slices.Min(s.medians)
	}
	return 0
}

// learn remembers the median of a window.
func (s *service) learn() {
	took := s.window.took
	if s.adaptive.o.Slow > 0 || len(took) < leastCalls {
		return
	}
	slices.Sort(took)
	median := took[len(took)/2]
	if len(s.medians) < medians {
		s.medians = append(s.medians, median)
		return
	}
	s.medians[s.next] = median
	s.next = (s.next + 1) % medians
}

// share is this process's part of the slots that are to be closed. What is less than a slot is rounded at random, so that many
// processes with few leases each close as many in all.
func (s *service) share() int64 {
	part := closed * float64(s.slots) * float64(s.window.mine) / float64(max(s.window.all, s.window.mine))
	whole := math.Floor(part)
	if rand.Float64() < part-whole {
		whole++
	}
	return int64(whole)
}
