package embedded_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/embedded"
)

// Replies have the shape in which a server sends them. The transcripts show that of all others.
func TestTheValueOfAListOfKeys(t *testing.T) {
	h := newHost()
	h.ResizeTop(10)
	h.do("CL.LIMIT k RATE 5/s COST 6")
	r := h.do("CL.TOP")
	assert.Equal(t, []any{embedded.Map{"key", "k", "db", int64(0), "limited", int64(1), "error", int64(0)}}, r.Value())
}
