package tests

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// Go's runtime takes over the handlers of fatal signals. The server's own crash report
// is what its operators know how to read, and must still come.
func TestServerStillPrintsItsOwnCrashReport(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(s *server.Server){
		"after a call":    func(s *server.Server) { s.Do(rawCallOf("key", "15 30 60 1")...) },
		"right away":      func(*server.Server) {},
		"after unloading": func(s *server.Server) { s.MustDo("MODULE", "UNLOAD", "throttle") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t)
			before(s)
			s.ExpectCrash()
			c := s.Raw()
			require.NoError(t, c.Send("DEBUG", "SEGFAULT"))
			require.NoError(t, c.Flush())
			state := s.AwaitEnd()
			assert.Equal(t, syscall.SIGSEGV, state.Sys().(syscall.WaitStatus).Signal())
			log := s.Log()
			for _, part := range []string{"crashed by signal: 11", "STACK TRACE", "INFO OUTPUT", "BUG REPORT END"} {
				assert.Contains(t, log, part)
			}
			assert.NotContains(t, log, "goroutine", "and nothing of Go's")
		})
	}
}

// Writing to a client that is gone raises SIGPIPE, which Go handles as well.
func TestClientsThatVanishInTheMiddleOfAReply(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for range 50 {
		c := s.Raw()
		for range 2000 {
			require.NoError(t, c.Send(rawCallOf("key", "15 30 60 1")...))
		}
		require.NoError(t, c.Flush())
		_, err := c.Receive() // the others are on their way
		require.NoError(t, err)
		require.NoError(t, c.Reset())
	}
	// Half a command, and gone.
	for range 50 {
		c := s.Raw()
		require.NoError(t, c.SendRaw([]byte("*5\r\n$11\r\nCL.THROTTLE\r\n$3\r\nke")))
		require.NoError(t, c.Flush())
		require.NoError(t, c.Reset())
	}
	require.Eventually(t, func() bool { return s.Info("clients")["connected_clients"] == "1" },
		20*time.Second, 10*time.Millisecond)
	a, err := answerIn(s.Do(rawCallOf("new", "15 30 60 1")...))
	require.NoError(t, err)
	assert.Equal(t, firstOf16, a)
}

// go-rm's dispatcher, which this module does not use, logs arguments as a format.
func TestFormatCharactersInArgumentsMeanNothing(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Config("loglevel debug"))
	c := s.Raw()
	for _, hazard := range []string{"%s%s%n", strings.Repeat("%s", 100), strings.Repeat("%%s", 100), strings.Repeat("%n", 100), "%1000000000d", "%*s%p"} {
		a, err := c.Do(rawCallOf(hazard, "15 30 60 1")...)
		require.NoError(t, err)
		assert.Equal(t, "*[0 16 15 -1 2]", a.String())
		for i := range 4 {
			call := []string{"CL.THROTTLE", hazard, "15", "30", "60", "1"}
			call[2+i] = hazard
			v, err := c.Do(call...)
			require.NoError(t, err)
			assert.True(t, v.IsError())
		}
		_, err = c.Do("CL.THROTTLE", hazard)
		require.NoError(t, err)
		_, err = c.Do("SET", "value", hazard)
		require.NoError(t, err)
		v, err := c.Do(rawCallOf("value", "15 30 60 1")...)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(v.Text, "WRONGTYPE"))
	}
}
