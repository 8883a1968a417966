package main

import (
	"context"
	"time"

	"redis-throttle/bench/throttle-bench/internal/result"
)

// bench measures all contenders and leaves tables, charts and a file.
func bench(ctx context.Context, o options, list []Contender) error {
	started := time.Now()
	l, err := assemble(ctx, o, o.keys, list)
	if err != nil {
		return err
	}
	defer l.Close()
	runs := memoryRuns(o.quick)
	p := newProgress(o.stderr, o.plannedSeconds(len(sliceKinds), len(l.entrants))+l.plannedMemorySeconds(runs))
	defer p.finish()
	if err := l.rounds(ctx, p, sliceKinds); err != nil {
		return err
	}
	if err := l.memory(ctx, p, runs); err != nil {
		return err
	}
	p.finish()

	env, err := environment(ctx, o, l.hosts[hostMain])
	if err != nil {
		return err
	}
	return publish(o, "bench", result.File{
		Kind: result.KindBench, Started: started.UTC().Truncate(time.Second),
		Environment: env, Settings: o.settings(), Contenders: l.results(), Notes: l.skipped,
	})
}
