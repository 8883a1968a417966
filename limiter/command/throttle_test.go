package command

import (
	"strconv"
	"testing"
)

const epochSeconds = 1_700_000_000 // an arbitrary now, in s since the epoch
const nowNs = int64(epochSeconds) * nsPerSecond

// tatIn is a stored TAT ns after now.
func tatIn(ns int64) string { return strconv.FormatInt(nowNs+ns, 10) }

func BenchmarkThrottle(b *testing.B) {
	for name, c := range map[string]*Call{
		"allowed": decide(Throttle, tatIn(0), "user:12345 15 30 60 1"),
		"denied":  decide(Throttle, tatIn(32*nsPerSecond), "user:12345 15 30 60 1"),
		"peek":    decide(Throttle, tatIn(32*nsPerSecond), "user:12345 15 30 60 0"),
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
