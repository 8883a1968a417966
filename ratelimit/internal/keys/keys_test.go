package keys_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/ratelimit/internal/keys"
)

func TestKeysAreEscaped(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"":                         "",
		"user:42":                  "user:42",
		"POST /login 198.51.100.7": "POST%20/login%20198.51.100.7",
		"a%20b":                    "a%2520b",
		"%":                        "%25",
	} {
		assert.Equal(t, want, keys.Plain(key))
	}
}

// No client can write the key of another, or the prefix of a route.
func TestDifferentKeysStayDifferent(t *testing.T) {
	t.Parallel()
	key := rapid.StringOf(rapid.SampledFrom([]rune("a %025")))
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		require.Equal(t, a == b, keys.Plain(a) == keys.Plain(b))
		require.False(t, strings.Contains(keys.Plain(a), " "))
	})
}
