package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redis-throttle/ratelimit/internal/about"
	"redis-throttle/ratelimit/internal/policyname"
)

// The kinds of limits, as the commands name them.
const (
	rate   = "RATE" // the only one that has a burst, and that CL.THROTTLE takes
	window = "WINDOW"
	fixed  = "FIXED"
)

// Limits are decided together, all or nothing: one to eight of them.
type Limits []Limit

// Limit is one limit, made by Rate, Window, Fixed or one of the functions beside them. Its
// methods return a changed copy. Two limits with the same words are equal (==).
type Limit struct {
	kind    string
	count   int64
	period  period
	burst   int64
	bursts  bool // Burst was called; without it bursts go up to count
	first   bool
	offset  time.Duration
	zone    string
	take    int64
	takes   bool // Take was called; without it the Cost of the call counts
	used    int64
	settles bool // Used was called
	spare   int64
	shadow  bool
	name    string
	unit    string
	belongs bool // to a policy
	policy  string
	called  string // what a limit of a policy is called that has no name
	// words are what a command takes, made once: sending a limit again and again must not make them
	// each time. Of a limit that check refuses they mean nothing.
	words [maxWords]any
	size  int8
}

// maxWords is how many words a limit can have, if methods are called that exclude each other.
const maxWords = 16

// Rate lets count units through per period at a steady rate, and bursts of up to count
// units unless Burst says otherwise (GCRA of ITU-T I.371, a bucket that refills evenly). The count is
// at most 10^9 a second; the period is positive, and a full bucket refills within 292 years.
//
// A limit of any kind with a count of 0 lets nobody through: Result.RetryAfter is Never.
func Rate(count int64, every time.Duration) Limit {
	return Limit{kind: rate, count: count, period: period{length: every}}.worded()
}

// Window never lets more than count units through in any interval of length every, which is positive.
func Window(count int64, every time.Duration) Limit {
	return Limit{kind: window, count: count, period: period{length: every}}.worded()
}

// Fixed lets count units through in each fixed window of length every. Windows begin at the multiples of every since
// the Unix epoch, so that a window of a day begins at midnight UTC. The length is positive.
func Fixed(count int64, every time.Duration) Limit {
	return Limit{kind: fixed, count: count, period: period{length: every}}.worded()
}

// FixedWeeks lets count units through in each window of this many calendar weeks, which
// begin on Mondays. There is at least 1.
func FixedWeeks(count, weeks int64) Limit {
	return Limit{kind: fixed, count: count, period: period{n: weeks, unit: week}}.worded()
}

// FixedMonths lets count units through in each window of this many calendar months: in each
// quarter, for example, with 3 of them. There is at least 1.
func FixedMonths(count, months int64) Limit {
	return Limit{kind: fixed, count: count, period: period{n: months, unit: month}}.worded()
}

// FixedYears lets count units through in each window of this many calendar years. There is at least 1.
func FixedYears(count, years int64) Limit {
	return Limit{kind: fixed, count: count, period: period{n: years, unit: year}}.worded()
}

// Burst is l, a Rate of at least 1, with bursts of up to capacity units, which is at least 1, too.
func (l Limit) Burst(capacity int64) Limit {
	l.burst, l.bursts = capacity, true
	return l.worded()
}

// First is l, a Fixed, whose window begins with the first unit taken, as with INCR and
// EXPIRE. It goes with neither Offset nor In, nor with months and years.
func (l Limit) First() Limit {
	l.first = true
	return l.worded()
}

// Offset is l, a Fixed, whose windows begin by d later: 0 or more, and less than the length of a window.
func (l Limit) Offset(d time.Duration) Limit {
	l.offset = d
	return l.worded()
}

// Zone is l, a Fixed of whole days, weeks, months or years, that goes by the clocks of a zone instead of UTC. Its name
// is in the IANA database, such as "Europe/Berlin". For a time.Location it is Zone(location.String()).
func (l Limit) Zone(name string) Limit {
	l.zone = name
	return l.worded()
}

// Take is l with units of its own for the call, 0 or more, in place of the call's Cost. 0 asks nothing
// of the limit and keeps its state.
func (l Limit) Take(units int64) Limit {
	l.take, l.takes = units, true
	return l.worded()
}

// Used is l with the units that were used in the end, for VerbSettle. Take says how many were charged before.
func (l Limit) Used(units int64) Limit {
	l.used, l.settles = units, true
	return l.worded()
}

// Spare is l with a reserve of units, 0 or more, for callers that matter more: a call that would leave fewer is
// limited. The numbers of a Result do not count the reserve. A Refund ignores it.
func (l Limit) Spare(units int64) Limit {
	l.spare = units
	return l.worded()
}

// Shadow is l on trial: it is charged, but it denies no call. Result.Shadowed says when it would have.
func (l Limit) Shadow() Limit {
	l.shadow = true
	return l.worded()
}

// Named is l with a name for the RateLimit header fields, in printable ASCII.
func (l Limit) Named(name string) Limit {
	l.name = name
	return l
}

// Unit is l with a quota unit for the RateLimit-Policy header field, such as
// "content-bytes". Without it the units are requests.
func (l Limit) Unit(unit string) Limit {
	l.unit = unit
	return l
}

// Policy returns limits that are the default of a policy, whose name has 1 to 64 of A-Z a-z 0-9 . _ -. Package policies
// lets a hash in Redis say otherwise, for everybody or for some keys; without it, they are limits as any. All limits of
// a key belong to one policy, or to none. Those that Named gave no name are called by that of the policy, of several
// ones with their place, such as api-1 and api-2.
func Policy(name string, limits ...Limit) Limits {
	named := slices.Clone(Limits(limits))
	for i := range named {
		named[i].belongs, named[i].policy, named[i].called = true, name, name
		if len(named) > 1 {
			named[i].called = name + "-" + strconv.Itoa(i+1)
		}
	}
	return named
}

// String is l as CL.LIMIT takes it.
func (l Limit) String() string {
	if err := l.check(); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(fmt.Sprintln(l.words[:l.size]...), "\n")
}

func init() {
	about.Of = func(limit any) about.Limit { return limit.(*Limit).about() }
	about.PolicyOf = func(limit any) string { return limit.(*Limit).policy }
	about.Unbind = func(limit any) {
		l := limit.(*Limit)
		l.belongs, l.policy = false, ""
	}
}

// about is what the packages beside this one see.
func (l *Limit) about() about.Limit {
	return about.Limit{
		Rate: l.kind == rate, Fixed: l.kind == fixed, Count: l.count, Period: l.period.about(), Capacity: l.capacity(), Spare: l.spare,
		Takes: l.takes, Take: l.take, Settles: l.settles, Used: l.used, Shadow: l.shadow, Name: l.name, Unit: l.unit,
		Called: l.called, Words: l.words[:l.size],
	}
}

// check finds what is wrong with l in itself. What only the server can judge, such as the
// name of a zone, it says.
func (l *Limit) check() error {
	switch {
	case l.kind == "":
		return errors.New("a limit is made by Rate, Window or Fixed")
	case l.count < 0:
		return fmt.Errorf("%s: the count %d is negative", l.kind, l.count)
	case !l.period.positive():
		return fmt.Errorf("%s: the period %s is not positive", l.kind, l.period.word())
	case l.bursts && l.kind != rate:
		return fmt.Errorf("%s: only a Rate has a Burst", l.kind)
	case l.bursts && l.count == 0:
		return fmt.Errorf("%s: a count of 0 lets nobody through, so there is no Burst", l.kind)
	case l.bursts && l.burst < 1:
		return fmt.Errorf("%s: the burst capacity %d is not positive", l.kind, l.burst)
	case l.kind != fixed && (l.first || l.offset != 0 || l.zone != ""):
		return fmt.Errorf("%s: only a Fixed has First, Offset and In", l.kind)
	case l.first && (l.offset != 0 || l.zone != ""):
		return fmt.Errorf("%s: First goes with neither Offset nor In", l.kind)
	case l.takes && l.take < 0:
		return fmt.Errorf("%s: the units to Take, %d, are negative", l.kind, l.take)
	case l.settles && l.used < 0:
		return fmt.Errorf("%s: the units Used, %d, are negative", l.kind, l.used)
	case l.spare < 0:
		return fmt.Errorf("%s: the units to Spare, %d, are negative", l.kind, l.spare)
	case l.belongs && !policyname.Valid(l.policy):
		return fmt.Errorf("the name of a policy has 1 to 64 of A-Z a-z 0-9 . _ -, unlike %q", l.policy)
	}
	return nil
}

// capacity is how many units go at once.
func (l *Limit) capacity() int64 {
	if l.bursts {
		return l.burst
	}
	return l.count
}

// worded is l with its words.
func (l Limit) worded() Limit {
	words := append(l.words[:0], l.kind, strconv.FormatInt(l.count, 10)+"/"+l.period.word())
	if l.bursts {
		words = append(words, "BURST", l.burst)
	}
	if l.first {
		words = append(words, "FIRST")
	}
	if l.offset != 0 {
		words = append(words, "OFFSET", durationWord(l.offset))
	}
	if l.zone != "" {
		words = append(words, "TZ", l.zone)
	}
	if l.takes {
		words = append(words, "TAKE", l.take)
	}
	if l.settles {
		words = append(words, "USED", l.used)
	}
	if l.spare != 0 {
		words = append(words, "SPARE", l.spare)
	}
	if l.shadow {
		words = append(words, "SHADOW")
	}
	clear(l.words[len(words):]) // of a limit that had more, so that equal limits are ==
	l.size = int8(len(words))
	return l
}

// throttleWords are max_burst, count_per_period and period of CL.THROTTLE. The period is in
// seconds where it can be: others that have the command know no units.
func (l Limit) throttleWords() ([]any, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	switch {
	case l.kind != rate:
		return nil, fmt.Errorf("CL.THROTTLE takes a Rate, not %s", l.kind)
	case l.count == 0:
		return nil, fmt.Errorf("%s: the count 0 is for the other commands", l.kind)
	case l.takes || l.spare != 0 || l.shadow:
		return nil, fmt.Errorf("%s: Take, Spare and Shadow are for the other commands", l.kind)
	}
	var every any = durationWord(l.period.length)
	if l.period.length%time.Second == 0 {
		every = int64(l.period.length / time.Second)
	}
	return []any{l.capacity() - 1, l.count, every}, nil
}
