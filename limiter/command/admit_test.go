package command

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/line"
)

// setMembers shows a key a set of count leases, whose id stands at namesAt.
func (k *Key) setMembers(count int64, namesAt int, unread bool) {
	k.Kind = SortedSet
	k.Members = &Members{NamesAt: namesAt}
	k.Members.Reset(count, 0, 0, 1)
	next := float64(nowNs/ms + 500)
	k.Members.Named[0], k.Members.Unread = math.NaN(), unread
	k.Members.Next, k.Members.NextOther, k.Members.LastOther = next, next, next
}

// A call with several keys sees no members unless one of its keys is a set. It asks for them if it names one.
func TestACallThatNamesAMemberAsksToSeeMembers(t *testing.T) {
	for _, tt := range []struct {
		cmd  *Command
		line string
		want ReplyKind
	}{
		{MLimit, "2 a b RATE 5/s", ReplyFields},
		{MLimit, "2 a b RATE 5/s NEXT SLOTS 1 TTL 1s ID x", ReplyElsewhere},
		{MLimit, "2 a b SLOTS 1 TTL 1s ID x", ReplyElsewhere},
		{MLimit, "2 a b SLOTS 1 TTL 1s", ReplyError},
		{MLimit, "2 a b RATE 5/s ID x", ReplyError},
		{Settle, "2 a b RATE 5/s TAKE 1 USED 0 NEXT SLOTS ID x", ReplyElsewhere},
	} {
		c := many(nil, tt.line)
		c.Past = &Past{}
		for range 2 { // the second time it may be remembered
			for i := range c.Keys {
				c.Keys[i].Members = nil
			}
			c.Run(tt.cmd)
			require.Equal(t, tt.want, c.Reply, "%s: %s", tt.line, c.Error)
			if tt.want == ReplyElsewhere {
				assert.Equal(t, "kk", c.effects(), tt.line)
				c.hold(nil)
				c.Run(tt.cmd)
				assert.Equal(t, ReplyFields, c.Reply, "%s: %s", tt.line, c.Error)
			}
		}
	}
}

// A member that was not looked up is taken for a new one where that lets the call through, and is looked up where a
// retry would be let through instead.
func TestAMemberIsLookedUpWhereARetryWouldBeLetThrough(t *testing.T) {
	for _, tt := range []struct {
		name, line   string
		banned, held int // the key that is banned, and how many leases each set has
		want         ReplyKind
	}{
		{"a free slot", "2 k run RATE 5/s NEXT SLOTS 3 TTL 1s ID x", -1, 2, ReplyFields},
		{"no free slot", "2 k run RATE 5/s NEXT SLOTS 2 TTL 1s ID x", -1, 2, ReplyElsewhere},
		{"no free slot at the first key", "1 run SLOTS 2 TTL 1s ID x", -1, 2, ReplyElsewhere},
		{"two sets", "2 run too SLOTS 3 TTL 1s ID x", -1, 2, ReplyElsewhere},
		{"a ban of the first key", "2 k run RATE 5/s NEXT SLOTS 3 TTL 1s ID x", 0, 2, ReplyElsewhere},
		{"a ban of the last key", "2 run k SLOTS 3 TTL 1s NEXT RATE 5/s ID x", 1, 2, ReplyElsewhere},
		{"no room in a limit", "2 k run RATE 5/s NEXT SLOTS 3 TTL 1s COST 6 ID x", -1, 2, ReplyElsewhere},
	} {
		for _, unread := range []bool{true, false} {
			values := make([]string, 2)
			if tt.banned >= 0 {
				ban := call("k 1h")
				ban.NowNs = nowNs
				ban.Run(Ban)
				require.Equal(t, Set, ban.First.Effect, "%s", ban.Error)
				values[tt.banned] = string(ban.First.NewValue)
			}
			c := many(values, tt.line)
			for i, name := range c.Args[1 : 1+len(c.Keys)] {
				if string(name) != "k" {
					at := 1
					for string(c.Args[at-1]) != "ID" {
						at++
					}
					c.Keys[i].setMembers(int64(tt.held), at, unread)
				}
			}
			c.Run(MLimit)
			want := tt.want
			if !unread {
				want = ReplyFields
			}
			assert.Equal(t, want, c.Reply, "%s, unread %t: %s", tt.name, unread, c.Error)
		}
	}
}

func TestAnIDIsLookedForWhereASetIsOnly(t *testing.T) {
	for _, isSet := range []bool{true, false} {
		c := many(nil, "1 run SLOTS 3 TTL 1s ID x COMPACT")
		if isSet {
			c.Keys[0].setMembers(2, 8, false)
		} else {
			c.First.Members.NamesAt = 8
		}
		c.Run(MLimit)
		assert.Equal(t, isSet, c.Reply == ReplyElsewhere, "%s", c.Error)
		assert.Equal(t, 7, c.First.Members.NamesAt)
	}
	for at, want := range map[int]int{-1: -1, 2: -1, 6: -1, 7: 5, 8: -1, 9: -1} {
		c := many(nil, "1 run SLOTS 3 TTL 1s ID ID")
		c.First.Members.NamesAt = at
		assert.Equal(t, want, c.idIn(c.Args[2:]), at)
	}
}

func TestCallsThatDifferInTheirIDsAreRemembered(t *testing.T) {
	for length, want := range map[int]bool{0: false, 1: true, 512: true, 512 + 1: false} {
		c := many(nil, "1 run SLOTS 3 TTL 1s ID x")
		c.Past, c.First.Members.NamesAt = &Past{}, 7
		c.Run(MLimit)
		require.Equal(t, ReplyFields, c.Reply, "%s", c.Error)
		c.Args[7] = []byte(strings.Repeat("y", length))
		assert.Equal(t, want, c.findGroups(c.Args[2:]) != nil, length)
	}
}

func TestCallersInLineComeBeforeAnAdmission(t *testing.T) {
	for ahead, want := range map[int64]int64{0: 0, 1: 1} {
		c := many(nil, "1 run SLOTS 3 TTL 1s ID x")
		c.Keys[0].setMembers(2, 7, false)
		c.Keys[0].Ahead = ahead
		c.Run(MLimit)
		require.Equal(t, ReplyFields, c.Reply, "%s", c.Error)
		assert.Equal(t, want, c.Integers[0], ahead)

		set := setOf("a", int(nowMs+500), "b", int(nowMs+900))
		assert.Equal(t, want, set.run(Lease, nowNs, ahead, "k SLOTS 3 TTL 1s ID w").Integers[0], ahead)
	}
}

// A panic may come when everything has been decided.
func TestAFailureUndoesWhatWasDecided(t *testing.T) {
	c := call("k RATE 5/s")
	c.Run(Limit)
	require.Equal(t, Set, c.First.Effect)
	c.Fail("ERR broken")
	assert.Equal(t, ReplyError, c.Reply)
	assert.Equal(t, Keep, c.First.Effect)
	assert.Nil(t, c.First.NewValue)
}

func TestACallThatFailsTellsItsLineNothing(t *testing.T) {
	c := call("k SLOTS 3")
	c.First.Members, c.First.LineSlots, c.First.ToldSlots = &Members{}, 7, 3
	c.Run(Lease)
	require.Equal(t, ReplyError, c.Reply)
	assert.EqualValues(t, 7, c.First.ToldSlots)
}

func TestCommandsThatRunOverMaxmemory(t *testing.T) {
	for cmd, want := range map[*Command]bool{Limit: false, MLimit: false, Peek: false, Leases: false, Release: true, Settle: true} {
		assert.Equal(t, want, cmd.RunsOverMaxmemory(), cmd.Name)
	}
}

func TestACallIsGivenViewsOfItsArguments(t *testing.T) {
	assert.Equal(t, MaxArgsOfKeys, MLimit.ViewedArgs())
	assert.Equal(t, MaxArgs, Limit.ViewedArgs())
	c := call("k ID a b")
	for at, want := range map[int][][]byte{-1: nil, 0: nil, 2: c.Args[2:], 3: c.Args[3:], 4: nil, 5: nil} {
		c.First.Members = &Members{NamesAt: at}
		assert.Equal(t, want, c.Named(Release), at)
	}
}

func TestASettlementLooksUpWhatItHasToKnow(t *testing.T) {
	for line, want := range map[string]ReplyKind{
		"2 k run RATE 60/h TAKE 9 USED 4 NEXT SLOTS ID x": ReplyFields,
		"2 run k SLOTS NEXT RATE 60/h TAKE 9 USED 4 ID x": ReplyFields,
		"2 run too SLOTS ID x":                            ReplyElsewhere,
		"1 run SLOTS EACH ID x":                           ReplyElsewhere,
	} {
		c := many(nil, line)
		for i, name := range c.Args[1 : 1+len(c.Keys)] {
			if string(name) == "k" {
				taken := call("k RATE 60/h COST 9")
				taken.Run(Limit)
				require.Equal(t, Set, taken.First.Effect)
				c.Keys[i].Kind, c.Keys[i].Value = String, taken.First.NewValue
				continue
			}
			c.Keys[i].setMembers(2, len(c.Args)-1, true)
		}
		c.Run(Settle)
		require.Equal(t, want, c.Reply, "%s: %s", line, c.Error)
		if strings.Contains(line, "USED 4") {
			assert.Equal(t, int64(5), c.Refunded, line)
			assert.Equal(t, int64(-5), c.Integers[7], line)
		}
	}
	c := many(nil, "2 k run RATE 60/h TAKE 4 USED 9 NEXT SLOTS ID x")
	c.Keys[1].setMembers(2, len(c.Args)-1, true)
	c.Run(Settle)
	assert.Equal(t, []int64{5, 0}, []int64{c.Integers[7], c.Refunded}, "more was used than taken")
}

func TestACallerOfAHigherPriorityIsBehindNobody(t *testing.T) {
	for priority, want := range map[string]ReplyKind{"-1": ReplyInTurn, "0": ReplyInTurn, "1": ReplyFields, "100": ReplyFields} {
		var lines line.Lines
		lines.EnterTurn(0, []byte("k"), 1, 1, line.Turn{LookNs: math.MaxInt64}, line.Clock{WallNs: nowNs})
		c := call("k WINDOW 2/m TIMEOUT 1s PRIORITY " + priority)
		c.NowNs, c.MayBlock = nowNs, true
		c.First.Line, c.First.Ahead, _ = lines.Look(0, []byte("k"))
		require.Equal(t, int64(1), c.First.Ahead)
		c.Run(Wait)
		assert.Equal(t, want, c.Reply, "%s: %s", priority, c.Error)
	}
}

// A lease goes to a caller that comes before those in line, if a slot is free.
func TestALeaseGoesPastCallersOfALowerPriority(t *testing.T) {
	for priority, want := range map[int64]int64{-1: 0, 0: 1, 1: 1} { // of the caller in line
		var lines line.Lines
		lines.EnterTurn(0, []byte("run"), 1, 1, line.Turn{Place: line.Place{Priority: priority}, LookNs: math.MaxInt64}, line.Clock{WallNs: nowNs})
		c := many(nil, "1 run SLOTS 3 TTL 1s ID x")
		c.Keys[0].setMembers(2, 7, false)
		c.First.Line, c.First.Ahead, _ = lines.Look(0, []byte("run"))
		c.Run(MLimit)
		require.Equal(t, ReplyFields, c.Reply, "%s", c.Error)
		assert.Equal(t, want, c.Integers[0], "an admission, %d", priority)

		c = call("run SLOTS 3 TTL 1s ID w PRIORITY 0 TIMEOUT 1s")
		c.NowNs, c.First.LineSlots = nowNs, NoSlots
		setOf("a", int(nowMs+500), "b", int(nowMs+900)).gather(c, Lease)
		c.First.Members.Unread, c.First.Members.Named[0] = false, math.NaN()
		c.First.Line, c.First.Ahead, _ = lines.Look(0, []byte("run"))
		c.Run(Lease)
		require.Equal(t, ReplyFields, c.Reply, "%s", c.Error)
		assert.Equal(t, want, c.Integers[0], "a lease, %d", priority)
	}
}
