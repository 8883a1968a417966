package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/internal/runnable"
)

// make run starts throttle-dev where no server can load the module, and says why.
func TestWhereServersCanLoadTheModule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ uname, ldd, says string }{
		"Linux with glibc": {"echo Linux", "echo 'ldd (Debian GLIBC 2.41) 2.41'", ""},
		"Linux with musl":  {"echo Linux", "echo 'musl libc (x86_64)' >&2; exit 1", "this Linux has musl, and only with glibc can a server load the module\n"},
		"Alpine":           {"echo Linux", "echo '/lib/ld-musl-x86_64.so.1: cannot load --version: No such file or directory' >&2; exit 127", "this Linux has musl, and only with glibc can a server load the module\n"},
		"macOS":            {"echo Darwin", "exit 127", "no server on Darwin can load the module, which needs Linux\n"},
		"Windows":          {"echo MINGW64_NT-10.0", "exit 127", "no server on MINGW64_NT-10.0 can load the module, which needs Linux\n"},
	} {
		bin := t.TempDir()
		for program, runs := range map[string]string{"uname": test.uname, "ldd": test.ldd} {
			runnable.Write(t, filepath.Join(bin, program), "#!/bin/sh\n"+runs+"\n")
		}
		cmd := exec.Command("scripts/loadable")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		assert.Equal(t, test.says, string(out), name)
		assert.Equal(t, test.says == "", err == nil, name)
	}
}
