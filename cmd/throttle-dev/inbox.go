package main

import "sync"

const (
	// readAhead is how many commands are read before the first of them is run.
	readAhead = 1024
	// mostAhead is how many bytes are read ahead. A client that sends more while it waits is disconnected, as Redis
	// does it.
	mostAhead = 1 << 30
)

// inbox has the commands of a client that were read and not run yet. While the client waits it takes more of them,
// because only reading tells whether the client is still there.
type inbox struct {
	mu       sync.Mutex
	changed  *sync.Cond
	commands []request
	bytes    int
	waits    bool // the client does
	idle     bool // all commands were run
	ended    bool // nothing more comes, or nobody takes it
}

// request is a command, or what was wrong with the bytes in its place: the connection is closed then, once all before
// were run.
type request struct {
	words [][]byte
	wrong error
}

func newInbox() *inbox {
	b := &inbox{}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// put adds a command once there is room for it. It returns false if the connection is to be closed.
func (b *inbox) put(r request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.isFull(r.words) && !b.waits && !b.ended {
		b.changed.Wait()
	}
	if b.ended || b.waits && b.bytes+weight(r.words) > mostAhead {
		return false
	}
	b.bytes += weight(r.words)
	b.commands = append(b.commands, r)
	b.idle = false
	b.changed.Broadcast()
	return true
}

func (b *inbox) isFull(words [][]byte) bool {
	return len(b.commands) >= readAhead || len(b.commands) > 0 && b.bytes+weight(words) > mostAhead
}

// pop returns the next command, once it is there. more says that another one is, and ok is false if there is none and
// none comes.
func (b *inbox) pop() (r request, more, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.commands) == 0 && !b.ended {
		b.idle = true
		b.changed.Broadcast()
		b.changed.Wait()
	}
	if len(b.commands) == 0 {
		return request{}, false, false
	}
	r = b.commands[0]
	b.commands[0] = request{}
	b.commands = b.commands[1:]
	b.bytes -= weight(r.words)
	b.changed.Broadcast()
	return r, len(b.commands) > 0, true
}

// awaitIdle waits until all commands were run.
func (b *inbox) awaitIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.idle && !b.ended {
		b.changed.Wait()
	}
}

// wait says whether the client waits.
func (b *inbox) wait(waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = waits
	b.changed.Broadcast()
}

func (b *inbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.changed.Broadcast()
}

// weight is about how many bytes a command takes.
func weight(words [][]byte) int {
	bytes := 24 * (1 + len(words))
	for _, word := range words {
		bytes += len(word)
	}
	return bytes
}
