package leases

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"redis-throttle/ratelimit"
)

const (
	// releasePatience bounds an attempt to give back what is held, and the pause before the next one.
	releasePatience = 5 * time.Second
	// firstPause is between the first two attempts to give something back in the background; each further one is twice
	// as long.
	firstPause = 50 * time.Millisecond
	// mostInBackground is how many leases and admissions a process gives back in the background at a time. Slots of
	// others are free after their TTL.
	mostInBackground = 1000
)

// inBackground is how many leases and admissions are being given back in the background.
var inBackground atomic.Int64

// holding is what is held under an id until it is given back: by a Lease one slot, by an Admission several and units.
type holding struct {
	decider ratelimit.Decider // nil when no server knows of it
	id      string
	owner   owner
	ctx     context.Context
	cancel  context.CancelCauseFunc
	expiry  []*time.Timer // one for each slot
	once    sync.Once
	err     error
}

// slot is what a holding renews.
type slot struct {
	key string
	ttl time.Duration
}

// take sends a call that takes what is held. If the server may have granted it, or grant it yet, without that anybody
// learns of it, it is given back in the background by back: the slots last for ttl.
func (h *holding) take(ctx context.Context, call, back ratelimit.Call, ttl time.Duration) (ratelimit.Result, error) {
	result, err := h.decider.Decide(ctx, call)
	if err == nil {
		err = ctx.Err() // the caller may have left while the answer came
	}
	if err == nil {
		return result, result.Err()
	}
	if mayBeHeld(err) {
		h.abandon(ctx, back, ttl)
	}
	return ratelimit.Result{}, err
}

// begin renews what the server granted, from when it did.
func (h *holding) begin(ctx context.Context, result ratelimit.Result, began time.Time, slots []slot) {
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	if result.By == "policy" { // nobody holds it on a server: there is nothing to renew and nothing to give back
		h.decider = nil
		return
	}
	h.expiry = make([]*time.Timer, len(slots))
	for i, s := range slots {
		ttl := min(s.ttl, firstTTL)
		h.expiry[i] = time.AfterFunc(time.Until(began.Add(believed(ttl))), h.lost)
		go h.renew(s, h.expiry[i], ttl)
	}
}

// mayBeHeld says whether the server may execute, or have executed, a call that failed: unless it replied so itself.
func mayBeHeld(err error) bool {
	var reply interface{ RedisError() }
	return !errors.As(err, &reply)
}

// goOn repeats attempts in the background, after a pause, until one was the last, and for atMost.
func (h *holding) goOn(pause, atMost time.Duration, attempt func() (isLast bool)) {
	if inBackground.Add(1) > mostInBackground {
		inBackground.Add(-1)
		return
	}
	turn := givingBack.begin(h.owner)
	go func() {
		defer inBackground.Add(-1)
		defer givingBack.forget(h.owner, turn)
		ends := time.Now().Add(atMost)
		time.Sleep(min(pause, atMost))
		for pause := max(pause, firstPause); time.Now().Before(ends); pause *= 2 {
			select {
			case _, mine := <-turn:
				if !mine {
					return
				}
			default:
				return
			}
			last := attempt()
			turn <- struct{}{}
			if last {
				return
			}
			pause = min(pause, releasePatience)
			time.Sleep(min(pause, time.Until(ends)))
		}
	}()
}

// owner is whose something is: an id, and the Decider that knows it.
type owner struct {
	decider ratelimit.Decider
	id      string
}

func ownerOf(decider ratelimit.Decider, id string) owner {
	if !reflect.ValueOf(decider).Comparable() {
		decider = nil
	}
	return owner{decider, id}
}

// givingBack is what is being given back in the background, by whose it was. A holder that takes something under its id
// again must not lose it to what is left of the time before.
var givingBack = turns{of: map[owner]chan struct{}{}}

// turns have, for each owner, a channel that holds one value while no attempt is under way. It is closed when there are
// to be no further ones.
type turns struct {
	mu sync.Mutex
	of map[owner]chan struct{}
}

func (t *turns) begin(o owner) chan struct{} {
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[o] = turn
	return turn
}

func (t *turns) forget(o owner, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[o] == turn {
		delete(t.of, o)
	}
}

// stop ends what gives back what o held, after the attempt that is under way.
func (t *turns) stop(ctx context.Context, o owner) error {
	t.mu.Lock()
	turn := t.of[o]
	t.mu.Unlock()
	if turn == nil {
		return nil
	}
	select {
	case _, open := <-turn:
		if open {
			close(turn)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leases: %w", ctx.Err())
	}
}

// abandon gives back what the server may grant yet, for ttl. A server that stood still executes what it finds in its
// sockets in any order: so one that says that there is nothing to give back is asked once more.
func (h *holding) abandon(ctx context.Context, back ratelimit.Call, ttl time.Duration) {
	none := 0
	h.goOn(0, ttl+releasePatience, func() bool {
		result, err := h.ask(ctx, back)
		found := result.Granted != 0
		if back.Verb == ratelimit.VerbSettle {
			found = !result.Limited
		}
		if err == nil && !found {
			none++
		}
		return err == nil && (found || none == 2)
	})
}

// mayPass says whether the same call may succeed later.
func mayPass(err error) bool { return ratelimit.IsOutage(err) || ratelimit.IsOverload(err) }

// tell sends a call that gives back what is held. In an outage that goes on in the background for ttl.
func (h *holding) tell(ctx context.Context, back ratelimit.Call, ttl time.Duration) (ratelimit.Result, error) {
	result, err := h.ask(ctx, back)
	if mayPass(err) {
		h.goOn(firstPause, ttl, func() bool {
			_, err := h.ask(ctx, back)
			return !mayPass(err)
		})
	}
	return result, err
}

// ask sends a call that gives back what is held.
func (h *holding) ask(ctx context.Context, back ratelimit.Call) (ratelimit.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer cancel()
	return h.decider.Decide(ctx, back)
}

// end ends the holding here, without telling the server.
func (h *holding) end() {
	for _, expiry := range h.expiry {
		expiry.Stop()
	}
	h.cancel(context.Canceled)
}

// believed is how long a holder takes a lease for its own. It is a little less than the ttl, since timers of a busy
// process are late.
func believed(ttl time.Duration) time.Duration { return ttl - ttl/20 }

func (h *holding) lost() { h.cancel(ErrLost) }

// renew ends with the Context. One that is under way when the lease is released takes no slot: CL.RENEW
// revives nothing. lasts is how long the lease lasts that was taken. One that lasts shorter than its TTL is extended at
// once: a server that is away for a few seconds from then on must not end the work.
func (h *holding) renew(s slot, expiry *time.Timer, lasts time.Duration) {
	pause := lasts / 3
	if lasts < s.ttl {
		pause = 0
	}
	for {
		if pause > 0 { // a timer of none at all crashes Go 1.26's race detector in a bubble of synctest
			timer := time.NewTimer(pause)
			select {
			case <-h.ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
		sent := time.Now()
		result, err := h.decider.Decide(h.ctx, ratelimit.Call{
			Verb: ratelimit.VerbRenew, Keys: []ratelimit.Key{{Name: s.key, TTL: s.ttl}}, ID: h.id,
		})
		switch {
		case err != nil:
			pause = lasts / 10 // until the lease lapses
		case result.Limited:
			h.lost()
			return
		default:
			lasts = s.ttl
			pause = lasts / 3
			expiry.Reset(time.Until(sent.Add(believed(lasts))))
		}
	}
}
