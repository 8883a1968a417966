package ratelimit

import "time"

// LimitOption is an option of Limit.
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

// Strict charges a denied call as well, up to an empty bucket: who keeps hammering stays
// out.
func Strict() LimitOption { return words{"STRICT"} }

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
