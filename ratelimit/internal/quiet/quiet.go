// Package quiet logs errors that repeat: the first of a kind at once, then one line in an interval that says how many
// there were. A flood of requests that fail is no flood of lines.
package quiet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"redis-throttle/ratelimit"
)

// Interval is between two lines of a kind.
const Interval = 10 * time.Second

// Log is a log of errors. The zero Log is ready for use.
type Log struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	last    time.Time
	leftOut int64
}

// Kind is what an error of a Decider is: an outage, an overload or a mistake.
func Kind(err error) string {
	switch {
	case ratelimit.IsOutage(err):
		return "outage"
	case ratelimit.IsOverload(err):
		return "overload"
	}
	return "mistake"
}

// Error logs err, of a kind such as "outage", through slog.Default.
func (l *Log) Error(ctx context.Context, of, message string, err error) {
	leftOut, ok := l.pass(of, time.Now())
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("kind", of), slog.Any("error", err)}
	if leftOut > 0 {
		attrs = append(attrs, slog.Int64("left_out", leftOut))
	}
	slog.Default().LogAttrs(ctx, slog.LevelError, "redis-throttle: "+message, attrs...)
}

// pass says whether there may be a line, and how many there were none of before it.
func (l *Log) pass(of string, now time.Time) (leftOut int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kinds == nil {
		l.kinds = map[string]*kind{}
	}
	k := l.kinds[of]
	switch {
	case k == nil:
		l.kinds[of] = &kind{last: now}
		return 0, true
	case now.Sub(k.last) < Interval:
		k.leftOut++
		return 0, false
	}
	leftOut = k.leftOut
	k.last, k.leftOut = now, 0
	return leftOut, true
}
