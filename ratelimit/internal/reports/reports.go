// Package reports tells the server of calls that were denied without it, for its CL.TOP: packages cached and batched
// answer such calls.
package reports

import (
	"context"
	"sync"
	"time"

	"redis-throttle/ratelimit"
)

const (
	// every is how often reports are sent, and perRound how many at a time: a round is at most so many calls.
	every    = time.Second
	perRound = 100
	// most is how many keys may wait to be reported, and longest how many bytes a key may have.
	most    = 10_000
	longest = 1024
	// atOnce is what CL.DENIED takes.
	atOnce = 10_000
	// patience is how long a round may take.
	patience = 5 * time.Second

	// untilOn is how long nothing is counted after the server said that CL.TOP is off, or was out of reach.
	untilOn = time.Minute
	// untilKnown is that time after it refused the command: its module is older, it has none, or the user has no right.
	// Each try may be noted in its ACL LOG.
	untilKnown = time.Hour
)

// Reports counts denials by key, and tells the server in the background. Nobody waits for it, and it forgets what it
// cannot tell.
type Reports struct {
	next ratelimit.Decider

	mu     sync.Mutex
	counts map[string]int64
	order  []string  // of the keys of counts: those that were denied first are reported first
	silent time.Time // until when nothing is counted
	sends  bool      // a round is due, or under way
}

// New returns Reports that are sent by next.
func New(next ratelimit.Decider) *Reports {
	return &Reports{next: next, counts: make(map[string]int64)}
}

// Count counts a call on a key that was denied at a time.
func (r *Reports) Count(key string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.counts[key]
	if !ok {
		if len(r.counts) == most || len(key) > longest || now.Before(r.silent) {
			return
		}
		r.order = append(r.order, key)
	}
	r.counts[key] = n + 1
	if !r.sends {
		r.sends = true
		time.AfterFunc(every, r.send)
	}
}

// send is a round. One call follows the other: reports never use more than one connection.
func (r *Reports) send() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range perRound {
		key, n, ok := r.take()
		if !ok {
			return
		}
		result, err := r.next.Decide(ctx, ratelimit.Call{Verb: ratelimit.VerbDenied, Keys: []ratelimit.Key{{Name: key}}, Cost: n})
		switch {
		case err == nil && result.Granted == n:
		case err == nil, ratelimit.IsOutage(err), ratelimit.IsOverload(err):
			r.forget(untilOn)
			return
		default:
			r.forget(untilKnown)
			return
		}
	}
	time.AfterFunc(every, r.send)
}

// take returns the next key, and how often it was denied, or a part of that if it is more than a call takes. ok is
// false when there is none, and nothing is due.
func (r *Reports) take() (key string, n int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.order) == 0 {
		r.order, r.sends = nil, false
		return "", 0, false
	}
	key = r.order[0]
	n = min(r.counts[key], atOnce)
	if r.counts[key] -= n; r.counts[key] == 0 {
		delete(r.counts, key)
		r.order = r.order[1:]
	}
	return key, n, true
}

// forget drops what was counted, and counts nothing for a while.
func (r *Reports) forget(pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
	r.order, r.sends, r.silent = nil, false, time.Now().Add(pause)
}
