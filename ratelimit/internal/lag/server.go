package lag

import (
	"sync/atomic"
	"time"
)

// Server is what a busy process knows of a server: since when calls have had no answer. The zero Server has been asked
// nothing.
type Server struct {
	// ClosesIdle is set of a client that asks for signs of life, and closes a connection on which none came in time. A
	// call may meet that end.
	ClosesIdle bool

	newest   atomic.Pointer[Watch] // of the calls that began last
	silence  atomic.Pointer[Watch] // of the first call that was sent since the last answer; nil if there is none
	answered atomic.Int64          // when the last answer came, by Ns
	blamed   atomic.Int64          // when this process was last to blame for a call, by Ns
}

// epoch is so long ago that an instant that was never noted, 0, is long ago at the start of a process, too.
var epoch = time.Now().Add(-100 * 365 * 24 * time.Hour)

// Ns returns an instant as a number, for an atomic. It is that of the monotonic clock: a step of the wall clock moves
// nothing.
func Ns(at time.Time) int64 { return int64(at.Sub(epoch)) }

// livesFor is how long a server that does not answer is taken for one that lives. Time that this process was late does
// not count.
const livesFor = time.Second

// Begin begins to measure for a call that is about to be sent, at the instant now. Those that begin within
// a millisecond share a Watch. Each has to end it.
func (s *Server) Begin(now time.Time) *Watch {
	w := s.newest.Load()
	if w == nil || !w.joins(now) {
		w = begin(now)
		w.server = s
		s.newest.Store(w)
	}
	if s.silence.Load() != nil {
		return w
	}
	s.silence.CompareAndSwap(nil, w)
	return w
}

// Answer notes an answer of the server, whatever it says.
func (s *Server) Answer() {
	s.answered.Store(Ns(time.Now()))
	if s.silence.Load() == nil {
		return
	}
	if w := s.silence.Swap(nil); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ended {
			w.timer.Stop()
		}
	}
}

// IsBusy says whether this process is to blame for a call that began then, took so long and whose time was over. The
// server has been answering, and the process was late for half of the time at least; or for an eighth, if the server
// has answered another call meanwhile.
//
// Calls share what they wait for, such as a connection that is being opened, and one that comes late sees only its end.
// So a call is also as those were that were under way with it: one for which this process was to blame, or the first
// that has had no answer yet. A call whose time is over as it begins meets the end of a connection, and is as those
// were that the connection carried.
func (s *Server) IsBusy(began time.Time, late, took time.Duration) bool {
	now := time.Now()
	blamed := s.blamed.Load()
	if took < first && Ns(now)-blamed < int64(livesFor) {
		return true
	}
	if s.wasBusy(began, late, took) || (s.ClosesIdle && took < first && s.toldNothing(began, now)) {
		s.blamed.Store(Ns(now))
		return true
	}
	unanswered, silent, lateFor := s.silent()
	if s.AnsweredSince(began) || !unanswered {
		return blamed > Ns(began)
	}
	return silent-lateFor < livesFor && (blamed > Ns(began) || 2*lateFor >= silent)
}

// toldNothing says whether a call that began then, and ended at once, tells nothing of the server: it has answered
// within a second, or no call waited for it before.
func (s *Server) toldNothing(began, now time.Time) bool {
	w := s.silence.Load()
	return Ns(now)-s.answered.Load() < int64(livesFor) || (w != nil && !w.began.Before(began))
}

// wasBusy goes by what a call itself has seen.
func (s *Server) wasBusy(began time.Time, late, took time.Duration) bool {
	if s.AnsweredSince(began) {
		return 8*late >= took
	}
	unanswered, silent, lateFor := s.silent()
	return 2*late >= took && (!unanswered || silent-lateFor < livesFor)
}

// silent says whether calls have had no answer, for how long, and how late this process was meanwhile.
func (s *Server) silent() (unanswered bool, silent, late time.Duration) {
	w := s.silence.Load()
	if w == nil {
		return false, 0, 0
	}
	return true, time.Since(w.began), w.soFar()
}

// AnsweredSince says whether another call has been answered since then.
func (s *Server) AnsweredSince(began time.Time) bool { return s.answered.Load() > Ns(began) }
