// What CL.MLIMIT answers with groups of SLOTS, and CL.SETTLE: histories on keys in memory.
package command_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// step is a call some time after the one before, and what it answers: the integers of a COMPACT reply, or an error.
type step struct {
	after time.Duration
	line  string
	want  string
}

const (
	admit  = "CL.MLIMIT 3 req tok run RATE 60/h BURST 10 NEXT RATE 3600/h TAKE 100 NEXT SLOTS 2 TTL 30s ID "
	settle = "CL.SETTLE 2 tok run RATE 3600/h TAKE 100 USED "
	slots  = " NEXT SLOTS ID "
	tokens = "CL.PEEK tok RATE 3600/h COST 0"
	calls  = "CL.PEEK req RATE 60/h BURST 10 COST 0"
	leases = "CL.LEASES run"

	admitRun     = "CL.MLIMIT 1 run SLOTS 2 TTL 30s ID "
	eightWindows = "WINDOW 5/1m WINDOW 5/2m WINDOW 5/3m WINDOW 5/4m WINDOW 5/5m WINDOW 5/6m WINDOW 5/7m WINDOW 5/8m"
)

func do(h *embedded.Host, now time.Time, line string) embedded.Reply {
	call := embedded.Call{NowNs: now.UnixNano()}
	for _, word := range strings.Fields(line) {
		call.Words = append(call.Words, []byte(word))
	}
	return h.Do(call)
}

// show is a reply in short: its integers, of CL.PEEK what remains, of CL.LEASES the ids.
func show(line string, r embedded.Reply) string {
	switch {
	case r.Kind == command.ReplyError:
		return r.Error
	case strings.HasPrefix(line, "CL.PEEK"):
		return fmt.Sprint(r.Integers[3])
	case r.Kind == command.ReplyLeases:
		var ids []string
		for _, row := range r.Rows {
			ids = append(ids, fmt.Sprint(row.Text, " ", row.Integers[0]))
		}
		return strings.Join(ids, ", ")
	}
	return fmt.Sprint(r.Integers)
}

func TestAdmissionsWithSlots(t *testing.T) {
	const s = time.Second
	for _, history := range []struct {
		name  string
		steps []step
	}{
		{"units and a slot, or nothing", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{10 * s, admit + "b", "[0 3 2 0 -1 30000 20000 1 0 0 3]"},
			{s, admit + "c", "[1 3 2 0 19000 29000 19000 0 0 0 3]"},
			{0, calls, "8"},
			{0, tokens, "3411"},
			{19 * s, admit + "c", "[0 3 2 0 -1 30000 10000 1 0 0 3]"},
			{0, leases, "b 10000, c 30000"},
		}},
		{"a retry is answered as granted, renews, and is charged nothing", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{10 * s, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, leases, "a 30000"},
			{0, calls, "9"},
			{0, strings.Replace(admit, "BURST 10", "BURST 10 TAKE 99", 1) + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, strings.Replace(admit, "SLOTS 2", "SLOTS 0", 1) + "a", "[0 3 0 0 -1 30000 30000 1 0 0 3]"},
			{0, "CL.BAN req 1h", "[3600000]"},
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, admit + "b", "[1 0 10 0 3600000 3600000 3600000 0 0 0 1]"},
		}},
		{"a lease that has lapsed is no retry", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{30 * s, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, tokens, "3430"},
		}},
		{"an id that holds some of the leases is a new call: it renews them if it is let through", []step{
			{0, "CL.LEASE user SLOTS 2 TTL 10s ID a COMPACT", "[0 2 1 -1 10000 0]"},
			{0, "CL.LEASE org SLOTS 1 TTL 20s ID b COMPACT", "[0 1 0 -1 20000 0]"},
			{0, "CL.MLIMIT 3 user org k SLOTS 2 TTL 1m NEXT SLOTS 1 TTL 1m NEXT RATE 5/s ID a", "[1 2 1 0 20000 20000 20000 0 0 0 2]"},
			{0, "CL.LEASES user", "a 10000"},
			{0, "CL.RELEASE org ID b", "[1]"},
			{0, "CL.MLIMIT 3 user org k SLOTS 2 TTL 1m NEXT SLOTS 1 TTL 1m NEXT RATE 5/s ID a", "[0 2 1 0 -1 60000 60000 1 0 0 2]"},
			{0, "CL.LEASES user", "a 60000"},
			{0, "CL.LEASES org", "a 60000"},
			{0, "CL.PEEK k RATE 5/s", "4"},
		}},
		{"the longest wait decides, the first of several", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, admit + "b", "[0 3 2 0 -1 30000 30000 1 0 0 3]"},
			{0, "CL.LIMIT req RATE 60/h BURST 10 COST 8 COMPACT", "[0 1 10 0 -1 600000 60000 8 0 0]"},
			{0, admit + "c", "[1 1 10 0 60000 600000 60000 0 0 0 1]"},
			{31 * s, admit + "c", "[1 1 10 0 29000 569000 29000 0 0 0 1]"},
			{0, leases, ""},
			{0, "CL.MLIMIT 2 run req SLOTS 0 TTL 1s NEXT RATE 60/h BURST 10 COST 11 ID x", "[1 1 0 0 -1 0 0 0 0 0 1]"},
			{0, "CL.MLIMIT 2 req run RATE 60/h BURST 10 NEXT SLOTS 0 TTL 1s COST 11 ID x", "[1 1 10 0 -1 569000 29000 0 0 0 1]"},
		}},
		{"of two groups of slots the longest wait decides, the first of equal ones, and never is the longest", []step{
			{0, "CL.LEASE user SLOTS 1 TTL 1m ID b COMPACT", "[0 1 0 -1 60000 0]"},
			{0, "CL.LEASE org SLOTS 1 TTL 20s ID b COMPACT", "[0 1 0 -1 20000 0]"},
			{0, "CL.MLIMIT 2 user org SLOTS 1 TTL 1m ID a", "[1 1 1 0 60000 60000 60000 0 0 0 1]"},
			{0, "CL.MLIMIT 2 org user SLOTS 1 TTL 1m ID a", "[1 2 1 0 60000 60000 60000 0 0 0 2]"},
			{0, "CL.LEASE team SLOTS 1 TTL 1m ID b COMPACT", "[0 1 0 -1 60000 0]"},
			{0, "CL.MLIMIT 2 user team SLOTS 1 TTL 1m ID a", "[1 1 1 0 60000 60000 60000 0 0 0 1]"},
			{0, "CL.MLIMIT 2 user none SLOTS 1 TTL 1m NEXT SLOTS 0 TTL 1m ID a", "[1 2 0 0 -1 0 0 0 0 0 2]"},
			{0, "CL.MLIMIT 1 none SLOTS 0 TTL 1m ID a", "[1 1 0 0 -1 0 0 0 0 0 1]"},
		}},
		{"a retry after a ban waits for the limits and slots, too", []step{
			{0, "CL.LIMIT req RATE 60/h BURST 10 COST 10 COMPACT", "[0 1 10 0 -1 600000 60000 10 0 0]"},
			{0, "CL.BAN req 1s", "[1000]"},
			{0, "CL.MLIMIT 2 run req SLOTS 2 TTL 30s NEXT RATE 60/h BURST 10 ID a", "[1 0 10 0 60000 1000 1000 0 0 0 2]"},
			{0, "CL.LEASE run SLOTS 1 TTL 2m ID b COMPACT", "[0 1 0 -1 120000 0]"},
			{0, "CL.MLIMIT 2 run req SLOTS 1 TTL 30s NEXT RATE 60/h BURST 10 ID a", "[1 0 10 0 120000 1000 1000 0 0 0 2]"},
		}},
		{"a shadow in front of a group of slots", []step{
			{0, "CL.LIMIT k RATE 1/h COMPACT", "[0 1 1 0 -1 3600000 3600000 1 0 0]"},
			{0, "CL.MLIMIT 3 k run l RATE 1/h SHADOW NEXT SLOTS 9 TTL 1s NEXT RATE 5/s ID a", "[0 3 5 4 -1 200 200 1 0 1 3]"},
		}},
		{"the fewest left decides, the first of several", []step{
			{0, "CL.MLIMIT 2 k run RATE 5/s BURST 2 NEXT SLOTS 2 TTL 1s ID a", "[0 1 2 1 -1 200 200 1 0 0 1]"},
			{0, "CL.MLIMIT 2 run l SLOTS 3 TTL 1s NEXT RATE 5/s BURST 2 ID b", "[0 1 3 1 -1 1000 1000 1 0 0 1]"},
		}},
		{"a shadow never decides", []step{
			{0, "CL.MLIMIT 2 k run RATE 1/h SHADOW NEXT SLOTS 9 TTL 1s ID a", "[0 2 9 8 -1 1000 1000 1 0 0 2]"},
			{0, "CL.MLIMIT 2 run k SLOTS 9 TTL 1s NEXT RATE 1/h SHADOW ID b", "[0 1 9 7 -1 1000 1000 1 0 2 1]"},
			{0, "CL.MLIMIT 2 run k SLOTS 2 TTL 1s NEXT RATE 1/h SHADOW ID c", "[1 1 2 0 1000 1000 1000 0 0 2 1]"},
		}},
		{"COST 0 takes a slot", []step{
			{0, "CL.MLIMIT 2 k run RATE 5/s NEXT SLOTS 1 TTL 1s ID a COST 0", "[0 2 1 0 -1 1000 1000 1 0 0 2]"},
			{0, "CL.MLIMIT 2 k run RATE 5/s NEXT SLOTS 1 TTL 1s ID b COST 0", "[1 2 1 0 1000 1000 1000 0 0 0 2]"},
			{0, "CL.PEEK k RATE 5/s", "5"},
		}},
		{"STRICT charges the limits of a call that slots limit", []step{
			{0, "CL.MLIMIT 2 k run RATE 60/h NEXT SLOTS 0 TTL 1s ID a STRICT COST 7", "[1 2 0 0 -1 0 0 0 0 0 2]"},
			{0, "CL.PEEK k RATE 60/h", "53"},
			{0, leases, ""},
		}},
		{"slots alone, of one group for all keys", []step{
			{0, "CL.MLIMIT 2 user org SLOTS 1 TTL 1m ID a", "[0 1 1 0 -1 60000 60000 1 0 0 1]"},
			{0, "CL.LEASES org", "a 60000"},
			{0, "CL.RELEASE user ID a", "[1]"},
			{0, "CL.MLIMIT 2 user org SLOTS 1 TTL 1m ID b", "[1 2 1 0 60000 60000 60000 0 0 0 2]"},
			{0, "CL.LEASES user", ""},
		}},
		{"settled once: less used than taken", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, settle + "30" + slots + "a", "[1 1 3600 3570 -1 30000 1000 -70 0 0 1]"},
			{0, settle + "30" + slots + "a", "[0 1 3600 3570 -1 30000 1000 0 0 0 1]"},
			{0, leases, ""},
		}},
		{"settled once: more used than taken, into debt", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, settle + "4000" + slots + "a", "[1 1 3600 0 -1 4000000 401000 3900 0 0 1]"},
			{0, settle + "4000" + slots + "a", "[0 1 3600 0 -1 4000000 401000 0 0 0 1]"},
			{0, admit + "b", "[1 2 3600 0 500000 4000000 401000 0 0 0 2]"},
		}},
		{"a lease that has lapsed settles nothing", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{30 * s, settle + "4000" + slots + "a", "[0 1 3600 3530 -1 70000 1000 0 0 0 1]"},
			{0, settle + "4000" + slots + "never", "[0 1 3600 3530 -1 70000 1000 0 0 0 1]"},
		}},
		{"all leases have to be held", []step{
			{0, "CL.MLIMIT 3 user org k SLOTS 2 TTL 1m NEXT SLOTS 2 TTL 1m NEXT RATE 60/h ID a", "[0 1 2 1 -1 60000 60000 1 0 0 1]"},
			{0, "CL.RELEASE org ID a", "[1]"},
			{0, "CL.SETTLE 3 user org k SLOTS NEXT SLOTS NEXT RATE 60/h TAKE 1 USED 5 ID a", "[0 3 60 59 -1 60000 60000 0 0 0 3]"},
			{0, "CL.LEASES user", "a 60000"},
			{0, "CL.SETTLE 2 k user RATE 60/h TAKE 1 USED 5 NEXT SLOTS ID a", "[1 1 60 55 -1 300000 60000 4 0 0 1]"},
		}},
		{"slots alone, and limits that keep what they were charged", []step{
			{0, "CL.MLIMIT 2 user org SLOTS 2 TTL 1m ID a", "[0 1 2 1 -1 60000 60000 1 0 0 1]"},
			{0, "CL.LEASE org SLOTS 2 TTL 1m ID b COMPACT", "[0 2 0 -1 60000 0]"},
			{0, "CL.SETTLE 2 user org SLOTS ID a", "[1 0 0 0 -1 0 0 0 0 0 0]"},
			{0, "CL.LEASES org", "b 60000"},
			{0, "CL.LIMIT k RATE 60/h COMPACT", "[0 1 60 59 -1 60000 60000 1 0 0]"},
			{0, "CL.SETTLE 2 org k SLOTS NEXT RATE 60/h ID b", "[1 2 60 59 -1 60000 60000 0 0 0 2]"},
		}},
		{"a ban keeps nobody from settling", []step{
			{0, admit + "a", "[0 3 2 1 -1 30000 30000 1 0 0 3]"},
			{0, "CL.BAN tok 1m", "[60000]"},
			{0, settle + "0" + slots + "a", "[1 1 3600 3600 -1 0 0 -100 0 0 1]"},
			{0, "CL.BAN tok 0", "[0]"},
		}},
		{"what gives units back adds no limits, and so pushes none out", []step{
			{0, "CL.LIMIT tok " + eightWindows + " COST 5 COMPACT", "[0 1 5 0 -1 60000 60000 5 0 0]"},
			{0, admitRun + "a", "[0 1 2 1 -1 30000 30000 1 0 0 1]"},
			{0, "CL.SETTLE 2 tok run WINDOW 5/8m TAKE 2 USED 1 FIXED 9/d TAKE 2 USED 0 FIXED 9/h TAKE 1 USED 1" + slots + "a", "[1 1 5 1 -1 480000 480000 -1 0 0 1]"},
			{0, "CL.LIMIT tok WINDOW 5/1m COMPACT", "[1 1 5 0 60000 60000 60000 0 0 0]"},
			{0, "CL.LIMIT tok WINDOW 5/2m COMPACT", "[1 1 5 0 120000 120000 120000 0 0 0]"},
		}},
		{"only limits that are charged are added", []step{
			{0, "CL.LIMIT tok " + eightWindows + " COST 5 COMPACT", "[0 1 5 0 -1 60000 60000 5 0 0]"},
			{0, admitRun + "a", "[0 1 2 1 -1 30000 30000 1 0 0 1]"},
			{0, "CL.SETTLE 2 tok run FIXED 9/d TAKE 2 USED 0 FIXED 9/h TAKE 1 USED 4" + slots + "a", "[1 2 9 6 -1 3600000 3600000 3 0 0 1]"},
			{0, "CL.LIMIT tok WINDOW 5/2m COMPACT", "[1 1 5 0 120000 120000 120000 0 0 0]"},
			{0, "CL.PEEK tok FIXED 9/h", "6"},
			{0, "CL.PEEK tok WINDOW 5/1m", "5"},
		}},
		{"shadows are settled, too", []step{
			{0, "CL.MLIMIT 2 k run RATE 60/h SHADOW NEXT SLOTS 2 TTL 1s ID a COST 9", "[0 2 2 1 -1 1000 1000 1 0 0 2]"},
			{0, "CL.SETTLE 2 run k SLOTS NEXT RATE 60/h TAKE 9 USED 4 SHADOW ID a", "[1 2 60 56 -1 240000 60000 -5 0 0 2]"},
		}},
	} {
		t.Run(history.name, func(t *testing.T) {
			var h embedded.Host
			now := start
			for _, step := range history.steps {
				now = now.Add(step.after)
				assert.Equal(t, step.want, show(step.line, do(&h, now, step.line)), step.line)
			}
		})
	}
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
		assert.Equal(t, fmt.Sprint(1000-len(want)), show("CL.PEEK", do(&h, start, "CL.PEEK k RATE 1000/h")), form)
	}
	var h embedded.Host
	for _, id := range []string{"", strings.Repeat("x", 513)} {
		call := embedded.Call{NowNs: start.UnixNano(), Words: [][]byte{[]byte("CL.MLIMIT"), []byte("1"), []byte("k"), []byte("SLOTS"), []byte("1"), []byte("TTL"), []byte("1s"), []byte("ID"), nil}}
		for _, each := range []string{"right", id} {
			call.Words[8] = []byte(each)
			if r := h.Do(call); each == id {
				assert.Contains(t, r.Error, "ID takes 1 to 512 bytes")
			}
		}
	}
}

// An empty id is refused although the other words are remembered, whatever the key holds and wherever the call before had its id.
func TestAnEmptyIDIsRefusedAfterCallsThatAreAlike(t *testing.T) {
	for _, form := range []string{"CL.MLIMIT 1 run SLOTS 9 TTL 1m ID %s", "CL.SETTLE 1 run SLOTS ID %s", "CL.MLIMIT 2 k run RATE 5/s NEXT SLOTS 9 TTL 1m ID %s COMPACT"} {
		for _, key := range []string{"absent", "a set"} {
			var h embedded.Host
			do(&h, start, fmt.Sprintf(form, "a"))
			if key == "absent" {
				h.Delete(0, "run")
			}
			leases := show("CL.LEASES", do(&h, start, "CL.LEASES run"))
			words := [][]byte{}
			for _, word := range strings.Fields(fmt.Sprintf(form, "ID")) {
				words = append(words, []byte(word))
			}
			at := slices.IndexFunc(words, func(w []byte) bool { return string(w) == "ID" }) + 1
			words[at] = nil
			for range 2 {
				assert.Contains(t, h.Do(embedded.Call{NowNs: start.UnixNano(), Words: words}).Error, "ID takes 1 to 512 bytes", form)
			}
			assert.Equal(t, leases, show("CL.LEASES", do(&h, start, "CL.LEASES run")), form)
		}
	}
}

func TestGroupsOfSlotsAreRefused(t *testing.T) {
	const syntax = "ERR syntax error"
	for line, want := range map[string]string{
		"CL.MLIMIT 1 k SLOTS 1 TTL 1s":                           syntax + ": SLOTS needs an ID",
		"CL.SETTLE 2 k l RATE 5/s TAKE 1 NEXT SLOTS ID a":        syntax + " near '5/s': TAKE and USED go together",
		"CL.MLIMIT 2 limits l SLOTS 1 TTL 1s NEXT RATE 5/s ID a": "WRONGTYPE Operation against a key holding the wrong kind of value",
		"CL.MLIMIT 2 l set SLOTS 1 TTL 1s NEXT RATE 5/s ID a":    "WRONGTYPE Operation against a key holding the wrong kind of value",
		"CL.LIMIT set RATE 5/s":                                  "WRONGTYPE Operation against a key holding the wrong kind of value",
		"CL.SETTLE 2 limits l SLOTS NEXT RATE 5/s ID a":          "WRONGTYPE Operation against a key holding the wrong kind of value",
	} {
		var h embedded.Host
		do(&h, start, "CL.LIMIT limits RATE 5/s")
		do(&h, start, "CL.LEASE set SLOTS 1 TTL 1m ID x")
		before := []*embedded.Key{h.Get(start.UnixNano(), 0, "limits"), h.Get(start.UnixNano(), 0, "set")}
		before[0], before[1] = clone(before[0]), clone(before[1])
		assert.Equal(t, want, do(&h, start, line).Error, line)
		assert.Equal(t, before, []*embedded.Key{h.Get(start.UnixNano(), 0, "limits"), h.Get(start.UnixNano(), 0, "set")}, line)
		assert.Equal(t, 2, h.Len(), line)
	}
}

func clone(k *embedded.Key) *embedded.Key {
	c := *k
	c.Value, c.Leases = slices.Clone(k.Value), slices.Clone(k.Leases)
	return &c
}

// A decision with slots, and a settlement, allocate nothing.
func TestAnAdmissionIsDecidedWithoutAllocating(t *testing.T) {
	for _, line := range []string{admit + "a COMPACT", settle + "30" + slots + "a COMPACT"} {
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
