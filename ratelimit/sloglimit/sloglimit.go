// Package sloglimit logs the decisions of a rate limiter through log/slog: denials at level Info, errors at Warn,
// and nothing about the requests that are let through.
//
//	limiter := observed.New(ratelimit.New(client, ratelimit.Options{}), sloglimit.New(sloglimit.Options{}))
//
// A flood of requests is no flood of lines: there are at most ten lines of each kind in a second, and the next one
// says how many were left out.
package sloglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/observed"
)

// Options may be left as they are.
type Options struct {
	// Logger is nil for slog.Default.
	Logger *slog.Logger
	// PerSecond is how many lines of each kind, denials and errors, are written in a second at most: 10 when it is 0.
	PerSecond int
	// Key is what is logged of a key. Nil leaves keys out: they may hold addresses or secrets of clients. To log
	// them as they are, return the key itself.
	Key func(key string) string
}

// New returns an observer for observed.New.
func New(o Options) func(context.Context, observed.Decision) {
	if o.PerSecond <= 0 {
		o.PerSecond = 10
	}
	l := &logger{Options: o}
	return l.observe
}

type logger struct {
	Options
	denials, errors valve
}

func (l *logger) observe(ctx context.Context, d observed.Decision) {
	outcome := d.Outcome()
	level, v := slog.LevelWarn, &l.errors
	switch outcome {
	case observed.Allowed, observed.Cancelled:
		return
	case observed.Denied:
		level, v = slog.LevelInfo, &l.denials
	}
	log := l.Logger
	if log == nil {
		log = slog.Default()
	}
	if !log.Enabled(ctx, level) {
		return
	}
	leftOut, ok := v.pass(time.Now(), l.PerSecond)
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	if l.Key != nil {
		for i := range d.Call.Keys {
			attrs = append(attrs, slog.String("key", l.Key(d.Call.Keys[i].Name)))
		}
	}
	attrs = append(attrs, slog.String("verb", d.Call.Verb.String()))
	attrs = append(attrs, slog.String("by", d.By()), slog.Duration("duration", d.Duration))
	message := "rate limited"
	if outcome == observed.Denied {
		if policy := d.Policy(); !d.Result.Banned {
			attrs = append(attrs, slog.String("policy", policy))
		} else {
			message = "banned"
		}
		if d.Result.RetryAfter != ratelimit.Never {
			attrs = append(attrs, slog.Duration("retry_after", d.Result.RetryAfter))
		}
	} else {
		message = "a rate limit could not be checked"
		attrs = append(attrs, slog.String("outcome", outcome.String()), slog.Any("error", d.Err))
	}
	if leftOut > 0 {
		attrs = append(attrs, slog.Int64("left_out", leftOut))
	}
	log.LogAttrs(ctx, level, "redis-throttle: "+message, attrs...)
}

// valve lets some lines through in each second that it is asked in.
type valve struct {
	mu      sync.Mutex
	began   time.Time
	passed  int
	leftOut int64 // since the last one that passed
}

// pass says whether there may be a line, and how many there were none of before it.
func (v *valve) pass(now time.Time, perSecond int) (leftOut int64, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.began.IsZero() || now.Sub(v.began) >= time.Second {
		v.began, v.passed = now, 0
	}
	if v.passed >= perSecond {
		v.leftOut++
		return 0, false
	}
	v.passed++
	leftOut, v.leftOut = v.leftOut, 0
	return leftOut, true
}
