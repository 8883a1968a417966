package ratelimit

import "time"

// LimitOption is an option of Limit. UpTo, Strict, Force and MaxWait exclude each other: the
// server refuses a call with two of them.
type LimitOption interface {
	words() []any
}

// Option is an option of every command.
type Option interface {
	LimitOption
	units() int64
}

type cost int64

func (c cost) words() []any { return []any{"COST", int64(c)} }
func (c cost) units() int64 { return int64(c) }

// Cost is how many units a call takes, or gives back: 0 or more, 1 when it is left out.
func Cost(units int64) Option { return cost(units) }

type words []any

func (w words) words() []any { return w }

// UpTo makes the call take as much of its cost as there is, at least one unit.
// Result.Granted is what it took.
func UpTo() LimitOption { return words{"UPTO"} }

// Strict charges a denied call as well, up to an empty bucket: a caller that keeps
// retrying stays blocked.
func Strict() LimitOption { return words{"STRICT"} }

// Force charges the call even if the units are not available, into debt. Result.Limited
// tells whether the units were there, Result.Granted how many were charged.
func Force() LimitOption { return words{"FORCE"} }

// Ban makes a call that is limited ban its key for d, in whole milliseconds: until then every call on the key is
// limited (Result.Banned), and writes nothing. It does not go with MaxWait.
func Ban(d time.Duration) LimitOption { return words{"BAN", waitWord(d)} }

// MaxWait reserves units that come within d, in whole milliseconds, when they are not
// there yet. The caller has to wait for Result.Wait before it goes ahead. Only Rate
// limits can be reserved.
func MaxWait(d time.Duration) LimitOption { return words{"MAXWAIT", waitWord(d)} }

func timeoutOption(d time.Duration) LimitOption { return words{"TIMEOUT", waitWord(d)} }

// waitWord writes d in whole milliseconds. It never turns into 0, which means something
// else, and stays negative for the server to refuse.
func waitWord(d time.Duration) string {
	switch {
	case d > 0:
		d = max(d.Truncate(time.Millisecond), time.Millisecond)
	case d < 0:
		d = min(d.Truncate(time.Millisecond), -time.Millisecond)
	}
	return durationWord(d)
}

func limitOptions(opts []Option) []LimitOption {
	all := make([]LimitOption, len(opts))
	for i, o := range opts {
		all[i] = o
	}
	return all
}
