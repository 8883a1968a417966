package durability

import (
	"sync"
	"sync/atomic"
	"testing"

	"redis-throttle/tests/resp"
	"redis-throttle/tests/server"
)

// killUnder kills a server when its callers were answered so many times, or are all gone because they have failed the test.
func killUnder(t *testing.T, s *server.Server, callers int, enough int64, call func(c *resp.Conn, caller int, answered func())) {
	t.Helper()
	var answers atomic.Int64
	reached := make(chan struct{})
	stop := sync.OnceFunc(func() { close(reached) })
	var running sync.WaitGroup
	for caller := range callers {
		c := s.Raw()
		running.Go(func() {
			call(c, caller, func() {
				if answers.Add(1) == enough {
					stop()
				}
			})
		})
	}
	go func() { running.Wait(); stop() }()
	<-reached
	s.Kill()
	running.Wait()
}
