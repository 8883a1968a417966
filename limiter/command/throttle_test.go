package command

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const epochSeconds = 1_700_000_000 // an arbitrary now, in s since the epoch
const nowNs = int64(epochSeconds) * nsPerSecond

// run decides a call of CL.THROTTLE whose words are given as one line, at nowNs.
func run(value string, words string) *Call {
	c := &Call{In: &In{NowNs: nowNs}, Key: &Key{Kind: String, Value: []byte(value), Room: make([]byte, 0, MaxValueLen)}}
	if value == "" {
		c.Kind = Absent
	}
	for _, word := range strings.Fields(words) {
		c.Args = append(c.Args, []byte(word))
	}
	c.ArgCount = len(c.Args)
	c.Run(Throttle)
	return c
}

// tatIn is a stored TAT ns after now.
func tatIn(ns int64) string { return strconv.FormatInt(nowNs+ns, 10) }

func TestADecisionDoesNotAllocate(t *testing.T) {
	for name, c := range map[string]*Call{
		"allowed": run("", "k 15 30 60 1"),
		"denied":  run(tatIn(32*nsPerSecond), "k 15 30 60 1"),
		"peek":    run(tatIn(32*nsPerSecond), "k 15 30 60 0"),
		"error":   run("bar", "k 15 30 60 1"),
	} {
		c.Past = &Past{}
		assert.Zero(t, testing.AllocsPerRun(100, func() { c.Run(Throttle) }), name)
	}
}

func BenchmarkThrottle(b *testing.B) {
	for name, c := range map[string]*Call{
		"allowed": run(tatIn(0), "user:12345 15 30 60 1"),
		"denied":  run(tatIn(32*nsPerSecond), "user:12345 15 30 60 1"),
		"peek":    run(tatIn(32*nsPerSecond), "user:12345 15 30 60 0"),
	} {
		c.Past = &Past{}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Run(Throttle)
			}
		})
	}
}
