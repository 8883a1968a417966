package ratelimit_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/commands"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/server"
)

// The sessions of all languages by the function library of another version, whose path THROTTLE_OTHER_LIBRARY is.
// scripts/test-upgrade copies this file into the older version's tests, too, and runs it there with this version's
// library.
func TestSessionsByALibraryOfAnotherVersion(t *testing.T) {
	t.Parallel()
	path := os.Getenv("THROTTLE_OTHER_LIBRARY")
	if path == "" {
		t.Skip("THROTTLE_OTHER_LIBRARY names no function library of another version")
	}
	library, err := os.ReadFile(path)
	require.NoError(t, err)
	server.NeedsServer(t, "functions")
	for _, session := range readTable(t).Sessions {
		t.Run(session.Name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.WithoutModule())
			s.MustDo("FUNCTION", "LOAD", string(library))
			limiter := ratelimit.New(commands.On(s.Client(), commands.Options{Poll: 10 * time.Millisecond}), ratelimit.Options{})
			for number, step := range session.Steps {
				delete(step.Result, "wait_ms") // the time it took
				result := calls.Ask(t, limiter, step.Call.call(t))
				requireFields(t, step.Result, fieldsOf(result), fmt.Sprintf("step %d", number+1))
			}
		})
	}
}
