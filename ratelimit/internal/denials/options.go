package denials

import (
	"encoding/binary"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/charge"
	"redis-throttle/ratelimit/internal/taken"
)

// Options are what a Call asks for beside its Verb and its Keys. They are comparable: whether a layer knows all that a
// call asks for is one comparison with the Options that it knows, so that an option of a later version is handed on.
type Options struct {
	Units            int64 // Cost and NoCost
	Any              bool
	Charge           charge.Mode
	Ban, MaxWait     time.Duration
	BanAfter, Group  string
	Priority, Weight int64
	ID               string
	Each             bool
	// Wrong is a call whose Cost and NoCost contradict each other.
	Wrong bool
}

// OptionsOf are the options of a call.
func OptionsOf(c *ratelimit.Call) Options {
	return Options{
		Units: taken.Of(c.Cost, c.NoCost), Charge: c.Charge, Any: c.Any, Ban: c.Ban, BanAfter: c.BanAfter, MaxWait: c.MaxWait,
		Group: c.Group, Priority: c.Priority, Weight: c.Weight, ID: c.ID, Each: c.Each, Wrong: c.NoCost && c.Cost != 0,
	}
}

func (o Options) append(b []byte) []byte {
	var flags uint64
	for i, flag := range [...]bool{o.Any, o.Each, o.Wrong} {
		if flag {
			flags |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, flags)
	for _, n := range [...]int64{o.Units, int64(o.Ban), int64(o.MaxWait), o.Priority, o.Weight} {
		b = binary.AppendVarint(b, n)
	}
	return appendText(appendText(appendText(appendText(b, string(o.Charge)), o.BanAfter), o.Group), o.ID)
}

// Slots are what a Key asks for beside its Name and its Limits.
type Slots struct {
	Slots int64
	TTL   time.Duration
}

// SlotsOf are the slots of a key.
func SlotsOf(k *ratelimit.Key) Slots { return Slots{k.Slots, k.TTL} }

func (s Slots) append(b []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, s.Slots), int64(s.TTL))
}
