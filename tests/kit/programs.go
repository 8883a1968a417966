package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/tests/server"
)

// Program is the path of a program that is installed, or that scripts/setup full has fetched.
func Program(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	path := filepath.Join(root, "build", "programs", name)
	if _, err := os.Stat(path); err != nil {
		size.Lacks(t, name+" is not there")
	}
	return path
}

// Serve runs a program until the test ends, and logs what it has printed if the test has failed.
func Serve(t testing.TB, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "LD_LIBRARY_PATH="+filepath.Join(filepath.Dir(path), "lib"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	log, err := os.Create(filepath.Join(cmd.Dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its workers, too
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Log(string(text))
		}
	})
}

var (
	builds      sync.Map // by the folder of a program, a function that builds it once
	buildFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "throttle-test-") })
)

// Built is the path of a program of this repository, which is built once for all tests of a package. env is for the
// compiler. RunBuilt removes it.
func Built(t testing.TB, folder string, env ...string) string {
	t.Helper()
	build, _ := builds.LoadOrStore(folder, sync.OnceValues(func() (string, error) {
		dir, err := buildFolder()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, filepath.Base(folder))
		cmd := exec.Command("go", "build", "-o", path, "../../"+folder) // from the folder of any tests
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return path, nil
	}))
	path, err := build.(func() (string, error))()
	require.NoError(t, err)
	return path
}

// RunBuilt is what TestMain does of a package whose tests build programs.
func RunBuilt(m *testing.M) {
	code := m.Run()
	if dir, err := buildFolder(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}
