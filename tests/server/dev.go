package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redis-throttle/tests/resp"
)

// A test runs on throttle-dev if THROTTLE_SERVER is its path. If it asks for what throttle-dev does not have, by an
// option or by MustDo, it is skipped. A test that asks in another way says so itself, with NeedsServer.

// DevProgram is throttle-dev, which make build-dev builds.
func DevProgram() (Program, error) {
	path, err := fromRoot(filepath.Join("build", "throttle-dev"))
	if err != nil {
		return Program{}, err
	}
	if _, err := os.Stat(path); err != nil {
		return Program{}, fmt.Errorf("throttle-dev is not built (%w): run make build-dev", err)
	}
	return FindProgram(path)
}

// NeedsServer skips a test on throttle-dev, which lacks something that the test needs.
func NeedsServer(t testing.TB, lacks string) {
	t.Helper()
	if program, err := DefaultProgram(); err == nil && program.IsDev() {
		t.Skip("throttle-dev does not have " + lacks)
	}
}

// beyondDev is what the options ask for that throttle-dev does not have, or nothing.
func (o *options) beyondDev() string {
	switch {
	case o.noModule:
		return "a server without the module"
	case o.module != "":
		return "another build of the module"
	case len(o.config)+len(o.args) > 0 || o.keepConfig || o.noFile:
		return "a configuration: " + strings.Join(append(o.config, o.args...), ", ")
	case o.replicaOf != "":
		return "replication"
	case len(o.moduleArgs) > 0 && (len(o.moduleArgs) != 2 || o.moduleArgs[0] != "top" && o.moduleArgs[0] != "aliases"):
		return "load arguments: " + strings.Join(o.moduleArgs, " ")
	}
	return ""
}

// devLine is throttle-dev's command line.
func (o *options) devLine(s *Server) []string {
	line := []string{"--bind", s.Host, "--port", fmt.Sprint(s.Port)}
	if o.password != "" {
		line = append(line, "--password", o.password)
	}
	if len(o.moduleArgs) > 0 {
		line = append(line, "--"+o.moduleArgs[0], o.moduleArgs[1])
	}
	return line
}

// saysDevLacks reports whether a reply is throttle-dev's error about something that it does not have.
func saysDevLacks(v resp.Value) bool {
	return v.IsError() && strings.HasPrefix(v.Text, "ERR throttle-dev ")
}
