package main

import (
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
)

func TestAThreadsRatesAreTheGrowthOfItsCounters(t *testing.T) {
	before := []procfs.ProcStatus{{PID: 1, TGID: 1, Name: "main", VoluntaryCtxtSwitches: 100, NonVoluntaryCtxtSwitches: 10}}
	after := []procfs.ProcStatus{
		{PID: 9, TGID: 1, Name: "new", VoluntaryCtxtSwitches: 5},
		{PID: 1, TGID: 1, Name: "main", VoluntaryCtxtSwitches: 150, NonVoluntaryCtxtSwitches: 20},
	}
	assert.Equal(t, []threadRate{
		{Name: "main", VoluntaryPerSecond: 10, PreemptedPerSecond: 2},
		{Name: "new", VoluntaryPerSecond: 1},
	}, threadRates(before, after, 5))
}

func TestAThreadIsTheModulesWhenAServerWithoutItHasNoneOfThatName(t *testing.T) {
	named := func(names ...string) serverThreads {
		var threads []threadRate
		for _, name := range names {
			threads = append(threads, threadRate{Name: name})
		}
		return serverThreads{Situations: []situation{{Threads: threads}}}
	}
	plain := named("redis-server", "bio_aof", "jemalloc_bg_thd")
	// Go's threads bear the main thread's name, which started them.
	with := named("redis-server", "redis-server", "bio_aof", "jemalloc_bg_thd", "jemalloc_bg_thd")
	markModule(with, plain)
	var ofModule []bool
	for _, thread := range with.Situations[0].Threads {
		ofModule = append(ofModule, thread.OfModule)
	}
	assert.Equal(t, []bool{false, true, false, false, false}, ofModule)
	for _, thread := range plain.Situations[0].Threads {
		assert.False(t, thread.OfModule)
	}
}
