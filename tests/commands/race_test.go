package commands_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// A burst of 20 on top of one unit an hour: whatever the order of arrival, 21 get in.
func TestRacingConnectionsAdmitExactlyTheBurst(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	const connections, callsEach = 100, 5
	var admitted, limited atomic.Int64
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range connections {
		c := s.Raw()
		wg.Go(func() {
			<-start
			for range callsEach {
				v, err := c.Do("CL.THROTTLE", "key", "20", "1", "1h")
				if !assert.NoError(t, err) {
					return
				}
				a, err := kit.AnswerIn(v)
				assert.NoError(t, err)
				if a.Limited == 0 {
					admitted.Add(1)
				} else {
					limited.Add(1)
				}
			}
		})
	}
	close(start)
	wg.Wait()
	assert.EqualValues(t, 21, admitted.Load())
	assert.EqualValues(t, connections*callsEach-21, limited.Load())
}
