package command

import (
	"redis-throttle/limiter/command/past"
	"redis-throttle/limiter/command/words"
)

// What the words of a call ask for. Callers repeat their words, so most are remembered. The parser reads the others.

// read reads what follows the key of a call: limits into c.stack, the rest into r, which holds for this call. When ok
// is false the call has failed.
func (c *Call) read() (r *words.Request, ok bool) {
	r = &c.request
	s := &c.cmd.syntax
	switch {
	case c.ArgCount > len(c.Args): // nothing that makes sense is so long
		c.Fail(c.cmd.tooMany())
		return r, false
	case s.HasLimits():
		return c.readLimits(c.Past.FindRequest(c.Args[1:], c.cmd.index))
	case s.IsIDs(c.Args):
		*r = words.Request{}
	default:
		earlier := c.Past.FindLease(c.Args, c.cmd.index, c.placeOfID())
		if earlier == nil {
			return r, c.readAnew()
		}
		r = earlier
	}
	c.compact, c.each = r.Compact, r.Each
	return r, true
}

// readLimits is read of a command that has limits. earlier is what its words were read as before, or nil.
func (c *Call) readLimits(earlier *past.Request) (r *words.Request, ok bool) {
	r = &c.request
	if earlier == nil {
		return r, c.readAnew()
	}
	c.stack.Load(earlier.Limits())
	*r = earlier.Read
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
	if m := c.First.Members; m != nil && (m.NamesAt != p.IDsAt() || m.SlotsAt != p.SlotsAt()) {
		m.NamesAt, m.SlotsAt = p.IDsAt(), p.SlotsAt()
		c.Reply = ReplyElsewhere
		return false
	}
	if c.cmd.syntax.HasLimits() {
		c.Past.NoteRequest(c.Args[1:], c.cmd.index, r, &c.stack)
	} else if at := c.placeOfID(); at.ID > 0 && c.request.GroupAt == 0 { // calls of many groups would push out all others
		c.Past.NoteLease(c.Args, c.cmd.index, at, &c.request)
	}
	c.compact, c.each = r.Compact, r.Each
	return true
}

// placeOfID is where the id stands that calls which are remembered may differ in, as far as Members says.
func (c *Call) placeOfID() (at past.Place) {
	if c.Past != nil && c.First.Members != nil && c.cmd.MaxMembers == 1 {
		at.ID, at.Slots = c.First.Members.NamesAt, c.First.Members.SlotsAt
	}
	return at
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
