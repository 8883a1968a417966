package embedded_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// host is one with a clock that the test sets.
type host struct {
	embedded.Host
	now time.Time
}

func newHost() *host { return &host{now: start} }

// do makes a call in a transaction, which cannot wait.
func (h *host) do(line string) embedded.Reply { return h.call(line, false) }

func (h *host) doBlocking(line string) embedded.Reply { return h.call(line, true) }

func (h *host) call(line string, mayBlock bool) embedded.Reply {
	call := embedded.Call{NowNs: h.now.UnixNano(), MayBlock: mayBlock}
	for _, word := range strings.Fields(line) {
		call.Words = append(call.Words, []byte(word))
	}
	return h.Do(call)
}

func (h *host) get(key string) *embedded.Key { return h.Get(h.now.UnixNano(), 0, key) }

func TestHostsCountTheKeysThatTheyLimitApart(t *testing.T) {
	const limited = "CL.LIMIT k RATE 1/h COST 2"
	a, b, off := newHost(), newHost(), newHost()
	a.ResizeTop(10)
	b.ResizeTop(10)
	for _, h := range []*host{a, a, b, off} {
		h.do(limited)
	}
	a.do("CL.LIMIT other RATE 1/h COST 2")
	times := func(h *host) (all string) {
		for _, row := range h.do("CL.TOP").Rows {
			all += fmt.Sprintln(row.Text, row.Integers)
		}
		return all
	}
	assert.Equal(t, "k [0 2 0]\nother [0 1 0]\n", times(a))
	assert.Equal(t, "k [0 1 0]\n", times(b))
	assert.Equal(t, command.ReplyError, off.do("CL.TOP").Kind)
	a.ResizeTop(1)
	assert.Empty(t, times(a), "a new size forgets what was counted")
}

func TestRepliesAndKeysAreThoseOfAServer(t *testing.T) {
	h := newHost()
	for _, test := range []struct {
		pass  time.Duration
		line  string
		reply string
	}{
		{0, "CL.THROTTLE user123 15 30 60 1", "[0 16 15 -1 2]"},
		{0, "cl.throttle user123 15 30 60 16", "[1 16 15 2 2]"},
		{2 * time.Second, "CL.THROTTLE user123 15 30 60 1", "[0 16 15 -1 2]"},
		{0, "CL.LIMIT fresh RATE 5/s COMPACT", "[0 1 5 4 -1 200 200 1 0 0]"},
		{0, "CL.MLIMIT 2 a b RATE 5/s COMPACT", "[0 1 5 4 -1 200 200 1 0 0 1]"},
		{0, "CL.LEASE jobs SLOTS 2 TTL 30s ID one COMPACT", "[0 2 1 -1 30000 0]"},
		{time.Second, "CL.LEASE jobs SLOTS 2 TTL 30s ID two COMPACT", "[0 2 0 -1 30000 0]"},
		{0, "CL.LEASE jobs SLOTS 2 TTL 30s ID three COMPACT", "[1 2 0 29000 0 0]"},
		{0, "CL.LEASES jobs", "held 2 waiting 0 leases [one 29000 two 30000]"},
		{0, "CL.RELEASE jobs ID one nobody", "1"},
		{0, "CL.LEASES jobs", "held 1 waiting 0 leases [two 30000]"},
		{30 * time.Second, "CL.LEASES jobs", "held 0 waiting 0 leases []"},
		{0, "CL.BAN a 1m", "60000"},
		{0, "CL.LIMIT a RATE 5/s COMPACT", "[1 0 5 0 60000 60000 60000 0 0 0]"},
		{0, "CL.TOP", "ERR CL.TOP is off: set the configuration throttle.top to the number of keys to keep, from 1 to 100000"},
		{0, "CL.NOTHING k", "ERR unknown command 'CL.NOTHING'"},
		{0, "CL.BAN k", "ERR wrong number of arguments for 'cl.ban' command"},
		{0, "CL.LEASE a SLOTS 1 TTL 1s ID x", "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{0, "", "ERR no command"},
	} {
		h.now = h.now.Add(test.pass)
		assert.Equal(t, test.reply, show(h.do(test.line)), test.line)
	}
}

func show(r embedded.Reply) string {
	switch r.Kind {
	case command.ReplyError:
		return r.Error
	case command.ReplyInteger:
		return fmt.Sprint(r.Integers[0])
	case command.ReplyLeases:
		rows := []any{}
		for _, row := range r.Rows {
			rows = append(rows, row.Text, row.Integers[0])
		}
		return fmt.Sprintf("%s %d %s %d %s %v", r.Names[0], r.Integers[0], r.Names[1], r.Integers[1], r.Names[2], rows)
	}
	return fmt.Sprint(r.Integers)
}

func TestAKeyExpiresAfterTheMillisecondOfItsExpiry(t *testing.T) {
	h := newHost()
	h.do("CL.LEASE jobs SLOTS 1 TTL 10ms ID a")
	h.now = h.now.Add(10 * time.Millisecond)
	assert.NotNil(t, h.get("jobs"), "a server deletes a key once its time is over")
	h.now = h.now.Add(time.Millisecond)
	assert.Nil(t, h.get("jobs"))
}

func TestACopyOfAKeyIsAKeyOfItsOwn(t *testing.T) {
	h := newHost()
	h.do("CL.LIMIT k RATE 5/s")
	h.do("CL.LEASE jobs SLOTS 9 TTL 1m ID a")
	value, leases := *h.get("k"), *h.get("jobs")
	bytes := string(value.Value)
	h.do("CL.LIMIT k RATE 5/s")
	h.do("CL.LEASE jobs SLOTS 9 TTL 1ms ID 0")
	h.do("CL.RELEASE jobs ID a")
	assert.Equal(t, bytes, string(value.Value))
	assert.Equal(t, []embedded.Lease{{ID: "a", Score: float64(start.Add(time.Minute).UnixMilli())}}, leases.Leases)
}

func TestDatabasesAreSeparate(t *testing.T) {
	h := newHost()
	for db := range 2 {
		call := embedded.Call{NowNs: h.now.UnixNano(), DB: db, Words: [][]byte{[]byte("CL.LEASE"), []byte("k"), []byte("SLOTS"), []byte("1"), []byte("TTL"), []byte("1m"), []byte("ID"), []byte(fmt.Sprint(db))}}
		assert.Zero(t, h.Do(call).Integers[0])
	}
}

// Keys whose time is over do not pile up, though nobody looks at them again.
func TestKeysThatExpireAreForgotten(t *testing.T) {
	h := newHost()
	const most = 2000
	for i := range 20 * most {
		h.do(fmt.Sprintf("CL.LIMIT k%d RATE 1000/s BURST 1 COMPACT", i))
		if i%most == most-1 {
			h.now = h.now.Add(time.Hour)
		}
	}
	assert.Less(t, h.Len(), 3*most)
}

// The order of a sorted set is by score, then by id, whatever order its members came in.
func TestLeasesAreInTheOrderOfASortedSet(t *testing.T) {
	h := newHost()
	for _, i := range rand.Perm(100) {
		h.do(fmt.Sprintf("CL.LEASE jobs SLOTS 1000 TTL %ds ID %03d", 1+i%7, i))
	}
	leases := h.get("jobs").Leases
	require.Len(t, leases, 100)
	for i := range leases[1:] {
		a, b := leases[i], leases[i+1]
		assert.True(t, a.Score < b.Score || a.Score == b.Score && a.ID < b.ID, "%v %v", a, b)
	}
	assert.EqualValues(t, leases[99].Score, h.get("jobs").ExpireAtMs)
}
