package words

import "redis-throttle/limiter/stack"

// Request is what the words of a call ask for, limits aside.
type Request struct {
	stack.Request
	Compact   bool          // the integers alone
	Each      bool          // the reply says what each limit alone would
	Any       bool          // of several keys one is enough
	Waits     bool          // for at most TimeoutNs, 0 for as long as it takes
	BanNs     int64         // for how long a call that is limited bans the key; 0 does not
	After     stack.Denials // how many denied calls ban the key; each does if there is no count
	TimeoutNs int64
	GroupAt   int   // the index of the group's name among the arguments; 0 for none
	Weight    int64 // of the group; 0 for 1
	Priority  int64
	Slots     int64
	TTLNs     int64
	Rows      int64
}

// SlotGroup is what a group of SLOTS says, which stands in place of limits in calls with several keys. The zero value
// is a group of limits.
type SlotGroup struct {
	Is           bool
	Slots, TTLNs int64 // of the form SlotsWithTTL
}

// SlotsForm says what a group of SLOTS looks like in a command with several keys.
type SlotsForm int

const (
	WithoutSlots SlotsForm = iota
	SlotsAlone             // SLOTS
	SlotsWithTTL           // SLOTS n TTL duration
)
