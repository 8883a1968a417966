package command

import "redis-throttle/limiter/lease"

// Members is what a command sees of a sorted set whose members lapse: a score is the instant in
// ms since the Unix epoch at which its member does. A command that has it may name members, and
// then it has to be shown the right ones.
type Members struct {
	// The indexes in Call.Args of the first name, and of the number of members that there may be; 0 for none. They are
	// looked for where they stood before. If that is wrong, the call corrects them and answers ReplyElsewhere.
	NamesAt, SlotsAt int

	Count  int64     // of all members
	Lapsed int64     // of those that have lapsed
	Lowest []float64 // the scores of those that have lapsed, the first few, at most MaxLowest
	Next   float64   // the lowest score of those that have not; NaN when there is none
	Beyond bool      // one is further ahead of now than FurthestMs
	// For a command with several keys: the lowest score of those that have not lapsed and that are not named, and the
	// highest score of all that are not named; NaN when there is none.
	NextOther, LastOther float64
	Named                []float64 // the scores of those that the call names; NaN of one that is not there
	// Unread says that the one that the call names was not looked up; none has lapsed. Of a command with one key, a
	// slot is free in any case. One with several keys takes it for a new one, or as held if it ends it, and is asked
	// again if that turns out to be wrong. If it has to know before, it answers ReplyElsewhere.
	Unread bool

	// What becomes of the set, when the key's effect is ChangeMembers. One that becomes empty is
	// deleted; any other expires with its last member.
	RemoveLowest int    // how many of Lowest to remove
	Remove       []bool // of those named
	Add          bool   // the first that is named, with AddScore
	AddScore     float64

	// What happened, for notifications and INFO.
	Event    Event
	Released int64
	Found    int64 // lapsed leases that are removed
	// IfThere is what differs when the member that is added, Unread, turns out to be there.
	IfThere struct {
		Event   Event
		Field   int // of Integers
		Integer int64
	}

	lowest [MaxLowest]float64
	named  [MaxArgs]float64
	remove [MaxArgs]bool
}

// FurthestMs is how far ahead of now a score may be.
const FurthestMs = lease.FurthestMs

// Event says what happened to a lease.
type Event int32

const (
	NoEvent Event = iota
	Leased
	Renewed
	Released
	NotLeased
)

// Reset makes m the view of a set: count members in all, lapsed of them have lapsed, lowest of those are shown, and
// named members are named by the call. The code that gathers the call fills in the slices.
func (m *Members) Reset(count, lapsed int64, lowest, named int) {
	m.Count, m.Lapsed = count, lapsed
	m.Lowest, m.Named, m.Remove = m.lowest[:lowest], m.named[:named], m.remove[:named]
	m.Beyond, m.Unread = false, false
	m.changeNothing()
}

// changeNothing is not inlined, because most calls see no members.
//
//go:noinline
func (m *Members) changeNothing() {
	m.RemoveLowest, m.Add, m.AddScore = 0, false, 0
	m.Event, m.Released, m.Found = NoEvent, 0, 0
	clear(m.Remove)
}

// Named returns the members that a call names, if its words stand where Members says.
func (c *Call) Named(cmd *Command) [][]byte {
	at := c.First.Members.NamesAt
	if at <= 0 || at >= len(c.Args) {
		return nil
	}
	return c.Args[at:min(len(c.Args), at+cmd.MaxMembers)]
}
