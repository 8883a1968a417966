package main

import (
	"context"
	"time"

	"redis-throttle/bench/internal/must"
)

// memoryRuns measure bytes per key: the growth of the server's used_memory, which counts
// what the allocator handed out, over an empty data set. One call is what a limiter costs
// for a caller seen once. A hundred show what grows with use; fewer keys do, since that is
// many calls. The numbers of keys are powers of two: the server's hash table is then
// exactly full, and has just moved to its present size. With any other number it has up to
// twice the room, at 8 bytes a key, or both sizes at once.
var memoryRuns = []struct {
	metric      metric
	calls, keys int
}{{metricBytesOneCall, 1, 1 << 17}, {metricBytesHundred, 100, 1 << 11}}

// memory empties the servers; it comes last.
func (l *lineup) memory(ctx context.Context) {
	runs := memoryRuns
	if l.options.quick {
		runs = runs[:1]
	}
	p := newProgress(len(runs) * len(l.entrants))
	defer p.finish()
	for _, run := range runs {
		if l.options.quick {
			run.keys = 1 << 11
		}
		for _, e := range l.entrants {
			p.step("memory: " + e.Name)
			if e.Keeps != nil {
				e.figures.add(run.metric, e.bytesPerKey(ctx, run.calls, run.keys))
			}
		}
	}
}

func (e *entrant) bytesPerKey(ctx context.Context, calls, keys int) float64 {
	e.host.disconnect()
	// A first few bring buffers and caches to their size.
	for _, n := range []int{0, keys / 10} {
		e.each(ctx, n, e.Keeps...)
		must.Do(e.host.FlushAll(ctx).Err())
	}
	before := e.settledMemory(ctx)
	for range calls {
		e.each(ctx, keys, e.Keeps...)
	}
	after := e.settledMemory(ctx)
	if n := int(must.Get(e.host.DBSize(ctx).Result())); n < keys {
		must.Fail("%s: %d of %d keys are gone before their memory was read", e.Name, keys-n, keys)
	}
	return (after - before) / float64(keys)
}

// settledMemory waits until the server's memory stands still.
func (e *entrant) settledMemory(ctx context.Context) float64 {
	const interval, attempts = 100 * time.Millisecond, 60
	last := -1.0
	for range attempts {
		used := e.host.Fields(ctx).Number("used_memory")
		if used == last {
			break
		}
		last = used
		pause(ctx, interval)
	}
	return last
}
