package command

import (
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A call of one RATE that repeats an earlier one takes a way of its own. It decides as the parser's way does, to the byte.
func TestALoneRateThatIsRememberedDecidesAsOneThatIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, most int64) string {
			return strconv.FormatInt(rapid.Int64Range(1, most).Draw(t, name), 10)
		}
		line := "k RATE " + number("count", 50) + "/" + number("period", 30) + rapid.SampledFrom([]string{"ms", "s", "m"}).Draw(t, "unit")
		line += rapid.SampledFrom([]string{"", " BURST 1", " BURST 9"}).Draw(t, "burst")
		line += rapid.SampledFrom([]string{"", "", " COST 0", " COST 3", " COST 9", " COST 9223372036854775807"}).Draw(t, "cost")
		line += rapid.SampledFrom([]string{"", "", " COMPACT", " STRICT", " FORCE", " UPTO", " EACH", " MAXWAIT 1s", " BAN 1s", " SHADOW"}).Draw(t, "option")

		again := Call{In: &In{}, First: &Key{}, Past: &Past{}, Top: &TopKeys{}}
		value, now := firstValue(t), nowNs
		for range 20 {
			now = max(now+rapid.Int64Range(-nsPerSecond, 3*nsPerSecond).Draw(t, "step"), 0)
			want := decideAt(now, Limit, value, line)
			*again.In = *want.In
			*again.First = Key{Kind: want.First.Kind, Value: []byte(value), Room: make([]byte, 0, MaxValueLen)}
			again.Run(Limit)
			requireSameAnswer(t, want, &again)
			require.Equal(t, *want.Outcome, *again.Outcome)
			require.Equal(t, want.First.ExpireNoEarlier, again.First.ExpireNoEarlier)
			if want.Reply == ReplyError {
				return
			}
			value = want.First.leaves(value)
		}
	})
}

// firstValue is what a key may hold before it is limited: nothing, a number near to now or out of reach, that behind a ban, or other bytes.
func firstValue(t *rapid.T) string {
	tat := strconv.FormatInt(nowNs+rapid.Int64Range(-2*nsPerSecond, 20*nsPerSecond).Draw(t, "tat"), 10)
	ban := func(ns int64) string { return string(binary.LittleEndian.AppendUint64([]byte{banMark}, uint64(ns))) }
	return rapid.SampledFrom([]string{"", "", tat, tat, "0", "7", "18446744073709551615", ban(nowNs-5) + tat, ban(nowNs+nsPerSecond) + tat,
		ban(nowNs + 1), "01", "x", tat + "0000", "\x01\x01"}).Draw(t, "value")
}
