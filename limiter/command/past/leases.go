package past

import "redis-throttle/limiter/command/words"

// Most calls about leases differ in the id alone. So their other words are remembered.

// maxLeases is how many calls about leases are remembered.
const maxLeases = 8

type leases struct {
	calls  [maxLeases]leaseCall
	oldest uint8
}

// leaseCall is a call about leases that is remembered.
type leaseCall struct {
	by    uint16
	at    Place
	words packedWords
	read  words.Request
}

// Place says where the id and the number of slots stand in the words of a call about leases. ID is 0 if there is no
// such call to remember.
type Place struct{ ID, Slots int }

// FindLease returns what the words behind the key were read as, whatever the id, or nil. args begin with the key. It
// holds until the next NoteLease.
func (p *Calls) FindLease(args [][]byte, by uint16, at Place) *words.Request {
	if at.ID <= 0 || at.ID >= len(args) {
		return nil
	}

	before, id, after := args[1:at.ID], args[at.ID], args[at.ID+1:]
	calls := &p.leases.calls
	for i := range calls {
		past := &calls[i]
		if past.by != by || past.at != at || past.words.count != len(before)+len(after) {
			continue
		}
		if past.words.haveAt(0, before) && past.words.haveAt(len(before), after) && words.IsID(id) {
			return &past.read
		}
	}
	return nil
}

// NoteLease remembers what args were read as.
func (p *Calls) NoteLease(args [][]byte, by uint16, at Place, r *words.Request) {
	past := &p.leases.calls[p.leases.oldest]
	p.leases.oldest = (p.leases.oldest + 1) % maxLeases
	past.by, past.at, past.read = by, at, *r
	past.words.note(args[1:at.ID])
	past.words.add(args[at.ID+1:])
}
