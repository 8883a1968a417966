package command

import (
	"bytes"

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

	slots      [MaxKeys]slotGroup
	slotGroups int // how many keys have SLOTS
	leases     [MaxKeys]lease.Leases
	taken      [MaxKeys]lease.Result // what becomes of a call as far as each group of SLOTS goes
}

// parseMany reads what follows the command's name: the limits of each key into c.Many, which are joined,
// and options. When ok is false the call has failed.
func (c *Call) parseMany() (r *request, ok bool) {
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
	words := c.Args[1+len(c.Keys):]
	if past := c.findGroups(words); past != nil && (past.count == 1 || past.count == len(c.Keys)) {
		*r = past.request
		for i := range c.Keys {
			limits, slots := past.group(i)
			m.stacks[i].Load(limits)
			m.slots[i] = slots
		}
	} else if !c.parseGroups(r, words) {
		return r, false
	}
	m.join(len(c.Keys))
	c.compact, c.each = r.compact, r.each
	return r, c.checkKeys()
}

// join makes one row of the limits of the first keys keys.
func (m *Many) join(keys int) {
	m.joint.Reset()
	m.slotGroups = 0
	for i := range keys {
		if m.slots[i].is {
			m.slotGroups++
			continue
		}
		m.joined[m.joint.Len()] = i
		m.joint.Join(&m.stacks[i])
	}
}

// parseGroups reads the words behind the keys.
func (c *Call) parseGroups(r *request, args [][]byte) (ok bool) {
	m := c.Many
	m.stacks[0].Reset()
	m.slots[0] = slotGroup{}
	p := &c.parser
	p.begin(&c.cmd.syntax, r, args, 0, &m.stacks[0], m.stacks[:len(c.Keys)])
	p.keys, p.slotsOf = c.Args[1:1+len(c.Keys)], m.slots[:]
	if err := p.parse(); err != nil {
		c.refuse(&p.err)
		return false
	}
	groups := p.group + 1
	if groups > 1 && groups < len(c.Keys) {
		c.refuse(p.nearName(next, oneGroupOrAll))
		return false
	}
	if !c.findID() {
		return false
	}
	c.noteGroups(args, r, groups)
	if groups == 1 {
		m.copyGroup(len(c.Keys))
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
	if _, ok := ParseCount(c.Args[0], MaxKeys); !ok {
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
				c.refuse(c.parser.near(name, twoOfOneKey))
				return false
			}
		}
	}
	return true
}

var idWord = named(vocabulary, "ID")[0]

// withoutID marks words of which the id is left out, so that an id that is empty is not taken for it.
const withoutID = 1 << 15

// findGroups returns what the words behind the keys were read as in an earlier call, or nil. Ids differ from call to call, so what is
// remembered has none.
func (c *Call) findGroups(words [][]byte) *pastGroups {
	at := c.idIn(words)
	if at < 0 {
		return c.Past.findGroups(words, c.cmd.index)
	}
	id := words[at]
	if len(id) == 0 || len(id) > maxIDLen {
		return nil
	}
	words[at] = nil
	past := c.Past.findGroups(words, c.cmd.index|withoutID)
	words[at] = id
	return past
}

// noteGroups remembers what the words behind the keys were read as: r, and the first groups of c.Many.
func (c *Call) noteGroups(words [][]byte, r *request, groups int) {
	at, by := c.idIn(words), c.cmd.index
	var id []byte
	if at >= 0 {
		id, words[at] = words[at], nil
		by |= withoutID
	}
	c.Past.noteGroups(words, by, r, c.Many.stacks[:groups], c.Many.slots[:groups])
	if at >= 0 {
		words[at] = id
	}
}

// idIn is the index of the id in the words behind the keys if it is where the leases were looked up, or -1.
func (c *Call) idIn(words [][]byte) int {
	if c.Members == nil {
		return -1
	}
	at := c.Members.NamesAt - 1 - len(c.Keys)
	if at < 1 || at >= len(words) || !idWord.is(words[at-1]) {
		return -1
	}
	return at
}

// findID checks that the leases of the ID that was just read were looked up. When ok is false, the bridge has to look them up.
func (c *Call) findID() (ok bool) {
	if c.parser.ids == 0 {
		return true
	}
	if c.Members == nil {
		c.Reply = ReplyElsewhere
		return false
	}
	at := 1 + len(c.Keys) + c.parser.ids
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
