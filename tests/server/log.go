package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/assert"
)

// LogPath is the file that both outputs of the server are appended to.
func (s *Server) LogPath() string { return filepath.Join(s.Dir, "server.log") }

// Log is everything the server logged so far, over all its restarts.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.LogPath())
	assert.NoError(s.t, err)
	return string(b)
}

// LogLines are the lines of the log that hold text.
func (s *Server) LogLines(text string) []string {
	var lines []string
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, text) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// LogTail is the end of the log.
func (s *Server) LogTail() string {
	const lines, maxBytes = 60, 16 << 10
	b, _ := os.ReadFile(s.LogPath()) // no log, no tail
	b = b[max(0, len(b)-maxBytes):]
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// crashText matches what the server, and the Go runtime in it, print when they go
// down.
var crashText = regexp.MustCompile(`(?m)(BUG REPORT START|crashed by signal|ASSERTION FAILED|ERROR: AddressSanitizer).*` +
	`|^(fatal error|panic|runtime): .*|^SIG[A-Z]+: .*`)

// CrashReport is the first line of a crash report in the log, or "".
func (s *Server) CrashReport() string { return crashText.FindString(s.Log()) }

// ExpectCrash says that this test makes the server crash.
func (s *Server) ExpectCrash() {
	s.crashExpected.Store(true)
	s.endExpected.Store(true)
}
