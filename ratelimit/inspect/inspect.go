// Package inspect tells what a key holds, to somebody who does not know its limits: the first question when a customer
// calls. It reads what is stored, changes nothing and charges nothing.
package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/doors"
)

// What a key holds.
const (
	None   = "none"   // there is no key, so all limits are full and nobody holds a lease
	Rate   = "rate"   // a lone RATE, as redis-cell stores it
	Limits = "limits" // any other limits
	Ban    = "ban"    // a ban, and limits that are full
	Leases = "leases"
)

// Unknown is how many units of a RATE are used that is not full: that depends on its count, which comes with calls.
const Unknown = -1

// Holding is what a key holds.
type Holding struct {
	Kind        string    // None, Rate, Limits, Ban or Leases
	Now         time.Time // the server's clock, which the other instants are to be compared with
	Bytes       int64     // the length of the string; 0 for leases
	ExpiresAt   time.Time // zero if it never does, or is None
	BannedUntil time.Time // zero without a ban. One that is over stays until the next write: see Banned
	Held        int64     // leases that have not lapsed
	LapsesAt    time.Time // when the next of them lapses; zero without any
	Waiting     int64     // callers in line on this server; always 0 without the module
	Limits      []Limit   // those of the latest call first
}

// Limit is what a key holds of one limit. Counts and bursts come with calls and are not stored.
type Limit struct {
	Kind    string        // RATE, WINDOW, FIXED, FIRST (a FIXED with FIRST), or AFTER, which counts denied calls
	Period  time.Duration // 0 if the key does not tell: of a lone RATE, and of a FIXED by the calendar
	Used    int64         // units, or denied calls, that count now; or Unknown
	Entries int64         // of a WINDOW: how many entries of its state count
	// NextAt is when the first used units come back, and ResetAt when all are back. They are zero if none is used, or
	// if the key does not tell: NextAt of a RATE, and both of a FIXED by the calendar.
	NextAt, ResetAt time.Time
	Queue           time.Duration // by how much a RATE was overdrawn when it was written, by reserved slots or debt
}

// Banned reports whether the key was banned when it was looked at.
func (h Holding) Banned() bool { return h.BannedUntil.After(h.Now) }

// Key sends CL.INSPECT: it tells what key holds. Replicas answer it, too. The client is what ratelimit.New takes.
func Key(ctx context.Context, client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}, key string) (Holding, error) {
	reply, err := doors.Ask(ctx, client, ratelimit.IsOutage, "CL.INSPECT", key)
	if err != nil {
		return Holding{}, fmt.Errorf("inspect: CL.INSPECT: %w", err)
	}
	h, ok := parse(reply)
	if !ok {
		return Holding{}, fmt.Errorf("inspect: CL.INSPECT: the reply is %v, not what a key holds", reply)
	}
	return h, nil
}

// reader reads the fields of one map, and notes whether one was missing.
type reader struct {
	fields  map[string]any
	missing bool
}

func (r *reader) text(name string) string {
	s, ok := r.fields[name].(string)
	r.missing = r.missing || !ok
	return s
}

func (r *reader) integer(name string) int64 {
	n, ok := r.fields[name].(int64)
	r.missing = r.missing || !ok
	return n
}

func (r *reader) instant(name string) time.Time {
	if ms := r.integer(name); ms > 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

func (r *reader) duration(name string) time.Duration {
	return time.Duration(max(r.integer(name), 0)) * time.Millisecond
}

func parse(reply any) (Holding, bool) {
	r := &reader{fields: doors.Named(reply)}
	h := Holding{
		Kind: r.text("kind"), Now: r.instant("now_ms"), Bytes: r.integer("bytes"), ExpiresAt: r.instant("expires_at_ms"),
		BannedUntil: r.instant("banned_until_ms"), Held: r.integer("held"), LapsesAt: r.instant("lapses_at_ms"), Waiting: r.integer("waiting"),
	}
	limits, ok := r.fields["limits"].([]any)
	for _, entry := range limits {
		l := &reader{fields: doors.Named(entry)}
		h.Limits = append(h.Limits, Limit{
			Kind: l.text("kind"), Period: l.duration("period_ms"), Used: l.integer("used"), Entries: l.integer("entries"),
			NextAt: l.instant("next_at_ms"), ResetAt: l.instant("reset_at_ms"), Queue: l.duration("queue_ms"),
		})
		ok = ok && !l.missing
	}
	return h, ok && !r.missing
}
