// Package lag measures how late this process is: how long goroutines that could run wait for a processor. A reply that
// came in time may be read late then, so what looks like an outage of the server is this process's own overload.
package lag

import (
	"runtime"
	"sync"
	"time"
)

const (
	// first is when a Watch looks first. Calls that take less cost one timer that never fires.
	first = 5 * time.Millisecond
	// last is how long it waits between two looks at most.
	last = 160 * time.Millisecond
	// shared is how long others that call the same server measure by a Watch. A timer for each was a fiftieth of the
	// CPU of a busy gateway.
	shared = time.Millisecond
)

// Watch measures from its Begin to its End. It is safe for concurrent use.
type Watch struct {
	began  time.Time
	server *Server // nil if it measures for no server

	mu    sync.Mutex
	calls int // that measure by it, and have not ended
	timer *time.Timer
	step  time.Duration
	due   time.Time
	late  time.Duration
	ended bool
	final time.Duration // how late the process was at the end
}

// Begin begins to measure.
func Begin() *Watch { return begin(time.Now()) }

func begin(now time.Time) *Watch {
	w := &Watch{began: now, calls: 1, step: first, due: now.Add(first)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(first, w.look)
	return w
}

// joins has another call that begins now measure by the watch, if it began so shortly before that it has measured
// nothing yet.
func (w *Watch) joins(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || now.Sub(w.began) >= shared {
		return false
	}
	w.calls++
	return true
}

// look measures how late it is itself. A goroutine whose timer fires runs before others, so it stands in line once
// more.
func (w *Watch) look() {
	runtime.Gosched()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended && !w.goesOn() {
		return
	}
	now := time.Now()
	w.late += now.Sub(w.due)
	w.step = min(2*w.step, last)
	w.due = now.Add(w.step)
	w.timer.Reset(w.step)
}

// goesOn says whether the watch measures for how long a server is silent, also after its end.
func (w *Watch) goesOn() bool { return w.server != nil && w.server.silence.Load() == w }

// soFar is how late the process has been, up to now.
func (w *Watch) soFar() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late + max(0, time.Since(w.due))
}

// Late is how late the process has been since Begin, until End. It is 0 for a nil Watch.
func (w *Watch) Late() time.Duration {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return w.final
	}
	return w.late + max(0, time.Since(w.due))
}

// End ends the measurement of a call, and returns how late the process has been. It is 0 for a nil Watch.
func (w *Watch) End() time.Duration { return w.EndAt(time.Now()) }

// EndAt is End at the time that it is.
func (w *Watch) EndAt(now time.Time) time.Duration {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return w.final
	}
	late := w.late + max(0, now.Sub(w.due))
	if w.calls--; w.calls == 0 {
		w.ended, w.final = true, late
		if !w.goesOn() {
			w.timer.Stop()
		}
	}
	return late
}
