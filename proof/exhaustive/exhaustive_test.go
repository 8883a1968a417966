package exhaustive

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/positions"
	"redis-throttle/limiter/embedded"
)

// depth is how many moves a sequence has: some seconds in a run of all tests, and some minutes in make prove.
func depth() int { return size.OfProof(2, 3, 5) }

// worlds are those whose steps may go back, and the same with a clock that only goes forth: there, every denial has
// to be right, too.
func worlds() []*World {
	var all []*World
	for _, one := range []struct {
		name  string
		keys  []*Limits
		steps []int64 // forth; of a scale that fits the periods
		moves func(*World)
	}{
		{"RATE", []*Limits{{All: []Limit{Rate(2, 4, 2)}}}, []int64{0, 1, 3, 2000}, ordinary},
		{"RATE that is rounded", []*Limits{{All: []Limit{Rate(3, 10, 3)}}}, []int64{0, 1, 4, 7}, ordinary},
		{"RATE with a larger burst", []*Limits{{All: []Limit{Rate(1, 3, 4)}}}, []int64{0, 1, 5}, ordinary},
		{"RATE with MAXWAIT", []*Limits{{All: []Limit{Rate(1, 2, 2)}}}, []int64{0, 1, 3, 8}, waiting},
		{"WINDOW", []*Limits{{All: []Limit{Window(3, 5)}}}, []int64{0, 1, 2, 2000}, ordinary},
		{"WINDOW of more charges than entries", []*Limits{{All: []Limit{CrowdedWindow(75, 96)}}}, []int64{0, 1, 2, 24}, crowding},
		{"FIXED", []*Limits{{All: []Limit{Fixed(3, 4)}}}, []int64{0, 1, 3, 2000}, ordinary},
		{"FIRST", []*Limits{{All: []Limit{First(3, 4)}}}, []int64{0, 1, 3, 2000}, ordinary},
		{"RATE and WINDOW", []*Limits{{All: []Limit{Rate(2, 4, 3), Window(4, 7)}}}, []int64{0, 1, 4}, stacked},
		{"all four kinds", []*Limits{{All: []Limit{Rate(2, 4, 3), Window(4, 7), Fixed(3, 5), First(4, 9)}}}, []int64{0, 1, 4}, stacked},
		{"RATE twice", []*Limits{{All: []Limit{Rate(2, 2, 2), Rate(3, 9, 3)}}}, []int64{0, 1, 3, 8}, func(w *World) { stacked(w); waiting(w) }},
		{"limits that come and go", []*Limits{{All: []Limit{Rate(2, 4, 3), Window(3, 7), Fixed(3, 5), First(3, 9)}}}, []int64{0, 4}, comingAndGoing},
		{"bans", []*Limits{{All: []Limit{Rate(2, 4, 2)}}}, []int64{0, 1, 3, 2000}, banning},
		{"bans of a stack", []*Limits{{All: []Limit{Window(2, 3), First(3, 9)}}}, []int64{0, 1, 4}, banning},
		{"bans after denials", []*Limits{{All: []Limit{Rate(2, 4, 2)}}}, []int64{0, 1, 3, 2000}, banningAfter},
		{"bans of a stack after denials", []*Limits{{All: []Limit{Fixed(2, 3), Rate(2, 9, 3)}}}, []int64{0, 1, 4}, banningAfter},
		{"counts of 0", []*Limits{{All: []Limit{Rate(2, 4, 2), Rate(3, 9, 3), Nobody("RATE 0/9ms SHADOW"), Nobody("FIXED 0/5ms"), Fixed(3, 5)}}}, []int64{0, 1, 4}, func(w *World) {
			w.Some(command.Limit, 0, "", 1, 2, 0) // never the first RATE alone: as a number it would have no period
			w.Some(command.Limit, 0, "COST 2", 2, 1, 0)
			w.Some(command.Limit, 0, "", 1, 2, 0, 3)
			w.Some(command.Limit, 0, "COST 2 STRICT", 2, 3, 1, 0)
			w.Some(command.Limit, 0, "COST 0", 0, 3)
			w.Some(command.Limit, 0, "", 1, 4)
			w.Some(command.Refund, 0, "", 1, 3)
		}},
		{"two keys", []*Limits{{All: []Limit{Rate(1, 3, 2)}}, {All: []Limit{Window(2, 4)}}}, []int64{0, 1, 3}, func(w *World) {
			for key := range w.Keys {
				w.Call(command.Limit, key, "", 1)
				w.Call(command.Limit, key, "COST 2", 2)
				w.Ban(key, 2)
			}
		}},
		{"several keys", []*Limits{{All: []Limit{Rate(1, 3, 2)}}, {All: []Limit{Window(2, 4)}}}, []int64{0, 1, 3}, func(w *World) {
			w.All("", 1)
			w.All("COST 2", 2)
			w.All("COST 3 UPTO", 3)
			w.All("COST 2 STRICT", 2)
			w.All("FORCE", 1)
			w.Call(command.Limit, 0, "", 1)
			w.Call(command.Limit, 1, "", 1)
		}},
		{"several keys with stacks", []*Limits{{All: []Limit{Rate(2, 4, 3), Fixed(3, 5)}}, {All: []Limit{First(4, 6)}}, {All: []Limit{Window(3, 4)}}},
			[]int64{0, 1, 4}, func(w *World) {
				w.All("", 1)
				w.All("COST 2", 2)
				w.All("COST 3 UPTO", 3)
				w.Call(command.Limit, 2, "", 1)
			}},
		{"several keys of one group", sameForAll(Rate(2, 4, 2)), []int64{0, 1, 2, 2000}, func(w *World) {
			w.All("", 1)
			w.All("COST 2", 2)
			w.All("ANY", 1)
			w.All("COST 2 ANY", 2)
			w.Call(command.Limit, 1, "", 1)
			w.Call(command.Refund, 0, "", 1)
		}},
		{"any key", []*Limits{{All: []Limit{Rate(1, 3, 2)}}, {All: []Limit{Fixed(2, 5)}}}, []int64{0, 1, 3}, func(w *World) {
			w.All("ANY", 1)
			w.All("COST 2 ANY", 2)
			w.All("COST 3 UPTO ANY", 3)
			w.All("FORCE ANY", 1)
			w.All("", 1)
			w.Call(command.Limit, 0, "", 1)
		}},
		{"bans of several keys", sameForAll(Rate(2, 4, 2)), []int64{0, 1, 3}, func(w *World) {
			w.All("COST 2 BAN 3ms", 2)
			w.All("COST 2 STRICT BAN 2ms", 2)
			w.All("ANY", 1)
			w.All("FORCE", 1)
			w.Call(command.Limit, 1, "", 1)
			w.Ban(0, 2)
			w.Ban(1, 4)
			w.Shallower = 1
		}},
		{"bans of several keys after denials", sameForAll(Rate(2, 4, 2)), []int64{0, 1, 3}, func(w *World) {
			w.All("COST 2 BAN 3ms AFTER 2/5ms", 2)
			w.All("COST 2 STRICT BAN 2ms AFTER 3/5ms", 2)
			w.All("FORCE BAN 3ms AFTER 2/5ms", 1)
			w.Call(command.Limit, 0, "BAN 2ms AFTER 2/5ms", 1)
			w.Call(command.Limit, 1, "", 1)
			w.Ban(0, 2)
			w.Shallower = 1
		}},
		{"several keys with MAXWAIT", []*Limits{{All: []Limit{Rate(1, 2, 2)}}, {All: []Limit{Rate(1, 3, 1)}}}, []int64{0, 1, 3, 8}, func(w *World) {
			w.All("", 1)
			w.All("MAXWAIT 3ms", 1)
			w.All("MAXWAIT 100ms", 1)
			w.All("MAXWAIT 4ms ANY", 1)
			w.Call(command.Limit, 0, "MAXWAIT 100ms", 1)
			w.Call(command.Limit, 1, "", 1)
		}},
	} {
		for _, back := range [][]int64{nil, {-1, -3}} {
			w := &World{Name: one.name, Keys: one.keys, StepsMs: append(append([]int64{}, one.steps...), back...)}
			if back != nil {
				w.Name += ", clock set back"
			}
			one.moves(w)
			all = append(all, w)
		}
	}
	return all
}

// sameForAll are two keys that are asked with one group.
func sameForAll(l Limit) []*Limits {
	limits := &Limits{All: []Limit{l}}
	return []*Limits{limits, limits}
}

func ordinary(w *World) {
	w.Call(command.Limit, 0, "", 1)
	w.Call(command.Limit, 0, "COST 2", 2)
	w.Call(command.Limit, 0, "COST 3 UPTO", 3)
	w.Call(command.Limit, 0, "COST 2 STRICT", 2)
	w.Call(command.Limit, 0, "COST 2 FORCE", 2)
	w.Call(command.Refund, 0, "", 1)
	w.Call(command.Peek, 0, "", 1)
}

func crowding(w *World) {
	ordinary(w)
	w.Before, w.Shallower = 72, 1
}

func waiting(w *World) {
	w.Call(command.Limit, 0, "", 1)
	w.Call(command.Limit, 0, "MAXWAIT 3ms", 1)
	w.Call(command.Limit, 0, "COST 2 MAXWAIT 100ms", 2)
}

// stacked has no refunds: what each limit of a stack gives back, the answer does not tell.
func stacked(w *World) {
	w.Call(command.Limit, 0, "", 1)
	w.Call(command.Limit, 0, "COST 2", 2)
	w.Call(command.Limit, 0, "COST 3 UPTO", 3)
	w.Call(command.Limit, 0, "COST 2 STRICT", 2)
	w.Call(command.Peek, 0, "COST 2", 2)
}

// comingAndGoing has calls that name one limit each, and some that name more.
func comingAndGoing(w *World) {
	for i := range w.Keys[0].All {
		w.Some(command.Limit, 0, "COST 2", 2, i)
	}
	w.Some(command.Limit, 0, "FORCE", 1, 2, 0)
	w.Call(command.Limit, 0, "", 1)
	w.Some(command.Refund, 0, "", 1, 1)
}

func banning(w *World) {
	w.Call(command.Limit, 0, "", 1)
	w.Call(command.Limit, 0, "COST 2 BAN 3ms", 2)
	w.Call(command.Limit, 0, "COST 2 STRICT BAN 2ms", 2)
	w.Call(command.Limit, 0, "FORCE", 1)
	w.Call(command.Peek, 0, "", 1)
	w.Ban(0, 2)
	w.Ban(0, 0)
}

func banningAfter(w *World) {
	w.Call(command.Limit, 0, "", 1)
	w.Call(command.Limit, 0, "COST 2 BAN 3ms AFTER 2/5ms", 2)
	w.Call(command.Limit, 0, "COST 2 STRICT BAN 2ms AFTER 3/5ms", 2)
	w.Call(command.Limit, 0, "COST 3 UPTO BAN 4ms AFTER 2/5ms", 3)
	w.Call(command.Limit, 0, "FORCE BAN 3ms AFTER 3/5ms", 1)
	w.Ban(0, 2)
}

func TestEverySequenceKeepsThePromises(t *testing.T) {
	var states, calls int
	for _, w := range worlds() {
		t.Run(w.Name, func(t *testing.T) {
			r := w.Explore(max(depth()-w.Shallower, 2)) // in one move nothing is limited
			require.Empty(t, r.Problem)
			assert.NotZero(t, r.Granted)
			assert.NotZero(t, r.Limited)
			t.Log(r)
			states, calls = states+r.States, calls+r.Calls
		})
	}
	t.Logf("%d states, %d calls", states, calls)
}

// Every ledger finds one unit too many and every check one that is too strict: with a promise of one less, and of one
// more, each world has a sequence that breaks it.
func TestAPromiseOffByOneIsFound(t *testing.T) {
	for _, w := range worlds() {
		for _, by := range []int64{-1, 1} {
			if by > 0 && (strings.Contains(w.Name, "set back") || len(w.Keys[0].All) > 1 || strings.Contains(w.Name, "MAXWAIT")) {
				continue // late for another reason, or limited by another limit
			}
			t.Run(fmt.Sprintf("%s by %d", w.Name, by), func(t *testing.T) {
				spoiled := *w
				spoiled.Keys = nil
				for _, limits := range w.Keys {
					other := &Limits{Name: limits.Name}
					for _, l := range limits.All {
						l.ledger = l.ledger.clone()
						spoil(l.ledger, by)
						other.All = append(other.All, l)
					}
					spoiled.Keys = append(spoiled.Keys, other)
				}
				r := spoiled.Explore(5)
				require.NotEmpty(t, r.Problem)
				want := "one unit too many"
				if by > 0 {
					want = "limited, though there is room"
				}
				require.Contains(t, r.Problem, want)
			})
		}
	}
}

// A ban that begins a denial too early, or too late, is found.
func TestABanOffByOneDenialIsFound(t *testing.T) {
	tried := 0
	for _, w := range worlds() {
		for _, by := range []int64{-1, 1} {
			if strings.Contains(w.Name, "after denials") {
				w.AfterBy = by
				require.Contains(t, w.Explore(5).Problem, "a ban that begins", "%s by %d", w.Name, by)
				tried++
			}
		}
	}
	require.Equal(t, 12, tried)
}

// A call on several keys that does less, or more, than it says is found.
func TestACallOnSeveralKeysThatIsNotAllOrNoneIsFound(t *testing.T) {
	swap := func(c *command.Call) { // the second of two keys is asked first
		if string(c.Args[len(c.Args)-1]) == "ANY" && c.Integers[0] == 0 {
			c.Keys[0], c.Keys[1] = c.Keys[1], c.Keys[0]
			c.Integers[positions.MlimitRule], c.Integers[positions.MlimitKey] = 3-c.Integers[positions.MlimitRule], 3-c.Integers[positions.MlimitKey]
		}
	}
	for _, test := range []struct {
		name, world, want string
		spoil             func(*command.Call)
	}{
		{"half a call is charged", "several keys", "a key that was not charged", func(c *command.Call) { c.Keys[1].Effect = command.Keep }},
		{"a denied call is charged to a key", "several keys with stacks", "denied and written", func(c *command.Call) {
			if c.Integers[0] == 1 {
				c.Keys[2].Effect, c.Keys[2].NewValue = command.Set, []byte("1")
			}
		}},
		{"another key is charged than was chosen", "any key", "a key that was not charged", func(c *command.Call) { c.Keys[0], c.Keys[1] = c.Keys[1], c.Keys[0] }},
		{"another key is charged, too", "several keys of one group", "a key that was charged and not chosen", func(c *command.Call) { c.Keys[1] = c.Keys[0] }},
		{"the second key is chosen first", "several keys of one group", "key 1 passed over, though it has room", swap},
		{"a key that is banned is asked", "bans of several keys", "let through in spite of a ban", func(c *command.Call) {
			if last := string(c.Args[len(c.Args)-1]); c.Integers[positions.MlimitRule] == 0 && last == "FORCE" {
				c.Integers[positions.MlimitLimited], c.Integers[positions.MlimitRule] = 0, 1
			}
		}},
		{"the answer names another key", "several keys", "the limit of another key decided", func(c *command.Call) { c.Integers[positions.MlimitKey] = 3 - c.Integers[positions.MlimitKey] }},
		{"retry after is a millisecond late", "several keys", "limited false 1 ms earlier", func(c *command.Call) { c.Integers[positions.MlimitRetryAfterMs]++ }},
		{"waits longer than it has to", "several keys with MAXWAIT", "has to wait, though there is room", func(c *command.Call) { c.Integers[positions.MlimitWaitMs]++ }},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := slices.IndexFunc(worlds(), func(w *World) bool { return w.Name == test.world })
			w := worlds()[i]
			w.Spoil = func(c *command.Call) {
				if c.Reply != command.ReplyError {
					test.spoil(c)
				}
			}
			require.Contains(t, w.Explore(3).Problem, test.want)
		})
	}
}

func spoil(l ledger, by int64) {
	switch l := l.(type) {
	case *rate:
		l.capacity += by
	case *window:
		l.count += by
	case *fixed:
		l.count += by
	case *first:
		l.count += by
	}
}

func leaseWorlds() []*LeaseWorld {
	forth := []int64{0, ms / 2, ms, 3 * ms}
	back := []int64{0, ms, 3 * ms, -ms / 2, -2 * ms}
	return []*LeaseWorld{
		{Name: "leases, one slot", Slots: 1, TTLs: []string{"1ms", "3ms"}, IDs: []string{"a", "b"}, StepsNs: forth, Promised: 1},
		{Name: "leases, two slots", Slots: 2, TTLs: []string{"2ms"}, IDs: []string{"a", "b", "c"}, StepsNs: forth, Promised: 2},
		{Name: "leases, clock set back", Slots: 2, TTLs: []string{"1ms", "3ms"}, IDs: []string{"a", "b", "c"}, StepsNs: back, Promised: 2},
	}
}

func TestEverySequenceKeepsThePromisesOfLeases(t *testing.T) {
	for _, w := range leaseWorlds() {
		t.Run(w.Name, func(t *testing.T) {
			r := w.Explore(depth())
			require.Empty(t, r.Problem)
			assert.NotZero(t, r.Granted)
			assert.NotZero(t, r.Limited)
			t.Log(r)
		})
	}
}

func TestALeaseOffByOneIsFound(t *testing.T) {
	for by, want := range map[int64]string{-1: "one holder too many", 1: "limited, though there are slots"} {
		for _, w := range leaseWorlds()[:2] {
			w.Promised = w.Slots + by
			require.Contains(t, w.Explore(4).Problem, want, w.Name)
		}
	}
}

// What docs/cl.renew.md says of a clock that is set back.
func TestALeaseThatWasCalledLapsedIsFoundAgainByAClockThatIsSetBack(t *testing.T) {
	w := &LeaseWorld{Slots: 2, TTLs: []string{"1ms", "3ms"}, IDs: []string{"a", "b"}, Promised: 2}
	s, runner := newLeases(), &embedded.Runner{}
	for _, test := range []struct {
		ns      int64
		line    string
		limited int
	}{
		{0, "CL.LEASE k SLOTS 2 TTL 1ms ID a", 0},
		{0, "CL.LEASE k SLOTS 2 TTL 3ms ID b", 0},
		{ms, "CL.RENEW k TTL 1ms ID a", 1},
		{-ms / 2, "CL.RENEW k TTL 1ms ID a", 0},
	} {
		for _, m := range w.moves() {
			if joined(&m) == test.line {
				var r Result
				require.Empty(t, w.move(s, test.ns, &m, runner, &r))
				require.Equal(t, test.limited, r.Limited, test.line)
			}
		}
	}
	assert.Len(t, s.held, 2)
}
