package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// AOF returns the commands that were appended to the append-only file since it was
// last rewritten, except SELECT. A last command that a killed server wrote only in part
// is left out, as it is by a server that loads the file.
func (s *Server) AOF() [][]string {
	s.t.Helper()
	var commands [][]string
	for _, path := range s.aofPaths() {
		f, err := os.Open(path)
		require.NoError(s.t, err)
		defer f.Close()
		for r := resp.NewReader(f); ; {
			v, err := r.Read()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			require.NoError(s.t, err, path)
			command := make([]string, len(v.Elems))
			for i, e := range v.Elems {
				command[i] = e.Text
			}
			if !strings.EqualFold(command[0], "SELECT") {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// aofPaths are the files that commands are appended to: several since Redis 7.0,
// whose names sort by age, and one before.
func (s *Server) aofPaths() []string {
	if !s.Program.AtLeast(7, 0) {
		return []string{filepath.Join(s.Dir, "appendonly.aof")}
	}
	paths, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	require.NoError(s.t, err)
	return paths
}
