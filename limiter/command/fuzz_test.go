package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whatever bytes a client sends and whatever a key holds, there is one answer, it
// fits its buffers, and an error writes nothing.
func FuzzThrottle(f *testing.F) {
	f.Add([]byte("15"), []byte("30"), []byte("60"), []byte("1"), []byte("1700000001000000000"), nowNs)
	f.Add([]byte("1048575"), []byte("1048576"), []byte("1s"), []byte("65536"), []byte(""), nowNs)
	f.Add([]byte("0"), []byte("1"), []byte("9223372036"), []byte("0"), []byte("18446744073709551615"), int64(0))
	f.Add([]byte("-1"), []byte("+007"), []byte("500ms"), []byte("9223372036854775807"), []byte("bar"), int64(1))
	f.Add([]byte("0"), []byte("1"), []byte("1.5s"), []byte("1"), []byte("1700000001000000000"), nowNs)
	f.Add([]byte("0"), []byte("9000000000000000000"), []byte("100000000000.5d"), []byte("1"),
		[]byte(valueAfter(f, "k RATE 1/m", "k RATE 1/m MAXWAIT 5m", "k RATE 1/m MAXWAIT 5m")), nowNs-1)
	f.Fuzz(func(t *testing.T, maxBurst, count, period, quantity, value []byte, now int64) {
		if now < 0 {
			t.Skip("the server's clock is past 1970")
		}
		c := &Call{In: &In{NowNs: now, ArgCount: 5, Args: [][]byte{[]byte("key"), maxBurst, count, period, quantity}}, First: &Key{Kind: String, Value: value}}
		c.Run(Throttle)
		switch c.Reply {
		case ReplyError:
			assert.NotEmpty(t, c.Error)
			assert.Equal(t, Keep, c.First.Effect)
		case ReplyIntegers:
			limited, limit, remaining, retry, reset := c.Integers[0], c.Integers[1], c.Integers[2], c.Integers[3], c.Integers[4]
			assert.Contains(t, []int64{0, 1}, limited)
			assert.Positive(t, limit)
			assert.True(t, remaining >= 0 && remaining <= limit)
			assert.True(t, retry == -1 || limited == 1 && retry > 0)
			assert.GreaterOrEqual(t, reset, int64(0))
		default:
			t.Fatalf("reply of kind %d to five arguments", c.Reply)
		}
		if c.First.Effect == Set {
			assert.NotEmpty(t, c.First.NewValue)
			assert.LessOrEqual(t, len(c.First.NewValue), MaxValueLen)
			assert.Zero(t, c.First.ExpireAtMs%1000)
		}
	})
}
