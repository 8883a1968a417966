// Package sharedlib builds the small C libraries that tests load into a server, and shares numbers with them.
package sharedlib

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Build compiles a library with the C compiler that Go uses and returns its path. The file is removed when the test
// ends.
func Build(t testing.TB, name string, source []byte, flags ...string) (path string) {
	t.Helper()
	out, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err, "go env CC")
	compile := strings.Fields(string(out))
	require.NotEmpty(t, compile, "go env CC")
	dir := t.TempDir()
	file := filepath.Join(dir, name+".c")
	path = filepath.Join(dir, name+".so")
	require.NoError(t, os.WriteFile(file, source, 0o600))
	compile = append(compile, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", path, file)
	compile = append(compile, flags...)
	out, err = exec.Command(compile[0], compile[1:]...).CombinedOutput()
	require.NoError(t, err, "%q: %s", compile, out)
	return path
}

// Numbers are 64-bit integers in a file that the test writes and a library maps, 8 bytes each.
type Numbers struct {
	Path   string
	mapped []byte
}

// NewNumbers makes a file of n zeros.
func NewNumbers(t testing.TB, n int) *Numbers {
	t.Helper()
	s := &Numbers{Path: filepath.Join(t.TempDir(), "numbers")}
	require.NoError(t, os.WriteFile(s.Path, make([]byte, 8*n), 0o600))
	f, err := os.OpenFile(s.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	s.mapped, err = unix.Mmap(int(f.Fd()), 0, 8*n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(s.mapped) })
	return s
}

// Get returns one number.
func (s *Numbers) Get(i int) int64 { return atomic.LoadInt64((*int64)(unsafe.Pointer(&s.mapped[8*i]))) }

// Set sets one number. A library that has mapped the file sees it at once.
func (s *Numbers) Set(i int, value int64) {
	atomic.StoreInt64((*int64)(unsafe.Pointer(&s.mapped[8*i])), value)
}
