package ratelimit_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// addr is the server with the module that the examples run against. The project's own tests
// set it; where it is empty the examples are only compiled, so that this package can be
// tested wherever it is imported.
var addr = os.Getenv("THROTTLE_ADDR")

func TestMain(m *testing.M) {
	flag.Parse()
	if addr == "" {
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
