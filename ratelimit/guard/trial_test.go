package guard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
)

// failing is a server that is away, or back: it answers all calls at once, but those that wait only when they are let
// go. Nobody holds a lease of the ID "mine" there.
type failing struct {
	mu      sync.Mutex
	away    bool
	refuses error // the answer to a peek
	limited bool  // no slot is free
	calls   []ratelimit.Verb
	let     chan struct{}
}

func (f *failing) Decide(ctx context.Context, call ratelimit.Call) (ratelimit.Result, error) {
	f.mu.Lock()
	f.calls = append(f.calls, call.Verb)
	away, refuses, limited := f.away, f.refuses, f.limited
	f.mu.Unlock()
	switch {
	case away:
		return ratelimit.Result{}, io.EOF
	case waits(&call):
		select {
		case <-f.let:
		case <-ctx.Done():
			return ratelimit.Result{}, ctx.Err()
		}
	case call.Verb == ratelimit.VerbPeek && refuses != nil:
		return ratelimit.Result{}, refuses
	case call.Verb == ratelimit.VerbLease && limited, call.Verb == ratelimit.VerbRenew && call.ID == "mine":
		return ratelimit.Result{Limited: true, By: "server"}, nil
	case call.Verb == ratelimit.VerbRelease && call.ID != "mine":
		return ratelimit.Result{Granted: -1, By: "server"}, nil
	}
	return ratelimit.Result{By: "server"}, nil
}

func (f *failing) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Policies and log lines are not what these tests are about.
func guarded(f *failing, policy Policy) *Guard {
	return New(f, Options{Policy: policy, Failures: 1, Logger: slog.New(slog.DiscardHandler)})
}

var waiting = map[string]ratelimit.Call{
	"a wait":             {Verb: ratelimit.VerbWait, Keys: []ratelimit.Key{{Name: "k", Limits: ratelimit.Limits{ratelimit.Rate(1, time.Second)}}}},
	"a lease that waits": {Verb: ratelimit.VerbLease, Keys: []ratelimit.Key{{Name: "s", Slots: 1, TTL: time.Minute}}, ID: "a", MaxWait: time.Hour},
}

// A call that waits must not keep the policy in force for as long as it waits, though the server is back.
func TestACallThatWaitsDoesNotKeepOthersFromTheServer(t *testing.T) {
	for name, call := range waiting {
		for refused, refuses := range map[string]error{"": nil, ", which may not peek": mistake("NOPERM this user has no permissions")} {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{away: true, refuses: refuses, limited: true, let: make(chan struct{})}
				g := guarded(f, Closed)
				limit := ratelimit.Call{Keys: waiting["a wait"].Keys}
				result, err := g.Decide(t.Context(), limit)
				require.NoError(t, err)
				require.Equal(t, "policy", result.By)
				f.set(func() { f.away = false })
				time.Sleep(g.o.Pause + 1)

				answers := make(chan ratelimit.Result, 1)
				go func() {
					result, err := g.Decide(t.Context(), call)
					assert.NoError(t, err)
					answers <- result
				}()
				synctest.Wait()
				assert.Empty(t, answers, "%s%s has an answer", name, refused)
				assert.False(t, g.Out(), "%s%s", name, refused)
				result, err = g.Decide(t.Context(), limit)
				require.NoError(t, err)
				assert.Equal(t, "server", result.By, "%s%s is under way", name, refused)
				close(f.let)
				assert.Equal(t, "server", (<-answers).By)
			})
		}
	}
}

// A server that is still away costs a call that waits no more than any other.
func TestACallThatWaitsIsLeftToThePolicyWhileTheServerIsAway(t *testing.T) {
	for name, call := range waiting {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{away: true, let: make(chan struct{})}
			g := guarded(f, Open)
			for range 3 {
				result, err := g.Decide(t.Context(), call)
				require.NoError(t, err)
				assert.Equal(t, "policy", result.By, name)
				time.Sleep(g.o.Pause + 1)
			}
			want := []ratelimit.Verb{call.Verb, ratelimit.VerbPeek, ratelimit.VerbPeek}
			if call.Verb == ratelimit.VerbLease {
				want = []ratelimit.Verb{call.Verb, call.Verb, call.Verb}
			}
			assert.Equal(t, want, f.calls, name)
		})
	}
}

// The slot that the try takes is the caller's: it does not take a second turn.
func TestALeaseThatTriesTheServerIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{away: true}
		g := guarded(f, Fail)
		_, err := g.Decide(t.Context(), waiting["a lease that waits"])
		require.ErrorIs(t, err, io.EOF)
		f.set(func() { f.away = false })
		time.Sleep(g.o.Pause + 1)
		result, err := g.Decide(t.Context(), waiting["a lease that waits"])
		require.NoError(t, err)
		assert.Equal(t, "server", result.By)
		assert.Len(t, f.calls, 2)
	})
}

// A lease that this process granted lasts beyond the outage, and its slot is free for the next one when it is released.
func TestALocalLeaseOutlastsTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{away: true}
		g := guarded(f, Local)
		ask := func(verb ratelimit.Verb, id string) ratelimit.Result {
			key := ratelimit.Key{Name: "s"}
			switch verb {
			case ratelimit.VerbLease:
				key.Slots, key.TTL = 2, 30*time.Second
			case ratelimit.VerbRenew:
				key.TTL = 30 * time.Second
			}
			result, err := g.Decide(t.Context(), ratelimit.Call{Verb: verb, Keys: []ratelimit.Key{key}, ID: id})
			require.NoError(t, err)
			return result
		}
		require.False(t, ask(ratelimit.VerbLease, "mine").Limited)
		require.False(t, ask(ratelimit.VerbLease, "of both").Limited, "it holds one on the server, and cannot know")
		require.True(t, ask(ratelimit.VerbLease, "another").Limited)
		f.set(func() { f.away = false })
		time.Sleep(g.o.Pause + 1)
		for range 5 { // longer than its TTL
			time.Sleep(20 * time.Second)
			renewed := ask(ratelimit.VerbRenew, "mine")
			assert.Equal(t, "local", renewed.By)
			assert.False(t, renewed.Limited)
			assert.Equal(t, "server", ask(ratelimit.VerbRenew, "of both").By, "its lease there is renewed, too")
		}
		assert.Equal(t, ratelimit.Result{Granted: -1, By: "server"}, ask(ratelimit.VerbRelease, "of both"))
		released := ask(ratelimit.VerbRelease, "mine")
		assert.Equal(t, ratelimit.Result{Key: "s", Granted: -1, By: "local"}, released)
		assert.Equal(t, ratelimit.Result{By: "server"}, ask(ratelimit.VerbRelease, "mine"), "it is over")

		f.set(func() { f.away = true })
		for _, id := range []string{"another", "one more"} {
			assert.False(t, ask(ratelimit.VerbLease, id).Limited, "the slots are free in the next outage")
		}
	})
}

// A server that answers with an error is back: the policy must not go on for callers that come meanwhile. Their error
// is the one to be told, as it does not go away by itself.
func TestAServerThatAnswersWithAMistakeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{away: true, refuses: mistake("WRONGPASS invalid username-password pair")}
		var changes []bool
		g := New(f, Options{Policy: Open, Failures: 1, OnChange: func(_ string, outage error) { changes = append(changes, outage != nil) }})
		peek := ratelimit.Call{Verb: ratelimit.VerbPeek, Keys: waiting["a wait"].Keys}
		_, err := g.Decide(t.Context(), peek)
		require.NoError(t, err)
		require.True(t, g.Out())
		f.set(func() { f.away = false })
		time.Sleep(g.o.Pause + 1)
		_, err = g.Decide(t.Context(), peek)
		require.ErrorIs(t, err, f.refuses)
		assert.False(t, g.Out())
		assert.Equal(t, []bool{true, false}, changes)
		for range 100 { // nor does the breaker open
			_, err = g.Decide(t.Context(), peek)
			require.ErrorIs(t, err, f.refuses)
		}
	})
}

// A node that keys have left, such as that without a name once the cluster is known, or a master that was replaced,
// gets no call that would close its breaker. It is over when the node answers that has its keys now.
func TestTheOutageOfANodeEndsWhereItsKeysAre(t *testing.T) {
	for _, old := range []string{"", "10.0.0.1:6379"} {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{away: true}
			node := map[string]string{"k": old, "other": "10.0.0.3:6379"}
			var changes []string
			g := New(f, Options{
				Policy: Open, Failures: 1, Node: func(key string) string { return node[key] },
				OnChange: func(node string, outage error) { changes = append(changes, fmt.Sprint(node, " ", outage != nil)) },
			})
			ask := func(key string) string {
				result, err := g.Decide(t.Context(), ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: waiting["a wait"].Keys[0].Limits}}})
				require.NoError(t, err)
				return result.By
			}
			require.Equal(t, "policy", ask("k"))
			f.set(func() { f.away = false })
			require.Equal(t, "server", ask("other"))
			assert.True(t, g.Out(), "the other node has none of its keys")
			node["k"] = ""
			require.Equal(t, "server", ask("other"))
			assert.True(t, g.Out(), "nobody knows where its keys are")
			node["k"] = "10.0.0.2:6379"
			f.set(func() { f.away = true })
			require.Equal(t, "policy", ask("k"))
			f.set(func() { f.away = false })
			require.Equal(t, "server", ask("other"))
			assert.True(t, g.Out(), "the node that has them now is away, too")
			time.Sleep(g.o.Pause + 1)
			require.Equal(t, "server", ask("k"))
			assert.False(t, g.Out())
			assert.ElementsMatch(t, []string{old + " true", "10.0.0.2:6379 true", old + " false", "10.0.0.2:6379 false"}, changes)
		})
	}
}
