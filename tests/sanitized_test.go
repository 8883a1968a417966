package tests

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// onSanitizedToo runs a test on the server under test and on one that was built with AddressSanitizer, which ends at the first use
// of freed memory. THROTTLE_ASAN_SERVER is its path.
func onSanitizedToo(t *testing.T, f func(t *testing.T, opts ...server.Option)) {
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		f(t)
	})
	t.Run("sanitized", func(t *testing.T) {
		t.Parallel()
		path := os.Getenv("THROTTLE_ASAN_SERVER")
		if path == "" {
			t.Skip("THROTTLE_ASAN_SERVER names no server that was built with AddressSanitizer")
		}
		program, err := server.FindProgram(path)
		require.NoError(t, err)
		f(t, server.Run(program))
	})
}
