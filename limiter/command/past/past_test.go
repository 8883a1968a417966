package past

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/stack"
)

func TestASetRemembersAsManyAsItHasRoomFor(t *testing.T) {
	var m memory[int]
	var same [][][]byte // words that share a set
	for i := 0; len(same) <= memoryWays; i++ {
		words := [][]byte{fmt.Append(nil, i)}
		if hash, ok := hashOf(words, 0); ok && hash%memorySets == 3 {
			same = append(same, words)
		}
	}
	for i, words := range same[:memoryWays] {
		assert.Nil(t, m.find(words, 0))
		*m.note(words, 0) = i
	}
	for i, words := range same[:memoryWays] {
		got := m.find(words, 0)
		require.NotNil(t, got)
		assert.Equal(t, i, *got)
		assert.Nil(t, m.find(words, 1), "what other options were allowed with")
	}
	assert.Nil(t, m.find(same[memoryWays], 0))
	*m.note(same[memoryWays], 0) = memoryWays
	assert.Nil(t, m.find(same[0], 0), "the oldest has made room")
	assert.NotNil(t, m.find(same[1], 0))
}

// Each byte of a word that is remembered counts.
func TestWordsThatDifferInOneByteDiffer(t *testing.T) {
	for n := range maxWordLen + 1 {
		word := []byte("0123456789abcdef"[:n])
		var p packedWords
		p.note([][]byte{word})
		assert.True(t, p.are([][]byte{word}))
		assert.False(t, p.are([][]byte{append(word[:n:n], 0)}), "longer")
		for i := range word {
			for bit := range 8 {
				other := []byte(string(word))
				other[i] ^= 1 << bit
				require.False(t, p.are([][]byte{other}), "%q", other)
			}
			require.False(t, p.are([][]byte{word[:i]}), "shorter")
		}
	}
}

// Plans that differ little must not crowd into a few sets.
func TestHashesOfPlansSpread(t *testing.T) {
	for name, plan := range map[string]string{
		"rate":      "RATE %d/s",
		"long rate": "RATE %d00/1000m",
		"burst":     "RATE 5/s BURST %d",
		"three":     "RATE 100%[1]d/m RATE 10000%[1]d/h RATE 100000%[1]d/d",
		"throttle":  "%d 30 60",
		"tail":      "RATE 1000000000/%dm",
		"in words":  "RATE 5/s BURST 7 COST %d",
	} {
		var sets [memorySets]int
		const plans = 64 * memorySets
		for i := range plans {
			words := bytes.Fields(fmt.Appendf(nil, plan, i+1))
			hash, ok := hashOf(words, 0)
			require.True(t, ok)
			sets[hash%memorySets]++
		}
		for _, n := range sets {
			assert.InDelta(t, plans/memorySets, n, plans/memorySets/2, name)
		}
	}
}

func TestWordsTooLongToRememberPushNothingOut(t *testing.T) {
	var m memory[int]
	short, long := [][]byte{[]byte("a")}, [][]byte{[]byte("a"), []byte(strings.Repeat("x", maxWordLen+1))}
	assert.Nil(t, m.find(short, 0))
	*m.note(short, 0) = 1
	for range 2 * memoryWays * memorySets {
		assert.Nil(t, m.find(long, 0))
		assert.Nil(t, m.note(long, 0))
	}
	assert.NotNil(t, m.find(short, 0))
}

// split returns the words of a line as a call has them.
func split(line string) [][]byte { return bytes.Fields([]byte(line)) }

func TestALimitIsFoundByItsWordsAlone(t *testing.T) {
	var none *Calls
	none.NoteLimit(split("1 2 3"), &Limit{PeriodNs: 1})
	assert.Nil(t, none.FindLimit(split("1 2 3")), "nobody remembers")

	var c Calls
	assert.Nil(t, c.FindLimit(split("1 2 3")))
	c.NoteLimit(split("1 2 3"), &Limit{PeriodNs: 7})
	assert.Equal(t, &Limit{PeriodNs: 7}, c.FindLimit(split("1 2 3")))
	assert.Nil(t, c.FindLimit(split("12 3")))
}

// addRates adds n limits to a stack, which differ.
func addRates(t *testing.T, s *stack.Stack, n int) {
	for i := range n {
		limit, err := stack.NewRate(int64(i+1), 1, time.Second, 1)
		require.NoError(t, err)
		require.True(t, s.Add(limit))
	}
}

func TestARequestIsFoundWithItsLimits(t *testing.T) {
	var none *Calls
	var s stack.Stack
	addRates(t, &s, 3)
	none.NoteRequest(split("a b"), 1, &words.Request{}, &s)
	assert.Nil(t, none.FindRequest(split("a b"), 1))

	var c Calls
	require.Nil(t, c.FindRequest(split("a b"), 1))
	c.NoteRequest(split("a b"), 1, &words.Request{Compact: true}, &s)
	found := c.FindRequest(split("a b"), 1)
	require.NotNil(t, found)
	assert.True(t, found.Read.Compact)
	assert.Equal(t, s.Limits(nil), found.Limits())
	assert.Nil(t, c.FindRequest(split("a b"), 2), "another command")
}

func TestGroupsAreFoundWithTheLimitsOfEach(t *testing.T) {
	groups := make([]stack.Stack, 3)
	addRates(t, &groups[0], 2)
	addRates(t, &groups[2], 1)
	slots := []words.SlotGroup{{}, {Is: true, Slots: 5}, {}}
	var c Calls
	require.Nil(t, c.FindGroups(split("a b"), 1))
	c.NoteGroups(split("a b"), 1, &words.Request{Each: true}, groups, slots)
	found := c.FindGroups(split("a b"), 1)
	require.NotNil(t, found)
	assert.True(t, found.Read.Each)
	assert.True(t, found.Serve(3))
	assert.False(t, found.Serve(2))
	for key, want := range []struct {
		limits []stack.Limit
		slots  words.SlotGroup
	}{{groups[0].Limits(nil), slots[0]}, {nil, slots[1]}, {groups[2].Limits(nil), slots[2]}} {
		limits, group := found.Of(key)
		assert.Equal(t, want.slots, group, key)
		assert.Len(t, limits, len(want.limits), key)
		assert.Subset(t, limits, want.limits, key)
	}

	c.FindGroups(split("one"), 1)
	c.NoteGroups(split("one"), 1, &words.Request{}, groups[:1], slots)
	found = c.FindGroups(split("one"), 1)
	assert.True(t, found.Serve(8), "one group is for all keys")
	limits, _ := found.Of(7)
	assert.Equal(t, groups[0].Limits(nil), limits)
}

// Calls with more words or more limits than there is room for are not remembered, nor is anything by nobody.
func TestGroupsThatAreTooManyAreNotRemembered(t *testing.T) {
	var none *Calls
	none.NoteGroups(split("a"), 1, &words.Request{}, nil, nil)
	assert.Nil(t, none.FindGroups(split("a"), 1))

	for _, tt := range []struct {
		words, limits int
		remembered    bool
	}{{MaxWords, 16, true}, {MaxWords + 1, 1, false}, {1, 17, false}} {
		var c Calls
		groups := make([]stack.Stack, 3)
		for i := range groups {
			addRates(t, &groups[i], min(max(tt.limits-8*i, 0), 8))
		}
		args := split(strings.Repeat("x ", tt.words))
		require.Nil(t, c.FindGroups(args, 1))
		c.NoteGroups(args, 1, &words.Request{}, groups, make([]words.SlotGroup, 8))
		assert.Equal(t, tt.remembered, c.FindGroups(args, 1) != nil, tt)
	}
}

func TestACallAboutALeaseIsFoundWhateverItsID(t *testing.T) {
	at := Place{ID: 2, Slots: 4}
	var c Calls
	require.Nil(t, c.FindLease(split("k ID a SLOTS 5"), 1, at))
	c.NoteLease(split("k ID a SLOTS 5"), 1, at, &words.Request{GroupAt: 3})
	found := c.FindLease(split("other ID b SLOTS 5"), 1, at)
	require.NotNil(t, found)
	assert.Equal(t, 3, found.GroupAt)

	assert.Nil(t, c.FindLease(split("k ID b SLOTS 5"), 2, at), "another command")
	assert.Nil(t, c.FindLease(split("k ID b SLOTS 6"), 1, at))
	assert.Nil(t, c.FindLease(split("k ids b SLOTS 5"), 1, at))
	assert.Nil(t, c.FindLease(split("k ID b SLOTS 5 x"), 1, at))
	assert.Nil(t, c.FindLease(split("k ID b SLOTS"), 1, at))
	assert.Nil(t, c.FindLease(split("k ID b SLOTS 5"), 1, Place{2, 3}), "read by other words")
	assert.Nil(t, c.FindLease(split("k ID SLOTS 5 b"), 1, Place{4, 3}))
	assert.Nil(t, c.FindLease(split("k ID b SLOTS 5"), 1, Place{}), "nobody says where the id is")
	assert.Nil(t, c.FindLease(split("k ID"), 1, at), "there is no id")
	assert.Nil(t, c.FindLease([][]byte{nil, []byte("ID"), nil, []byte("SLOTS"), []byte("5")}, 1, at), "an empty id is a mistake")
}

func TestTheOldestCallAboutALeaseMakesRoom(t *testing.T) {
	at := Place{ID: 1}
	var c Calls
	args := func(i int) [][]byte { return split(fmt.Sprintf("k id %d", i)) }
	for i := range maxLeases + 1 {
		c.NoteLease(args(i), 1, at, &words.Request{})
	}
	assert.Nil(t, c.FindLease(args(0), 1, at))
	for i := range maxLeases {
		assert.NotNil(t, c.FindLease(args(1+i), 1, at), i)
	}
}
