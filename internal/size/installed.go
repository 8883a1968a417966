package size

import (
	"os"
	"os/exec"
	"testing"
)

// NeedsProgram skips a test for which a program is not installed. Where everything has to be there (make test-full,
// make prove), the test fails instead.
func NeedsProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Lacks(t, "there is no "+name+" on PATH")
	}
}

// Lacks skips a test because of what is not installed, or fails it where everything has to be there.
func Lacks(t testing.TB, why string) {
	t.Helper()
	why += ": scripts/setup full installs it"
	if Proving() || os.Getenv("THROTTLE_INSTALLED") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
