package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// EACH changes how a call is answered, and nothing else: also where a state is corrected, charged although it is
// denied, or banned.
func TestEachChangesNoDecision(t *testing.T) {
	var limited, written, corrected int
	check := func(t *rapid.T) {
		limits := rapid.SampledFrom([]string{"RATE 5/s", "RATE 1/m BURST 3", "RATE 1/h BURST 9", "WINDOW 7/s", "FIXED 3/d", "FIXED 9/s FIRST", "RATE 5/s SHADOW",
			"RATE 9/s SPARE 2", "WINDOW 2/s TAKE 0", "RATE 3/s TAKE 2 SHADOW"})
		options := rapid.SampledFrom([]string{"", "COST 0", "COST 3", "STRICT", "COST 2 STRICT", "FORCE", "COST 4 FORCE", "BAN 1s", "STRICT BAN 1s"})
		values := make([]string, rapid.IntRange(1, 3).Draw(t, "keys"))
		now := nowNs
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			line := fmt.Sprint(len(values), " a b c"[:2*len(values)])
			for i := range values {
				if i > 0 {
					line += " NEXT"
				}
				for range rapid.IntRange(1, 3).Draw(t, "limits") {
					line += " " + limits.Draw(t, "limit")
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "any") == 0 {
				line += " ANY " + rapid.SampledFrom([]string{"", "COST 2", "FORCE"}).Draw(t, "options")
			} else {
				line += " " + options.Draw(t, "options")
			}
			at := func(line string) *Call {
				c := many(values, line)
				c.NowNs = now
				c.Run(MLimit)
				return c
			}
			without, with := at(line), at(line+" EACH")
			require.Equal(t, ReplyFields, without.Reply, "%s: %s", line, without.Error)
			require.Equal(t, ReplyFieldsEach, with.Reply, line)
			require.Equal(t, without.Integers, with.Integers, line)
			require.Equal(t, []any{without.Tally, without.TallyKey, without.Shadowed}, []any{with.Tally, with.TallyKey, with.Shadowed}, line)
			require.Equal(t, without.effects(), with.effects(), line)
			if alone, ok := strings.CutPrefix(line, "1 "); ok && !strings.Contains(line, "ANY") { // CL.LIMIT decides by code of its own
				c := decideAt(now, Limit, values[0], alone+" EACH")
				require.Equal(t, with.Integers[:fieldsOfLimit], c.Integers, line)
				require.Equal(t, with.Each, c.Each, line)
				require.Equal(t, []any{with.Keys[0].Effect, string(with.Keys[0].NewValue)}, []any{c.First.Effect, string(c.First.NewValue)}, line)
			}
			for i := range values {
				require.Equal(t, string(without.Keys[i].NewValue), string(with.Keys[i].NewValue), line)
				require.Equal(t, without.Keys[i].ExpireAtMs, with.Keys[i].ExpireAtMs, line)
				switch with.Keys[i].Effect {
				case Set:
					values[i] = string(with.Keys[i].NewValue)
					written++
					if with.Integers[0] == 1 && !strings.Contains(line, "STRICT") && !strings.Contains(line, "FORCE") && !strings.Contains(line, "BAN") {
						corrected++
					}
				case Delete:
					values[i] = ""
				}
			}
			limited += int(with.Integers[0])
			now += rapid.SampledFrom([]int64{0, 1, 100 * ms, nsPerSecond, 60 * nsPerSecond, -5 * nsPerSecond}).Draw(t, "step")
		}
	}
	for tries := 0; min(limited, written, 5*corrected) < 50 && tries < 20; tries++ {
		rapid.Check(t, check)
	}
	assert.GreaterOrEqual(t, min(limited, written), 50)
	assert.GreaterOrEqual(t, corrected, 10, "states that a denied call corrects")
}
