package cached_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit/cached"
)

// hit asks for what is remembered.
func hit(t testing.TB) func() {
	c, call, ctx := cached.New(&denying{}, cached.Options{}), callOn("user:42", 1), t.Context()
	return func() {
		if result, err := c.Decide(ctx, call); err != nil || !result.Limited {
			t.Fatal(result, err)
		}
	}
}

//nolint:paralleltest // others would be counted, too
func TestARememberedDenialAllocatesNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(1000, hit(t)))
}

func BenchmarkHit(b *testing.B) {
	ask := hit(b)
	b.ReportAllocs()
	for b.Loop() {
		ask()
	}
}
