package lag

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnIdleProcessIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Begin()
		time.Sleep(10 * time.Second)
		assert.Zero(t, w.Late())
		assert.Zero(t, w.End())
		time.Sleep(time.Minute)
		assert.Zero(t, w.End(), "it has ended")
	})
}

// More goroutines compute than there are processors, so each waits for its turn most of the time.
func TestABusyProcessIsLate(t *testing.T) {
	var computing sync.WaitGroup
	defer computing.Wait()
	var over atomic.Bool
	defer over.Store(true)
	for range 50 * runtime.GOMAXPROCS(0) {
		computing.Go(func() {
			for !over.Load() {
			}
		})
	}
	for began := time.Now(); ; {
		asked, w := time.Now(), Begin()
		time.Sleep(200 * time.Millisecond)
		if w.End() > time.Since(asked)/4 {
			return
		}
		require.Less(t, time.Since(began), 10*time.Second, "it is never late")
	}
}
