// Package adaptive lets the number of slots follow what the service behind them can bear. A fixed number is too low on a good
// day and too high on a bad one.
//
//	limiter := adaptive.New(ratelimit.New(client, ratelimit.Options{}), adaptive.Options{Slow: 300 * time.Millisecond})
//	lease, err := leases.Take(ctx, limiter, leases.Options{Key: "search", Slots: 50, TTL: 30 * time.Second})
//	if err != nil {
//		return err
//	}
//	defer lease.Release(ctx)
//	if err := search(lease.Context()); errors.Is(err, context.DeadlineExceeded) {
//		lease.Failed() // the service did not answer in time
//	}
//
// An Adaptive is a Decider like any other, so httplimit.NewConcurrency, admissions with slots and whatever else takes leases
// work on it as they are. The Slots of a call are the most that there are; Result.Limit is how many there are right now.
//
// # How the number changes
//
// The rule is additive increase, multiplicative decrease (AIMD), as in TCP. Slots come back at a steady rate, all of them within
// Recovery. When the service is overloaded, three in ten of those that are left close, but Floor stays. While it copes, all
// Slots are there, as with a fixed number.
//
// An Adaptive measures how long slots are held, from the grant of a lease to its release. It judges a window of calls at a time: at
// least ten, and those of at least Options.Window, so that a single slow call changes nothing. The service counts as overloaded if more than half of
// them took longer than Slow, or if one in ten failed (Call.Failed, leases.Lease.Failed). Calls that still run and have
// taken longer than Slow are counted, so a service that hangs is noticed.
//
// A caller that waits for a slot (MaxWait) goes by the number of the moment when it came.
//
// # Several processes
//
// Each process sees only its own calls, but all have one number. The server keeps it, as what remains of a Rate on the key of the slots
// followed by " adaptive slots". So a process that starts begins with the number that the others have found, and restarts do not lose it.
//
// A process that finds the service overloaded closes slots in proportion to the share of the leases that it holds. If all of a hundred
// processes do, three in ten slots close. If one of them does, three in a thousand close.
//
// For each key in use, a process asks the server for the number once in a Window. Only the first call on a key waits for it. While the server
// cannot be asked, the last number holds.
package adaptive

import (
	"context"
	"slices"
	"sync"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/lru"
	"redis-throttle/ratelimit/internal/quiet"
)

// Options configure New. The zero Options are a good default. All processes that share keys should have the same.
type Options struct {
	// Slow is how long a call takes at most while the service is well. Choose a time that few calls exceed on a good day. With 0,
	// each process learns it: twice the lowest median of the last 60 windows. It then takes a service for well that it has never seen better.
	Slow time.Duration
	// Floor is how many slots there are at least: 1 when it is 0. A call with no more Slots than that is not changed.
	Floor int64
	// Recovery is how long it takes until all slots are back if none closes meanwhile: a minute when it is 0.
	Recovery time.Duration
	// Window is how long calls are gathered at least before slots close, and how often a process asks for the number: 1 s when it is 0.
	Window time.Duration
	// Keys is how many keys are remembered: 10,000 when it is 0. When there are more, what was measured of those used least recently is forgotten.
	Keys int
	// OnError is called when the server could not be asked for the number, or told. Nil logs through slog, of each kind one line in ten seconds.
	OnError func(error)
}

// Adaptive is a Decider that takes fewer slots than asked for while the service behind them is overloaded. Calls without slots
// go to the Decider behind it unchanged. It is safe for concurrent use.
type Adaptive struct {
	o    Options
	next *ratelimit.Limiter
	log  quiet.Log

	mu       sync.Mutex
	services *lru.Map[string, *service]
}

// New returns an Adaptive before next. It panics if next is nil or a number of o is negative.
func New(next ratelimit.Decider, o Options) *Adaptive {
	if o.Slow < 0 || o.Floor < 0 || o.Recovery < 0 || o.Window < 0 || o.Keys < 0 {
		panic("adaptive: no number of Options may be negative")
	}
	if o.Floor == 0 {
		o.Floor = 1
	}
	if o.Recovery == 0 {
		o.Recovery = time.Minute
	}
	if o.Window == 0 {
		o.Window = time.Second
	}
	if o.Keys == 0 {
		o.Keys = 10_000
	}
	return &Adaptive{o: o, next: ratelimit.With(next), services: lru.New[string, *service](o.Keys)}
}

// Decide decides a call, with as many of its Slots as the service can bear.
func (a *Adaptive) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	switch call.Verb {
	case ratelimit.VerbLease, ratelimit.VerbLimit:
		if slices.ContainsFunc(call.Keys, a.adapts) {
			return a.takeSlots(ctx, call)
		}
	case ratelimit.VerbRenew:
		a.noteRenewal(&call)
	case ratelimit.VerbRelease, ratelimit.VerbSettle:
		a.noteEnd(ctx, &call)
	}
	return a.next.Decide(ctx, call)
}

func (a *Adaptive) adapts(key ratelimit.Key) bool { return key.TTL != 0 && key.Slots > a.o.Floor }

// takeSlots asks for a lease with the slots of the moment.
func (a *Adaptive) takeSlots(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	asked := call.Each
	call.Keys = slices.Clone(call.Keys)
	call.Each = asked || call.Verb == ratelimit.VerbLimit // what else would tell of the slots
	services := make([]*service, len(call.Keys))
	for i := range call.Keys {
		if key := &call.Keys[i]; a.adapts(*key) {
			services[i] = a.service(key.Name)
			key.Slots = services[i].slotsNow(ctx, key.Slots)
		}
	}
	result, err := a.next.Decide(ctx, call)
	if err == nil && result.By == "server" {
		rule := 0
		for i := range call.Keys {
			if services[i] != nil {
				slots := &result
				if rule < len(result.Each) {
					slots = &result.Each[rule]
				}
				services[i].noteLease(ctx, &call, call.Keys[i].TTL, slots.Limit-slots.Remaining, !result.Limited)
			}
			rule += max(len(call.Keys[i].Limits), 1)
		}
	}
	if !asked {
		result.Each = nil
	}
	return result, err
}

// service returns what is known of the key name.
func (a *Adaptive) service(name string) *service {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.services.Get(name)
	if !ok {
		s = &service{adaptive: a, name: name, held: map[string]holding{}}
		a.services.Put(name, s)
	}
	return s
}

func (a *Adaptive) find(name string) *service {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, _ := a.services.Get(name)
	return s
}

func (a *Adaptive) noteRenewal(call *ratelimit.Call) {
	for i := range call.Keys {
		if s := a.find(call.Keys[i].Name); s != nil {
			s.noteRenewal(call.ID, call.Keys[i].TTL)
		}
	}
}

func (a *Adaptive) noteEnd(ctx context.Context, call *ratelimit.Call) {
	for i := range call.Keys {
		if len(call.Keys[i].Limits) > 0 {
			continue
		}
		if s := a.find(call.Keys[i].Name); s != nil {
			s.noteEnd(ctx, call)
		}
	}
}

func (a *Adaptive) failed(ctx context.Context, err error) {
	if a.o.OnError != nil {
		a.o.OnError(err)
		return
	}
	a.log.Error(ctx, quiet.Kind(err), "the number of slots could not be adapted", err)
}
