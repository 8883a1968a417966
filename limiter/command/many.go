package command

import (
	"bytes"

	"redis-throttle/limiter/command/past"
	"redis-throttle/limiter/command/words"
	"redis-throttle/limiter/lease"
	"redis-throttle/limiter/stack"
)

// Calls with several keys: their words, and the room that they need.

const (
	badNumKeys  = "ERR numkeys must be an integer from 1 to 8"
	tooFewKeys  = "ERR numkeys is greater than the number of keys given"
	twoOfOneKey = "each key can be given once"
)

// Many is room for the limits of several keys.
type Many struct {
	stacks [MaxKeys]stack.Stack
	joint  stack.Joint
	joined [MaxKeys]int // the key of each stack of joint

	slots      [MaxKeys]words.SlotGroup
	slotGroups int // how many keys have SLOTS
	leases     [MaxKeys]lease.Leases
	taken      [MaxKeys]lease.Result // what becomes of a call as far as each group of SLOTS goes
}

// parseMany reads what follows the command's name: the limits of each key into c.Many, which are joined,
// and options. When ok is false the call has failed.
func (c *Call) parseMany() (r *words.Request, ok bool) {
	r = &c.request
	switch {
	case len(c.Keys) == 0:
		c.failNumKeys()
		return r, false
	case c.ArgCount > len(c.Args):
		c.Fail(tooManyWords)
		return r, false
	}
	if c.Many == nil {
		c.Many = new(Many)
	}
	m := c.Many
	args := c.Args[1+len(c.Keys):]
	if earlier := c.findGroups(args); earlier != nil && earlier.Serve(len(c.Keys)) {
		*r = earlier.Read
		for i := range c.Keys {
			limits, slots := earlier.Of(i)
			m.stacks[i].Load(limits)
			m.slots[i] = slots
		}
	} else if !c.parseGroups(r, args) {
		return r, false
	}
	m.join(len(c.Keys))
	c.compact, c.each = r.Compact, r.Each
	return r, c.checkKeys()
}

// join makes one row of the limits of the first keys keys.
func (m *Many) join(keys int) {
	m.joint.Reset()
	m.slotGroups = 0
	for i := range keys {
		if m.slots[i].Is {
			m.slotGroups++
			continue
		}
		m.joined[m.joint.Len()] = i
		m.joint.Join(&m.stacks[i])
	}
}

// parseGroups reads the words behind the keys.
func (c *Call) parseGroups(r *words.Request, args [][]byte) (ok bool) {
	m := c.Many
	keys := len(c.Keys)
	groups, err := c.parser.ParseGroups(&c.cmd.syntax, r, args, c.Args[1:1+keys], m.stacks[:keys], m.slots[:keys])
	if err != nil {
		c.refuse(err)
		return false
	}
	if !c.findID() {
		return false
	}
	c.noteGroups(args, r, groups)
	if groups == 1 {
		m.copyGroup(keys)
	}
	return true
}

// copyGroup gives the group of the first key to the others.
func (m *Many) copyGroup(keys int) {
	var room [stack.MaxLimits]stack.Limit
	limits := m.stacks[0].Limits(room[:0])
	for i := 1; i < keys; i++ {
		m.stacks[i].Load(limits)
		m.slots[i] = m.slots[0]
	}
}

// failNumKeys refuses a call that got no keys.
func (c *Call) failNumKeys() {
	if _, ok := words.ParseCount(c.Args[0], MaxKeys); !ok {
		c.Fail(badNumKeys)
		return
	}
	c.Fail(tooFewKeys)
}

// checkKeys refuses a call with the same key twice.
func (c *Call) checkKeys() (ok bool) {
	names := c.Args[1 : 1+len(c.Keys)]
	for i, name := range names {
		injectFault(name, c.Turn)
		for _, other := range names[:i] {
			if bytes.Equal(name, other) {
				c.refuse(c.parser.Near(name, twoOfOneKey))
				return false
			}
		}
	}
	return true
}

// withoutID marks words of which the id is left out, so that an id that is empty is not taken for it.
const withoutID = 1 << 15

// findGroups returns what the words behind the keys were read as in an earlier call, or nil. Ids differ from call to
// call, so what is remembered has none.
func (c *Call) findGroups(args [][]byte) *past.Groups {
	at := c.idIn(args)
	if at < 0 {
		return c.Past.FindGroups(args, c.cmd.index)
	}
	id := args[at]
	if !words.IsID(id) {
		return nil
	}
	args[at] = nil
	groups := c.Past.FindGroups(args, c.cmd.index|withoutID)
	args[at] = id
	return groups
}

// noteGroups remembers what the words behind the keys were read as: r, and the first groups of c.Many.
func (c *Call) noteGroups(args [][]byte, r *words.Request, groups int) {
	at, by := c.idIn(args), c.cmd.index
	var id []byte
	if at >= 0 {
		id, args[at] = args[at], nil
		by |= withoutID
	}
	c.Past.NoteGroups(args, by, r, c.Many.stacks[:groups], c.Many.slots[:groups])
	if at >= 0 {
		args[at] = id
	}
}

// idIn is the index of the id in the words behind the keys if it is where the leases were looked up, or -1.
func (c *Call) idIn(args [][]byte) int {
	if c.First.Members == nil {
		return -1
	}
	at := c.First.Members.NamesAt - 1 - len(c.Keys)
	if at < 1 || at >= len(args) || !words.SpellsID(args[at-1]) {
		return -1
	}
	return at
}

// findID checks that the leases of the ID that was just read were looked up. When ok is false, the bridge has to look
// them up.
func (c *Call) findID() (ok bool) {
	if c.parser.IDsAt() == 0 {
		return true
	}
	if c.First.Members == nil {
		c.Reply = ReplyElsewhere
		return false
	}
	at := 1 + len(c.Keys) + c.parser.IDsAt()
	ok = true
	for i := range c.Keys {
		k := &c.Keys[i]
		ok = ok && (k.Kind != SortedSet || k.Members.NamesAt == at)
		k.Members.NamesAt = at
	}
	if !ok {
		c.Reply = ReplyElsewhere
	}
	return ok
}
