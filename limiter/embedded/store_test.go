package embedded_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// store keeps keys as a server does that others use, too: it gives copies away and keeps copies.
type store struct {
	keys map[string]embedded.Key
	puts int
}

func (s *store) Get(db int, name string) *embedded.Key {
	key := s.keys[fmt.Sprint(db, name)]
	return &key
}

func (s *store) Put(db int, name string, key *embedded.Key) {
	s.puts++
	if !key.Exists() {
		delete(s.keys, fmt.Sprint(db, name))
		return
	}
	s.keys[fmt.Sprint(db, name)] = *key
}

func newStoredHost() (*host, *store) {
	h, s := newHost(), &store{keys: map[string]embedded.Key{}}
	h.Store = s
	return h, s
}

func TestAHostAnswersTheSameWhereverItsKeysAre(t *testing.T) {
	own, stored := newHost(), newHost()
	stored.Store = &store{keys: map[string]embedded.Key{}}
	for _, line := range []string{
		"CL.THROTTLE a 15 30 60 1", "CL.LIMIT a RATE 5/s COMPACT", "CL.LIMIT b WINDOW 3/10s COST 2 COMPACT", "CL.MLIMIT 2 a b RATE 5/s NEXT WINDOW 3/10s COST 2 COMPACT EACH",
		"CL.LEASE jobs SLOTS 2 TTL 5s ID one COMPACT", "CL.LEASE jobs SLOTS 2 TTL 8s ID two COMPACT", "CL.LEASE jobs SLOTS 2 TTL 8s ID three COMPACT", "CL.LEASES jobs",
		"CL.RELEASE jobs ID one two", "CL.BAN a 10s", "CL.REFUND b WINDOW 3/10s COST 2 COMPACT", "CL.LEASE a SLOTS 1 TTL 1s ID x",
	} {
		for range 3 {
			want, got := own.do(line), stored.do(line)
			assert.Equal(t, show(want), show(got), line)
			for _, key := range []string{"a", "b", "jobs"} {
				assert.Equal(t, own.get(key), stored.get(key), "%s after %s", key, line)
			}
			own.now, stored.now = own.now.Add(time.Second), stored.now.Add(time.Second)
		}
	}
	assert.Zero(t, stored.Len(), "nothing is kept twice")
}

func TestCallsThatChangeNothingPutNothing(t *testing.T) {
	h, s := newStoredHost()
	h.do("CL.LIMIT k RATE 1/h")
	require.Equal(t, 1, s.puts)
	for _, line := range []string{"CL.LIMIT k RATE 1/h", "CL.PEEK k RATE 1/h", "CL.LEASES k", "CL.LIMIT k RATE wrong", "CL.RELEASE jobs ID nobody"} {
		h.do(line)
		assert.Equal(t, 1, s.puts, line)
	}
}

func TestAValueOfAnotherTypeIsRefused(t *testing.T) {
	h, s := newStoredHost()
	s.keys["0list"] = embedded.Key{Other: true}
	for _, line := range []string{"CL.LIMIT list RATE 1/h", "CL.THROTTLE list 1 1 1", "CL.LEASE list SLOTS 1 TTL 1s ID a", "CL.BAN list 1s"} {
		r := h.do(line)
		assert.Equal(t, command.ReplyError, r.Kind, line)
		assert.Equal(t, "WRONGTYPE Operation against a key holding the wrong kind of value", r.Error, line)
	}
	assert.Zero(t, s.puts)
}

func TestCallersLearnWhatOthersDidToTheStore(t *testing.T) {
	h, s := newStoredHost()
	h.do("CL.LEASE jobs SLOTS 1 TTL 1h ID a")
	lease := h.blocked(t, "CL.LEASE jobs SLOTS 1 TTL 10s ID b TIMEOUT 0 COMPACT")
	h.do("CL.LIMIT k WINDOW 1/1h")
	limit := h.blocked(t, "CL.WAIT k WINDOW 1/1h TIMEOUT 0 COMPACT")
	assert.EqualValues(t, 1, stat(h, "waiting"))
	assert.EqualValues(t, 1, stat(h, "leases_waiting"))
	assert.Empty(t, h.passes(time.Minute))
	clear(s.keys)
	h.StoreChanged()
	assert.ElementsMatch(t, []string{
		fmt.Sprintf("%d@1m0s [0 1 0 -1 10000 60000]", lease),
		fmt.Sprintf("%d@1m0s [0 1 1 0 -1 3600000 3600000 1 60000 0]", limit),
	}, h.passes(0))
	assert.Zero(t, stat(h, "waiting")+stat(h, "leases_waiting"))
}

func TestSettlementsAreCounted(t *testing.T) {
	h, _ := newStoredHost()
	h.do("CL.MLIMIT 2 units jobs RATE 9/h NEXT SLOTS 1 TTL 1h ID a")
	for range 2 {
		h.do("CL.SETTLE 2 units jobs RATE 9/h TAKE 1 USED 2 NEXT SLOTS ID a")
	}
	assert.EqualValues(t, 1, stat(h, "settled"))
	assert.EqualValues(t, 1, stat(h, "not_settled"))
}
