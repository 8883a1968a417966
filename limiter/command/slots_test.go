// What CL.MLIMIT answers with groups of SLOTS, and CL.SETTLE: histories on keys in memory.
package command_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func do(h *embedded.Host, now time.Time, line string) embedded.Reply {
	call := embedded.Call{NowNs: now.UnixNano()}
	for _, word := range strings.Fields(line) {
		call.Words = append(call.Words, []byte(word))
	}
	return h.Do(call)
}

// Calls that differ in their ids alone are read once, wherever the id stands, and none is taken for another.
func TestAnIDIsReadAnewInEachCall(t *testing.T) {
	for _, form := range []string{
		"CL.MLIMIT 2 k run RATE 1000/h NEXT SLOTS 50 TTL 1m ID %s",
		"CL.MLIMIT 2 k run RATE 1000/h NEXT SLOTS 50 TTL 1m ID %s COMPACT",
		"CL.MLIMIT 2 run k SLOTS 50 TTL 1m ID %s NEXT RATE 1000/h COMPACT",
		"CL.MLIMIT 2 run k SLOTS 50 TTL 1m NEXT RATE 1000/h ID %s COST 1",
	} {
		var h embedded.Host
		ids := []string{"a", "b", "ID", "COMPACT", "NEXT", "a", "b", "60/h", strings.Repeat("x", 100)}
		for _, id := range ids {
			r := do(&h, start, fmt.Sprintf(form, id))
			require.NotEqual(t, command.ReplyError, r.Kind, r.Error)
		}
		held := map[string]bool{}
		for _, l := range h.Get(start.UnixNano(), 0, "run").Leases {
			held[l.ID] = true
		}
		want := map[string]bool{}
		for _, id := range ids {
			want[id] = true
		}
		assert.Equal(t, want, held, form)
		assert.EqualValues(t, 1000-len(want), do(&h, start, "CL.PEEK k RATE 1000/h").Integers[3], form)
	}
	var h embedded.Host
	for _, id := range []string{"", strings.Repeat("x", 513)} {
		call := embedded.Call{NowNs: start.UnixNano(),
			Words: [][]byte{[]byte("CL.MLIMIT"), []byte("1"), []byte("k"), []byte("SLOTS"), []byte("1"), []byte("TTL"), []byte("1s"), []byte("ID"), nil}}
		for _, each := range []string{"right", id} {
			call.Words[8] = []byte(each)
			if r := h.Do(call); each == id {
				assert.Contains(t, r.Error, "ID takes 1 to 512 bytes")
			}
		}
	}
}

// A decision with slots, and a settlement, allocate nothing.
func TestAnAdmissionIsDecidedWithoutAllocating(t *testing.T) {
	for _, line := range []string{
		"CL.MLIMIT 3 req tok run RATE 60/h BURST 10 NEXT RATE 3600/h TAKE 100 NEXT SLOTS 2 TTL 30s ID a COMPACT",
		"CL.SETTLE 2 tok run RATE 3600/h TAKE 100 USED 30 NEXT SLOTS ID a COMPACT",
	} {
		var r embedded.Runner
		keys := make([]*embedded.Key, 3)
		for i := range keys {
			keys[i] = &embedded.Key{}
		}
		call := embedded.Call{NowNs: start.UnixNano()}
		for _, word := range strings.Fields(line) {
			call.Words = append(call.Words, []byte(word))
		}
		cmd := command.Named(call.Words[0])
		keys = keys[:call.Words[1][0]-'0']
		assert.Zero(t, testing.AllocsPerRun(100, func() { r.Decide(cmd, &call, keys...) }), line)
	}
}
