package main

import (
	"context"
	"fmt"
	"time"

	"redis-throttle/bench/throttle-bench/internal/result"
)

// memoryRun measures bytes per key: the growth of the server's used_memory, which counts
// what the allocator handed out, over an empty data set.
type memoryRun struct {
	metric result.Metric
	calls  int // on each key
	keys   int
}

// One call is what a limiter costs for a caller seen once. A hundred show what grows with
// use; fewer keys do, since that is many calls. The numbers of keys are powers of two: the
// server's hash table is then exactly full, and has just moved to its present size. With
// any other number it has up to twice the room, at 8 bytes a key, or both sizes at once.
func memoryRuns(quick bool) []memoryRun {
	if quick {
		return []memoryRun{{result.BytesOneCall, 1, 1 << 11}}
	}
	return []memoryRun{{result.BytesOneCall, 1, 1 << 17}, {result.BytesHundred, 100, 1 << 11}}
}

// memorySeconds is what a run is thought to take for each contender.
func (r memoryRun) memorySeconds() float64 { return 0.5 + float64(r.keys*r.calls)/100_000 }

func (l *lineup) plannedMemorySeconds(runs []memoryRun) float64 {
	seconds := 0.0
	for _, r := range runs {
		seconds += r.memorySeconds() * float64(len(l.keepers()))
	}
	return seconds
}

func (l *lineup) keepers() []*entrant {
	var keepers []*entrant
	for _, e := range l.entrants {
		if e.Keeps != nil {
			keepers = append(keepers, e)
		}
	}
	return keepers
}

// memory empties the servers; it comes last.
func (l *lineup) memory(ctx context.Context, p *progress, runs []memoryRun) error {
	for _, run := range runs {
		for _, e := range l.keepers() {
			p.step("memory: "+e.Name, run.memorySeconds())
			bytes, err := e.bytesPerKey(ctx, run)
			if err != nil {
				return err
			}
			e.figures.Add(run.metric, bytes)
		}
	}
	return nil
}

func (e *entrant) bytesPerKey(ctx context.Context, run memoryRun) (float64, error) {
	if err := e.host.Client.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	// A first few bring buffers and caches to their size.
	if err := e.each(ctx, run.keys/10, e.Keeps); err != nil {
		return 0, err
	}
	if err := e.host.Client.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	before, err := e.settledMemory(ctx)
	if err != nil {
		return 0, err
	}
	for range run.calls {
		if err := e.each(ctx, run.keys, e.Keeps); err != nil {
			return 0, err
		}
	}
	after, err := e.settledMemory(ctx)
	if err != nil {
		return 0, err
	}
	if n, err := e.host.Client.DBSize(ctx).Result(); err != nil {
		return 0, err
	} else if int(n) < run.keys {
		return 0, fmt.Errorf("%s: %d of %d keys are gone before their memory was read", e.Name, run.keys-int(n), run.keys)
	}
	return (after - before) / float64(run.keys), nil
}

// settledMemory waits until the server's memory stands still.
func (e *entrant) settledMemory(ctx context.Context) (float64, error) {
	const interval, attempts = 100 * time.Millisecond, 60
	last := -1.0
	for range attempts {
		info, err := e.host.Info(ctx)
		if err != nil {
			return 0, err
		}
		used := info.Number("used_memory")
		if used == last {
			return used, nil
		}
		last = used
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(interval):
		}
	}
	return last, nil
}
