package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// decideAlias is decide by another name of CL.THROTTLE.
func decideAlias(name, value, line string) *Call {
	return decide(Among(Aliases, []byte(name)), value, line)
}

// Both have the reply of CL.THROTTLE, and leave what it leaves.
func TestOtherNamesAreCLThrottle(t *testing.T) {
	const s = nsPerSecond
	for _, tt := range []struct{ value, throttle, gcra string }{
		{"", "k 15 30 60", "k 15 30 60"},
		{"", "k 15 30 60 1", "k 15 30 60.0 TOKENS 1"},
		{"", "k 15 30 60 16", "k 15 30 6e1 tokens 16"},
		{"", "k 15 30 60 17", "k 15 30 60 NUM_REQUESTS 17"},
		{tatIn(32 * s), "k 15 30 60", "k 15 30 60"},
		{tatIn(31*s + 1), "k 15 30 60", "k 15 30 60"},
		{tatIn(-5), "k 15 30 60 2", "k 15 30 60 TOKENS 2"},
		{"", "k 9 1 0.1", "k 9 1 0.10000000000000001"},
		{"", "k 9 1 0.000000001", "k 9 1 1e-9"},
		{"", "k 9 1 0.1", "k 9 1 0.1" + strings.Repeat("0", 61)},
		{"", "k 0 1 4611686018.427388", "k 0 1 4611686018.427388"}, // 2^62 ns, as floating-point numbers go
		{"", "k 0 1000000000 100000000000.5", "k 0 1000000000 100000000000.5"},
		{"foo", "k 15 30 60", "k 15 30 60"},
	} {
		want := decide(Throttle, tt.value, tt.throttle)
		alias := decideAlias("gcra", tt.value, tt.gcra)
		assert.Equal(t, shownCall(want), shownCall(alias), tt.gcra)
		assert.Equal(t, shownCall(want), shownCall(decideAlias("rl.throttle", tt.value, tt.throttle)), tt.throttle)
	}
}

func shownCall(c *Call) []any {
	return []any{c.Reply, c.Integers, c.First.Effect, string(c.First.NewValue), c.Tally, string(c.Error)}
}

func TestWhatIsWrongWithACallOfGCRAIsNamed(t *testing.T) {
	for line, want := range map[string]string{
		"k -1 1 1":                           badMaxBurst,
		"k x 1 1":                            badMaxBurst,
		"k 9223372036854775807 1 1":          badMaxBurst,
		"k 0 0 1":                            badTokensPerPeriod,
		"k 0 1 0":                            badTokensPeriod,
		"k 0 1 -1":                           badTokensPeriod,
		"k 0 1 1e12":                         badTokensPeriod,
		"k 0 1 1s":                           badTokensPeriod,
		"k 0 1 inf":                          badTokensPeriod,
		"k 0 1 0x1p4":                        badTokensPeriod,
		"k 0 1 1e-10":                        badTokensPeriod,
		"k 0 1 1e":                           badTokensPeriod,
		"k 0 1 1 TOKENS":                     badTokens,
		"k 0 1 1 TOKENS 0":                   badTokens,
		"k 0 1 1 TOKENS x":                   badTokens,
		"k 0 1 1 2":                          expectedTokens,
		"k 0 1 1 QUANTITY 2":                 expectedTokens,
		"k 0 2000000000 1":                   badTokensRate,
		"k 9223372036854775806 1 1e9":        badTolerance,
		"k 0 1 1." + strings.Repeat("0", 63): badTokensPeriod,
	} {
		c := decideAlias("GCRA", "", line)
		require.Equal(t, ReplyError, c.Reply, line)
		assert.Equal(t, want, string(c.Error), line)
	}
	for _, line := range []string{"", "k", "k 1 1", "k 1 1 1 TOKENS 1 x"} {
		assert.Equal(t, ReplyWrongArity, decideAlias("GCRA", "", line).Reply, line)
	}
}

func TestAliasesAreNamesThatCommasSeparate(t *testing.T) {
	for names, want := range map[string]string{
		"": "", " ": "", "gcra": "GCRA", "Rl.Throttle,GCRA": "RL.THROTTLE GCRA", "GCRA, RL.THROTTLE ,gcra": "GCRA RL.THROTTLE",
	} {
		all, err := ParseAliases(names)
		require.NoError(t, err, names)
		var got []string
		for _, cmd := range all {
			got = append(got, cmd.Name)
			assert.Equal(t, "calls_throttle", cmd.Counter())
		}
		assert.Equal(t, want, strings.Join(got, " "))
	}
	for names, quoted := range map[string]string{"yes": `"yes"`, "GCRA,": `""`, "GCRA RL.THROTTLE": `"GCRA RL.THROTTLE"`, "CL.THROTTLE": `"CL.THROTTLE"`} {
		_, err := ParseAliases(names)
		assert.EqualError(t, err, quoted+" is no other name of CL.THROTTLE: there are RL.THROTTLE and GCRA, separated by a comma")
	}
	assert.Nil(t, Named([]byte("GCRA")), "not without the setting")
}
