package linearizability

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"redis-throttle/tests/clock"
)

// history is all operations and when they began and ended.
type history struct {
	begun    time.Time
	beginsNs int64 // what the servers' clock says at the beginning
	// ahead is by how much the clock of each node is ahead then; the first is of no node.
	ahead []int64
	// takeovers are those in whose course a former master may have answered, one of each object at most.
	takeovers []takeover
	// silences are when nodes were out of reach, or gone for good.
	silences []silence
	// following are the times in which nodes were replicas that had been masters before.
	following []silence

	mutex      sync.Mutex
	operations []porcupine.Operation
	unknown    int
}

func (h *history) now() int64 { return int64(time.Since(h.begun)) }

func (h *history) size() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return len(h.operations)
}

// note adds an operation that began at an instant and has ended now.
func (h *history) note(client int, o operation, began int64, out *outcome) {
	h.noteUntil(client, o, began, h.now(), out)
}

// silence is a time in which a node decides no call that is sent to it in this time: it is stopped, or cannot be
// reached. If the node has died, or has learnt of its successor, the time has no end; a call that was sent before has
// happened by its beginning, or never will.
type silence struct {
	node     int
	from, to int64
}

// silent notes a silence.
func (h *history) silent(node int, from, to int64) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.silences = append(h.silences, silence{node, from, to})
}

// follows notes that a node may be a replica from now on, and leads that it is no longer one. Replicas answer looks, by
// what they have of their master.
func (h *history) follows(node int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.following = append(h.following, silence{node, h.now(), never})
}

func (h *history) leads(node int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := range h.following {
		if f := &h.following[i]; f.node == node && f.to == never {
			f.to = h.now()
		}
	}
}

// ofReplica says whether it may have been a replica that answered a look.
func (h *history) ofReplica(op porcupine.Operation) bool {
	c, ok := op.Input.(*call)
	return ok && c.looks() && slices.ContainsFunc(h.following, func(f silence) bool {
		return f.node == op.Output.(*outcome).node && f.from < op.Return && op.Call < f.to
	})
}

// narrowed is an operation with what is known of its instant.
func (h *history) narrowed(op porcupine.Operation) porcupine.Operation {
	for _, s := range h.silences {
		if node := op.Output.(*outcome).node; node != s.node {
			continue
		}
		switch {
		case s.to == never && op.Call < s.from:
			op.Return = min(op.Return, s.from)
		case op.Call >= s.from && op.Call < s.to && s.to < op.Return:
			op.Call = s.to
		}
	}
	return op
}

// never is the end of an operation that may happen at any time to come.
const never = math.MaxInt64

func (h *history) noteUntil(client int, o operation, began, ended int64, out *outcome) {
	if c, ok := o.(*call); ok && c.wait != nil {
		c.wait.took(ended - began)
		left := *out
		left.reply = withoutWait(out.reply)
		h.noteUntil(client, c.wait.leaves, began, ended, &left)
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if out.unknown {
		h.unknown++
	}
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: o, Call: began, Output: out, Return: ended})
}

const longestStep = 20 * time.Millisecond

// ticking moves a clock along with the time that goes by, in steps that nobody who asks it can tell
// beforehand, until it is stopped. Servers need that: cluster nodes and timers go by it.
//
// While no call ends, as on a busy machine, it moves only every longestStep: the checker tries each pending call before
// and after each move.
type ticking struct {
	clock   *clock.Clock
	begun   time.Time
	beginNs int64

	mutex   sync.Mutex
	nowNs   int64
	history *history // that moves are noted in, if there is one
	noted   int      // operations in it after the last move

	stop, stopped chan struct{}
}

func tick(c *clock.Clock, beginNs int64, steps func() time.Duration) *ticking {
	t := &ticking{clock: c, begun: time.Now(), beginNs: beginNs, nowNs: beginNs, stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(t.stopped)
		for {
			select {
			case <-t.stop:
				return
			case <-time.After(steps()):
				t.move()
			}
		}
	}()
	return t
}

func (t *ticking) end() {
	close(t.stop)
	<-t.stopped
}

func (t *ticking) move() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	nowNs := t.beginNs + int64(time.Since(t.begun))
	nowNs -= nowNs % 1000 // the finest that a server tells a command
	noneEnded := t.history != nil && t.history.size() == t.noted
	if nowNs <= t.nowNs || noneEnded && nowNs-t.nowNs < int64(longestStep) {
		return
	}
	t.nowNs = nowNs
	if t.history == nil {
		t.clock.Set(nowNs)
		return
	}
	began := t.history.now()
	t.clock.Set(nowNs)
	t.history.note(0, &clockMove{nowNs}, began, &outcome{})
	t.noted = t.history.size()
}

// record begins a history.
func (t *ticking) record() *history {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.history = &history{begun: time.Now(), beginsNs: t.nowNs}
	return t.history
}

// rest ends a history: later moves are in none.
func (t *ticking) rest() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.history = nil
}
