package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	dev "github.com/alicebob/miniredis/v2/server"
)

// databases is how many there are, as on a server without configuration.
const databases = 16

func itoa(n int) string { return strconv.Itoa(n) }

func auth(c *call) {
	if c.password == "" {
		c.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		return
	}
	if c.login(c.words[1:]) {
		c.peer.WriteOK()
	}
}

// login checks a password, or a user and a password.
func (c *call) login(words [][]byte) bool {
	user := "default"
	if len(words) == 2 {
		user = string(words[0])
	}
	if user != "default" || c.password != "" && string(words[len(words)-1]) != c.password {
		c.fail("WRONGPASS invalid username-password pair or user is disabled.")
		return false
	}
	c.client.authenticated = true
	return true
}

// HELLO [protocol [AUTH user password] [SETNAME name]]
func hello(c *call) {
	resp3, name := c.peer.Resp3, c.client.name
	rest := c.words[1:]
	if len(rest) > 0 {
		version := string(rest[0])
		if version != "2" && version != "3" {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		resp3, rest = version == "3", rest[1:]
	}
	for len(rest) > 0 {
		switch option := strings.ToUpper(string(rest[0])); {
		case option == "AUTH" && len(rest) >= 3:
			if !c.login(rest[1:3]) {
				return
			}
			rest = rest[3:]
		case option == "SETNAME" && len(rest) >= 2:
			name, rest = string(rest[1]), rest[2:]
		default:
			c.fail("ERR Syntax error in HELLO option '" + string(rest[0]) + "'")
			return
		}
	}
	if !c.client.authenticated {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.client.name = name
	c.speak(resp3)
	proto := 2
	if resp3 {
		proto = 3
	}
	c.write(pairs{"server", "throttle-dev", "version", redisVersion, "proto", proto, "id", int(c.client.id), "mode", "standalone", "role", "master", "modules", modules()})
}

// speak chooses the protocol. Messages to a subscriber may be written at the same time.
func (c *call) speak(resp3 bool) {
	c.peer.Block(func(*dev.Writer) { c.peer.Resp3 = resp3 })
}

func quit(c *call) {
	c.peer.WriteOK()
	c.client.leaves = true
}

func reset(c *call) {
	client := c.client
	client.transaction.end()
	c.aside(c.peer, "UNSUBSCRIBE")
	c.aside(c.peer, "PUNSUBSCRIBE")
	client.tracks = false
	client.name, client.authenticated = "", c.password == ""
	c.speak(false)
	c.choose(0)
	c.peer.WriteInline("RESET")
}

func selectDB(c *call) {
	db, ok := parseDB(c.words)
	if !ok {
		c.fail("ERR DB index is out of range")
		return
	}
	c.choose(db)
	c.peer.WriteOK()
}

func parseDB(words [][]byte) (db int, ok bool) {
	db, err := strconv.Atoi(string(words[len(words)-1]))
	return db, err == nil && len(words) == 2 && db >= 0 && db < databases
}

// choose tells miniredis, too, which database the client has chosen.
func (c *call) choose(db int) {
	c.client.db = db
	c.aside(c.peer, "SELECT", itoa(db))
}

// aside has miniredis run a command for a client that is not told the answer.
func (s *server) aside(peer *dev.Peer, words ...string) {
	shadow := dev.NewPeer(bufio.NewWriter(io.Discard))
	shadow.Ctx = peer.Ctx // where miniredis keeps what it knows of a client
	s.store.redis.Server().Dispatch(shadow, words)
	peer.Ctx = shadow.Ctx
}

// CLIENT ID | GETNAME | SETNAME name | SETINFO attribute value | INFO | LIST | UNBLOCK id [TIMEOUT|ERROR] | KILL ...
func clientCommand(c *call) {
	switch sub := c.word(1); {
	case sub == "ID" && len(c.words) == 2:
		c.peer.WriteInt(int(c.client.id))
	case sub == "GETNAME" && len(c.words) == 2:
		if c.client.name == "" {
			c.peer.WriteNull()
			return
		}
		c.peer.WriteBulk(c.client.name)
	case sub == "SETNAME" && len(c.words) == 3:
		c.client.name = string(c.words[2])
		c.peer.WriteOK()
	case sub == "SETINFO" && len(c.words) == 4:
		if c.word(2) == "LIB-NAME" {
			c.client.library = string(c.words[3])
		}
		c.peer.WriteOK()
	case (sub == "NO-EVICT" || sub == "NO-TOUCH") && len(c.words) == 3:
		c.peer.WriteOK()
	case sub == "TRACKING" && len(c.words) > 2:
		c.track()
	case sub == "CACHING" && len(c.words) == 3:
		c.peer.WriteOK()
	case sub == "INFO" && len(c.words) == 2:
		c.peer.WriteBulk(c.client.describe() + "\n")
	case sub == "LIST":
		var all strings.Builder
		for _, id := range slices.Sorted(maps.Keys(c.clients)) {
			all.WriteString(c.clients[id].describe() + "\n")
		}
		c.peer.WriteBulk(all.String())
	case sub == "UNBLOCK" && (len(c.words) == 3 || len(c.words) == 4):
		c.unblockClient()
	case sub == "KILL" && len(c.words) > 2:
		c.kill()
	default:
		c.fail("ERR throttle-dev knows CLIENT ID, GETNAME, SETNAME, SETINFO, NO-EVICT, NO-TOUCH, TRACKING, CACHING, INFO, LIST, UNBLOCK and KILL")
	}
}

func (c *call) unblockClient() {
	id, err := strconv.ParseInt(string(c.words[2]), 10, 64)
	how := c.word(3)
	switch {
	case err != nil:
		c.fail("ERR value is not an integer or out of range")
		return
	case how != "" && how != "TIMEOUT" && how != "ERROR":
		c.fail("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		return
	}
	other := c.clients[id]
	if other == nil || !other.waits() {
		c.peer.WriteInt(0)
		return
	}
	switch {
	case how == "ERROR":
		other.stopWaiting()
		other.answer(func(w *dev.Writer) { w.WriteError("UNBLOCKED client unblocked via CLIENT UNBLOCK") })
	case other.waiter != 0:
		r, _ := c.host.Unblock(c.now(), other.waiter)
		delete(c.waiting, other.waiter)
		other.answer(func(w *dev.Writer) { writeReply(w, r) })
	default:
		c.unblock(other)
		other.answer(func(w *dev.Writer) { w.WriteRaw(other.nothing) })
	}
	c.peer.WriteInt(1)
}

// CLIENT TRACKING ON|OFF [BCAST] [OPTIN] [OPTOUT] [NOLOOP]
//
// Whatever else it asks for, a client is told to forget all that it has cached whenever any key changes.
func (c *call) track() {
	switch on := c.word(2); {
	case on != "ON" && on != "OFF":
		c.fail("ERR syntax error")
		return
	case on == "ON" && !c.peer.Resp3:
		c.fail("ERR throttle-dev has CLIENT TRACKING for RESP3 only: say HELLO 3 before")
		return
	default:
		c.client.tracks = on == "ON"
	}
	c.peer.WriteOK()
}

// tellTrackers has the clients with CLIENT TRACKING forget what they have cached, if a key was changed since the last
// time.
func (s *server) tellTrackers() {
	if !s.store.changed {
		return
	}
	s.store.changed = false
	for _, c := range s.clients {
		if c.tracks {
			c.peer.WriteRaw(">2\r\n$10\r\ninvalidate\r\n_\r\n")
			c.peer.Flush()
		}
	}
}

// CLIENT KILL addr | ID id | ADDR addr | ...
func (c *call) kill() {
	filters := map[string]string{}
	if len(c.words) == 3 {
		filters["ADDR"] = string(c.words[2])
	} else if len(c.words)%2 == 1 {
		c.fail("ERR syntax error")
		return
	}
	for i := 2; len(c.words) > 3 && i < len(c.words); i += 2 {
		filters[c.word(i)] = string(c.words[i+1])
	}
	killed := 0
	for _, other := range c.clients {
		matches := other != c.client || filters["ID"] != "" || len(c.words) == 3
		for filter, value := range filters {
			switch filter {
			case "ID":
				matches = matches && fmt.Sprint(other.id) == value
			case "ADDR":
				matches = matches && other.conn.RemoteAddr().String() == value
			case "SKIPME":
				matches = matches && (other != c.client || strings.EqualFold(value, "no"))
			default:
				c.fail("ERR throttle-dev knows CLIENT KILL ID, ADDR and SKIPME")
				return
			}
		}
		if matches {
			killed++
			_ = other.conn.Close()
		}
	}
	if len(c.words) > 3 {
		c.peer.WriteInt(killed)
	} else if killed > 0 {
		c.peer.WriteOK()
	} else {
		c.fail("ERR No such client")
	}
}
