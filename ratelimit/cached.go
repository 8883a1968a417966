package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"redis-throttle/ratelimit/internal/lru"
)

// Cached remembers the denials of the Decider behind it, and answers the same call itself until
// its RetryAfter is over. A caller that keeps asking while it is limited then costs the server
// nothing.
//
// Two calls are the same if they have the same key, limits and options. A call that costs 5 may be
// limited while one that costs 1 is not, so each has its own denial. Only denials by the server are
// remembered. Allowed calls, errors, denials that no waiting ends (Never), and calls with options
// that charge a denied call (Strict, Force) all go to the server.
//
// Until the RetryAfter of a denial is over, Cached does not notice that units were returned or
// that the key was deleted. It may be too strict for that long at most. A raised limit is a different
// limit and has no denials. The server does not count denials that Cached answers, so INFO and
// CL.TOP show fewer.
//
// In a remembered Result RetryAfter, ResetAfter and NextAfter are counted down, by a clock that
// is never set. Remaining is what it was; units that have come since are not in it.
type Cached struct {
	next    Decider
	denials denials
}

// NewCached returns a Cached before next, which remembers at most so many denials, at least 1. A
// denial takes some 400 bytes, however long its key. When there are more, those used least
// recently are forgotten, and the server is asked again.
func NewCached(next Decider, denials int) *Cached {
	return &Cached{next: next, denials: newDenials(denials)}
}

// Decide answers a call whose denial is remembered, and hands on any other. By of its Result says
// which.
func (c *Cached) Decide(ctx context.Context, key string, limits Limits, opts ...LimitOption) (Result, error) {
	if !rememberable(opts) {
		return c.next.Decide(ctx, key, limits, opts...)
	}
	words, err := Words(limits, opts...)
	if err != nil {
		return c.next.Decide(ctx, key, limits, opts...) // it has the same to say
	}
	call := callOf(key, words)
	if result, ok := c.denials.recall(call, time.Now()); ok {
		return result, nil
	}
	asked := time.Now()
	result, err := c.next.Decide(ctx, key, limits, opts...)
	if err == nil {
		c.denials.remember(call, result, asked, time.Now())
	}
	return result, err
}

// GiveBack hands units on to the Refunder behind c. Denials stay remembered.
func (c *Cached) GiveBack(ctx context.Context, key string, limits Limits, units int64) error {
	return giveBack(ctx, c.next, key, limits, units)
}

// rememberable says whether a denial of a call with these options holds until its RetryAfter:
// not where a denied call is charged, nor with words that are not known here.
func rememberable(opts []LimitOption) bool {
	for _, o := range opts {
		words := o.words()
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "COST", "UPTO", "MAXWAIT", "BAN":
		default:
			return false
		}
	}
	return true
}

// call tells calls apart: a hash of fixed size, so that a long key takes no memory.
type call [sha256.Size]byte

func callOf(key string, words []string) call {
	buffer := make([]byte, 0, 256)
	buffer = appendText(buffer, key)
	for _, word := range words {
		buffer = appendText(buffer, word)
	}
	return sha256.Sum256(buffer)
}

// appendText appends text so that it is known where it ends, whatever it holds.
func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// denials are the last ones, by call. They are safe for concurrent use.
type denials struct {
	mu     sync.Mutex
	byCall *lru.Map[call, denial]
}

type denial struct {
	result   Result
	answered time.Time // when result's times were right, or too long by the way here
	until    time.Time // from when on the call may succeed; no later than the server thinks
}

func newDenials(most int) denials { return denials{byCall: lru.New[call, denial](most)} }

// remember keeps the server's denial of a call that was asked and answered then.
func (d *denials) remember(c call, result Result, asked, answered time.Time) {
	if !result.Limited || result.RetryAfter <= 0 || result.By != FromServer {
		return
	}
	result.By = FromCache
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byCall.Put(c, denial{result, answered, asked.Add(result.RetryAfter)})
}

// recall returns the denial of a call at a time, if it is remembered and still holds.
func (d *denials) recall(c call, now time.Time) (Result, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.byCall.Get(c)
	if !ok {
		return Result{}, false
	}
	if !now.Before(found.until) {
		d.byCall.Delete(c)
		return Result{}, false
	}
	return found.result.after(now.Sub(found.answered)), true
}

// after is r, a denial, as it reads when time has passed.
func (r Result) after(passed time.Duration) Result {
	passed = max(passed, 0)
	r.RetryAfter = max(r.RetryAfter-passed, 0)
	r.ResetAfter = max(r.ResetAfter-passed, 0)
	if r.NextAfter -= passed; r.NextAfter <= 0 {
		r.NextAfter = r.RetryAfter // a unit has come; by then another one has, at the latest
	}
	return r
}
