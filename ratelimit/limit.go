package ratelimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// rate is the kind of limit that has a burst, and that CL.THROTTLE takes.
const rate = "RATE"

// Limits are decided together, all or nothing: one to eight of them.
type Limits []Limit

// Limit is one limit: Rate, Window or Fixed.
type Limit struct {
	kind   string
	count  int64
	period time.Duration
	burst  int64
	bursts bool // Burst was called; without it bursts go up to count
	name   string
	unit   string
}

// Rate lets count units through per period at a steady rate, and bursts of up to count
// units unless Burst says otherwise (GCRA, a bucket that refills evenly). The count is
// at least 1, the period a whole number of milliseconds.
func Rate(count int64, period time.Duration) Limit {
	return Limit{kind: rate, count: count, period: period}
}

// Window never lets more than count units through in any interval of length period.
func Window(count int64, period time.Duration) Limit {
	return Limit{kind: "WINDOW", count: count, period: period}
}

// Fixed lets count units through in each calendar window: the multiples of period since
// the Unix epoch, so that a period of a day begins at midnight UTC.
func Fixed(count int64, period time.Duration) Limit {
	return Limit{kind: "FIXED", count: count, period: period}
}

// Burst is l, a Rate, with bursts of up to capacity units, which is at least 1.
func (l Limit) Burst(capacity int64) Limit {
	l.burst, l.bursts = capacity, true
	return l
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

// String is l as CL.LIMIT takes it.
func (l Limit) String() string {
	words, err := l.words()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(fmt.Sprintln(words...), "\n")
}

// check finds what is wrong with l in itself. What is too much for the server, it says.
func (l Limit) check() error {
	switch {
	case l.kind == "":
		return errors.New("a limit is made by Rate, Window or Fixed")
	case l.count < 1:
		return fmt.Errorf("%s: the count %d is not positive", l.kind, l.count)
	case l.period < 1 || l.period%time.Millisecond != 0:
		return fmt.Errorf("%s: the period %v is not a positive whole number of milliseconds", l.kind, l.period)
	case l.bursts && l.kind != rate:
		return fmt.Errorf("%s: only a Rate has a Burst", l.kind)
	case l.bursts && l.burst < 1:
		return fmt.Errorf("%s: the burst capacity %d is not positive", l.kind, l.burst)
	}
	return nil
}

// capacity is how many units go at once.
func (l Limit) capacity() int64 {
	if l.bursts {
		return l.burst
	}
	return l.count
}

func (l Limit) words() ([]any, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	words := []any{l.kind, strconv.FormatInt(l.count, 10) + "/" + durationWord(l.period)}
	if l.bursts {
		words = append(words, "BURST", l.burst)
	}
	return words, nil
}

// throttleWords are max_burst, count_per_period and period of CL.THROTTLE.
func (l Limit) throttleWords() ([]any, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if l.kind != rate {
		return nil, fmt.Errorf("%s: only a Rate can be throttled by", l.kind)
	}
	return []any{l.capacity() - 1, l.count, durationWord(l.period)}, nil
}

// durationWord writes d, a whole number of milliseconds, as the commands take it.
func durationWord(d time.Duration) string {
	for _, unit := range []struct {
		is   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d != 0 && d%unit.is == 0 {
			return strconv.FormatInt(int64(d/unit.is), 10) + unit.name
		}
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
