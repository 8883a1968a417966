// Package denials remembers which calls the server has denied, for packages cached and batched.
package denials

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/about"
	"redis-throttle/ratelimit/internal/lru"
)

// ID tells calls or keys apart: a hash of fixed size, so that a long key takes no memory.
type ID [sha256.Size]byte

// IDOf is the same for calls with the same verb, keys, limits, cost and options.
func IDOf(c *ratelimit.Call) ID {
	var buffer [256]byte
	b := OptionsOf(c).append(append(buffer[:0], byte(c.Verb)))
	b = binary.AppendUvarint(b, uint64(len(c.Keys)))
	for i := range c.Keys {
		b = appendText(b, c.Keys[i].Name)
		b = AppendLimits(b, c.Keys[i].Limits)
		b = SlotsOf(&c.Keys[i]).append(b)
	}
	return sha256.Sum256(b)
}

// AppendLimits appends what tells limits apart.
func AppendLimits(b []byte, limits ratelimit.Limits) []byte {
	b = binary.AppendUvarint(b, uint64(len(limits)))
	for i := range limits {
		words := about.Of(&limits[i]).Words
		b = binary.AppendUvarint(b, uint64(len(words)))
		for _, word := range words {
			switch word := word.(type) {
			case string:
				b = appendText(b, word)
			case int64:
				b = binary.AppendVarint(append(b, 0), word)
			}
		}
	}
	return b
}

// IDOfKey is the same for the same key.
func IDOfKey(name string) ID {
	var buffer [256]byte
	return sha256.Sum256(append(buffer[:0], name...))
}

// appendText appends text so that it is known where it ends, whatever it holds.
func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(append(dst, 1), uint64(len(text))), text...)
}

// Denials are the last ones, by call. They are safe for concurrent use.
type Denials struct {
	maxAge time.Duration

	mu     sync.Mutex
	byCall *lru.Map[ID, denial]
	// forgotten are the keys that were forgotten, and when. What was asked before that, or before forgottenAll, holds
	// no more.
	forgotten    *lru.Map[ID, time.Time]
	forgottenAll time.Time
}

type denial struct {
	result   ratelimit.Result
	asked    time.Time
	answered time.Time // when result's times were right, or too long by the way here
	until    time.Time // from when on the call may succeed; no later than the server thinks
}

// New returns room for most denials, none of which holds for longer than maxAge.
func New(most int, maxAge time.Duration) *Denials {
	return &Denials{maxAge: maxAge, byCall: lru.New[ID, denial](most), forgotten: lru.New[ID, time.Time](most)}
}

// IsEmpty reports whether there is nothing to recall.
func (d *Denials) IsEmpty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byCall.Len() == 0
}

// Remember keeps the server's denial of a call that was asked and answered then.
func (d *Denials) Remember(id ID, result ratelimit.Result, asked, answered time.Time) {
	if !result.Limited || result.RetryAfter <= 0 || result.By != "server" {
		return
	}
	result.By = "cache"
	result = named(result, nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byCall.Put(id, denial{result, asked, answered, asked.Add(min(result.RetryAfter, d.maxAge))})
}

// Recall returns the denial of a call on keys at a time, if it is remembered and still holds.
func (d *Denials) Recall(id ID, keys []ratelimit.Key, now time.Time) (ratelimit.Result, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.byCall.Get(id)
	if !ok {
		return ratelimit.Result{}, false
	}
	if !now.Before(found.until) || d.isForgotten(found.asked, keys) {
		d.byCall.Delete(id)
		return ratelimit.Result{}, false
	}
	return named(after(found.result, now.Sub(found.answered)), keys), true
}

// named is r with the names of the keys that it has the places of, or without names if keys is nil: a denial that is
// remembered holds none, so that a long key takes no memory.
func named(r ratelimit.Result, keys []ratelimit.Key) ratelimit.Result {
	name := func(i int) string {
		if i < len(keys) {
			return keys[i].Name
		}
		return ""
	}
	r.Key = name(r.KeyIndex)
	if r.Shadowed {
		r.ShadowKey = name(r.ShadowKeyIndex)
	}
	if keys == nil {
		r.Each = slices.Clone(r.Each) // the caller has them, too; those that are recalled are copies
	}
	for i := range r.Each {
		r.Each[i].Key = name(r.Each[i].KeyIndex)
	}
	return r
}

func (d *Denials) isForgotten(asked time.Time, keys []ratelimit.Key) bool {
	if !asked.After(d.forgottenAll) {
		return true
	}
	if d.forgotten.Len() == 0 {
		return false
	}
	for i := range keys {
		if at, ok := d.forgotten.Get(IDOfKey(keys[i].Name)); ok && !asked.After(at) {
			return true
		}
	}
	return false
}

// Forget drops all denials of calls on a key that were asked by now, also those that are still on their way here.
func (d *Denials) Forget(name string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dropped, ok := d.forgotten.Put(IDOfKey(name), now); ok && dropped.After(d.forgottenAll) {
		d.forgottenAll = dropped // too many keys to tell which: everything of that time goes
	}
}

// after is r, a denial, as it reads when time has passed.
func after(r ratelimit.Result, passed time.Duration) ratelimit.Result {
	passed = max(passed, 0)
	r.RetryAfter = max(r.RetryAfter-passed, 0)
	r.ResetAfter = max(r.ResetAfter-passed, 0)
	if r.NextAfter -= passed; r.NextAfter <= 0 {
		r.NextAfter = r.RetryAfter // a unit has come; by then another one has, at the latest
	}
	if len(r.Each) > 0 {
		r.Each = slices.Clone(r.Each)
		for i := range r.Each {
			e := &r.Each[i]
			if e.RetryAfter != ratelimit.Never {
				e.RetryAfter = max(e.RetryAfter-passed, 0)
			}
			e.ResetAfter = max(e.ResetAfter-passed, 0)
		}
	}
	return r
}
