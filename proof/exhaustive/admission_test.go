package exhaustive

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/limiter/command"
	"redis-throttle/limiter/command/positions"
)

func admissionWorlds() []*AdmissionWorld {
	forth, back := []int64{0, ms / 2, ms, 3 * ms}, []int64{0, ms, 3 * ms, -ms / 2, -2 * ms}
	of := func(name string, units Limit, slots, ttlMs int64, steps []int64) *AdmissionWorld {
		return &AdmissionWorld{
			Name: name, Units: []Limit{units}, Slots: []int64{slots}, TTLMs: ttlMs, Take: 2, Used: []int64{1, 3},
			IDs: []string{"a", "b", "c"}, StepsNs: steps,
		}
	}
	return []*AdmissionWorld{
		of("RATE and a slot", Rate(2, 4, 3), 1, 2, forth),
		of("RATE and two slots", Rate(2, 4, 5), 2, 2, forth),
		of("WINDOW and two slots", Window(5, 5), 2, 2, forth),
		of("FIXED and two slots", Fixed(5, 4), 2, 3, forth),
		of("FIRST and two slots", First(5, 4), 2, 3, forth),
		of("RATE and two slots, clock set back", Rate(2, 4, 5), 2, 2, back),
		{
			Name: "two keys of units and two of slots", Units: []Limit{Rate(2, 4, 3), Window(5, 6)}, Slots: []int64{2, 1}, TTLMs: 2,
			Take: 1, Used: []int64{1, 2}, IDs: []string{"a", "b"}, StepsNs: forth, Alone: true,
		},
	}
}

func TestEverySequenceKeepsThePromisesOfAdmissions(t *testing.T) {
	for _, w := range admissionWorlds() {
		t.Run(w.Name, func(t *testing.T) {
			r := w.Explore(size.OfProof(3, 4, 5)) // in two moves nothing is sent after a settlement
			require.Empty(t, r.Problem)
			for what, n := range map[string]int{"admitted": r.Granted - r.Retried, "limited": r.Limited, "retried": r.Retried, "settled": r.Settled, "too late": r.TooLate} {
				assert.NotZero(t, n, what)
			}
			t.Logf("%v, %d retried, %d settled, %d too late", r.Result, r.Retried, r.Settled, r.TooLate)
		})
	}
}

// With a promise of one slot or unit less, or more, each world has a sequence that breaks it.
func TestAnAdmissionOffByOneIsFound(t *testing.T) {
	const room = "limited, though there is room"
	for i := range admissionWorlds()[:5] {
		slots := func(by int64) *AdmissionWorld {
			w := admissionWorlds()[i]
			w.More, w.Take = by, 1
			return w
		}
		units := func(by, take int64) *AdmissionWorld {
			w := admissionWorlds()[i]
			w.Slots, w.Take = []int64{4}, take
			spoil(w.Units[0].ledger, by)
			return w
		}
		t.Run(slots(0).Name, func(t *testing.T) {
			assert.Contains(t, slots(-1).Explore(3).Problem, "one holder too many")
			assert.Contains(t, slots(1).Explore(3).Problem, room)
			all := int64(5)
			if i == 0 {
				all = 3
			}
			assert.Contains(t, units(-1, all).Explore(3).Problem, "one unit too many")
			assert.Contains(t, units(1, (all+1)/2).Explore(3).Problem, room)
		})
	}
}

// A call that does half of what it says, or more, is found.
func TestAnAdmissionOrSettlementThatIsNotAllOrNoneIsFound(t *testing.T) {
	const units, slots = 0, 1
	write := func(k *command.Key) { k.Effect, k.NewValue, k.ExpireAtMs = command.Set, []byte("1"), begin/ms+1000 }
	for _, test := range []struct {
		name  string
		of    *command.Command
		says  int64 // the first field of its reply
		spoil func(*command.Call)
		want  string
	}{
		{"units without a lease", command.MLimit, 0, func(c *command.Call) { c.Keys[slots].Effect = command.Keep }, "admitted without its lease"},
		{"a lease without units", command.MLimit, 0, func(c *command.Call) { c.Keys[units].Effect = command.Keep }, "admitted without its units"},
		{"denied, and charged", command.MLimit, 1, func(c *command.Call) { write(&c.Keys[units]) }, "denied and written"},
		{"a retry is charged", command.MLimit, 0, func(c *command.Call) {
			if c.Keys[units].Effect == command.Keep {
				write(&c.Keys[units])
			}
		}, "a retry was charged"},
		{"a retry is denied", command.MLimit, 0, func(c *command.Call) {
			if c.Keys[units].Effect == command.Keep {
				c.Integers[0] = 1
			}
		}, "limited, though it holds its leases"},
		{"retry after is a millisecond late", command.MLimit, 1, func(c *command.Call) { c.Integers[positions.MlimitRetryAfterMs]++ }, "limited false 1 ms earlier"},
		{"the lease does not end", command.Settle, 1, func(c *command.Call) { c.Keys[slots].Effect = command.Keep }, "its lease did not end"},
		{"the difference is not charged", command.Settle, 1, func(c *command.Call) { c.Keys[units].Effect = command.Keep }, "the difference was not"},
		{"settled again", command.Settle, 0, func(c *command.Call) { c.Integers[0] = 1 }, "settled without its leases"},
		{"too late, and charged", command.Settle, 0, func(c *command.Call) { write(&c.Keys[units]) }, "not settled, and written"},
		{"settled, and called too late", command.Settle, 1, func(c *command.Call) { c.Integers[0] = 0 }, "not settled, though it held its leases"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := admissionWorlds()[0]
			w.Spoil = func(cmd *command.Command, c *command.Call) {
				if cmd == test.of && c.Reply != command.ReplyError && c.Integers[0] == test.says {
					test.spoil(c)
				}
			}
			require.Contains(t, w.Explore(3).Problem, test.want)
		})
	}
}
