package words

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAGroupIsTheWordBehindGROUP(t *testing.T) {
	for line, want := range map[string]int{
		"k SLOTS 0 TTL 1s ID w TIMEOUT 1s GROUP g": 10,
		"k SLOTS 0 TTL 1s ID w GROUP k TIMEOUT 1s": 8,
		"k SLOTS 0 TTL 1s ID w TIMEOUT 1s COMPACT": 0,
	} {
		c := read("CL.LEASE " + line)
		assert.Empty(t, c.error, line)
		assert.Equal(t, want, c.GroupAt, line)
	}
}

// The bridge looks there before it asks what a call says.
func TestPlacesAreThoseOfTheSyntaxLine(t *testing.T) {
	for command, want := range map[string][2]int{"CL.LEASE": {6, 2}, "CL.RENEW": {2, 0}, "CL.RELEASE": {2, 0}, "CL.LEASES": {0, 0}, "CL.LIMIT": {0, 0}} {
		s := Compile(formOf([]byte(command)))
		idsAt, slotsAt := s.Places()
		assert.Equal(t, want, [2]int{idsAt, slotsAt}, command)
	}
}

// IsIDs is a shortcut: it finds what the parser finds.
func TestACallOfIDsAloneIsNotParsed(t *testing.T) {
	long := strings.Repeat("x", maxIDLen)
	for line, want := range map[string]bool{
		"CL.RELEASE k ID a": true, "CL.RELEASE k id a b a": true, "CL.RELEASE k ID " + long: true,
		"CL.RELEASE k ID x" + long: false, "CL.RELEASE k ID a x" + long: false, "CL.RELEASE k ID": false, "CL.RELEASE k": false, "CL.RELEASE k COUNT a": false,
		"CL.RENEW k ID a TTL 1s": false, "CL.LEASES k COUNT 5": false, "CL.WAIT k RATE 5/s TIMEOUT 1s": false,
	} {
		args := split(line)
		s := Compile(formOf(args[0]))
		assert.Equal(t, want, s.IsIDs(args[1:]), "%.40s", line)
		if strings.HasPrefix(line, "CL.RELEASE") {
			assert.Equal(t, want, read(line).error == "", "%.40s", line)
		}
	}
}

func TestAnIDMayBeAnyBytes(t *testing.T) {
	for text, want := range map[string]bool{"": false, "a": true, "\x00": true, "ID": true, strings.Repeat("x", 512): true, strings.Repeat("x", 513): false} {
		assert.Equal(t, want, IsID([]byte(text)), "%.40q", text)
	}
	for text, want := range map[string]bool{"ID": true, "id": true, "": false, "IDs": false} {
		assert.Equal(t, want, SpellsID([]byte(text)), text)
	}
}

func TestACallSaysWhereItsPlacesAre(t *testing.T) {
	for line, want := range map[string][2]int{
		"CL.LEASE k SLOTS 2 TTL 30s ID a":                       {6, 2},
		"CL.LEASE k ID a SLOTS 2 TTL 30s":                       {2, 4},
		"CL.LEASE k COMPACT TTL 30s SLOTS 2 TIMEOUT 0 ID SLOTS": {9, 5},
		"CL.RENEW k TTL 30s COMPACT ID a":                       {5, 0},
		"CL.RELEASE k ID a b":                                   {2, 0},
		"CL.LEASES k COUNT 3":                                   {0, 0},
	} {
		c := read(line)
		assert.Empty(t, c.error, line)
		assert.Equal(t, want, [2]int{c.parser.IDsAt(), c.parser.SlotsAt()}, line)
	}
}
