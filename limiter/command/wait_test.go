// What CL.WAIT answers and writes: at once, when the slot has come, and when slots are
// given back.
package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/stack"
)

func TestWaitNeverBlocksWhereAClientCannotBeBlocked(t *testing.T) {
	for _, line := range []string{"k RATE 5/s TIMEOUT 1m", "k RATE 5/s TIMEOUT 0"} {
		c := decide(Wait, tatIn(nsPerSecond), line)
		require.Equal(t, ReplyLater, c.Reply)
		c.MayBlock = false
		c.Run(Wait)
		assert.Equal(t, fields{1, 1, 5, 0, 200, 1000, 200, 0, 0}, fieldsOf(t, c), line)
		assert.Equal(t, Keep, c.First.Effect)
		c.First.Kind = Absent
		c.Run(Wait)
		assert.Equal(t, fields{0, 1, 5, 4, -1, 200, 200, 1, 0}, fieldsOf(t, c), line)
	}
}

// With a WINDOW a caller reserves nothing: it waits in line, and is decided anew when it is its turn.
func TestWaitInLine(t *testing.T) {
	full := valueAfter(t, "k WINDOW 2/m COST 2")
	for _, test := range []struct {
		name, value string
		turn        Turn
		ahead       int64
		mayBlock    bool
		cost        string
		want        fields // none while it waits
		lookNs      int64
		write       Effect
	}{
		{"units are there", "", Arriving, 0, true, "1", fields{0, 1, 2, 1, -1, 60000, 60000, 1, 7}, 0, Set},
		{"none are", full, Arriving, 0, true, "1", fields{}, 60 * nsPerSecond, Keep},
		{"none are, where it cannot be blocked", full, Arriving, 0, false, "1", fields{1, 1, 2, 0, 60000, 60000, 60000, 0, 0}, 0, Keep},
		{"there never are", full, Arriving, 0, true, "3", fields{1, 1, 2, 0, -1, 60000, 60000, 0, 0}, 0, Keep},
		{"there never are, and others are ahead of it", full, Arriving, 1, true, "3", fields{1, 1, 2, 0, -1, 60000, 60000, 0, 0}, 0, Keep},
		{"there never are, and units are for those ahead of it", "", Arriving, 1, true, "3", fields{1, 1, 2, 2, -1, 0, 0, 0, 0}, 0, Keep},
		{"nobody is overtaken", "", Arriving, 1, true, "1", fields{}, 0, Keep},
		{"nor where it cannot be blocked", "", Arriving, 1, false, "1", fields{1, 1, 2, 2, 1, 0, 0, 0, 0}, 0, Keep},
		{"others are ahead of it, and no units", full, Arriving, 1, false, "1", fields{1, 1, 2, 0, 60000, 60000, 60000, 0, 0}, 0, Keep},
		{"its turn", "", AtFront, 0, true, "1", fields{0, 1, 2, 1, -1, 60000, 60000, 1, 7}, 0, Set},
		{"its turn, with others in line", "", AtFront, 1, true, "1", fields{0, 1, 2, 1, -1, 60000, 60000, 1, 7}, 0, Set},
		{"its turn, and no units", full, AtFront, 0, true, "1", fields{}, 60 * nsPerSecond, Keep},
		{"sent away", full, Leaving, 0, true, "1", fields{1, 1, 2, 0, 60000, 60000, 60000, 0, 0}, 0, Keep},
		{"sent away when units are there", "", Leaving, 0, true, "1", fields{1, 1, 2, 2, 1, 0, 0, 0, 0}, 0, Keep},
		{"banned", banned(1500*ms, full), Arriving, 0, true, "1", fields{1, 0, 2, 0, 60000, 1500, 1500, 0, 0}, 0, Keep},
		{"banned, with room behind the ban", banned(1500*ms, ""), Arriving, 0, true, "1", fields{1, 0, 2, 0, 1500, 1500, 1500, 0, 0}, 0, Keep},
		{"banned in its turn", banned(1500*ms, full), AtFront, 0, true, "1", fields{}, 1500 * ms, Keep},
		{"sent away while it is banned", banned(1500*ms, full), Leaving, 0, true, "1", fields{1, 0, 2, 0, 60000, 1500, 1500, 0, 0}, 0, Keep},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := call("k WINDOW 2/m TIMEOUT 1.0001s COST " + test.cost)
			c.Turn, c.First.Ahead, c.MayBlock, c.WaitedNs = test.turn, test.ahead, test.mayBlock, 7*ms
			if test.value != "" {
				c.First.Kind, c.First.Value = String, []byte(test.value)
			}
			c.Run(Wait)
			assert.Equal(t, test.write, c.First.Effect)
			assert.Equal(t, test.lookNs, c.LookNs)
			if test.want == (fields{}) {
				assert.Equal(t, ReplyInTurn, c.Reply, string(c.Error))
				assert.Equal(t, int64(1001), c.TimeoutMs)
				return
			}
			assert.Equal(t, test.want, fieldsOf(t, c))
		})
	}
}

// answered is the reply to a caller of a line, whose slot has come or who was sent away.
func answered(t testing.TB, value, line string, granted bool, waitedNs int64) fields {
	c := decide(Peek, value, "k RATE 1/s") // leaves its own answer behind
	as := call(line)
	c.Args, c.ArgCount, c.First.Effect = as.Args, as.ArgCount, Set
	c.Answer(Wait, granted, waitedNs)
	require.Equal(t, Keep, c.First.Effect)
	return fieldsOf(t, c)
}

func TestTheAnswerToAWaiter(t *testing.T) {
	const s = nsPerSecond
	two := valueAfter(t, "k RATE 5/s BURST 9 RATE 60/m BURST 3 COST 2")
	empty := valueAfter(t, "k RATE 5/s BURST 9 RATE 60/m BURST 3 COST 3")
	const line = "k RATE 5/s BURST 9 RATE 60/m BURST 3 COST 2 TIMEOUT 1m"
	for _, test := range []struct {
		name, value string
		line        string
		granted     bool
		want        fields
	}{
		{"its slot has come, and nobody is behind", tatIn(s), "k RATE 5/s COST 2 TIMEOUT 1m", true,
			fields{0, 1, 5, 0, -1, 1000, 200, 2, 1235}},
		{"its slot has come, and some are behind",
			valueAfter(t, "k RATE 5/s COST 5", "k RATE 5/s COST 5 MAXWAIT 1s"), "k RATE 5/s COST 2 TIMEOUT 1m", true,
			fields{0, 1, 5, 0, -1, 2000, 1200, 2, 1235}},
		{"the rule is the one with the fewest units, as of any call let through", two, line, true,
			fields{0, 2, 3, 1, -1, 2000, 1000, 2, 1235}},
		{"also where another makes the next wait longer",
			valueAfter(t, "k RATE 1/m BURST 9 COST 6", "k RATE 1/m BURST 9 RATE 5/s BURST 2 COST 2"),
			"k RATE 1/m BURST 9 RATE 5/s BURST 2 COST 2 TIMEOUT 1m", true,
			fields{0, 2, 2, 0, -1, 400, 200, 2, 1235}},
		{"the key has gone since", "", "k RATE 5/s COST 2 TIMEOUT 1m", true,
			fields{0, 1, 5, 5, -1, 0, 0, 2, 1235}},
		{"the key holds something else since", "bar", "k RATE 5/s COST 2 TIMEOUT 1m", true,
			fields{0, 1, 5, 5, -1, 0, 0, 2, 1235}},
		{"the key holds a damaged stack since", empty[:len(empty)-1], "k RATE 5/s RATE 60/m TIMEOUT 1m", true,
			fields{0, 1, 5, 5, -1, 0, 0, 1, 1235}},

		{"sent away", empty, line, false,
			fields{1, 2, 3, 0, 2000, 3000, 1000, 0, 0}},
		{"sent away when a retry would succeed at once", two[:0], line, false,
			fields{1, 2, 3, 3, 0, 0, 0, 0, 0}},
		{"sent away, and the key holds something else since", "bar", line, false,
			fields{1, 2, 3, 3, 0, 0, 0, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, answered(t, test.value, test.line, test.granted, 1234*ms+1))
		})
	}

	each := decide(Limit, tatIn(s), "k RATE 5/s EACH")
	require.EqualValues(t, 1, each.Each[0][0])
	as := call("k RATE 5/s TIMEOUT 1m EACH")
	each.Args, each.ArgCount = as.Args, as.ArgCount
	each.Answer(Wait, true, 0)
	assert.Zero(t, each.Each[0][0], "no limit denies what was granted, whatever the call before was told")

	list := call("k RATE 5/s TIMEOUT 1m")
	list.First.Kind = Other
	list.Answer(Wait, true, 0)
	assert.Equal(t, fields{0, 1, 5, 5, -1, 0, 0, 1, 0}, fieldsOf(t, list), "the key is a list since")
}

func rate(t testing.TB, count, capacity int64, period time.Duration) stack.Limit {
	limit, err := stack.NewRate(count, int64(period), 1, capacity)
	require.NoError(t, err)
	return limit
}

// The line goes by the value: what is no state must not look like no key.
func TestGiveBackShowsTheLineWhatTheKeyHolds(t *testing.T) {
	for _, test := range []struct {
		name   string
		kind   KeyKind
		value  string
		decode error
	}{
		{"no key", Absent, "left from another call", nil},
		{"a state", String, "5", nil},
		{"another string", String, "bar", stack.ErrEncoding},
		{"an empty string", String, "", stack.ErrEncoding},
		{"a list", Other, "left from another call", stack.ErrEncoding},
	} {
		c := &Call{In: &In{NowNs: nowNs}, First: &Key{Kind: test.kind, Value: []byte(test.value)}}
		c.GiveBack(func(value []byte, s *stack.Stack) bool {
			if test.kind == Absent {
				assert.Empty(t, value, test.name)
				return false
			}
			require.NotEmpty(t, value, test.name)
			s.Load([]stack.Limit{rate(t, 5, 5, nsPerSecond)})
			assert.Equal(t, test.decode, s.Decode(value), test.name)
			return false
		})
		assert.Equal(t, Keep, c.First.Effect, test.name)
	}
}
