package command

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
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

// STRICT begins a ban anew.
func TestABanThatIsNotLongerIsNotWritten(t *testing.T) {
	assert.Equal(t, Keep, decide(Ban, banned(60*nsPerSecond, ""), "k 1m").First.Effect)
	for line, effect := range map[string]Effect{"k RATE 5/s STRICT BAN 1m": Keep, "k RATE 5/s STRICT BAN 60001ms": Set} {
		assert.Equal(t, effect, decide(Limit, banned(60*nsPerSecond, ""), line).First.Effect, line)
	}
}

func TestACallIsCountedWhateverItsReply(t *testing.T) {
	for _, options := range []string{"", " COMPACT", " EACH", " COMPACT EACH"} {
		assert.Equal(t, Allowed, decide(Limit, "", "k RATE 5/s"+options).Tally, options)
		assert.Equal(t, Limited, decide(Limit, "", "k RATE 5/s COST 6"+options).Tally, options)
	}
}
