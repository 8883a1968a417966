package words

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWordsOfLeasesAreRefused(t *testing.T) {
	const (
		near     = "ERR syntax error near '"
		ttl      = "': TTL takes a length of time from 1ms to 100 years, such as 500ms, 30s or 5m; units are ms, s, m, h and d"
		slots    = "': SLOTS takes an integer from 0 to 9223372036854775807"
		id       = "': ID takes 1 to 512 bytes"
		group    = "': GROUP takes 1 to 128 bytes"
		weight   = "': WEIGHT takes an integer from 1 to 1000"
		priority = "': PRIORITY takes an integer from -100 to 100"
		count    = "': COUNT takes an integer from 1 to 9223372036854775807"
		expected = "': expected SLOTS, TTL, ID, TIMEOUT, GROUP, WEIGHT, PRIORITY or COMPACT"
	)
	long := strings.Repeat("x", 513)
	for _, tt := range []struct{ line, want string }{
		{"CL.LEASE k SLOTS -1 TTL 1s ID a", near + "-1" + slots},
		{"CL.LEASE k SLOTS x TTL 1s ID a", near + "x" + slots},
		{"CL.LEASE k SLOTS", near + "SLOTS" + slots},
		{"CL.LEASE k SLOTS 1 TTL 0 ID a", near + "0" + ttl},
		{"CL.LEASE k SLOTS 1 TTL 0.0009 ID a", near + "0.0009" + ttl},
		{"CL.LEASE k SLOTS 1 TTL 36501d ID a", near + "36501d" + ttl},
		{"CL.LEASE k SLOTS 1 TTL", near + "TTL" + ttl},
		{"CL.LEASE k SLOTS 1 TTL 1s ID", near + "ID" + id},
		{"CL.LEASE k SLOTS 1 TTL 1s ID " + long, near + long[:40] + "..." + id},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a SLOTS 2", near + "SLOTS': given twice"},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a b", near + "b" + expected},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT -1", near + "-1': TIMEOUT takes a length of time of at most 100 years, such as 500ms, 1.5s or 1m; units are ms, s, m, h and d"},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a GROUP a", near + "GROUP': works only together with TIMEOUT"},
		{"CL.LEASE k PRIORITY 1 SLOTS 1 TTL 1s ID a GROUP a", near + "GROUP': works only together with TIMEOUT"},
		{"CL.LEASE k priority 1 SLOTS 1 TTL 1s ID a", near + "PRIORITY': works only together with TIMEOUT"},
		{"CL.LEASE k GROUP a SLOTS 1 TTL 1s", "ERR syntax error: ID is missing"},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s PRIORITY -101", near + "-101" + priority},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s PRIORITY high", near + "high" + priority},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s PRIORITY 9223372036854775808", near + "9223372036854775808" + priority},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s PRIORITY", near + "PRIORITY" + priority},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP", near + "GROUP" + group},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP " + long[:129], near + long[:40] + "..." + group},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP a GROUP b", near + "GROUP': given twice"},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a WEIGHT 2", near + "WEIGHT': works only together with GROUP"},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s WEIGHT 2 PRIORITY 1", near + "WEIGHT': works only together with GROUP"},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a GROUP g WEIGHT 2", near + "GROUP': works only together with TIMEOUT"},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP g WEIGHT 0", near + "0" + weight},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP g WEIGHT 1001", near + "1001" + weight},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP g WEIGHT -1", near + "-1" + weight},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP g WEIGHT 1.5", near + "1.5" + weight},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP g WEIGHT", near + "WEIGHT" + weight},
		{"CL.LEASE k SLOTS 1 TTL 1s ID a TIMEOUT 1s GROUP g WEIGHT 2 WEIGHT 2", near + "WEIGHT': given twice"},
		{"CL.RENEW k ID a TTL 1s SLOTS 1", near + "SLOTS': expected ID, TTL or COMPACT"},
		{"CL.RENEW k ID a TTL 1s TIMEOUT 1s", near + "TIMEOUT': expected ID, TTL or COMPACT"},
		{"CL.RELEASE k a b", near + "a': expected ID"},
		{"CL.RELEASE k ID " + long, near + long[:40] + "..." + id},
		{"CL.LEASES k COUNT 0", near + "0" + count},
		{"CL.LEASES k ALL", near + "ALL': expected COUNT"},
	} {
		requireError(t, read(tt.line), tt.want, tt.line)
	}
	args := split("CL.LEASE k SLOTS 1 TTL 1s ID a")
	args[7] = nil
	requireError(t, readWords(args...), near+id, "an empty id")
}

func TestPrioritiesHaveBounds(t *testing.T) {
	for priority, want := range map[string]bool{"-101": false, "-100": true, "100": true, "101": false} {
		c := read("CL.WAIT k WINDOW 2/m TIMEOUT 1s PRIORITY " + priority)
		assert.Equal(t, want, c.error == "", "%s: %s", priority, c.error)
	}
}

func TestWeightsHaveBounds(t *testing.T) {
	for weight, want := range map[string]int64{"1": 1, "2": 2, "1000": 1000} {
		c := read("CL.WAIT k WINDOW 2/m TIMEOUT 1s GROUP g WEIGHT " + weight)
		assert.Empty(t, c.error, weight)
		assert.Equal(t, want, c.Weight)
	}
	assert.Zero(t, read("CL.WAIT k WINDOW 2/m TIMEOUT 1s GROUP g").Weight)
	requireError(t, read("CL.WAIT k RATE 2/m TIMEOUT 1s GROUP g WEIGHT 2"),
		"ERR syntax error near 'GROUP': needs a WINDOW or FIXED limit; with RATE alone callers are served in order of arrival", "GROUP comes first")
}

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

// What the options of calls about leases mean.
func TestOptionsOfLeases(t *testing.T) {
	const second = 1_000_000_000
	for line, want := range map[string]Request{
		"CL.LEASE k SLOTS 3 TTL 2s ID a TIMEOUT 1s PRIORITY -7 COMPACT": {Slots: 3, TTLNs: 2 * second, Waits: true, TimeoutNs: second, Priority: -7, Compact: true},
		"CL.LEASE k SLOTS 0 TTL 1ms ID a TIMEOUT 0":                     {TTLNs: second / 1000, Waits: true},
		"CL.LEASES k COUNT 5":                                           {Rows: 5},
		"CL.WAIT k RATE 5/s TIMEOUT 1m EACH":                            {Waits: true, TimeoutNs: 60 * second, Each: true},
		"CL.LIMIT k RATE 5/s BAN 1m":                                    {BanNs: 60 * second},
		"CL.MLIMIT 1 k RATE 5/s ANY":                                    {Any: true},
	} {
		want.Cost = 1
		c := read(line)
		assert.Empty(t, c.error, line)
		assert.Equal(t, want, c.Request, line)
	}
}
