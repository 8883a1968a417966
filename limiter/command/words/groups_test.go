package words

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a call with several keys may not say.
func TestGroupsOfLimitsAreRefused(t *testing.T) {
	nine := strings.Repeat(" RATE 5/s", 9)
	for _, tt := range []struct{ line, want string }{
		{"2 a b", "ERR syntax error: there must be a limit after the keys"},
		{"1 a RATE", "ERR syntax error near 'RATE': " + badQuotaRate},
		{"3 a RATE 5/s", "ERR syntax error: there must be a limit after the keys; numkeys is 3, so RATE is a key"},
		{"2 a RATE 5/s", "ERR syntax error near '5/s': expected RATE, WINDOW, FIXED or SLOTS; numkeys is 2, so RATE is a key"},
		{"2 a SLOTS 2 TTL 1s ID x", "ERR syntax error near '2': expected RATE, WINDOW, FIXED or SLOTS; numkeys is 2, so SLOTS is a key"},
		{"4 a slots 2 TTL", "ERR syntax error: there must be a limit after the keys; numkeys is 4, so SLOTS is a key"},
		{"4 a b c fixed 5/s RATE 5/s", "ERR syntax error near '5/s': expected RATE, WINDOW, FIXED or SLOTS; numkeys is 4, so FIXED is a key"},
		{"2 a rate RATE 5/s NEXT RATE", "ERR syntax error near 'RATE': " + badQuotaRate},
		{"2 a rate RATE 5/s NEXT COST", "ERR syntax error near 'COST': expected RATE, WINDOW, FIXED or SLOTS"},
		{"1 a b RATE 5/s", "ERR syntax error near 'b': expected RATE, WINDOW, FIXED or SLOTS"},
		{"2 a b COST 1 RATE 5/s", "ERR syntax error near 'COST': expected RATE, WINDOW, FIXED or SLOTS"},
		{"2 a b NEXT RATE 5/s", "ERR syntax error near 'NEXT': expected RATE, WINDOW, FIXED or SLOTS"},
		{"2 a b RATE 5/s NEXT", "ERR syntax error near 'NEXT': expected RATE, WINDOW, FIXED or SLOTS"},
		{"2 a b RATE 5/s next next RATE 5/s", "ERR syntax error near 'next': expected RATE, WINDOW, FIXED or SLOTS"},
		{"2 a b RATE 5/s NEXT COST 1", "ERR syntax error near 'COST': expected RATE, WINDOW, FIXED or SLOTS"},
		{"3 a b c RATE 5/s NEXT RATE 6/s", "ERR syntax error near 'NEXT': " + oneGroupOrAll},
		{"2 a b RATE 5/s NEXT RATE 6/s NEXT RATE 7/s", "ERR syntax error near 'NEXT': " + oneGroupOrAll},
		{"1 a RATE 5/s NEXT RATE 6/s", "ERR syntax error near 'NEXT': " + oneGroupOrAll},
		{"2 a b" + nine, "ERR syntax error near 'RATE': " + tooManyLimits},
		{"2 a b RATE 1/s NEXT" + nine, "ERR syntax error near 'RATE': " + tooManyLimits},
		{"2 a b RATE 5/s COST 1 NEXT RATE 5/s COST 1", "ERR syntax error near 'COST': given twice"},
		{"2 a b RATE 5/s ANY ANY", "ERR syntax error near 'ANY': given twice"},
		{"2 a b RATE 5/s ANY STRICT", "ERR syntax error near 'STRICT': cannot go with ANY"},
		{"2 a b RATE 5/s ANY BAN 1s", "ERR syntax error near 'BAN': cannot go with ANY"},
		{"2 a b RATE 5/s TAKE 2 NEXT RATE 5/s UPTO", "ERR syntax error near 'UPTO': cannot go with TAKE"},
		{"2 a b FIXED 5/s NEXT RATE 5/s MAXWAIT 1s", "ERR syntax error near 'MAXWAIT': works with RATE limits only"},
		{"2 a b RATE 5/s NEXT WINDOW 5/s MAXWAIT 1s", "ERR syntax error near 'MAXWAIT': works with RATE limits only"},
		{"2 a b RATE 5/s TIMEOUT 1s", "ERR syntax error near 'TIMEOUT': expected BURST, TAKE, SPARE, SHADOW, RATE, WINDOW, FIXED, NEXT, ANY, COST, UPTO, STRICT, FORCE, MAXWAIT, BAN, AFTER, ID, COMPACT or EACH"},
		{"2 a b RATE 5/s COST 1 TIMEOUT 1s", "ERR syntax error near 'TIMEOUT': " + expectedOfMany},
	} {
		requireError(t, read("CL.MLIMIT "+tt.line), tt.want, tt.line)
	}
	for _, line := range []string{"CL.LIMIT k RATE 5/s NEXT RATE 5/s", "CL.LIMIT k RATE 5/s ANY"} {
		assert.Contains(t, read(line).error, "expected BURST, TAKE", line)
	}
}

func TestGroupsOfSlotsAreRefused(t *testing.T) {
	const syntax = "ERR syntax error"
	for line, want := range map[string]string{
		"CL.MLIMIT 1 k SLOTS":                                          syntax + " near 'SLOTS': SLOTS takes an integer from 0 to 9223372036854775807",
		"CL.MLIMIT 1 k SLOTS x TTL 1s ID a":                            syntax + " near 'x': SLOTS takes an integer from 0 to 9223372036854775807",
		"CL.MLIMIT 1 k SLOTS 1":                                        syntax + " near 'SLOTS': expected TTL",
		"CL.MLIMIT 1 k SLOTS 1 ID a":                                   syntax + " near 'ID': expected TTL",
		"CL.MLIMIT 1 k SLOTS 1 TTL 0 ID a":                             syntax + " near '0': TTL takes a length of time from 1ms to 100 years, such as 500ms, 30s or 5m; units are ms, s, m, h and d",
		"CL.MLIMIT 1 k SLOTS 1 TTL 5 ID a":                             syntax + " near '5': 5 needs a unit, such as 5ms or 5s",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s":                                 syntax + ": SLOTS needs an ID",
		"CL.MLIMIT 2 k l SLOTS 1 TTL 1s NEXT RATE 5/s":                 syntax + ": SLOTS needs an ID",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s ID a ID b":                       syntax + " near 'ID': given twice",
		"CL.MLIMIT 1 k RATE 5/s ID a":                                  syntax + " near 'ID': goes with SLOTS",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s SLOTS 1 TTL 1s ID a":             syntax + " near 'SLOTS': SLOTS is a group of its own; separate groups by NEXT",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s RATE 5/s ID a":                   syntax + " near 'RATE': SLOTS is a group of its own; separate groups by NEXT",
		"CL.MLIMIT 1 k RATE 5/s SLOTS 1 TTL 1s ID a":                   syntax + " near 'SLOTS': SLOTS is a group of its own; separate groups by NEXT",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s SHADOW ID a":                     syntax + " near 'SHADOW': must follow the limit that it belongs to",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s ID a TIMEOUT 1s":                 syntax + " near 'TIMEOUT': expected RATE, WINDOW, FIXED, NEXT, ANY, COST, UPTO, STRICT, FORCE, MAXWAIT, BAN, AFTER, ID, COMPACT or EACH",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s ID a ANY":                        syntax + " near 'ANY': cannot go with SLOTS",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s ID a UPTO":                       syntax + " near 'UPTO': cannot go with SLOTS",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s ID a FORCE":                      syntax + " near 'FORCE': cannot go with SLOTS",
		"CL.MLIMIT 2 l k RATE 5/s NEXT SLOTS 1 TTL 1s ID a MAXWAIT 1s": syntax + " near 'MAXWAIT': cannot go with SLOTS",
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s ID a BAN 1s":                     syntax + " near 'BAN': cannot go with SLOTS",
		"CL.MLIMIT 3 k l m SLOTS 1 TTL 1s NEXT RATE 5/s ID a":          syntax + " near 'NEXT': there must be one group of limits for all keys, or one for each key",
		"CL.MLIMIT 2 k l SLOTS 1 TTL 1s NEXT ID a":                     syntax + " near 'ID': expected RATE, WINDOW, FIXED or SLOTS",
		"CL.SETTLE 1 k":                                                 syntax + ": there must be a limit after the keys",
		"CL.SETTLE 1 k SLOTS":                                           syntax + ": SLOTS needs an ID",
		"CL.SETTLE 1 k SLOTS 3 TTL 1s ID a":                             syntax + " near '3': expected RATE, WINDOW, FIXED, NEXT, ID, COMPACT or EACH",
		"CL.SETTLE 1 k RATE 5/s TAKE 1 USED 2 ID a":                     syntax + ": there must be a group of SLOTS, or a retry would settle twice",
		"CL.SETTLE 2 k l RATE 5/s TAKE 1 NEXT SLOTS ID a":               syntax + " near '5/s': TAKE and USED go together",
		"CL.SETTLE 2 k l RATE 5/s USED 1 NEXT SLOTS ID a":               syntax + " near '5/s': TAKE and USED go together",
		"CL.SETTLE 2 k l RATE 5/s TAKE 1 USED -1 NEXT SLOTS ID a":       syntax + " near '-1': USED takes an integer from 0 to 9223372036854775807",
		"CL.SETTLE 2 k l RATE 5/s USED 1 USED 2 TAKE 1 NEXT SLOTS ID a": syntax + " near 'USED': given twice",
		"CL.SETTLE 2 k l RATE 5/s COST 2 NEXT SLOTS ID a":               syntax + " near 'COST': expected BURST, TAKE, USED, SHADOW, RATE, WINDOW, FIXED, NEXT, ID, COMPACT or EACH",
	} {
		requireError(t, read(line), want, line)
	}
}

// One group is for all keys. As many groups as keys are for one key each.
func TestAGroupIsForAllKeysOrForOne(t *testing.T) {
	for line, want := range map[string]int{
		"CL.MLIMIT 3 a b c RATE 5/s WINDOW 6/m":                             1,
		"CL.MLIMIT 2 a b RATE 5/s NEXT WINDOW 6/m":                          2,
		"CL.MLIMIT 3 a b c SLOTS 7 TTL 2s ID x":                             1,
		"CL.MLIMIT 3 a b c RATE 5/s NEXT SLOTS 7 TTL 2s NEXT RATE 6/s ID x": 3,
		"CL.SETTLE 2 a b SLOTS NEXT RATE 5/s TAKE 1 USED 2 ID x":            2,
	} {
		c := read(line)
		assert.Empty(t, c.error, line)
		assert.Equal(t, want, c.count, line)
	}
	c := read("CL.MLIMIT 2 a b RATE 5/s RATE 6/s NEXT SLOTS 7 TTL 2s ID x")
	assert.Equal(t, []int{2, 0}, []int{c.groups[0].Len(), c.groups[1].Len()})
	assert.Equal(t, [2]SlotGroup{{}, {Is: true, Slots: 7, TTLNs: 2_000_000_000}}, [2]SlotGroup(c.slots[:2]))
	assert.Equal(t, 10, c.parser.IDsAt())
}
