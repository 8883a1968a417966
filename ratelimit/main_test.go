package ratelimit_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"redis-throttle/tests/server"
)

// addr is the server that the examples of the documentation run against. Tests start
// their own.
var addr string

func TestMain(m *testing.M) {
	logging.Disable() // a client that fails to reach a dead server says so, often
	examples := &holder{}
	addr = server.Start(examples).Addr()
	code := m.Run()
	examples.end()
	os.Exit(code)
}

// holder holds a server that belongs to no test. What would fail a test ends the run.
type holder struct {
	testing.TB
	cleanups []func()
}

func (h *holder) Helper()                   {}
func (h *holder) Failed() bool              { return false }
func (h *holder) Logf(string, ...any)       {}
func (h *holder) Cleanup(f func())          { h.cleanups = append(h.cleanups, f) }
func (h *holder) Errorf(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...); h.FailNow() }
func (h *holder) FailNow()                  { h.end(); os.Exit(1) }

func (h *holder) TempDir() string {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		h.Errorf("%v", err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *holder) end() {
	for len(h.cleanups) > 0 {
		last := len(h.cleanups) - 1
		f := h.cleanups[last]
		h.cleanups = h.cleanups[:last]
		f()
	}
}
