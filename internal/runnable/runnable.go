// Package runnable writes programs that a test runs.
package runnable

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write writes a file that is run afterwards. No goroutine starts a program meanwhile: its child would have the file
// open for writing for a moment, and the system runs no such file ("text file busy").
func Write(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
}
