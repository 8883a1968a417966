package main

import (
	dev "github.com/alicebob/miniredis/v2/server"
)

// script is one that runs now.
type script struct {
	client *client
	db     int
}

func eval(c *call) {
	c.inside = &script{c.client, c.db}
	defer func() { c.inside = nil }()
	c.foreign(c.peer, c.words)
}

// fromScript is called before each command that miniredis runs. It runs those that a script calls and that are not
// miniredis's, and returns whether it did.
func (s *server) fromScript(peer *dev.Peer, name string, args ...string) (done bool) {
	if s.inside == nil || peer == s.inside.client.peer || peer == s.scratch {
		return false
	}
	words := [][]byte{[]byte(name)}
	for _, arg := range args {
		words = append(words, []byte(arg))
	}
	c := &call{server: s, client: s.inside.client, peer: peer, db: s.inside.db, words: words}
	h, own := handlers[name]
	_, waits := blocking[name]
	_, isRefused := refused[name]
	switch {
	case name == "SELECT":
		if db, ok := parseDB(c.words); ok {
			s.inside.db = db
		}
		return false
	case own && h.noScript:
		c.fail("ERR This Redis command is not allowed from script")
		return true
	case waits:
		c.fail("ERR throttle-dev cannot run " + name + " in a script")
		return true
	case !own && !isRefused && s.host.Named(words[0]) == nil:
		all := append([]string{name}, args...)
		ok := boundExpiry(all, s.now())
		copy(args, all[1:])
		if !ok {
			c.fail(tooFar)
		}
		return !ok
	}
	// A script holds miniredis's lock, which its keys need. Nobody else uses it meanwhile: the server runs one command
	// at a time.
	s.store.redis.Unlock()
	defer s.store.redis.Lock()
	if own {
		h.do(c)
	} else {
		s.dispatch(c)
	}
	return true
}
