package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestFullestMinuteIsTheLargestNumberInAnyMinute(t *testing.T) {
	for _, test := range []struct {
		name   string
		served []float64
		want   int
	}{
		{"nothing", nil, 0},
		{"one", []float64{58}, 1},
		{"around a full minute", []float64{58, 59, 61, 62}, 4},
		{"a minute apart", []float64{58, 118, 178}, 1},
		{"the second minute is fuller", []float64{10, 80, 81, 82}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := result{requests: []request{{at: 0, limited: true}}}
			for _, at := range test.served {
				r.requests = append(r.requests, request{at: at - 1, wait: 1})
			}
			assert.Equal(t, test.want, r.fullestMinute())
		})
	}
}

func TestCommandsAskForTheMinuteAsLongAsItTakes(t *testing.T) {
	got := command(limiter{words: "RATE 30/1m BURST 5 MAXWAIT 15s"}, 0, 6*time.Second)
	assert.Equal(t, []any{"CL.LIMIT", "picture:RATE 30/1m BURST 5 MAXWAIT 15s",
		"RATE", "30/6000ms", "BURST", "5", "MAXWAIT", "1500ms"}, got)
	got = command(limiter{words: "CL.LEASE SLOTS 3 TTL 5.5s", lease: true}, 7, 6*time.Second)
	assert.Equal(t, []any{"CL.LEASE", "picture:CL.LEASE SLOTS 3 TTL 5.5s", "SLOTS", "3", "TTL", "550ms", "ID", "request-7"}, got)
}

func TestInstantZeroIsAFullMinuteAndTheFirstRequestStillToCome(t *testing.T) {
	const real = 6 * time.Second
	for _, now := range []time.Time{time.Unix(1_700_000_000, 0), time.Unix(1_700_000_003, 999_999_999), time.Unix(1_699_999_999, 1)} {
		zero := zeroInstant(now, 58.5, real)
		assert.Zero(t, zero.UnixNano()%int64(real))
		first := zero.Add(scaled(58.5, real))
		assert.True(t, first.After(now))
		assert.Less(t, first.Sub(now), real+100*time.Millisecond)
	}
}
