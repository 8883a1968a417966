package ratelimit

import (
	"fmt"
	"time"

	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/internal/taken"
)

// Call is one verb on one key or several. It is a plain value: whatever decides it, a server, a cache, a batch or a
// fake, reads it and changes nothing in it. Each field says which verbs it is for. A field that the verb does not take
// is an error, which names it.
type Call struct {
	Verb Verb
	// Keys are what the call is about. VerbLimit and VerbSettle take up to eight, decided at one instant, all or
	// nothing. In a cluster they must be in one slot, which a hash tag sees to: "{acme}:user:42" and "{acme}". The
	// other verbs take one.
	Keys []Key
	// Cost is how many units the call takes, or gives back with VerbRefund: 1 when it is 0. Limit.Take overrides it for
	// one limit.
	Cost int64
	// NoCost takes no units: only a ban denies such a call. It goes without a Cost. Where the cost is computed and may
	// be 0, write Call{Cost: n, NoCost: n == 0}.
	NoCost bool

	// Charge is what is taken if the units are not there (VerbLimit): nothing when it is empty, else charge.UpTo,
	// charge.Strict or charge.Force.
	Charge charge.Mode
	// Any charges the first of several keys that has room, in the order given, instead of all of them (VerbLimit). When
	// the call is limited, the result is about the key with the shortest RetryAfter.
	Any bool
	// Ban bans the key of a call that is limited for so long (VerbLimit), or bans the key at once (VerbBan): until then
	// every call on it is limited, whatever its limits would say. A ban is never shortened, but VerbBan with 0 lifts
	// it.
	Ban time.Duration
	// BanAfter is of which denial the Ban of VerbLimit begins, such as "10/1h": with the tenth call that is limited
	// within an hour of the first one. The key counts them. Without it, the first one bans.
	BanAfter string
	// MaxWait is how long the caller is ready to wait. With VerbLimit, units are reserved that come within it, and the
	// caller waits by itself for Result.Wait before it goes ahead; only Rate limits can be reserved. With VerbWait and
	// VerbLease the answer comes when it is the caller's turn, or when MaxWait is over. 0 is not to wait, except that
	// VerbWait then waits as long as it takes. So does Forever.
	MaxWait time.Duration
	// Group and Priority are for callers in line: higher priorities first, then groups take turns (VerbLease with
	// MaxWait, and VerbWait without a Rate). A Group has up to 128 bytes, a Priority is from -100 to 100.
	Group    string
	Priority int64
	// Weight is how many turns the Group has for each one of a group of weight 1, from now on: 1 to 1000. 0 stands for
	// 1.
	Weight int64

	// ID is what leases are held under: 1 to 512 bytes (VerbLease, VerbRenew, VerbRelease, VerbSettle, and VerbLimit
	// when one of Keys has Slots).
	ID string
	// Each fills Result.Each.
	Each bool
}

// Key is a key of a Call: the limits that it is asked for, or the slots of leases on it.
type Key struct {
	Name   string
	Limits Limits
	// Slots is how many leases are held at a time, TTL how long one lasts that is not renewed (1 ms to 100 years).
	// A key has either Limits or Slots with a TTL. The keys of leases must differ from those of limits.
	Slots int64
	TTL   time.Duration
}

// Verb is what a Call does.
type Verb int

// The verbs. The zero Verb is VerbLimit.
const (
	// VerbLimit takes Cost units of all limits, or none (CL.LIMIT, or CL.MLIMIT for several keys). A key with Slots
	// takes a lease for ID along with the units; an ID that holds all of the call's leases is charged nothing.
	VerbLimit Verb = iota
	// VerbPeek tells what VerbLimit would answer, and charges nothing (CL.PEEK). Replicas answer it, too.
	VerbPeek
	// VerbRefund gives Cost units back, never above full (CL.REFUND). Result.Granted is negative then.
	VerbRefund
	// VerbWait answers when the units are there, in order of arrival (CL.WAIT). See Limiter.Wait.
	VerbWait
	// VerbBan bans a key for Ban (CL.BAN). Result.Lasts is for how long it is banned now.
	VerbBan
	// VerbLease takes a slot for ID (CL.LEASE). The same ID again renews its lease and takes no second slot. When a
	// caller that waits leaves, a slot that it got at the same moment is released in the background: take another ID to
	// try again.
	VerbLease
	// VerbRenew makes the lease of ID last for TTL from now on (CL.RENEW). One that has lapsed is Limited.
	VerbRenew
	// VerbRelease gives the slot of ID back (CL.RELEASE). Result.Granted is -1, or 0 if ID held none.
	VerbRelease
	// VerbSettle ends the leases of ID, and charges or returns the difference between Limit.Used and Limit.Take, if ID
	// still holds all of them (CL.SETTLE). Otherwise it changes nothing and is Limited. So a repeated call settles
	// once. A key with leases has its Name alone. Result.Granted is what was charged in all, negative if units came
	// back.
	VerbSettle
	// VerbReset deletes a key (DEL): its limits are full again, its bans and leases have ended. Result.Granted is -1,
	// or 0 if there was none.
	VerbReset
	// VerbThrottle is VerbLimit for a single Rate by CL.THROTTLE, which redis-cell and others have, too. Times are in
	// whole seconds, and Result.NextAfter is 0. Rate(30, time.Minute).Burst(16) is what they call a max_burst of 15.
	VerbThrottle
	// VerbDenied tells the server of Cost calls on a key that were denied without it, so that its CL.TOP counts them
	// (CL.DENIED). Packages cached and batched do so by themselves. Result.Granted is how many were counted: Cost, or 0
	// while CL.TOP is off. It needs the module.
	VerbDenied
	numVerbs
)

var verbs = [numVerbs]string{"limit", "peek", "refund", "wait", "ban", "lease", "renew", "release", "settle", "reset", "throttle", "denied"}

// String is the word for v, such as "limit".
func (v Verb) String() string {
	if v < 0 || v >= numVerbs {
		return fmt.Sprintf("Verb(%d)", int(v))
	}
	return verbs[v]
}

func (c *Call) units() int64 { return taken.Of(c.Cost, c.NoCost) }

// Forever as MaxWait waits as long as it takes.
const Forever = time.Duration(1<<63 - 1)

// longest is the longest wait that the server takes.
const longest = 100 * 365 * 24 * time.Hour
