// Package examples is for the tests that are examples of the documentation.
package examples

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Addr is the server with the module that the examples run against. The project's own tests
// set it; where it is empty the examples are only compiled, so that a package can be tested
// wherever it is imported.
var Addr = os.Getenv("THROTTLE_ADDR")

// Main is for TestMain.
func Main(m *testing.M) {
	flag.Parse()
	if Addr == "" {
		skip := flag.Lookup("test.skip").Value.String()
		if skip != "" {
			skip += "|"
		}
		if err := flag.Set("test.skip", skip+"^Example"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}
