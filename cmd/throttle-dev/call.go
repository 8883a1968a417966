package main

import (
	"fmt"
	"strings"
	"time"

	dev "github.com/alicebob/miniredis/v2/server"

	"redis-throttle/limiter/command"
	"redis-throttle/limiter/embedded"
)

// call is one command that is run: as a client sent it, or as a transaction or a script of the client's makes it.
type call struct {
	*server
	client  *client
	peer    *dev.Peer // what the reply is written to
	db      int
	words   [][]byte
	mayWait bool
}

// handler is a command of the server's own.
type handler struct {
	run func(*call)
	// least and most are how many words there may be, the name included; most is 0 for any number.
	least, most int
	noScript    bool // not from a script
	noQueue     bool // done at once in a transaction
	noPassword  bool // also before AUTH
}

var handlers map[string]handler

func init() {
	handlers = map[string]handler{
		"AUTH":           {run: auth, least: 2, most: 3, noScript: true, noPassword: true},
		"HELLO":          {run: hello, least: 1, noScript: true, noPassword: true},
		"QUIT":           {run: quit, least: 1, noScript: true, noQueue: true, noPassword: true},
		"RESET":          {run: reset, least: 1, most: 1, noScript: true, noQueue: true, noPassword: true},
		"SELECT":         {run: selectDB, least: 2, most: 2, noScript: true},
		"CLIENT":         {run: clientCommand, least: 2, noScript: true},
		"MULTI":          {run: multi, least: 1, most: 1, noScript: true, noQueue: true},
		"EXEC":           {run: exec, least: 1, most: 1, noScript: true, noQueue: true},
		"DISCARD":        {run: discard, least: 1, most: 1, noScript: true, noQueue: true},
		"WATCH":          {run: watch, least: 2, noScript: true, noQueue: true},
		"UNWATCH":        {run: unwatch, least: 1, most: 1, noScript: true},
		"EVAL":           {run: eval, least: 3, noScript: true},
		"EVAL_RO":        {run: eval, least: 3, noScript: true},
		"EVALSHA":        {run: eval, least: 3, noScript: true},
		"EVALSHA_RO":     {run: eval, least: 3, noScript: true},
		"COMMAND":        {run: commandCommand, least: 1},
		"INFO":           {run: info, least: 1},
		"CONFIG":         {run: config, least: 2, noScript: true},
		"MODULE":         {run: moduleCommand, least: 2, noScript: true},
		"ROLE":           {run: role, least: 1, most: 1, noScript: true},
		"TIME":           {run: timeCommand, least: 1, most: 1},
		"TTL":            {run: ttl, least: 2, most: 2},
		"PTTL":           {run: ttl, least: 2, most: 2},
		"EXPIRETIME":     {run: ttl, least: 2, most: 2},
		"PEXPIRETIME":    {run: ttl, least: 2, most: 2},
		"DEBUG":          {run: debug, least: 2, noScript: true},
		"SHUTDOWN":       {run: shutdown, least: 1, noScript: true},
		"CL.DEV.TIME":    {run: devTime, least: 1, most: 4, noScript: true},
		"CL.DEV.ADVANCE": {run: devAdvance, least: 2, most: 2, noScript: true},
	}
}

func (c *call) name() string { return strings.ToUpper(string(c.words[0])) }

// word is word i in capitals, empty if there is none.
func (c *call) word(i int) string {
	if i >= len(c.words) {
		return ""
	}
	return strings.ToUpper(string(c.words[i]))
}

func (c *call) fail(text string) { c.peer.WriteError(text) }

func (c *call) wrongArity() {
	c.fail("ERR wrong number of arguments for '" + strings.ToLower(string(c.words[0])) + "' command")
}

// execute runs a command that a client sent, or puts it into the client's transaction.
func (s *server) execute(c *call) {
	name := c.name()
	h, own := handlers[name]
	switch {
	case !own && !s.knows(name) && !c.client.isOpen:
		c.fail(c.unknown())
	case !c.client.authenticated && !h.noPassword:
		if name == "EXEC" {
			c.fail("EXECABORT Transaction discarded because of: NOAUTH Authentication required.")
			return
		}
		c.fail("NOAUTH Authentication required.")
	case c.client.isOpen && !h.noQueue:
		c.enqueue()
	default:
		c.client.command = name
		if own {
			h.do(c)
		} else {
			s.dispatch(c)
		}
	}
}

// knows reports whether there is a command of this name that the server does not handle itself, or a reason for which
// there is not.
func (s *server) knows(name string) bool {
	_, isRefused := refused[name]
	return isRefused || s.host.Named([]byte(name)) != nil || s.store.redis.Server().IsRegisteredCommand(name)
}

// unknown is the error about a command that there is not.
func (c *call) unknown() string {
	const most = 128
	var args strings.Builder
	for _, word := range c.words[1:] {
		if args.Len() >= most {
			break
		}
		fmt.Fprintf(&args, "'%s' ", word[:min(len(word), most-args.Len())])
	}
	return fmt.Sprintf("ERR unknown command '%s', with args beginning with: %s", c.words[0][:min(len(c.words[0]), most)], args.String())
}

func (h handler) do(c *call) {
	if len(c.words) < h.least || h.most > 0 && len(c.words) > h.most {
		c.wrongArity()
		return
	}
	defer c.count(c.name(), time.Now())
	h.run(c)
}

// dispatch runs a command that is not of the server's own: one of the module, or one of miniredis.
func (s *server) dispatch(c *call) {
	name, began := c.name(), time.Now()
	if cmd := s.host.Named(c.words[0]); cmd != nil {
		c.throttle(cmd)
	} else if reason, ok := refused[name]; ok {
		c.fail("ERR " + reason)
		return
	} else if at, ok := blocking[name]; ok {
		c.block(at)
	} else {
		s.foreign(c.peer, c.words)
		if !s.store.redis.Server().IsRegisteredCommand(name) {
			return
		}
	}
	s.count(name, began)
}

// throttle runs a command of the module.
func (c *call) throttle(cmd *command.Command) {
	r := c.host.Do(embedded.Call{NowNs: c.now(), DB: c.db, MayBlock: c.mayWait, Words: c.words})
	if r.Waiter != 0 {
		c.waiting[r.Waiter], c.client.waiter = c.client, r.Waiter
		return
	}
	c.peer.Block(func(w *dev.Writer) { writeReply(w, r) })
}

// problem is what is wrong with a command before it is run, as far as that shows; empty for nothing.
func (c *call) problem() string {
	name := c.name()
	arity := fmt.Sprintf("ERR wrong number of arguments for '%s' command", strings.ToLower(name))
	if cmd := c.host.Named(c.words[0]); cmd != nil {
		if n := cmd.Arity(); n >= 0 && len(c.words) != n || len(c.words) < -n {
			return arity
		}
		return ""
	}
	if h, ok := handlers[name]; ok {
		if len(c.words) < h.least || h.most > 0 && len(c.words) > h.most {
			return arity
		}
		return ""
	}
	if reason, ok := refused[name]; ok {
		return "ERR " + reason
	}
	if !c.knows(name) {
		return c.unknown()
	}
	c.ask("MULTI")
	defer c.server.ask(false, "DISCARD")
	reply := c.server.ask(false, texts(c.words)...)
	if strings.HasPrefix(reply, "-") {
		return strings.TrimSpace(reply[1:])
	}
	return ""
}
