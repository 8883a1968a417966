package embedded_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/embedded"
)

// Replies have the shape in which a server sends them.
func TestValuesHaveTheShapeOfReplies(t *testing.T) {
	h := newHost()
	h.ResizeTop(10)
	n := func(numbers ...int64) (all []any) {
		for _, n := range numbers {
			all = append(all, n)
		}
		return all
	}
	decision := func(numbers ...int64) (all embedded.Map) {
		for i, name := range []string{
			"limited", "rule", "limit", "remaining", "retry_after_ms", "reset_after_ms", "next_after_ms", "granted", "wait_ms", "shadow",
		} {
			all = append(all, name, numbers[i])
		}
		return all
	}
	for _, tt := range []struct {
		line string
		want any
	}{
		{"CL.THROTTLE k 4 5 1 1", n(0, 5, 4, -1, 1)},
		{"CL.LIMIT k RATE 5/s EACH COMPACT", append(n(0, 1, 5, 3, -1, 400, 200, 1, 0, 0), n(0, 5, 3, -1, 400))},
		{"CL.LIMIT k RATE 5/s EACH", append(decision(0, 1, 5, 2, -1, 600, 200, 1, 0, 0), "each", []any{n(0, 5, 2, -1, 600)})},
		{"CL.LIMIT k RATE 5/s COST 4", decision(1, 1, 5, 2, 400, 600, 200, 0, 0, 0)},
		{"CL.TOP", []any{embedded.Map{"key", "k", "db", int64(0), "limited", int64(1), "error", int64(0)}}},
		{"CL.LEASE jobs SLOTS 2 TTL 1s ID a COMPACT", n(0, 2, 1, -1, 1000, 0)},
		{"CL.LEASES jobs", embedded.Map{
			"held", int64(1), "waiting", int64(0), "leases", []any{embedded.Map{"id", "a", "lease_ms", int64(1000)}},
			"waiting_groups", int64(0), "groups", []any{},
		}},
		{"CL.RELEASE jobs ID a", int64(1)},
	} {
		r := h.do(tt.line)
		assert.Equal(t, tt.want, r.Value(), tt.line)
	}
}
