package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"redis-throttle/limiter/embedded"
)

// store keeps the keys of the host among those of miniredis. miniredis keeps what is left of each key's time, as of an
// instant that tick moves. Between two ticks its clock stands still.
type store struct {
	redis    *miniredis.Miniredis
	tickedNs int64
	changed  bool // a key was, since this was last looked at
	// pause is how much real time has to pass before the next tick, and since begins with the last one. A tick takes
	// time by the number of keys, so pause keeps its share small.
	pause time.Duration
	since time.Time
}

// lingerNs is how long a key lives in the ms of its expiry: servers delete it when that is over, and miniredis as soon
// as no time is left. At the last µs of that ms, 999 ns are left: the clock shows no more than µs. PTTL and PEXPIRETIME
// round it away.
const lingerNs = int64(time.Millisecond - time.Nanosecond)

const nsPerMs = int64(time.Millisecond)

func newStore(nowNs int64) store {
	s := store{redis: miniredis.NewMiniRedis(), tickedNs: nowNs}
	s.redis.SetTime(time.Unix(0, nowNs))
	return s
}

// tick deletes the keys whose time is over.
func (s *store) tick(nowNs int64) {
	began := time.Now()
	s.redis.SetTime(time.Unix(0, nowNs))
	s.redis.FastForward(time.Duration(nowNs - s.tickedNs))
	s.tickedNs = nowNs
	s.since = time.Now()
	s.pause = max(time.Millisecond, 20*s.since.Sub(began))
}

// isDue reports whether it is time for the next tick.
func (s *store) isDue(nowNs int64) bool { return nowNs != s.tickedNs && time.Since(s.since) >= s.pause }

func (s *store) Get(db int, name string) *embedded.Key {
	from := s.redis.DB(db)
	key := &embedded.Key{}
	switch from.Type(name) {
	case "":
		return key
	case "string":
		value, err := from.Get(name)
		key.Value, key.Other = []byte(value), err != nil
	case "zset":
		members, err := from.SortedSet(name)
		key.Leases, key.Other = make([]embedded.Lease, 0, len(members)), err != nil
		for id, score := range members {
			key.Leases = append(key.Leases, embedded.Lease{ID: id, Score: score})
		}
		slices.SortFunc(key.Leases, func(a, b embedded.Lease) int {
			return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(a.ID, b.ID))
		})
	default:
		key.Other = true
	}
	if left := int64(from.TTL(name)); left != 0 { // it may end after 2262, where ns have no room
		key.ExpireAtMs = s.tickedNs/nsPerMs + left/nsPerMs + (s.tickedNs%nsPerMs+left%nsPerMs)/nsPerMs
	}
	return key
}

func (s *store) Put(db int, name string, key *embedded.Key) {
	s.changed = true
	to := s.redis.DB(db)
	if key.Leases == nil || to.Type(name) != "zset" {
		to.Del(name)
	}
	// What miniredis refuses is a value of another type, and there is none now.
	switch {
	case key.Value != nil:
		_ = to.Set(name, string(key.Value))
	case key.Leases != nil:
		s.putLeases(to, name, key.Leases)
	default:
		return
	}
	if key.ExpireAtMs > 0 {
		to.SetTTL(name, s.left(key.ExpireAtMs))
	}
}

// left is what miniredis keeps of a key's time. That of a bucket that takes longest to refill is more than a Duration
// holds: servers have its expiry in whole seconds, and here it is the last one that fits.
func (s *store) left(expireAtMs int64) time.Duration {
	leftMs := expireAtMs - s.tickedNs/nsPerMs
	if most := math.MaxInt64 / nsPerMs; leftMs >= most {
		leftMs = most - 1
		leftMs -= (s.tickedNs/nsPerMs + leftMs) % 1000
	}
	return time.Duration(leftMs*nsPerMs - s.tickedNs%nsPerMs + lingerNs)
}

// putLeases adds before it removes, so that the set is never empty.
func (s *store) putLeases(to *miniredis.RedisDB, name string, leases []embedded.Lease) {
	gone := map[string]bool{}
	before, _ := to.SortedSet(name) // an error means that there is none
	for id := range before {
		gone[id] = true
	}
	for _, l := range leases {
		if score, ok := before[l.ID]; !ok || score != l.Score {
			_, _ = to.ZAdd(name, l.Score, l.ID)
		}
		delete(gone, l.ID)
	}
	for id := range gone {
		_, _ = to.ZRem(name, id)
	}
}
