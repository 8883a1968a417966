package lag

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A server that nobody has asked for long is not silent. One that leaves calls without an answer is dead after a while, however busy the
// process is.
func TestAServerLivesWhileItAnswersWhoeverAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		busy := func() bool {
			began, w := time.Now(), s.Begin()
			defer w.End()
			time.Sleep(100 * time.Millisecond)
			return s.IsBusy(began, 50*time.Millisecond, 100*time.Millisecond)
		}
		for range 2 {
			time.Sleep(time.Hour) // idle
			began := time.Now()
			for range 9 {
				assert.True(t, busy())
			}
			assert.False(t, busy(), "silent for a second")
			assert.False(t, s.AnsweredSince(began))
			s.Answer()
			assert.True(t, s.AnsweredSince(began))
			assert.True(t, busy())
			s.Answer()
		}
		assert.False(t, s.IsBusy(time.Now(), 49*time.Millisecond, 100*time.Millisecond), "the process was not late enough")
		assert.True(t, s.IsBusy(time.Now().Add(-1), 13*time.Millisecond, 100*time.Millisecond), "others have had their replies")
		assert.False(t, s.IsBusy(time.Now().Add(-1), 12*time.Millisecond, 100*time.Millisecond), "the process was not late enough")
	})
}

// What the process was late is not the silence of the server.
func TestTimeThatTheProcessWasLateIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		w := s.Begin()
		w.End()
		w.mu.Lock()
		w.late = time.Second
		w.mu.Unlock()
		time.Sleep(1999 * time.Millisecond)
		assert.False(t, s.IsBusy(time.Now(), 0, 1), "a call that ends as it begins")
		assert.True(t, s.IsBusy(time.Now(), time.Second, 2*time.Second))
		assert.True(t, s.IsBusy(time.Now(), 0, 1), "it ends with a connection that ended in a busy process")
		time.Sleep(time.Millisecond)
		assert.False(t, s.IsBusy(time.Now(), time.Second, 2*time.Second))
		s.Answer()
	})
}
