// Package kit has what tests of several packages do with a server: they send calls, read replies, begin to wait in
// line, keep a server busy, and measure what it took. Package server starts the servers.
package kit

import (
	"os"
	"testing"

	"redis-throttle/internal/size"
)

// Run is what TestMain of a package does whose tests wait for servers half of the time.
func Run(m *testing.M) {
	size.AtOnce(5)
	os.Exit(m.Run())
}
