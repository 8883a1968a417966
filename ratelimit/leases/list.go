package leases

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/internal/doors"
)

// Holders are the leases of a key.
type Holders struct {
	// Held is how many leases there are, also when fewer are listed.
	Held int64
	// Waiting is how many callers wait for a slot; always 0 on a replica.
	Waiting int64
	// Leases are those that lapse next, in that order.
	Leases []Held
	// WaitingGroups is how many groups the callers that wait are of, also when fewer are listed. A group with callers
	// of several priorities counts for each. Servers before 0.3.0 know no groups.
	WaitingGroups int64
	// Groups are those groups, in the order of their turns.
	Groups []Group
}

// Held is a lease that somebody holds.
type Held struct {
	ID    string
	Lasts time.Duration // how long yet, in whole milliseconds
}

// Group is a group of callers that wait with one priority. See ratelimit.Call.
type Group struct {
	Name     string // "" for callers without a group
	Priority int64
	Waiting  int64
	Weight   int64
}

// List sends CL.LEASES: it tells how many leases of key are held, how many callers wait, and who holds the count
// leases (1 or more) that lapse next, and which count groups of callers are first in line. It changes nothing. Replicas
// answer it, too. The client is what ratelimit.New takes.
func List(ctx context.Context, client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}, key string, count int64) (Holders, error) {
	reply, err := doors.Ask(ctx, client, ratelimit.IsOutage, "CL.LEASES", key, "COUNT", count)
	if err != nil {
		return Holders{}, fmt.Errorf("leases: CL.LEASES: %w", err)
	}
	return parse(reply)
}

// parse reads the reply of CL.LEASES, which has no COMPACT as it is nested.
func parse(reply any) (Holders, error) {
	var h Holders
	fields := doors.Named(reply)
	leases, ok := fields["leases"].([]any)
	held, isHeld := fields["held"].(int64)
	waiting, isWaiting := fields["waiting"].(int64)
	if !ok || !isHeld || !isWaiting {
		return Holders{}, fmt.Errorf("leases: CL.LEASES: the reply is %v, not held, waiting and leases", reply)
	}
	h.Held, h.Waiting = held, waiting
	for _, entry := range leases {
		fields := doors.Named(entry)
		id, isText := fields["id"].(string)
		ms, isInteger := fields["lease_ms"].(int64)
		if !isText || !isInteger {
			return Holders{}, fmt.Errorf("leases: CL.LEASES: the reply is %v, where %v is not a lease", reply, entry)
		}
		h.Leases = append(h.Leases, Held{ID: id, Lasts: time.Duration(ms) * time.Millisecond})
	}
	h.WaitingGroups, _ = fields["waiting_groups"].(int64)
	groups, _ := fields["groups"].([]any)
	for _, entry := range groups {
		fields := doors.Named(entry)
		name, isText := fields["group"].(string)
		priority, isInteger := fields["priority"].(int64)
		waiting, isWaiting := fields["waiting"].(int64)
		if !isText || !isInteger || !isWaiting {
			return Holders{}, fmt.Errorf("leases: CL.LEASES: the reply is %v, where %v is not a group", reply, entry)
		}
		weight, isKnown := fields["weight"].(int64)
		if !isKnown { // the server is older than 0.4.0
			weight = 1
		}
		h.Groups = append(h.Groups, Group{name, priority, waiting, weight})
	}
	return h, nil
}
