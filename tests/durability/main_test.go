// Package durability holds what the module promises where servers stop, die, are
// copied and replaced: no caller gets a unit back, and none loses one. Each file is
// one such event. The figures that docs/operating.md quotes are printed by
//
//	go test -v ./tests/durability
package durability

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

// Most of a test's time here is waiting: for a failure to be noticed, for the soak to end.
func TestMain(m *testing.M) {
	logging.Disable() // a client that fails to reach a dead server says so, often
	size.AtOnce(4)
	os.Exit(m.Run())
}

// begin lets a test run beside others and says on which server it runs.
func begin(t *testing.T) server.Program {
	t.Helper()
	t.Parallel()
	p, err := server.DefaultProgram()
	require.NoError(t, err)
	t.Logf("on %s", p)
	return p
}
