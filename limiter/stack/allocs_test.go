// The price of one command's share: read the bytes, decide, write the bytes. And no
// allocation.
package stack_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/limiter/stack"
)

// sink keeps the compiler from dropping the work.
var sink stack.Result

// stacks are the limits that get measured, and how long after the last a request comes that
// still fits.
var stacks = []struct {
	name    string
	specs   []spec
	apartNs int64
}{
	{"RATE", []spec{rate(5, second, 10)}, second / 5},
	{"RATE x 3", []spec{rate(5, second, 10), rate(100, minute, 100), rate(1000, hour, 1000)}, hour / 1000},
	{"WINDOW 100 a minute", []spec{window(100, minute)}, minute / 100},
	{"FIXED", []spec{fixed(100, minute)}, minute / 100},
	{"all kinds", []spec{rate(5, second, 10), window(100, minute), fixed(100, minute)}, minute / 100},
}

func TestNothingAllocates(t *testing.T) {
	var s stack.Stack
	out := make([]byte, 0, stack.MaxEncodedLen)
	refused := []byte("bar")
	for _, tt := range stacks {
		limits := limits(t, tt.specs...)
		k := key{t: t}
		for range 100 {
			k.take(limits, stack.Request{Cost: 1, UpTo: true}, start)
		}
		half := key{t: t}
		half.take(limits, cost(1), start)
		for name, f := range map[string]func(){
			"allowed": func() { sink = s.Take(cost(1), start) },
			"up to":   func() { sink = s.Take(stack.Request{Cost: 100, UpTo: true}, start) },
			"peek":    func() { sink = s.Peek(1, start) },
			"refund":  func() { sink = s.Refund(1, start) },
		} {
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				s.Load(limits)
				_ = s.Decode(half.value)
				f()
				out = s.Append(out[:0])
			}), "%s, %s", tt.name, name)
		}
		for name, r := range map[string]stack.Request{
			"denied": cost(1),
			"strict": {Cost: 1, Strict: true},
			"never":  cost(1e9),
			"wait":   {Cost: 1, MaxWaitNs: hour},
		} {
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				s.Load(limits)
				_ = s.Decode(k.value)
				sink = s.Take(r, start)
				out = s.Append(out[:0])
			}), "%s, %s", tt.name, name)
		}
		assert.Zero(t, testing.AllocsPerRun(100, func() { _ = s.Decode(refused) }), "refused")
	}
}

// beside are limits that a call with one RATE leaves out.
var beside = []struct {
	name  string
	specs []spec
}{
	{"nothing", nil},
	{"FIXED", []spec{fixed(100, hour)}},
	{"WINDOW", []spec{window(100, hour)}},
	{"seven FIXED", []spec{fixed(100, hour), fixed(100, 2*hour), fixed(100, 3*hour), fixed(100, 4*hour), fixed(100, 5*hour), fixed(100, 6*hour), fixed(100, 7*hour)}},
}

// besideOthers is a call with one RATE on a key that holds others.
func besideOthers(t testing.TB, others []spec) (call func(), bytes func() int) {
	named := limits(t, rate(5, second, 10))
	k, now := key{t: t}, start
	for i := range int64(60) {
		if len(others) > 0 {
			k.take(limits(t, others...), cost(1), start+i)
		}
	}
	k.take(named, cost(1), start)
	var buffers [2][stack.MaxEncodedLen]byte
	value, i := append(buffers[0][:0], k.value...), 0
	return func() {
		now += second / 5 / 1000 // the others stay
		i++
		k.s.Load(named)
		_ = k.s.Decode(value)
		sink = k.s.Take(stack.Request{Cost: 1, UpTo: true}, now)
		if sink.Changed && k.s.ExpireAt(now) > 0 {
			value = k.s.Append(buffers[i&1][:0])
		}
	}, func() int { return len(value) }
}

func TestWhatACallLeavesOutIsNotAllocated(t *testing.T) {
	for _, tt := range beside {
		call, _ := besideOthers(t, tt.specs)
		assert.Zero(t, testing.AllocsPerRun(2000, call), tt.name)
	}
}
