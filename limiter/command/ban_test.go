package command

import (
	"encoding/binary"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/limiter/stack"
)

// banned is a value with a ban in front that ends d ns from nowNs.
func banned(d int64, state string) string {
	return string(binary.LittleEndian.AppendUint64([]byte{banMark}, uint64(nowNs+d))) + state
}

func TestABanEndsAtAnInstantThatClocksHave(t *testing.T) {
	for until, ban := range map[uint64]bool{0: false, 1: true, math.MaxInt64: true, math.MaxInt64 + 1: false} {
		value := string(binary.LittleEndian.AppendUint64([]byte{banMark}, until))
		assert.Equal(t, ban, string(decide(Peek, value, "k RATE 5/s").Error) != wrongValue, until)
	}
}

// Against a ban kept beside the limiter, over random histories with clocks that go back: a ban
// never shortens, and never changes the state behind it.
func TestBansStandBesideTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := nowNs
		var with, without string // what the key holds, and what it would without bans
		var until int64
		run := func(value *string, cmd *Command, line string) *Call {
			c := call(line)
			c.NowNs, c.Kind, c.Value = now, String, []byte(*value)
			if *value == "" {
				c.Kind = Absent
			}
			c.Run(cmd)
			if c.Effect != Keep && until <= now {
				until = 0 // a write forgets a ban that is over, also for a clock that is set back then
			}
			switch c.Effect {
			case Set:
				*value = string(c.NewValue)
			case Delete:
				*value = ""
			}
			return c
		}
		limits := rapid.SampledFrom([]string{"RATE 5/s", "RATE 5/s BURST 20 WINDOW 30/m", "FIXED 20/m"}).Draw(t, "limits")
		for range 40 {
			now += rapid.Int64Range(-nsPerSecond/2, 2*nsPerSecond).Draw(t, "step")
			switch rapid.IntRange(0, 4).Draw(t, "call") {
			case 0:
				d := rapid.Int64Range(1, 3000).Draw(t, "ms")
				ends := max(until, now+d*ms)
				run(&with, Ban, "k "+strconv.FormatInt(d, 10)+"ms")
				until = ends
			case 1:
				run(&with, Ban, "k 0")
				until = 0
			case 2:
				cost := strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "units"))
				run(&with, Refund, "k "+limits+" COST "+cost)
				run(&without, Refund, "k "+limits+" COST "+cost)
			default:
				line := "k " + limits + " COST " + strconv.Itoa(rapid.IntRange(0, 7).Draw(t, "units"))
				got := run(&with, Limit, line)
				if until > now {
					require.EqualValues(t, 1, got.Integers[0])
					require.EqualValues(t, 0, got.Integers[1])
					limitsMs := int64(0) // the limits may take longer than the ban
					if answer := run(&without, Peek, line).Integers; answer[0] == 1 {
						limitsMs = answer[4]
					}
					require.Equal(t, stack.Longer(ceilMs(until-now), limitsMs), got.Integers[4])
					require.Equal(t, Keep, got.Effect)
					continue
				}
				want := run(&without, Limit, line)
				require.Equal(t, want.Integers, got.Integers)
			}
		}
	})
}

// STRICT begins a ban anew.
func TestABanThatIsNotLongerIsNotWritten(t *testing.T) {
	for line, effect := range map[string]Effect{"k RATE 5/s STRICT BAN 1m": Keep, "k RATE 5/s STRICT BAN 60001ms": Set} {
		assert.Equal(t, effect, decide(Limit, banned(60*nsPerSecond, ""), line).Effect, line)
	}
}

func TestACallIsCountedWhateverItsReply(t *testing.T) {
	for _, options := range []string{"", " COMPACT", " EACH", " COMPACT EACH"} {
		assert.Equal(t, Allowed, decide(Limit, "", "k RATE 5/s"+options).Tally, options)
		assert.Equal(t, Limited, decide(Limit, "", "k RATE 5/s COST 6"+options).Tally, options)
	}
}
