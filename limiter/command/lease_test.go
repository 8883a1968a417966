// What CL.LEASE, CL.RENEW, CL.RELEASE and CL.LEASES answer and write.
package command

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/limiter/command/words"
)

const nowMs = nowNs / ms

// leaseSet is a sorted set as the server holds it, and what its key expires at.
type leaseSet struct {
	scores   map[string]float64
	expireAt int64
}

func setOf(members ...any) leaseSet {
	s := leaseSet{scores: map[string]float64{}}
	for i := 0; i < len(members); i += 2 {
		s.scores[members[i].(string)] = float64(members[i+1].(int))
	}
	return s
}

// sorted is the ids by score.
func (s leaseSet) sorted() []string {
	all := slices.Sorted(maps.Keys(s.scores))
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(s.scores[a], s.scores[b]) })
	return all
}

// gather is what C does: it shows c as much of the set as a call gets to see.
func (s leaseSet) gather(c *Call, cmd *Command) {
	c.First.Kind = Absent
	if len(s.scores) > 0 {
		c.First.Kind = SortedSet
	}
	all := s.sorted()
	lapsed := 0
	for lapsed < len(all) && s.scores[all[lapsed]] <= float64(c.NowNs/ms) {
		lapsed++
	}
	if c.First.Members == nil {
		c.First.Members = &Members{}
	}
	m := c.First.Members
	m.NamesAt, m.SlotsAt = placesIn(c, cmd)
	named := len(c.Named(cmd))
	m.Reset(int64(len(all)), int64(lapsed), min(lapsed, MaxLowest), named)
	for i := range m.Lowest {
		m.Lowest[i] = s.scores[all[i]]
	}
	m.Next = math.NaN()
	if lapsed < len(all) {
		m.Next = s.scores[all[lapsed]]
	}
	if len(all) > 0 {
		m.Beyond = s.scores[all[len(all)-1]] > float64(c.NowNs/ms+FurthestMs)
	}
	m.Unread = c.Turn == Arriving && named == 1 && lapsed == 0 && len(all) > 0 && s.room(c) > m.Count+c.First.Ahead
	for i := range m.Named {
		m.Named[i] = math.NaN()
		if m.Unread {
			continue
		}
		if score, ok := s.scores[string(s.name(c, cmd, i))]; ok {
			m.Named[i] = score
		}
	}
}

// The bridge looks there for names before it asks what a call says.
func TestIDsStandWhereCommandsUsuallyHaveThem(t *testing.T) {
	assert.Equal(t, 6, Lease.NamesAt)
	assert.Equal(t, 2, Renew.NamesAt)
	assert.Equal(t, 2, Release.NamesAt)
	assert.Equal(t, -1, MLimit.NamesAt, "at the end")
	assert.Equal(t, -1, Settle.NamesAt, "at the end")
	assert.Zero(t, Limit.NamesAt)
}

// placesIn is where a call has its words, or where most have them if it is none.
func placesIn(c *Call, cmd *Command) (names, room int) {
	var p words.Parser
	if len(c.Args) == 0 || p.Parse(&cmd.syntax, &words.Request{}, c.Args, nil) != nil {
		return cmd.NamesAt, cmd.SlotsAt
	}
	return p.IDsAt(), p.SlotsAt()
}

// room is the number of members that a call says there may be.
func (s leaseSet) room(c *Call) (n int64) {
	if at := c.First.Members.SlotsAt; at > 0 && at < len(c.Args) {
		n, _ = words.ParseInt(c.Args[at])
	}
	return n
}

// name is member i that a call names.
func (s leaseSet) name(c *Call, cmd *Command, i int) []byte { return c.Named(cmd)[i] }

// apply is what C does with the outcome.
func (s *leaseSet) apply(c *Call, cmd *Command) {
	m := c.First.Members
	switch c.First.Effect {
	case Delete:
		clear(s.scores)
	case ChangeMembers:
		for _, id := range s.sorted()[:m.RemoveLowest] {
			delete(s.scores, id)
		}
		for i, remove := range m.Remove {
			if remove {
				delete(s.scores, string(s.name(c, cmd, i)))
			}
		}
		if m.Add {
			id := string(s.name(c, cmd, 0))
			if _, ok := s.scores[id]; ok && m.Unread {
				m.Event, c.Integers[m.IfThere.Field] = m.IfThere.Event, m.IfThere.Integer
			}
			s.scores[id] = m.AddScore
		}
	}
	s.expireAt = 0
	if all := s.sorted(); len(all) > 0 {
		s.expireAt = int64(s.scores[all[len(all)-1]])
	}
}

// run decides a call at an instant, behind ahead others, and applies it.
func (s *leaseSet) run(cmd *Command, atNs, ahead int64, line string) *Call {
	c := call(line)
	c.NowNs, c.First.Ahead, c.First.LineSlots = atNs, ahead, NoSlots
	s.gather(c, cmd)
	c.Run(cmd)
	s.apply(c, cmd)
	return c
}

// A set of anything but instants was not written by a lease: it is refused, and stays as it is.
func TestASortedSetOfAnythingElseIsRefused(t *testing.T) {
	lines := map[*Command]string{Lease: "k SLOTS 9 TTL 1s ID a", Renew: "k ID a TTL 1s", Release: "k ID a", Leases: "k"}
	for _, score := range []float64{math.Inf(1), math.Inf(-1), -1, 0, 17, 1_700_000_000, float64(nowMs) + 0.5, float64(nowMs) - 0.5,
		float64(nowMs) * 1000, 1e300} {
		for cmd, line := range lines {
			set := setOf("other", int(nowMs+5))
			set.scores["wrong"] = score
			c := set.run(cmd, nowNs, 0, line)
			require.Equal(t, ReplyError, c.Reply, "%s %v", cmd.Name, score)
			assert.Equal(t, wrongSet, string(c.Error))
			assert.Len(t, set.scores, 2)
		}
	}
	for cmd, line := range lines {
		for _, kind := range []KeyKind{String, Other} {
			c := call(line)
			set := setOf()
			set.gather(c, cmd)
			c.First.Kind = kind
			c.Run(cmd)
			assert.Equal(t, wrongType, string(c.Error), cmd.Name)
		}
	}
}

// Callers of CL.WAIT stand in line for a window at a key that holds a string. Without them such a key has nothing to
// show.
func TestCallersInLineForAWindowAreShown(t *testing.T) {
	for _, tt := range []struct {
		kind  KeyKind
		ahead int64
		want  string
	}{
		{String, 3, ""}, {Absent, 3, ""}, {SortedSet, 3, ""}, {String, 0, wrongType}, {Other, 3, wrongType},
	} {
		c := call("k")
		set := setOf()
		set.gather(c, Leases)
		c.First.Kind, c.First.Ahead = tt.kind, tt.ahead
		c.Run(Leases)
		if tt.want != "" {
			assert.Equal(t, tt.want, string(c.Error), tt)
			continue
		}
		require.Equal(t, ReplyLeases, c.Reply, tt)
		assert.Equal(t, []int64{0, 3, 10, 0}, c.Integers, tt)
	}
}

// A caller with TIMEOUT is decided again when the first lease lapses. spec/lines.txt has what becomes of it.
func TestLeaseWaits(t *testing.T) {
	for _, test := range []struct {
		name              string
		mayBlock          bool
		held              leaseSet
		lookNs, timeoutMs int64
		want              []int64
	}{
		{"until the first lapses", true, setOf("a", int(nowMs+500), "b", int(nowMs+900)), 500 * ms, 1001, nil},
		{"until somebody else acts, where no lease will lapse", true, setOf(), math.MaxInt64, 1001, nil},
		{"not where it cannot be blocked", false, setOf("a", int(nowMs+500), "b", int(nowMs+900)), 0, 0, []int64{1, 0, 0, -1, 0, 0}},
	} {
		c := call("k SLOTS 0 TTL 1s ID w TIMEOUT 1.0001s")
		c.NowNs, c.MayBlock, c.First.LineSlots = nowNs, test.mayBlock, NoSlots
		test.held.gather(c, Lease)
		c.Run(Lease)
		assert.Equal(t, []int64{test.lookNs, test.timeoutMs}, []int64{c.LookNs, c.TimeoutMs}, test.name)
		assert.Equal(t, test.want, c.Integers, test.name)
		assert.Equal(t, test.want == nil, c.Reply == ReplyInTurn, test.name)
	}
}

// A call that takes a slot removes a lease that has lapsed, if there is any. So a set never has more members than
// slots, and never are more held, whatever a clock does, even while more leases have lapsed than one call removes.
func TestNeverMoreThanNAreHeldWhateverTheClockDoes(t *testing.T) {
	revived := 0
	rapid.Check(t, func(t *rapid.T) {
		set, now := setOf(), nowNs
		slots := rapid.SampledFrom([]int64{1, 3, 20, 50}).Draw(t, "slots")
		steps := rapid.SampledFrom([]int64{0, 0, ms, 40 * ms, 5000 * ms, -ms, -40 * ms, -5000 * ms})
		lost := map[string]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now += steps.Draw(t, "step")
			id := fmt.Sprintf("id%d", rapid.IntRange(0, 99).Draw(t, "id"))
			ttl := rapid.SampledFrom([]int{1, 30, 1000, 60_000}).Draw(t, "ttl")
			switch rapid.IntRange(0, 5).Draw(t, "command") {
			case 0:
				limited := set.run(Renew, now, 0, fmt.Sprintf("k ID %s TTL %dms", id, ttl)).Integers[0] == 1
				if !limited && lost[id] {
					revived++
				}
				lost[id] = limited
			case 1:
				c := set.run(Release, now, 0, "k ID "+id)
				require.Equal(t, c.Integers[0] > 0, c.First.Effect != Keep)
			default:
				c := set.run(Lease, now, 0, fmt.Sprintf("k SLOTS %d TTL %dms ID %s", slots, ttl, id))
				if c.Integers[0] == 0 {
					lost[id] = false
				}
				held := set.run(Leases, now, 0, "k").Integers[0]
				require.Equal(t, slots-held, c.Integers[2])
			}
			require.LessOrEqual(t, int64(len(set.scores)), slots)
			require.LessOrEqual(t, set.run(Leases, now, 0, "k").Integers[0], slots)
		}
	})
	t.Logf("%d renewals found a lease that an earlier one had not found", revived)
}

func TestADecisionOnLeasesDoesNotAllocate(t *testing.T) {
	for cmd, line := range map[*Command]string{Lease: "k SLOTS 9 TTL 1s ID b TIMEOUT 1s", Renew: "k ID a TTL 1s", Release: "k ID a b", Leases: "k COUNT 5"} {
		c := call(line)
		c.NowNs = nowNs
		set := setOf("a", int(nowMs+5), "old", int(nowMs-5))
		set.gather(c, cmd)
		c.Run(cmd)
		require.NotEqual(t, ReplyError, c.Reply, string(c.Error))
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.Run(cmd) }), cmd.Name)
	}
}

func BenchmarkLease(b *testing.B) {
	for name, cmd := range map[string]*Command{
		"SLOTS 9 TTL 30s ID x":                    Lease,
		"SLOTS 1 TTL 30s ID x TIMEOUT 1s COMPACT": Lease,
		"ID a TTL 30s COMPACT":                    Renew,
		"ID a":                                    Release,
	} {
		c := call("k " + name)
		c.NowNs, c.First.LineSlots, c.Past = nowNs, NoSlots, &Past{}
		setOf("a", int(nowMs+5), "b", int(nowMs+6)).gather(c, cmd)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.First.LineSlots = NoSlots
				c.Run(cmd)
			}
		})
	}
}
