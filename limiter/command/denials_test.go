package command

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// BAN d AFTER 1/period is BAN d, to the byte, whatever the key holds and the clock does.
func TestABanAfterOneDenialIsABan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := nowNs
		values := map[string]string{}
		run := func(cmd *Command, ban, line string) *Call {
			c := decideAt(now, cmd, values[ban], line)
			values[ban] = c.First.leaves(values[ban])
			return c
		}
		for range 30 {
			now += rapid.Int64Range(-nsPerSecond/2, 2*nsPerSecond).Draw(t, "step")
			limits := rapid.SampledFrom([]string{"RATE 5/s", "RATE 5/s BURST 20 WINDOW 30/m", "FIXED 20/m", "WINDOW 3/s SHADOW", "FIXED 0/d"}).Draw(t, "limits")
			line := "k " + limits + " COST " + strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "units")) + rapid.SampledFrom([]string{"", " STRICT", " FORCE", " UPTO"}).Draw(t, "option")
			period := strconv.FormatInt(rapid.Int64Range(1, 5000).Draw(t, "period"), 10) + "ms"
			ban := " BAN " + strconv.FormatInt(rapid.Int64Range(0, 3000).Draw(t, "ban"), 10) + "ms"
			want := run(Limit, "alone", line+ban)
			got := run(Limit, "after", line+ban+" AFTER 1/"+period)
			require.Equal(t, want.Integers, got.Integers)
			require.Equal(t, want.First.Effect, got.First.Effect)
			require.Equal(t, want.First.ExpireAtMs, got.First.ExpireAtMs)
			require.Equal(t, want.First.ExpireNoEarlier, got.First.ExpireNoEarlier)
			require.Equal(t, values["alone"], values["after"])
		}
	})
}

// Old modules refuse such a value, as they do every kind of limit that they do not know. So does this one, if it is
// none.
func TestACountOfDenialsIsReadExactly(t *testing.T) {
	held := valueAfter(t, "k RATE 5/s BURST 1 BAN 1m AFTER 3/1h", "k RATE 5/s BURST 1 BAN 1m AFTER 3/1h")
	for at := range len(held) {
		for _, to := range []byte{0, 0x80, 0xff} {
			changed := held[:at] + string(to) + held[at+1:]
			c := decide(Limit, changed, "k RATE 5/s BURST 1 BAN 1m AFTER 3/1h")
			if c.Reply == ReplyError {
				assert.Equal(t, wrongValue, string(c.Error))
				assert.Equal(t, Keep, c.First.Effect)
			} else if c.First.Effect == Set && c.First.NewValue[0] != banMark {
				assert.NotEqual(t, ReplyError, decide(Peek, string(c.First.NewValue), "k RATE 5/s").Reply, "%x", c.First.NewValue)
			}
		}
	}
	for _, cut := range []string{held[:len(held)-1], held + "x"} {
		assert.Equal(t, wrongValue, string(decide(Peek, cut, "k RATE 5/s").Error))
	}
}
