package command

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A call of one limit that repeats an earlier one takes a way of its own. It decides as the parser's way does, to the
// byte.
func TestALoneLimitThatIsRememberedDecidesAsOneThatIsRead(t *testing.T) {
	for _, kind := range []string{"RATE", "WINDOW", "FIXED"} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { repeatLone(t, kind) })
		})
	}
}

func repeatLone(t *rapid.T, kind string) {
	number := func(name string, most int64) string {
		return strconv.FormatInt(rapid.Int64Range(1, most).Draw(t, name), 10)
	}
	limit := kind + " " + number("count", 50) + "/" + number("period", 30) + rapid.SampledFrom([]string{"ms", "s", "m"}).Draw(t, "unit")
	words := map[string][]string{"RATE": {"", " BURST 1", " BURST 9"}, "WINDOW": {""}, "FIXED": {"", "", " FIRST", " TZ Europe/Berlin"}}
	limit += rapid.SampledFrom(words[kind]).Draw(t, "words")
	line := "k " + limit
	line += rapid.SampledFrom([]string{"", "", " COST 0", " COST 3", " COST 9", " COST 9223372036854775807"}).Draw(t, "cost")
	line += rapid.SampledFrom([]string{"", "", "", " COMPACT", " STRICT", " FORCE", " UPTO", " EACH", " MAXWAIT 1s", " BAN 1s", " SHADOW"}).Draw(t, "option")

	// What other calls leave: more limits, another one, a debt, a ban, its own state of another time.
	others := []string{line, line, "k " + limit + " FORCE COST 70", "k " + limit + " BAN 1s COST 51", "k " + limit + " RATE 5/m", "k WINDOW 5/7m", "k RATE 1/s MAXWAIT 9s COST 3"}

	again := Call{In: &In{}, First: &Key{}, Past: &Past{}, Top: &TopKeys{}}
	value, now := firstValue(t), nowNs
	for range 20 {
		now = max(now+rapid.Int64Range(-nsPerSecond, 3*nsPerSecond).Draw(t, "step"), 0)
		if rapid.IntRange(0, 9).Draw(t, "another call") == 0 {
			other := decideAt(now, Limit, value, rapid.SampledFrom(others).Draw(t, "other"))
			if other.Reply != ReplyError {
				value = other.First.leaves(value)
			}
		}
		if value != "" && rapid.IntRange(0, 29).Draw(t, "damage") == 0 {
			damaged := []byte(value)
			place := rapid.IntRange(0, len(damaged)-1).Draw(t, "place")
			damaged[place] ^= rapid.ByteRange(0, 255).Draw(t, "flip")
			value = string(damaged[:rapid.SampledFrom([]int{place, len(damaged)}).Draw(t, "end")])
		}
		want := decideAt(now, Limit, value, line)
		*again.In = *want.In
		*again.First = Key{Kind: want.First.Kind, Value: []byte(value), Room: make([]byte, 0, MaxValueLen)}
		again.Run(Limit)
		requireSameAnswer(t, want, &again)
		if want.Reply == ReplyError {
			return
		}
		require.Equal(t, *want.Outcome, *again.Outcome)
		require.Equal(t, want.First.ExpireNoEarlier, again.First.ExpireNoEarlier)
		value = want.First.leaves(value)
	}
}

// firstValue is what a key may hold before it is limited: nothing, a number near to now or out of reach, that behind a
// ban, or other bytes.
func firstValue(t *rapid.T) string {
	tat := strconv.FormatInt(nowNs+rapid.Int64Range(-2*nsPerSecond, 20*nsPerSecond).Draw(t, "tat"), 10)
	ban := func(ns int64) string { return string(binary.LittleEndian.AppendUint64([]byte{banMark}, uint64(ns))) }
	return rapid.SampledFrom([]string{"", "", tat, tat, "0", "7", "18446744073709551615", ban(nowNs-5) + tat, ban(nowNs+nsPerSecond) + tat,
		ban(nowNs + 1), "01", "x", tat + "0000", "\x01\x01"}).Draw(t, "value")
}
