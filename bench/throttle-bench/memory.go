package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"redis-throttle/bench/internal/must"
)

// memory measures bytes per key: the growth of the server's used_memory, which counts
// what the allocator handed out, over an empty data set. One call is what a limiter costs
// for a caller seen once. A hundred show what grows with use; fewer keys do, since that is
// many calls. The numbers of keys are powers of two: the server's hash table is then
// exactly full, and has just moved to its present size. With any other number it has up to
// twice the room, at 8 bytes a key, or both sizes at once.
//
// It empties the servers, and comes last.
func (l *lineup) memory(ctx context.Context) {
	fmt.Fprintln(os.Stderr, "memory")
	few := max(1, l.options.MemoryKeys/64)
	for _, e := range l.entrants {
		if e.Keeps != nil {
			e.record("", map[metric]float64{
				metricBytesOneCall: e.bytesPerKey(ctx, 1, l.options.MemoryKeys),
				metricBytesHundred: e.bytesPerKey(ctx, 100, few),
			})
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
