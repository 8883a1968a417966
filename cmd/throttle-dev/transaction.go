package main

import (
	"bufio"
	"bytes"
	"strings"

	dev "github.com/alicebob/miniredis/v2/server"
)

// transaction is what MULTI and WATCH leave with a client. miniredis would run the commands of the module at once, so
// the server queues commands itself. miniredis only keeps the watched keys, for a client of its own.
type transaction struct {
	isOpen  bool
	isWrong bool // a command could not be queued
	queue   [][][]byte
	watcher *dev.Peer
	watched bytes.Buffer
}

func (t *transaction) end() { t.isOpen, t.isWrong, t.queue, t.watcher = false, false, nil, nil }

func (c *call) enqueue() {
	t := &c.client.transaction
	if problem := c.problem(); problem != "" {
		t.isWrong = true
		c.fail(problem)
		return
	}
	t.queue = append(t.queue, c.words)
	c.peer.WriteInline("QUEUED")
}

func multi(c *call) {
	if c.client.isOpen {
		c.fail("ERR MULTI calls can not be nested")
		return
	}
	c.client.isOpen = true
	c.peer.WriteOK()
}

func discard(c *call) {
	if !c.client.isOpen {
		c.fail("ERR DISCARD without MULTI")
		return
	}
	c.client.transaction.end()
	c.peer.WriteOK()
}

func exec(c *call) {
	t := &c.client.transaction
	switch {
	case !t.isOpen:
		c.fail("ERR EXEC without MULTI")
		return
	case t.isWrong:
		t.end()
		c.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	queue, changed := t.queue, t.wasChanged(c.server)
	t.end()
	if changed {
		writeNoArray(c.peer)
		return
	}
	c.peer.WriteLen(len(queue))
	for _, words := range queue {
		c.execute(&call{server: c.server, client: c.client, peer: c.peer, db: c.client.db, words: words})
	}
}

func watch(c *call) {
	t := &c.client.transaction
	if t.isOpen {
		c.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	if t.watcher == nil {
		t.watcher = dev.NewPeer(bufio.NewWriter(&t.watched))
	}
	c.refresh(c.now()) // a key that has expired already does not change any more
	redis := c.store.redis.Server()
	redis.Dispatch(t.watcher, []string{"SELECT", itoa(c.db)})
	redis.Dispatch(t.watcher, texts(c.words))
	c.peer.WriteOK()
}

func unwatch(c *call) {
	c.client.watcher = nil
	c.peer.WriteOK()
}

// wasChanged reports whether a watched key was changed: miniredis tells by a transaction of nothing.
func (t *transaction) wasChanged(s *server) bool {
	if t.watcher == nil {
		return false
	}
	s.refresh(s.now())
	redis := s.store.redis.Server()
	redis.Dispatch(t.watcher, []string{"MULTI"})
	redis.Dispatch(t.watcher, []string{"EXEC"})
	t.watcher.Flush()
	defer t.watched.Reset()
	return strings.HasSuffix(t.watched.String(), "*-1\r\n")
}

func writeNoArray(peer *dev.Peer) {
	if peer.Resp3 {
		peer.WriteRaw("_\r\n")
		return
	}
	peer.WriteRaw("*-1\r\n")
}
