package calendar

import (
	"errors"
	"math"
	"time"
)

// ErrZone is what LookupZone returns for any other name.
var ErrZone = errors.New("not a time zone of the IANA database, such as Europe/Berlin")

// Zone is a time zone. The zero Zone is UTC.
type Zone struct {
	place int16 // among the zones, from 1; 0: UTC
}

// LookupZone returns the zone with a name of the IANA time zone database, in the case used
// there, e.g. "America/New_York", or ErrZone if there is none. "UTC" is the zero Zone.
//
// The data comes with this package, unless Use was called, so the same version of it answers the same everywhere,
// whatever data the machine has. The first look-up allocates a table of the names, and the
// first look-up of each zone allocates its data; no other allocates. There are some 600 names,
// and all of them together take less than 1 MB.
func LookupZone(name []byte) (Zone, error) {
	if string(name) == "UTC" {
		return Zone{}, nil
	}
	place, ok := database().places[string(name)]
	if !ok {
		return Zone{}, ErrZone
	}
	z := Zone{place}
	z.entry().load()
	return z, nil
}

func (z Zone) entry() *entry { return &database().entries[z.place-1] }

// interval is how many seconds the zone's clocks are ahead of UTC at an instant, seconds since
// the epoch, and until when they are at least.
func (z Zone) interval(sec int64) (aheadSec, endSec int64) {
	if z.place == 0 {
		return 0, math.MaxInt64
	}
	return interval(z.entry().location, sec)
}

func interval(zone *time.Location, sec int64) (aheadSec, endSec int64) {
	t := time.Unix(sec, 0).In(zone)
	_, ahead := t.Zone()
	_, end := t.ZoneBounds()
	switch {
	case end.IsZero():
		return int64(ahead), math.MaxInt64
	case !end.After(t):
		// Beyond the last change in the data ZoneBounds takes every year for one of 365 days, and
		// ends before an instant of the 366th (seen in Go 1.26). No clocks are changed on it.
		return int64(ahead), sec + daySec
	default:
		return int64(ahead), end.Unix()
	}
}

// firstShowing is the first instant at which the zone's clocks show this time or a later one.
func (z Zone) firstShowing(sec, ns int64) int64 {
	at := sec - daySec // by then none has: clocks are less than a day ahead
	for {
		ahead, end := z.interval(at)
		if shown := sec - ahead; shown < end {
			if shown < at {
				return saturate(at, 0) // they skip it
			}
			return saturate(shown, ns)
		}
		at = end
	}
}

// saturate makes nanoseconds of seconds and nanoseconds.
func saturate(sec, ns int64) int64 {
	const maxSec = math.MaxInt64 / second
	switch {
	case sec > maxSec || (sec == maxSec && ns > math.MaxInt64%second):
		return math.MaxInt64
	case sec < -maxSec:
		return math.MinInt64
	default:
		return sec*second + ns
	}
}

// hash is one of the name, and as stable.
func (z Zone) hash() uint64 {
	if z.place == 0 {
		return fnv1aStart
	}
	return z.entry().hash
}

// FNV-1a (Fowler, Noll, Vo) in 64 bits.
const fnv1aStart = 14695981039346656037

func fnv1a(hash uint64, b byte) uint64 { return (hash ^ uint64(b)) * 1099511628211 }
