package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// askLease runs a call about leases on a key that holds a and b, with the memory of earlier calls, or with none.
func askLease(past *Past, cmd *Command, line string) *Call {
	c := call("k " + line)
	for i, word := range c.Args {
		c.Args[i] = []byte(strings.ReplaceAll(string(word), "_", ""))
	}
	c.NowNs, c.LineSlots, c.Past = nowNs, NoSlots, past
	setOf("a", int(nowMs+5), "b", int(nowMs+6)).gather(c, cmd)
	c.Run(cmd)
	return c
}

// A call about leases is remembered whatever its id, and wrong words after a right call are still wrong.
func TestCallsAboutLeasesAreRememberedWhateverTheID(t *testing.T) {
	long := strings.Repeat("x", 512)
	past := &Past{}
	for _, tt := range []struct {
		cmd        *Command
		line       string
		remembered bool
	}{
		{Lease, "SLOTS 9 TTL 30s ID a", false},
		{Lease, "SLOTS 9 TTL 30s ID other", true},
		{Lease, "SLOTS 9 TTL 30s ID " + long, true},
		{Lease, "SLOTS 9 TTL 30s ID x" + long, false},
		{Lease, "SLOTS 9 TTL 30s ID _", false}, // an empty one
		{Lease, "SLOTS 9 TTL 30s ID", false},
		{Lease, "SLOTS 9 TTL 30s ID a COMPACT", false},
		{Lease, "SLOTS 9 TTL 30s ID b COMPACT", true},
		{Lease, "SLOTS 9 TTL 30s ID b COMPACT COMPACT", false},
		{Lease, "SLOTS 8 TTL 30s ID b COMPACT", false},
		{Lease, "ID b SLOTS 9 TTL 30s", false},
		{Lease, "ID a SLOTS 9 TTL 30s", true},
		{Lease, "TTL 30s SLOTS 9 ID b", false},
		{Lease, "TTL 30s SLOTS 9 ID a", true},
		{Renew, "ID a TTL 30s", false},
		{Renew, "ID b TTL 30s", true},
		{Renew, "ID nobody TTL 30s", true},
		{Renew, "ID a TTL 30", false},
		{Lease, "SLOTS 9 TTL 30s ID a", true},
		{Lease, "SLOTS 00000000000000009 TTL 30s ID a", false},
		{Lease, "SLOTS 9 TTL 0.00000000000000001d ID a", false},
		{Release, "ID a", false},
		{Release, "ID a b nobody a", false},
		{Release, "ID a _ b", false},
		{Release, "ID " + long + " x" + long, false},
		{Release, "id a", false},
		{Release, "COUNT a", false},
		{Release, "ID", false},
	} {
		c := call("k " + tt.line)
		for i, word := range c.Args {
			c.Args[i] = []byte(strings.ReplaceAll(string(word), "_", ""))
		}
		c.cmd, c.Past, c.LineSlots, c.NowNs = tt.cmd, past, NoSlots, nowNs
		setOf("a", int(nowMs+5)).gather(c, tt.cmd)
		assert.Equal(t, tt.remembered, c.findLease() != nil, "%s %s", tt.cmd.Name, tt.line)
		with, without := askLease(past, tt.cmd, tt.line), askLease(nil, tt.cmd, tt.line)
		assert.Equal(t, shownLease(without), shownLease(with), "%s %s", tt.cmd.Name, tt.line)
	}
}

// Of a long word only the ends would be compared: the next one may differ in the middle, or be wrong there.
func TestCallsAboutLeasesWithLongWordsAreReadAgain(t *testing.T) {
	for _, tt := range []struct {
		cmd   *Command
		lines []string
	}{
		{Lease, []string{"SLOTS 1000000000000000000 TTL 30s ID c", "SLOTS 1000000099900000000 TTL 30s ID c", "SLOTS 10000000x0000000000 TTL 30s ID c"}},
		{Lease, []string{"SLOTS 9 TTL 1000000001.00000000s ID c", "SLOTS 9 TTL 1000000002.00000000s ID c", "SLOTS 9 TTL 100000000s.00000000s ID c"}},
		{Renew, []string{"ID a TTL 1000000001.00000000s", "ID a TTL 1000000002.00000000s", "ID a TTL 100000000s.00000000s"}},
	} {
		past := &Past{}
		for _, line := range append(tt.lines, tt.lines...) {
			with, without := askLease(past, tt.cmd, line), askLease(nil, tt.cmd, line)
			assert.Equal(t, shownLease(without), shownLease(with), "%s %s", tt.cmd.Name, line)
		}
	}
}

// shownLease is all that comes of a call about leases.
func shownLease(c *Call) string {
	return fmt.Sprint(c.Reply, c.Integers, string(c.Error), c.Effect, c.Members.Add, c.Members.AddScore, c.Members.Remove, c.Members.Event, c.Members.Released)
}

// The same words are another call if another command gets them, or if the server looked elsewhere for the id and the slots.
func TestWhereTheIDStandsCountsInTheMemoryOfCallsAboutLeases(t *testing.T) {
	past := &Past{}
	require.Equal(t, ReplyFields, askLease(past, Renew, "ID a TTL 30s").Reply)
	finds := func(cmd *Command, line string, namesAt, slotsAt int) bool {
		c := call("k " + line)
		c.cmd, c.Past, c.Members = cmd, past, &Members{NamesAt: namesAt, SlotsAt: slotsAt}
		return c.findLease() != nil
	}
	assert.True(t, finds(Renew, "ID b TTL 30s", 2, 0))
	assert.False(t, finds(Lease, "ID b TTL 30s", 2, 0))
	assert.False(t, finds(Renew, "ID TTL 30s b", 4, 0))
	assert.False(t, finds(Renew, "ID b TTL 30s", 2, 4))
	assert.False(t, finds(Renew, "ID b", 4, 0))
}

func TestTheOldestCallAboutLeasesIsForgotten(t *testing.T) {
	past := &Past{}
	line := func(i int) string { return fmt.Sprintf("SLOTS %d TTL 30s ID a", 10+i) }
	remembers := func(i int) bool {
		c := call("k " + line(i))
		c.cmd, c.Past, c.Members = Lease, past, &Members{NamesAt: Lease.NamesAt, SlotsAt: Lease.SlotsAt}
		return c.findLease() != nil
	}
	for i := range maxPastLeases + 1 {
		require.False(t, remembers(i))
		require.Equal(t, ReplyFields, askLease(past, Lease, line(i)).Reply)
		require.True(t, remembers(i))
	}
	assert.False(t, remembers(0))
	for i := range maxPastLeases {
		assert.True(t, remembers(1+i))
	}
}
