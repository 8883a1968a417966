package embedded_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func stat(h *host, name string) int64 {
	for _, s := range h.Stats() {
		if s.Name == name {
			return s.Count
		}
	}
	return -1
}

func TestStatsAreThoseOfInfo(t *testing.T) {
	h := newHost()
	for _, line := range strings.Split(`CL.LIMIT k RATE 2/h
CL.LEASE k SLOTS 1 TTL 1s ID a
CL.LIMIT k RATE 2/h COST 9
CL.LIMIT k RATE 2/h SHADOW COST 9
CL.REFUND k RATE 2/h COST 1
CL.LIMIT k RATE wrong
CL.BAN k
CL.LEASE jobs SLOTS 1 TTL 1s ID a
CL.LEASE jobs SLOTS 1 TTL 1s ID a
CL.LEASE jobs SLOTS 1 TTL 1s ID b
CL.RELEASE jobs ID a`, "\n") {
		h.do(line)
	}
	h.do("CL.LEASE jobs SLOTS 2 TTL 1s ID a")
	h.do("CL.LEASE jobs SLOTS 2 TTL 1h ID c")
	h.now = h.now.Add(2 * time.Second)
	h.do("CL.LEASE jobs SLOTS 2 TTL 1h ID b")
	h.do("CL.LIMIT w RATE 1/m BURST 1")
	h.blocked(t, "CL.WAIT w RATE 1/m BURST 1 TIMEOUT 0")
	h.Disconnect(h.now.UnixNano(), h.blocked(t, "CL.WAIT w RATE 1/m BURST 1 TIMEOUT 0"))
	h.passes(time.Minute)
	h.do("CL.THROTTLE k 0 1 1h 1 1")
	for name, want := range map[string]int64{
		"calls": 17, "calls_limit": 5, "calls_lease": 7, "calls_wait": 2, "allowed": 9, "limited": 2, "shadowed": 1, "refunded_units": 1,
		"waiting": 0, "waited": 1, "wait_left": 1, "leases_granted": 4, "leases_renewed": 1, "leases_limited": 1, "leases_released": 1, "leases_lapsed": 1,
		"errors_arity": 1, "errors_argument": 1, "errors_wrongtype": 1,
	} {
		assert.Equal(t, want, stat(h, name), name)
	}
}

// Callers in turn count when they are answered, however often they were decided before. One that is gone was neither
// allowed nor limited.
func TestStatsOfCallersInTurn(t *testing.T) {
	h := newHost()
	h.do("CL.LIMIT k WINDOW 1/1m")
	h.blocked(t, "CL.WAIT k WINDOW 1/1m TIMEOUT 0")
	h.blocked(t, "CL.WAIT k WINDOW 1/1m TIMEOUT 90s")
	h.Disconnect(h.now.UnixNano(), h.blocked(t, "CL.WAIT k WINDOW 1/1m TIMEOUT 0"))
	h.passes(30 * time.Second)
	h.StoreChanged() // they are decided, and wait on
	h.passes(0)
	for name, want := range map[string]int64{"allowed": 1, "limited": 0, "waited": 0, "wait_left": 1, "waiting": 2} {
		assert.Equal(t, want, stat(h, name), "before: %s", name)
	}
	h.passes(time.Hour)
	for name, want := range map[string]int64{"allowed": 2, "limited": 1, "waited": 1, "wait_left": 2, "waiting": 0} {
		assert.Equal(t, want, stat(h, name), name)
	}
}
