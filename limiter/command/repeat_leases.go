package command

import "redis-throttle/limiter/command/words"

// Most calls about leases differ in the id alone. So their other words are remembered.

// maxPastLeases is how many calls about leases are remembered.
const maxPastLeases = 8

type pastLeases struct {
	calls  [maxPastLeases]pastLease
	oldest uint8
}

// pastLease is a call about leases that is remembered.
type pastLease struct {
	by        uint16 // Command.index
	id, slots int    // where they stand in Args
	words     pastWords
	request   words.Request
}

// findLease returns what the call's words were read as, or nil. It holds until the next note. The id is looked for where Members
// says that it stands.
func (c *Call) findLease() *words.Request {
	if !c.remembersLeases() || c.Members.NamesAt >= len(c.Args) {
		return nil
	}
	at := c.Members.NamesAt
	before, id, after := c.Args[1:at], c.Args[at], c.Args[at+1:]
	calls := &c.Past.leases.calls
	for i := range calls {
		past := &calls[i]
		if past.by != c.cmd.index || past.id != at || past.slots != c.Members.SlotsAt || past.words.count != len(before)+len(after) {
			continue
		}
		if past.words.haveAt(0, before) && past.words.haveAt(len(before), after) && words.IsID(id) {
			return &past.request
		}
	}
	return nil
}

// noteLease remembers what the call's words were read as. Calls of many groups would push each other out, and all others with them.
func (c *Call) noteLease() {
	if !c.remembersLeases() || c.request.GroupAt > 0 {
		return
	}
	at := c.Members.NamesAt
	all := &c.Past.leases
	past := &all.calls[all.oldest]
	all.oldest = (all.oldest + 1) % maxPastLeases
	past.by, past.id, past.slots, past.request = c.cmd.index, at, c.Members.SlotsAt, c.request
	past.words.note(c.Args[1:at])
	past.words.add(c.Args[at+1:])
}

func (c *Call) remembersLeases() bool {
	return c.Past != nil && c.Members != nil && c.Members.NamesAt > 0 && c.cmd.MaxMembers == 1
}
