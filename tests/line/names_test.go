package line_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// What clients make the module remember is bounded, however long the words are that they send. Go collects nothing
// until its limit, so whatever is copied to its heap for each call would stay.
func TestLongWordsAreNotKept(t *testing.T) {
	server.NeedsServer(t, "a count of its memory")
	const length = 200_000
	calls, bound := size.Of(25, 300), size.Of[int64](3<<20, 16<<20) // 5 or 60 MB of words
	tail := strings.Repeat("x", length-7)
	long := func(i int) string { return fmt.Sprintf("%07d", i) + tail }
	for name, test := range map[string]struct {
		calls []string
		wait  string // LONG is a name that no other call has
		field string
	}{
		"CL.WAIT for a rate":   {calls: []string{"CL.LIMIT LONG RATE 1/1h BURST 1"}, wait: "CL.WAIT LONG RATE 1/1h BURST 1 TIMEOUT 0", field: "waiting"},
		"CL.WAIT for a window": {calls: []string{"CL.LIMIT LONG WINDOW 1/1h"}, wait: "CL.WAIT LONG WINDOW 1/1h TIMEOUT 0", field: "waiting"},
		"CL.LEASE in line":     {calls: []string{"CL.LEASE LONG SLOTS 1 TTL 1h ID a"}, wait: "CL.LEASE LONG SLOTS 1 TTL 1h ID w TIMEOUT 0", field: "leases_waiting"},
		"other keys": {calls: []string{"CL.THROTTLE LONG 5 1 1h", "CL.LIMIT LONG1 RATE 1/1h", "CL.MLIMIT 2 LONG2 LONG3 RATE 1/1h", "CL.PEEK LONG RATE 1/h",
			"CL.BAN LONG 1h", "CL.LEASES LONG9", "CL.TOP"}},
		"words that are wrong": {calls: []string{"CL.LIMIT k LONG", "CL.LIMIT k RATE LONG", "CL.LIMIT k FIXED 1/1d TZ LONG", "CL.LEASE k SLOTS 1 TTL 1h ID LONG",
			"CL.LEASE k SLOTS LONG", "CL.MLIMIT LONG k", "CL.BAN k LONG", "CL.THROTTLE k LONG 1 1"}},
		"numbers that differ": {calls: []string{"CL.LIMIT k RATE NUMBER/1h BURST NUMBER COST NUMBER", "CL.LIMIT k%d FIXED 1/NUMBERms OFFSET NUMBERms"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := server.Start(t, server.ModuleArgs("top", "50"))
			admin, waiter := s.Raw(), s.Raw()
			id := kit.Do(t, waiter, "CLIENT ID").Int
			words := func(call string, i int) []string {
				words := strings.Fields(strings.ReplaceAll(call, "NUMBER", fmt.Sprint(i+1000)))
				for j, w := range words {
					words[j] = strings.Replace(w, "LONG", long(i), 1)
				}
				return words
			}
			round := func(from int) int64 {
				for i := from; i < from+calls; i++ {
					for _, call := range test.calls {
						_, err := admin.Do(words(call, i)...)
						require.NoError(t, err)
					}
					if test.wait != "" {
						require.NoError(t, waiter.Send(words(test.wait, i)...))
						require.NoError(t, waiter.Flush())
						kit.AwaitField(t, admin, test.field, 1)
						kit.Do(t, admin, "CLIENT UNBLOCK %d", id)
						kit.RequireLimited(t, waiter)
					}
					if i%50 == 0 {
						kit.Do(t, admin, "FLUSHALL SYNC")
					}
				}
				kit.Do(t, admin, "FLUSHALL SYNC")
				kit.Do(t, admin, "MEMORY PURGE")
				return kit.ResidentBytes(t, s)
			}
			before := round(0)
			after := round(calls)
			// The allocator gives back some seconds later what it does not need. Go's heap keeps what it has.
			for begun := time.Now(); after-before >= bound && time.Since(begun) < kit.Patience; after = kit.ResidentBytes(t, s) {
				kit.Do(t, admin, "MEMORY PURGE")
			}
			t.Logf("resident: %d KB after %d calls, %d KB after twice as many", before>>10, calls, after>>10)
			assert.Less(t, after-before, bound, "what %d MB of words leave behind", calls*length>>20)
			assert.Less(t, before, int64(80<<20))
		})
	}
}
