package lag

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that nobody has asked for long is not silent. One that leaves calls without an answer is dead after a while,
// however busy the process is.
func TestAServerLivesWhileItAnswersWhoeverAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		busy := func() bool {
			began, w := time.Now(), s.Begin(time.Now())
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
		time.Sleep(2 * time.Nanosecond)
		s.Answer()
		assert.False(t, s.IsBusy(time.Now().Add(-1), 12*time.Millisecond, 100*time.Millisecond), "the process was not late enough")
	})
}

// Each is told how late the process was until its own end, and one that ends early takes nothing from the others.
func TestCallsThatBeginTogetherShareAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s, other Server
		w := s.Begin(time.Now())
		assert.NotSame(t, w, other.Begin(time.Now()), "of another server")
		time.Sleep(shared - 1)
		assert.Same(t, w, s.Begin(time.Now()))
		s.Answer()
		assert.Same(t, w, s.Begin(time.Now()), "an answer begins no other")
		time.Sleep(time.Nanosecond)
		late := s.Begin(time.Now())
		assert.NotSame(t, w, late)
		assert.Zero(t, w.End())
		time.Sleep(first)
		w.mu.Lock()
		w.late += time.Second
		w.mu.Unlock()
		assert.Equal(t, time.Second, w.Late(), "the others go on")
		assert.Equal(t, time.Second, w.End())
		w.mu.Lock()
		w.late += time.Second
		w.mu.Unlock()
		assert.Equal(t, 2*time.Second, w.End())
		assert.Equal(t, 2*time.Second, w.End(), "all have ended")
		assert.Zero(t, late.End())
		again := s.Begin(time.Now())
		assert.Zero(t, again.End())
		assert.NotSame(t, again, s.Begin(time.Now()), "it had ended")
		s.Answer()
	})
}

// What the process was late is not the silence of the server.
func TestTimeThatTheProcessWasLateIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		w := s.Begin(time.Now())
		w.End()
		time.Sleep(time.Millisecond)
		assert.False(t, s.IsBusy(time.Now(), 0, 1), "a call that ends as it begins")
		w.mu.Lock()
		w.late = time.Second
		w.mu.Unlock()
		time.Sleep(1998 * time.Millisecond)
		assert.True(t, s.IsBusy(time.Now(), time.Second, 2*time.Second))
		assert.True(t, s.IsBusy(time.Now(), 0, 1), "it ends with a connection that ended in a busy process")
		time.Sleep(time.Millisecond)
		assert.False(t, s.IsBusy(time.Now(), time.Second, 2*time.Second))
		s.Answer()
	})
}

// Calls wait together for a connection that is being opened. One that comes shortly before the time for that is over
// sees nothing of what made this process late.
func TestACallIsAsThoseThatItWasUnderWayWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		w := s.Begin(time.Now())
		defer w.End()
		time.Sleep(199 * time.Millisecond)
		w.mu.Lock()
		w.late = 105 * time.Millisecond
		w.mu.Unlock()
		last := time.Now()
		time.Sleep(11 * time.Millisecond)
		assert.True(t, s.IsBusy(last, 0, time.Since(last)), "the first one waits since 210 ms, and the process was late for half of them")
		time.Sleep(time.Millisecond)
		assert.False(t, s.IsBusy(last, 0, time.Since(last)), "the process was late for less than half")
		assert.True(t, s.IsBusy(last, 6*time.Millisecond, time.Since(last)), "it has seen by itself how late the process is")
		assert.True(t, s.IsBusy(last, 0, time.Since(last)), "it was under way with that one")
		time.Sleep(time.Millisecond)
		next := time.Now()
		time.Sleep(first)
		assert.False(t, s.IsBusy(next, 0, first), "it began when that one had ended")
		s.Answer()
		assert.True(t, s.IsBusy(last, 0, time.Since(last)), "also if others have had their replies")
		assert.False(t, s.IsBusy(next, 0, first))
	})
}

// A server that leaves calls without an answer is dead after a second that this process was not late, whatever other
// calls have met.
func TestADeadServerIsNotHiddenByWhatOtherCallsHaveMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Server
		w := s.Begin(time.Now())
		defer w.End()
		time.Sleep(900 * time.Millisecond)
		last := time.Now()
		time.Sleep(99 * time.Millisecond)
		assert.True(t, s.IsBusy(last, 50*time.Millisecond, 99*time.Millisecond))
		assert.True(t, s.IsBusy(last, 0, 99*time.Millisecond))
		time.Sleep(time.Millisecond)
		assert.False(t, s.IsBusy(last, 0, 100*time.Millisecond))
		w.mu.Lock()
		w.late = time.Second
		w.mu.Unlock()
		time.Sleep(999 * time.Millisecond)
		assert.True(t, s.IsBusy(last, 0, time.Since(last)))
		time.Sleep(time.Millisecond)
		assert.False(t, s.IsBusy(last, 0, time.Since(last)))
		s.Answer()
	})
}

// rueidis closes a connection whose PING had no answer in time, also where this process was too busy to read it. A call
// that comes at that moment is over as it begins.
func TestACallThatMeetsTheEndOfAConnectionTellsNothingOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Server{ClosesIdle: true}
		time.Sleep(time.Hour)
		began, own := time.Now(), s.Begin(time.Now())
		defer own.End()
		time.Sleep(first - 1)
		assert.True(t, s.IsBusy(began, 0, first-1), "nobody else waits for the server")
		var other Server
		assert.False(t, other.IsBusy(began, 0, first-1), "of a client that closes no connection by itself, it is a call that others have sent")
		time.Sleep(livesFor)
		assert.False(t, s.IsBusy(time.Now(), 0, 1), "another call has waited for a second")
		s.Answer()
		time.Sleep(livesFor - 1)
		another := s.Begin(time.Now())
		defer another.End()
		assert.True(t, s.IsBusy(time.Now(), 0, 1), "the server has answered within a second")
		s.blamed.Store(0)
		time.Sleep(time.Nanosecond)
		assert.False(t, s.IsBusy(time.Now(), 0, 1), "not any more, and another call waits")
		s.Answer()
	})
}

// A step of the wall clock makes no old answer a new one, and no new answer an old one.
func TestAStepOfTheClockMovesNoAnswer(t *testing.T) {
	stepped := func(at time.Time, s int64) time.Time { // the wall clock alone, as time.Now reads it after a step
		wall := (*uint64)(unsafe.Pointer(&at))
		require.NotZero(t, *wall>>63, "it has a monotonic reading")
		*wall += uint64(s) << 30
		return at
	}
	for _, s := range []int64{-3600, 3600} {
		var server Server
		before := stepped(time.Now(), s)
		time.Sleep(time.Millisecond)
		server.Answer()
		time.Sleep(time.Millisecond)
		assert.True(t, server.AnsweredSince(before), "a step of %d s", s)
		assert.False(t, server.AnsweredSince(stepped(time.Now(), s)), "a step of %d s", s)
	}
}
