package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ModulePath is the module under test: THROTTLE_SO, else build/throttle.so. That it
// is missing is an error: a test run without the module proves nothing.
func ModulePath() (string, error) {
	return builtFile("THROTTLE_SO", "throttle.so", "make build")
}

// CheckModulePath is the module's test build, which panics on demand and checks the
// rules of passing pointers between Go and C: THROTTLE_CHECK_SO, else
// build/throttle-check.so.
func CheckModulePath() (string, error) {
	return builtFile("THROTTLE_CHECK_SO", "throttle-check.so", "make build-check")
}

// CLIPath is the command line client: THROTTLE_CLI, else redis-cli or valkey-cli on
// PATH.
func CLIPath() (string, error) {
	if path := os.Getenv("THROTTLE_CLI"); path != "" {
		return fromRoot(path)
	}
	for _, name := range []string{"redis-cli", "valkey-cli"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no redis-cli or valkey-cli on PATH; install one, or set THROTTLE_CLI")
}

func builtFile(env, name, command string) (string, error) {
	path := os.Getenv(env)
	if path == "" {
		path = filepath.Join("build", name)
	}
	path, err := fromRoot(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the module is not built (%w): run %q, or set %s", err, command, env)
	}
	return path, nil
}

// fromRoot makes a path absolute. A relative one is seen from the repository's root,
// where tests are started, and not from the folder that go test runs them in. A bare
// name is left alone: it is looked up on PATH.
func fromRoot(path string) (string, error) {
	if filepath.IsAbs(path) || filepath.Base(path) == path {
		return path, nil
	}
	root, err := RepositoryRoot()
	return filepath.Join(root, path), err
}

// RepositoryRoot is the folder of go.work above the running test's.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work in this folder or above it")
		}
		dir = parent
	}
}
