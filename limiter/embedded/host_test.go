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

func TestAHostRefusesWhatNoServerWouldCallItWith(t *testing.T) {
	h := newHost()
	assert.Equal(t, "ERR unknown command 'CL.NOTHING'", show(h.do("CL.NOTHING k")))
	assert.Equal(t, "ERR no command", show(h.do("")))
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
		call := embedded.Call{NowNs: h.now.UnixNano(), DB: db,
			Words: [][]byte{[]byte("CL.LEASE"), []byte("k"), []byte("SLOTS"), []byte("1"), []byte("TTL"), []byte("1m"), []byte("ID"), []byte(fmt.Sprint(db))}}
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
