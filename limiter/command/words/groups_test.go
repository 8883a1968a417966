package words

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

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
