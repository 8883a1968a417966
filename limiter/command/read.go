package command

// What the words of a call ask for. Callers repeat their words, so most are remembered. The parser reads the others.

// read reads what follows the key of a call: limits into c.stack, the rest into r, which holds for this call. When ok is
// false the call has failed.
func (c *Call) read() (r *request, ok bool) {
	r = &c.request
	s := &c.cmd.syntax
	switch {
	case c.ArgCount > len(c.Args): // nothing that makes sense is so long
		c.Fail(s.tooMany())
		return r, false
	case len(s.kinds) > 0:
		past := c.Past.findRequest(c.Args[1:], c.cmd.index)
		if past == nil {
			return r, c.readAnew()
		}
		c.stack.Load(past.limits[:past.count])
		*r = past.request
	case s.isIDs(c.Args):
		*r = request{}
	default:
		past := c.findLease()
		if past == nil {
			return r, c.readAnew()
		}
		r = past
	}
	c.compact, c.each = r.compact, r.each
	return r, true
}

// readAnew is read of words that are not remembered. It remembers them.
func (c *Call) readAnew() (ok bool) {
	c.stack.Reset()
	p, r := &c.parser, &c.request
	p.begin(&c.cmd.syntax, r, c.Args, 1, &c.stack, nil)
	if err := p.parse(); err != nil {
		c.refuse(&p.err)
		return false
	}
	if m := c.Members; m != nil && (m.NamesAt != p.ids || m.SlotsAt != p.slots) {
		m.NamesAt, m.SlotsAt = p.ids, p.slots
		c.Reply = ReplyElsewhere
		return false
	}
	if len(c.cmd.syntax.kinds) > 0 {
		c.Past.noteRequest(c.Args[1:], c.cmd.index, r, &c.stack)
	} else {
		c.noteLease()
	}
	c.compact, c.each = r.compact, r.each
	return true
}

// isIDs reports whether the words behind the key are ID and right ids, and may be. The parser would find the same.
func (s *syntax) isIDs(args [][]byte) bool {
	if len(s.required) != 1 || s.required[0] != s.repeated || len(args) < 3 || !s.repeated.is(args[1]) {
		return false
	}
	for _, text := range args[2:] {
		if !isID(text) {
			return false
		}
	}
	return true
}

func (s *syntax) tooMany() string {
	if s.repeated != nil {
		return tooManyIDs
	}
	return tooManyWords
}
