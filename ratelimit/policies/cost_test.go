package policies

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit"
)

// overrides is a hash with as many overrides as a busy installation has.
func overrides(extra map[string]string) map[string]string {
	hash := map[string]string{"@version": "1", "org": "RATE 5/m", "api/premium:*": "RATE 600/m", "api/premium:gold:*": "RATE 6000/m"}
	for i := range 10_000 {
		hash["api/user:"+strconv.Itoa(i)] = fmt.Sprintf("RATE %d/m", 1+i%100)
	}
	for field, value := range extra {
		hash[field] = value
	}
	return hash
}

// costs are calls, and the allocations of each at most, beside those of the Decider behind.
func costs() map[string]struct {
	key, policy string
	most        float64
} {
	return map[string]struct {
		key, policy string
		most        float64
	}{
		"no policy":                   {"user:x", "", 0},
		"a policy without overrides":  {"user:x", "login", 0},
		"none of 10,000 overrides":    {"user:x", "api", 0},
		"one of 10,000 overrides":     {"user:4711", "api", 1}, // its keys
		"the longest of two prefixes": {"premium:gold:1", "api", 1},
	}
}

// instant is a Decider that costs nothing.
type instant struct{}

func (instant) Decide(context.Context, ratelimit.Call) (ratelimit.Result, error) {
	return ratelimit.Result{By: "server"}, nil
}

func decided(t testing.TB, key, policy string) (call func()) {
	p := ready(t, instant{}, overrides(nil))
	limits := ratelimit.Limits{ratelimit.Rate(100, time.Minute)}
	if policy != "" {
		limits = ratelimit.Policy(policy, limits...)
	}
	ctx, c := t.Context(), ratelimit.Call{Keys: []ratelimit.Key{{Name: key, Limits: limits}}}
	return func() {
		if _, err := p.Decide(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

//nolint:paralleltest // others would be counted, too
func TestACallWithoutAnOverrideAllocatesNothing(t *testing.T) {
	for name, c := range costs() {
		got := testing.AllocsPerRun(1000, decided(t, c.key, c.policy))
		t.Log(name, got)
		assert.LessOrEqual(t, got, c.most, name)
	}
}

func BenchmarkDecide(b *testing.B) {
	b.Run("without the layer", func(b *testing.B) {
		next, ctx, c := ratelimit.With(instant{}), b.Context(),
			ratelimit.Call{Keys: []ratelimit.Key{{Name: "user:x", Limits: ratelimit.Limits{ratelimit.Rate(100, time.Minute)}}}}
		for b.Loop() {
			_, _ = next.Decide(ctx, c)
		}
	})
	for name, c := range costs() {
		b.Run(name, func(b *testing.B) {
			call := decided(b, c.key, c.policy)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// What a read of the whole hash costs in the background, after one field of 10,000 has changed.
func BenchmarkRead(b *testing.B) {
	r := NewReader(nil, Options{Logger: quietly, Refresh: time.Hour, Read: reads(nil)})
	hashes := [2]map[string]string{overrides(map[string]string{"@version": "1"}), overrides(map[string]string{"@version": "2", "api": "RATE 3/m"})}
	r.take(hashes[0])
	i := 0
	for b.Loop() {
		i++
		r.take(hashes[i%2])
	}
}
