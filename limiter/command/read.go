package command

import "redis-throttle/limiter/command/words"

// What the words of a call ask for. Callers repeat their words, so most are remembered. The parser reads the others.

// read reads what follows the key of a call: limits into c.stack, the rest into r, which holds for this call. When ok is
// false the call has failed.
func (c *Call) read() (r *words.Request, ok bool) {
	r = &c.request
	s := &c.cmd.syntax
	switch {
	case c.ArgCount > len(c.Args): // nothing that makes sense is so long
		c.Fail(c.cmd.tooMany())
		return r, false
	case s.HasLimits():
		past := c.Past.findRequest(c.Args[1:], c.cmd.index)
		if past == nil {
			return r, c.readAnew()
		}
		c.stack.Load(past.limits[:past.count])
		*r = past.request
	case s.IsIDs(c.Args):
		*r = words.Request{}
	default:
		past := c.findLease()
		if past == nil {
			return r, c.readAnew()
		}
		r = past
	}
	c.compact, c.each = r.Compact, r.Each
	return r, true
}

// readAnew is read of words that are not remembered. It remembers them.
func (c *Call) readAnew() (ok bool) {
	c.stack.Reset()
	p, r := &c.parser, &c.request
	if err := p.Parse(&c.cmd.syntax, r, c.Args, &c.stack); err != nil {
		c.refuse(err)
		return false
	}
	if m := c.Members; m != nil && (m.NamesAt != p.IDsAt() || m.SlotsAt != p.SlotsAt()) {
		m.NamesAt, m.SlotsAt = p.IDsAt(), p.SlotsAt()
		c.Reply = ReplyElsewhere
		return false
	}
	if c.cmd.syntax.HasLimits() {
		c.Past.noteRequest(c.Args[1:], c.cmd.index, r, &c.stack)
	} else {
		c.noteLease()
	}
	c.compact, c.each = r.Compact, r.Each
	return true
}

// What is wrong with a call that has more words than it is given views of.
const (
	tooManyWords = "ERR syntax error: too many arguments"
	tooManyIDs   = "ERR ID takes at most 94 ids at a time" // maxReleased
)

func (cmd *Command) tooMany() string {
	if cmd.MaxMembers == maxReleased {
		return tooManyIDs
	}
	return tooManyWords
}
