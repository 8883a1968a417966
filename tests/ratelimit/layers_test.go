package ratelimit_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/batched"
	"redis-throttle/ratelimit/cached"
	"redis-throttle/ratelimit/guard"
	"redis-throttle/ratelimit/inspect"
	"redis-throttle/ratelimit/leases"
	"redis-throttle/ratelimit/observed"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/ratelimit/ratelimittest"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/calls"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// everyVerb are calls of all verbs on keys that begin with a prefix, in an order in which each has something to do.
func everyVerb(prefix string) []ratelimit.Call {
	limits := ratelimit.Limits{ratelimit.Fixed(10, 365*day).First()}
	units := ratelimit.Key{Name: prefix + "units", Limits: limits}
	jobs := ratelimit.Key{Name: prefix + "jobs", Slots: 2, TTL: time.Hour}
	tokens := ratelimit.Limits{ratelimit.Fixed(100, 365*day).First().Take(10)}
	k := prefix + "k"
	return []ratelimit.Call{
		calls.On(k, limits, calls.Cost(3)),
		{Verb: ratelimit.VerbPeek, Keys: calls.On(k, limits).Keys, Cost: 8},
		{Verb: ratelimit.VerbRefund, Keys: calls.On(k, limits).Keys, Cost: 2},
		calls.On(k, limits, calls.UpTo, calls.Cost(20)),
		calls.On(k, limits),
		{Verb: ratelimit.VerbRefund, Keys: calls.On(k, limits).Keys, Cost: 5},
		calls.InLine(k, limits, time.Minute),
		calls.OnKeys([]ratelimit.Key{units, {Name: k, Limits: limits}}),
		calls.OnKeys([]ratelimit.Key{units, {Name: k, Limits: limits}}, calls.Cost(9), calls.Any),
		{Keys: []ratelimit.Key{{Name: prefix + "tried", Limits: ratelimit.Limits{limits[0], ratelimit.Window(2, day).Shadow()}}}, Cost: 3, Each: true},
		calls.On(prefix+"nobody", ratelimit.Limits{ratelimit.Rate(0, day)}),
		calls.Throttle(prefix+"throttled", ratelimit.Rate(5, day), 1),
		{Verb: ratelimit.VerbBan, Keys: []ratelimit.Key{{Name: k}}, Ban: time.Hour},
		calls.On(k, limits, calls.Cost(2)),
		{Verb: ratelimit.VerbBan, Keys: []ratelimit.Key{{Name: k}}},
		calls.On(k, limits, calls.Cost(2)),
		calls.Lease(jobs.Name, 2, time.Hour, "a"),
		calls.Lease(jobs.Name, 2, time.Hour, "b", calls.MaxWait(time.Minute)),
		calls.Lease(jobs.Name, 2, time.Hour, "c"),
		calls.Renew(jobs.Name, "a", time.Hour),
		calls.Release(jobs.Name, "a"),
		{Keys: []ratelimit.Key{{Name: prefix + "tokens", Limits: tokens}, jobs}, ID: "d"},
		{Verb: ratelimit.VerbSettle, Keys: []ratelimit.Key{{Name: prefix + "tokens", Limits: ratelimit.Limits{tokens[0].Used(4)}}, {Name: jobs.Name}}, ID: "d"},
		{Verb: ratelimit.VerbReset, Keys: []ratelimit.Key{{Name: k}}},
		calls.On(k, limits),
		{Verb: ratelimit.VerbReset, Keys: []ratelimit.Key{{Name: prefix + "nothing"}}},
	}
}

// Whatever stands before the server, or in its place, is the same to a caller: for every verb.
func TestEveryVerbGetsThroughEveryLayer(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	limiter := ratelimit.New(s.Client(), ratelimit.Options{})
	seen := map[ratelimit.Verb]int{}
	observe := func(next ratelimit.Decider) ratelimit.Decider {
		return observed.New(next, func(_ context.Context, d observed.Decision) { seen[d.Call.Verb]++ })
	}
	batch := func(next ratelimit.Decider) ratelimit.Decider {
		b := batched.New(next, batched.Options{})
		t.Cleanup(func() { assert.NoError(t, b.Close(context.Background())) })
		return b
	}
	cache := func(next ratelimit.Decider) ratelimit.Decider { return cached.New(next, cached.Options{}) }
	protect := func(next ratelimit.Decider) ratelimit.Decider {
		return guard.New(next, guard.Options{Policy: guard.Local})
	}

	var want []ratelimit.Result
	verbs := map[ratelimit.Verb]bool{}
	for _, call := range everyVerb("bare:") {
		result := calls.Ask(t, limiter, call)
		want, verbs[call.Verb] = append(want, steady(result)), true
	}
	for verb := ratelimit.VerbLimit; verb <= ratelimit.VerbThrottle; verb++ {
		require.True(t, verbs[verb], "there is a call of %v", verb)
	}
	for name, d := range map[string]ratelimit.Decider{
		"observed":    observe(limiter),
		"cached":      cache(limiter),
		"batched":     batch(limiter),
		"guard":       protect(limiter),
		"all":         observe(cache(batch(protect(limiter)))),
		"all, turned": protect(batch(cache(observe(limiter)))),
		"rueidis":     rueidislimit.New(connect(t, on(s))),
		"a fake":      ratelimittest.New(t),
	} {
		requireResults(t, want, d, name)
	}
	for verb := range verbs {
		assert.Positive(t, seen[verb], verb)
	}
}

func requireResults(t *testing.T, want []ratelimit.Result, d ratelimit.Decider, name string) {
	t.Helper()
	for i, call := range everyVerb(name + ":") {
		result := calls.Ask(t, d, call)
		assert.Equal(t, want[i], steady(result), "%s: %d, %v", name, i, call.Verb)
	}
}

// Every verb has the same results by functions and by scripts as by the module, and leases are listed.
func TestEveryVerbWithoutTheModule(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	var want []ratelimit.Result
	fake := ratelimittest.New(t)
	for _, call := range everyVerb("fake:") {
		want = append(want, steady(calls.Ask(t, fake, call)))
	}
	functions, scripts := server.Start(t, server.WithoutModule()), server.Start(t, server.WithoutModule())
	scripts.MustDo("ACL", "SETUSER", "default", "-function")
	for name, client := range map[string]client{
		"functions": functions.Client(), "scripts": scripts.Client(), "shared": pipelimit.Share(functions.Client(), pipelimit.Options{}),
	} {
		var log kit.Log
		l := limiterOn(client, &log, time.Hour)
		requireResults(t, want, l, name)
		holders, err := leases.List(t.Context(), client, name+":jobs", 5)
		require.NoError(t, err, name)
		require.Len(t, holders.Leases, 1, name)
		assert.Equal(t, "b", holders.Leases[0].ID)
		holding, err := inspect.Key(t.Context(), client, name+":jobs")
		require.NoError(t, err, name)
		assert.Equal(t, inspect.Leases, holding.Kind)
		assert.EqualValues(t, 1, holding.Held)
	}
}

// steady is r without what the time of the call decides, where it was decided, and the prefix of its key.
func steady(r ratelimit.Result) ratelimit.Result {
	_, r.Key, _ = strings.Cut(r.Key, ":")
	_, r.ShadowKey, _ = strings.Cut(r.ShadowKey, ":")
	r.By, r.Each = "", slices.Clone(r.Each)
	for i := range r.Each {
		r.Each[i] = steady(r.Each[i])
	}
	r.RetryAfter, r.ResetAfter, r.NextAfter, r.Wait = r.RetryAfter.Round(day), r.ResetAfter.Round(day), 0, 0
	r.Lasts = r.Lasts.Round(time.Minute)
	return r
}
