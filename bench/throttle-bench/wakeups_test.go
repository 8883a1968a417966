package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAThreadsRatesAreTheGrowthOfItsCounters(t *testing.T) {
	before := []thread{{ID: 1, Name: "main", Voluntary: 100, Preempted: 10}}
	after := []thread{{ID: 1, Name: "main", Voluntary: 150, Preempted: 20}, {ID: 9, Name: "new", Voluntary: 5}}
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
		return serverThreads{Situations: []threadSwitches{{Threads: threads}}}
	}
	var own []string
	plain := named("redis-server", "bio_aof", "jemalloc_bg_thd")
	markModule(&plain, &own)
	// Go's threads bear the main thread's name, which started them.
	with := named("redis-server", "redis-server", "bio_aof", "jemalloc_bg_thd", "jemalloc_bg_thd")
	markModule(&with, &own)
	var ofModule []bool
	for _, thread := range with.Situations[0].Threads {
		ofModule = append(ofModule, thread.OfModule)
	}
	assert.Equal(t, []bool{false, true, false, false, false}, ofModule)
	for _, thread := range plain.Situations[0].Threads {
		assert.False(t, thread.OfModule)
	}
}
