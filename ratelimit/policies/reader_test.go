package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit"
)

var quietly = slog.New(slog.DiscardHandler)

// ready is a layer before next that has read a hash.
func ready(t testing.TB, next ratelimit.Decider, hash map[string]string) *Policies {
	p := New(next, nil, Options{Logger: quietly, Refresh: time.Hour, Read: reads(hash)})
	require.NoError(t, p.Reader().Read(t.Context()))
	return p
}

// perMinute is a call on a key of the policy api.
func perMinute(count int64) ratelimit.Call {
	return ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:1", Limits: ratelimit.Policy("api", ratelimit.Rate(count, time.Minute))}}}
}

// countOf is the number of the limit that was handed on last.
func countOf(t *testing.T, next *decides) string {
	require.NotEmpty(t, next.asked)
	return next.asked[len(next.asked)-1].Keys[0].Limits.String()
}

func TestTheFirstCallWaitsForTheFirstRead(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]string{100 * time.Millisecond: "RATE 5/1m", 300 * time.Millisecond: "RATE 9/1m"} {
		synctest.Test(t, func(t *testing.T) {
			next := &decides{}
			p := New(next, nil, Options{Logger: quietly, Read: func(context.Context) (map[string]string, error) {
				time.Sleep(took)
				return map[string]string{"api": "RATE 5/m"}, nil
			}})
			began := time.Now()
			_, err := p.Decide(t.Context(), perMinute(9))
			require.NoError(t, err)
			assert.Equal(t, want, countOf(t, next))
			assert.Equal(t, min(took, firstWait), time.Since(began))

			_, err = p.Decide(t.Context(), perMinute(9))
			require.NoError(t, err)
			assert.Equal(t, min(took, firstWait), time.Since(began), "nobody waits a second time")

			time.Sleep(took) // it goes on in the background
			_, err = p.Decide(t.Context(), perMinute(9))
			require.NoError(t, err)
			assert.Equal(t, "RATE 5/1m", countOf(t, next))
		})
	}
}

func TestTheFirstCallWaitsWithinItsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := &decides{}
		p := New(next, nil, Options{Logger: quietly, Read: func(ctx context.Context) (map[string]string, error) {
			time.Sleep(time.Second)
			return nil, ctx.Err()
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := p.Decide(ctx, perMinute(9))
		require.NoError(t, err, "next says what it thinks of that")
		assert.Equal(t, 50*time.Millisecond, time.Since(began))
		assert.Equal(t, "RATE 9/1m", countOf(t, next))
		time.Sleep(time.Second)
	})
}

// Calls read the hash again when Refresh is over, one at a time and in the background. Without calls nothing is read.
func TestNoCallWaitsForARefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads, underWay, most atomic.Int64
		next := &decides{}
		p := New(next, nil, Options{Logger: quietly, Read: func(context.Context) (map[string]string, error) {
			n := reads.Add(1)
			most.Store(max(most.Load(), underWay.Add(1)))
			defer underWay.Add(-1)
			if n > 1 {
				time.Sleep(3 * time.Second)
			}
			return map[string]string{"api": fmt.Sprintf("RATE %d/m", n)}, nil
		}})
		decide := func() {
			began := time.Now()
			_, err := p.Decide(t.Context(), perMinute(9))
			require.NoError(t, err)
			require.Zero(t, time.Since(began))
		}
		decide()
		for range 100 {
			decide()
		}
		assert.EqualValues(t, 1, reads.Load(), "within Refresh")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, reads.Load(), "nobody calls")
		for range 20 { // 2 s, while the second read is under way
			decide()
			time.Sleep(100 * time.Millisecond)
		}
		assert.EqualValues(t, 2, reads.Load())
		assert.Equal(t, "RATE 1/1m", countOf(t, next), "what was read last counts meanwhile")
		for range 400 { // 40 s: a read of 3 s and a Refresh of 1 s, ten times
			decide()
			time.Sleep(100 * time.Millisecond)
		}
		assert.InDelta(t, 12, reads.Load(), 2)
		assert.EqualValues(t, 1, most.Load())
		time.Sleep(10 * time.Second)
	})
}

// A value of any length, read or not, is a line that people can read.
func TestALongValueIsCutInTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	long := strings.Repeat("x", 1<<20)
	hash := map[string]string{"api": long, "api/" + long: "RATE 5/m", "web": "RATE 5/m" + strings.Repeat(" ", 1<<20), "no name " + long: "RATE 5/m"}
	p := New(&decides{}, nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Read: func(context.Context) (map[string]string, error) {
		return maps.Clone(hash), nil
	}})
	require.NoError(t, p.Reader().Read(t.Context()))
	hash["web"] = "RATE 6/m" + strings.Repeat(" ", 1<<20)
	require.NoError(t, p.Reader().Read(t.Context()))
	assert.Contains(t, log.String(), "cannot be read")
	assert.Contains(t, log.String(), "is not the name of a policy")
	assert.Contains(t, log.String(), "it was")
	assert.Less(t, log.Len(), 8000)
}

// A call without a policy reads nothing.
func TestCallsWithoutAPolicyReadNothing(t *testing.T) {
	t.Parallel()
	next := &decides{}
	p := New(next, nil, Options{Read: func(context.Context) (map[string]string, error) {
		t.Error("it reads")
		return nil, nil
	}})
	_, err := p.Decide(t.Context(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "a", Limits: ratelimit.Limits{ratelimit.Rate(5, time.Second)}}}})
	require.NoError(t, err)
	_, err = p.Decide(t.Context(), ratelimit.Call{Verb: ratelimit.VerbReset, Keys: []ratelimit.Key{{Name: "a"}}})
	require.NoError(t, err)
	assert.Len(t, next.asked, 2)
}

// With a version, a read is an HGET until it changes, or a minute is over.
func TestAVersionSparesReadingTheHash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &stored{hash: map[string]string{versionField: "1", "api": "RATE 5/m"}}
		r := NewReader(store, Options{Logger: quietly})
		read := func() {
			require.NoError(t, r.Read(t.Context()))
		}
		read()
		for range 59 {
			time.Sleep(time.Second)
			read()
		}
		assert.Equal(t, map[string]int{"hgetall": 1, "hget": 59}, store.asked)
		time.Sleep(time.Second)
		read()
		assert.Equal(t, map[string]int{"hgetall": 2, "hget": 59}, store.asked)
		store.set(map[string]string{versionField: "2", "api": "RATE 6/m"})
		read()
		assert.Equal(t, map[string]int{"hgetall": 3, "hget": 60}, store.asked)
		assert.Equal(t, "RATE 6/m", r.Rules(t.Context()).Choose("api", "a").Text)
		store.set(map[string]string{"api": "RATE 7/m"})
		read()
		read()
		assert.Equal(t, map[string]int{"hgetall": 5, "hget": 61}, store.asked, "without a version it is read whole")
	})
}

func TestARefusedReadSaysWhatToPermit(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	r := NewReader(nil, Options{Logger: slog.New(slog.NewTextHandler(&text, nil)), Hash: "limits", Read: func(context.Context) (map[string]string, error) {
		return nil, noPermission{}
	}})
	for range 3 {
		require.Error(t, r.Read(t.Context()))
	}
	assert.Equal(t, 1, strings.Count(text.String(), "limits could not be read"))
	assert.Contains(t, text.String(), "+hgetall +hget %R~limits")
}

type noPermission struct{}

func (noPermission) Error() string {
	return "NOPERM User app has no permissions to run the 'hgetall' command"
}
func (noPermission) RedisError() {}

func TestOfManyChangesTheFirstAreSaid(t *testing.T) {
	t.Parallel()
	log, store := &lines{}, &stored{hash: map[string]string{}}
	r := NewReader(store, Options{Logger: slog.New(log), Refresh: time.Hour})
	require.NoError(t, r.Read(t.Context()))
	good, bad := map[string]string{}, map[string]string{}
	for i := range 50 {
		good["api/user:"+strconv.Itoa(100+i)], bad["api/user:"+strconv.Itoa(100+i)] = "RATE 5/m", "RATE 5m"
	}
	for _, hash := range []map[string]string{good, bad} {
		store.set(hash)
		require.NoError(t, r.Read(t.Context()))
		said := log.taken()
		require.Len(t, said, mostLines+1)
		assert.Contains(t, said[0], "api/user:100")
		assert.Contains(t, said[mostLines-1], "api/user:119")
		assert.Contains(t, said[mostLines], "30 more")
	}
}

func TestAReplyThatIsNoHash(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{int64(1), []any{"api"}, []any{"api", int64(1)}, "OK", nil, map[any]any{"api": int64(1)}} {
		_, err := hashOf(reply)
		assert.Error(t, err, "%v", reply)
	}
}

func TestMistakesInTheProgramPanic(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "policies: a Redis client is needed, not nil, or Options.Read", func() { NewReader(nil, Options{}) })
	assert.PanicsWithValue(t, "policies: a Redis client is needed, not nil, or Options.Read", func() { NewReader((*redis.Client)(nil), Options{}) })
	assert.PanicsWithValue(t, "policies: a pipeline has no answer when a command returns", func() { NewReader(redis.NewClient(&redis.Options{}).Pipeline(), Options{}) })
	assert.Panics(t, func() { New(nil, nil, Options{Read: reads(nil)}) })
}

func TestTheLimitsOfAKeyBelongToOnePolicy(t *testing.T) {
	t.Parallel()
	mixed := append(ratelimit.Policy("api", ratelimit.Rate(5, time.Second)), ratelimit.Rate(9, time.Minute))
	assert.ErrorContains(t, mixed.Validate(), "one policy")
	p := New(&decides{}, nil, Options{Read: reads(nil), Logger: quietly})
	_, err := p.Decide(t.Context(), ratelimit.Call{Keys: []ratelimit.Key{{Name: "a", Limits: mixed}}})
	assert.ErrorContains(t, err, "one policy")
}

// What is handed on has other places, and the result has those of the call again.
func TestAResultHasThePlacesOfTheCall(t *testing.T) {
	t.Parallel()
	api, org := ratelimit.Policy("api", ratelimit.Rate(5, time.Second)), ratelimit.Policy("org", ratelimit.Rate(9, time.Second))
	call := ratelimit.Call{Keys: []ratelimit.Key{{Name: "{1}:a", Limits: api}, {Name: "{1}:b", Limits: org}, {Name: "{1}:c", Limits: api}}, Each: true}
	next := &decides{answer: func(call ratelimit.Call) (ratelimit.Result, error) {
		require.Len(t, call.Keys, 2)
		return ratelimit.Result{
			By: "server", KeyIndex: 1, Key: call.Keys[1].Name, Shadowed: true, ShadowKeyIndex: 1, ShadowKey: call.Keys[1].Name,
			Each: []ratelimit.Result{{KeyIndex: 0, Key: call.Keys[0].Name}, {KeyIndex: 1, Key: call.Keys[1].Name}},
		}, nil
	}}
	p := ready(t, next, map[string]string{"api/{1}:a": "NONE", "org": "RATE 7/s SHADOW"})
	result, err := p.Decide(t.Context(), call)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 2, 1, 2}, []int{result.KeyIndex, result.ShadowKeyIndex, result.Each[0].KeyIndex, result.Each[1].KeyIndex})
	for _, place := range []struct {
		name  string
		index int
	}{{result.Key, result.KeyIndex}, {result.ShadowKey, result.ShadowKeyIndex}, {result.Each[0].Key, result.Each[0].KeyIndex}} {
		assert.Equal(t, place.name, call.Keys[place.index].Name)
	}
	require.Len(t, result.Policies, 3)
	assert.Equal(t, ratelimit.Applied{Name: "api", Field: "api/{1}:a"}, result.Policies[0])
	assert.Equal(t, "org", result.Policies[1].Field)
	assert.Equal(t, "RATE 7/1s SHADOW", result.Policies[1].Limits.String())
	assert.Zero(t, result.Policies[2])
}

// With Any, a key that lets everything through is the last one that is asked.
func TestAnyOfSeveralKeysWithNone(t *testing.T) {
	t.Parallel()
	api := ratelimit.Policy("api", ratelimit.Rate(5, time.Second))
	call := ratelimit.Call{Any: true, Keys: []ratelimit.Key{{Name: "{1}:a", Limits: api}, {Name: "{1}:b", Limits: api}, {Name: "{1}:c", Limits: api}}}
	for limited, want := range map[bool]ratelimit.Result{true: {By: "none", Key: "{1}:b", KeyIndex: 1}, false: {By: "server", Key: "{1}:a"}} {
		next := &decides{answer: func(call ratelimit.Call) (ratelimit.Result, error) {
			require.Len(t, call.Keys, 1)
			return ratelimit.Result{By: "server", Key: call.Keys[0].Name, Limited: limited}, nil
		}}
		p := ready(t, next, map[string]string{"api/{1}:b": "NONE"})
		result, err := p.Decide(t.Context(), call)
		require.NoError(t, err)
		assert.Equal(t, "{1}:b", result.Policies[1].Field[len("api/"):])
		result.Policies = nil
		assert.Equal(t, want, result)
	}
}

// The server takes no BAN with ANY or MAXWAIT: the limits count, and the ban is left out.
func TestABanIsLeftOutWhereTheServerTakesNone(t *testing.T) {
	t.Parallel()
	next := &decides{}
	p := ready(t, next, map[string]string{"api": "RATE 7/m BAN 15m"})
	waits, first := perMinute(9), perMinute(9)
	waits.MaxWait, first.Any = time.Second, true
	for _, call := range []ratelimit.Call{waits, first} {
		_, err := p.Decide(t.Context(), call)
		require.NoError(t, err)
		assert.Equal(t, "RATE 7/1m", countOf(t, next))
		assert.Zero(t, next.asked[len(next.asked)-1].Ban)
	}
}

func TestCLThrottleTakesOneRate(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"RATE 7/m": "RATE 7/1m", "RATE 7/m RATE 8/h": "RATE 9/1m", "WINDOW 7/m": "RATE 9/1m", "RATE 0/m": "RATE 9/1m"} {
		next := &decides{}
		p := ready(t, next, map[string]string{"api": value})
		call := perMinute(9)
		call.Verb = ratelimit.VerbThrottle
		_, err := p.Decide(t.Context(), call)
		require.NoError(t, err)
		assert.Equal(t, want, countOf(t, next), value)
	}
}

// An error has no policies: nothing was decided.
func TestAnErrorIsHandedBack(t *testing.T) {
	t.Parallel()
	lost := errors.New("lost")
	p := ready(t, &decides{answer: func(ratelimit.Call) (ratelimit.Result, error) { return ratelimit.Result{}, lost }}, map[string]string{"api": "RATE 7/m"})
	result, err := p.Decide(t.Context(), perMinute(9))
	assert.ErrorIs(t, err, lost)
	assert.Zero(t, result)
}

// Watch reads on while nobody calls, once rules were asked for, and no more often than Refresh says.
func TestWatchReadsWithoutCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		next := &decides{}
		p := New(next, nil, Options{Logger: quietly, Read: func(context.Context) (map[string]string, error) {
			return map[string]string{"api": fmt.Sprintf("RATE %d/m", reads.Add(1))}, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			p.Reader().Watch(ctx)
			close(done)
		}()
		time.Sleep(time.Minute)
		assert.Zero(t, reads.Load(), "nobody needs it")
		_, err := p.Decide(t.Context(), perMinute(9))
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		last := reads.Load()
		assert.InDelta(t, 20, last, 3)
		_, err = p.Decide(t.Context(), perMinute(9))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("RATE %d/1m", last), countOf(t, next), "what was read last")
		cancel()
		<-done
		last = reads.Load()
		time.Sleep(time.Minute)
		assert.Equal(t, last, reads.Load())
	})
}

// A source that never returns, and looks at no context, ends no refreshes. What was read last counts meanwhile.
func TestASourceThatNeverReturnsIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		hang := make(chan struct{})
		defer close(hang)
		r := NewReader(nil, Options{
			Logger: quietly,
			Read: func(context.Context) (map[string]string, error) {
				n := calls.Add(1)
				if n == 2 || n > 3 {
					<-hang
				}
				return map[string]string{"api": fmt.Sprintf("RATE %d/h", n)}, nil
			},
		})
		says := func() string {
			return r.Rules(t.Context()).Choose("api", "k").Limits.String()
		}
		first := says()
		for range 3 {
			time.Sleep(2 * time.Second)
			assert.Equal(t, first, says(), "call %d hangs", calls.Load())
		}
		require.EqualValues(t, 2, calls.Load())
		time.Sleep(3 * time.Second)
		says()
		synctest.Wait()
		assert.NotEqual(t, first, says(), "the third call has returned")
		for range 1000 {
			time.Sleep(time.Second)
			says()
		}
		assert.LessOrEqual(t, calls.Load(), int32(3+10), "those that hang are not piled up")
	})
}
