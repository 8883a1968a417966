// Package durability holds what the module promises where servers stop, die, are
// copied and replaced: no caller gets a unit back, and none loses one. Each file is
// one such event. The figures that docs/operating.md quotes are printed by
//
//	go test -v ./tests/durability
package durability

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// Most of a test's time here is waiting: for a failure to be noticed, for the soak to
// end. So more of them run at once than there are processors.
const testsAtOnce = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable() // a client that fails to reach a dead server says so, often
	if !wasSet("test.parallel") {
		if err := flag.Set("test.parallel", testsAtOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

func wasSet(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
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
