package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// make run starts throttle-dev where no server can load the module, and says why.
func TestWhereServersCanLoadTheModule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ uname, ldd, says string }{
		"Linux with glibc": {"Linux", "ldd (Debian GLIBC 2.41) 2.41", ""},
		"Linux with musl":  {"Linux", "musl libc (x86_64)", "this Linux has musl, and only with glibc can a server load the module\n"},
		"macOS":            {"Darwin", "", "no server on Darwin can load the module, which needs Linux\n"},
		"Windows":          {"MINGW64_NT-10.0", "", "no server on MINGW64_NT-10.0 can load the module, which needs Linux\n"},
	} {
		bin := t.TempDir()
		for program, prints := range map[string]string{"uname": test.uname, "ldd": test.ldd} {
			require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\necho '"+prints+"'\n"), 0o755))
		}
		cmd := exec.Command("scripts/loadable")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		assert.Equal(t, test.says, string(out), name)
		assert.Equal(t, test.says == "", err == nil, name)
	}
}
