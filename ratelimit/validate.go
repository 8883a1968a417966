package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// MaxLimits is how many limits a key has at most.
const maxLimits = 8

// Validate finds what the server would refuse: no limits or more than eight, a count, a period or a rate that cannot
// be, options that exclude each other, a zone that the IANA database of this machine does not have. Call it where
// limits come from a file, so that a mistake is found when the program starts. Middleware and xrate call it by
// themselves.
func (l Limits) Validate() error {
	switch {
	case len(l) == 0:
		return errors.New("ratelimit: there are no limits")
	case len(l) > maxLimits:
		return fmt.Errorf("ratelimit: there are %d limits, and a key has at most %d", len(l), maxLimits)
	}
	for i := range l {
		if err := l[i].validate(); err != nil {
			return fmt.Errorf("ratelimit: limit %d of %d: %w", i+1, len(l), err)
		}
		if l[i].belongs != l[0].belongs || l[i].policy != l[0].policy {
			return errors.New("ratelimit: all limits of a key belong to one policy, or to none")
		}
	}
	return nil
}

const dayLength = 24 * time.Hour

func (l *Limit) validate() error {
	if err := l.check(); err != nil {
		return err
	}
	shortest, ok := l.period.shortest()
	switch {
	case !ok:
		return fmt.Errorf("%s: the period %s is longer than 292 years", l.kind, l.period.word())
	case l.kind == rate && l.count > int64(l.period.length):
		return fmt.Errorf("%s: %d units in %s are more than 10^9 units per second", l.kind, l.count, l.period.word())
	case l.kind == rate && !l.refills():
		return fmt.Errorf("%s: a full bucket of %d would take more than 292 years to refill", l.kind, l.capacity())
	case l.first && l.period.unit != "" && l.period.unit != week:
		return fmt.Errorf("%s: First goes with periods of one length, not with months and years", l.kind)
	case l.offset < 0:
		return fmt.Errorf("%s: the Offset %v is negative", l.kind, l.offset)
	case l.offset >= shortest:
		return fmt.Errorf("%s: the Offset %v must be shorter than the period; a month counts as 28 days, a year as 365", l.kind, l.offset)
	case l.zone != "" && l.period.unit == "" && l.period.length%dayLength != 0:
		return fmt.Errorf("%s: a zone goes with periods of whole days, weeks, months or years", l.kind)
	case l.zone != "" && !zoneExists(l.zone):
		return fmt.Errorf("%s: the IANA database has no zone %q; its names are like Europe/Berlin", l.kind, l.zone)
	}
	return checkName(l.name, l.unit)
}

// refills says whether a full bucket refills within what the server can count: 2^63 ns.
func (l *Limit) refills() bool {
	if l.count == 0 {
		return true // there is none
	}
	hi, lo := bits.Mul64(uint64(l.capacity()), uint64(l.period.length))
	if hi >= uint64(l.count) {
		return false
	}
	ns, rest := bits.Div64(hi, lo, uint64(l.count))
	return ns < math.MaxInt64 || (ns == math.MaxInt64 && rest == 0)
}

// shortest is how short p can be. ok is false when it is longer than the server takes.
func (p period) shortest() (length time.Duration, ok bool) {
	unit := map[calendarUnit]time.Duration{week: 7 * dayLength, month: 28 * dayLength, year: 365 * dayLength}[p.unit]
	longest := map[calendarUnit]time.Duration{week: 7 * dayLength, month: 31 * dayLength, year: 366 * dayLength}[p.unit]
	switch {
	case p.unit == "":
		return p.length, true
	case p.n > int64(math.MaxInt64/longest):
		return 0, false
	}
	return time.Duration(p.n) * unit, true
}

// zoneExists says whether the database of this machine has a zone. Without a database the server has to judge. Some
// files of it are copies, or no place's time, and servers refuse their names.
func zoneExists(name string) bool {
	switch region, _, _ := strings.Cut(name, "/"); region {
	case "", "Factory", "Local", "localtime", "posix", "posixrules", "right":
		return false
	}
	if _, err := time.LoadLocation(name); err == nil {
		return true
	}
	_, err := time.LoadLocation("Europe/Berlin")
	return err != nil
}

// checkName refuses what a header field cannot hold.
func checkName(texts ...string) error {
	for _, text := range texts {
		for i := range len(text) {
			if text[i] < ' ' || text[i] > '~' {
				return fmt.Errorf("the names and units of limits must be printable ASCII, not %q", text)
			}
		}
	}
	return nil
}
