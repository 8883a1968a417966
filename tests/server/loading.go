package server

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// LoadForMinutes has the server load its data slowly: it answers LOADING, after each key. End has it go on at full
// speed, and waits for it.
func (s *Server) LoadForMinutes(t testing.TB) (end func()) {
	t.Helper()
	s.MustDo("CONFIG", "SET", "rdbcompression", "no")
	s.MustDo("CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
	s.MustDo("DEBUG", "POPULATE", "3000", "load", "4096")
	s.MustDo("CONFIG", "SET", "key-load-delay", "50000") // us
	ended, c := make(chan struct{}), s.Raw()
	go func() {
		defer close(ended)
		_, _ = c.Do("DEBUG", "RELOAD")
	}()
	require.Eventually(t, func() bool { return strings.HasPrefix(s.Do("PING").Text, "LOADING") }, time.Minute, time.Millisecond)
	return func() { s.MustDo("CONFIG", "SET", "key-load-delay", "0"); <-ended }
}
