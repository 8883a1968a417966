package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Instants and durations of the picture are in its own seconds, 60 of which are a minute
// however long that takes. Instant 60 is the end of a minute, where a new window of FIXED starts.
const minute = 60.0

// latest is how late a request may be answered, in the picture's seconds.
const latest = 0.35

// A limiter is the limit that a panel shows. Durations in words are in the picture's
// minutes and seconds.
type limiter struct {
	words string
	note  string
	lease bool // asked for with CL.LEASE, and kept until it lapses; otherwise with CL.LIMIT
}

var limiters = []limiter{
	{words: "FIXED 30/1m", note: "a new 30 at every full minute"},
	{words: "WINDOW 30/1m", note: "30 in any minute, wherever it begins"},
	{words: "RATE 30/1m", note: "30 at once, one back every 2 s"},
	{words: "RATE 30/1m BURST 5", note: "5 at once, one back every 2 s"},
	{words: "RATE 30/1m BURST 1 MAXWAIT 15s", note: "one every 2 s, up to 15 s late"},
	{words: "RATE 30/1m TAKE 3", note: "each takes 3 units: 10 at once, one every 6 s"},
	{words: "CL.LEASE SLOTS 3 TTL 5.5s", note: "3 at a time, each for 5.5 s", lease: true},
}

// traffic is when requests come: 20 in second 58, 20 in second 62, and then one a second.
// All come at least 0.4 s before the instant at which a limiter has its next unit, so that a
// request that is a little late is answered the same.
func traffic() (at []float64) {
	const gap = 0.02
	for _, burst := range []float64{58.5, 62.5} {
		for i := range 20 {
			at = append(at, burst+gap*float64(i))
		}
	}
	for t := 66.1; t < 160; t++ {
		at = append(at, t)
	}
	return at
}

// request is what came of one request.
type request struct {
	at      float64
	limited bool
	wait    float64 // how long it has to be held
}

// served is when the request may go ahead.
func (r request) served() float64 { return r.at + r.wait }

type result struct {
	limiter  limiter
	requests []request
}

func (r result) admitted() (served []float64) {
	for _, q := range r.requests {
		if !q.limited {
			served = append(served, q.served())
		}
	}
	return served
}

// fullestMinute is the largest number of requests that go ahead within a minute, wherever
// it begins. Instants are known up to latest, so two that are a minute apart except for that
// are in different ones.
func (r result) fullestMinute() (most int) {
	served := r.admitted()
	first := 0
	for i, at := range served {
		for at-served[first] >= minute-latest {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// errLate says that the machine was too busy for the answers to be those of the picture.
var errLate = errors.New("a request was late")

// play sends the traffic to every limiter at once, each under a key of its own, and returns
// what the server answers. A minute takes as long as real says.
func play(ctx context.Context, c *redis.Client, limiters []limiter, traffic []float64, real time.Duration) ([]result, error) {
	results := make([]result, len(limiters))
	for i, l := range limiters {
		results[i].limiter = l
	}
	zero := zeroInstant(time.Now(), traffic[0], real)
	for number, at := range traffic {
		if err := sleepUntil(ctx, zero.Add(scaled(at, real))); err != nil {
			return nil, err
		}
		pipeline := c.Pipeline()
		answers := make([]*redis.MapStringIntCmd, len(limiters))
		for i, l := range limiters {
			answers[i] = redis.NewMapStringIntCmd(ctx, command(l, number, real)...)
			_ = pipeline.Process(ctx, answers[i]) // only collects it
		}
		if _, err := pipeline.Exec(ctx); err != nil {
			return nil, err
		}
		if late := time.Since(zero.Add(scaled(at, real))); late > scaled(latest, real) {
			return nil, fmt.Errorf("%w: by %v, %v after the start", errLate, late, scaled(at-traffic[0], real))
		}
		for i, answer := range answers {
			results[i].requests = append(results[i].requests, request{
				at:      at,
				limited: answer.Val()["limited"] != 0,
				wait:    float64(answer.Val()["wait_ms"]) / float64(real.Milliseconds()) * minute,
			})
		}
	}
	return results, nil
}

// command is the call for the request of a number, of a limiter whose minute takes as long as
// real says.
func command(l limiter, number int, real time.Duration) []any {
	name, words := "CL.LIMIT", l.words
	if l.lease {
		name, words, _ = strings.Cut(l.words+fmt.Sprintf(" ID request-%d", number), " ")
	}
	args := []any{name, "picture:" + l.words}
	previous := ""
	for _, word := range strings.Fields(words) {
		scaledWord := word
		if count, period, ok := strings.Cut(word, "/"); ok {
			scaledWord = count + "/" + milliseconds(period, real)
		} else if previous == "MAXWAIT" || previous == "TTL" {
			scaledWord = milliseconds(word, real)
		}
		args = append(args, scaledWord)
		previous = word
	}
	return args
}

// milliseconds is a length of time of the picture, such as 1m, as it really takes.
func milliseconds(length string, real time.Duration) string {
	d, err := time.ParseDuration(length)
	if err != nil {
		panic(err) // limiters are constants
	}
	return fmt.Sprintf("%dms", scaled(d.Seconds(), real).Milliseconds())
}

// zeroInstant is the picture's instant 0: the soonest full minute that leaves time for the
// first request.
func zeroInstant(now time.Time, first float64, real time.Duration) time.Time {
	const margin = 50 * time.Millisecond
	earliest := now.Add(margin).Add(-scaled(first, real)).UnixNano()
	minutes := earliest/int64(real) + 1
	return time.Unix(0, minutes*int64(real))
}

func scaled(t float64, real time.Duration) time.Duration {
	return time.Duration(t / minute * float64(real))
}

func sleepUntil(ctx context.Context, t time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(t)):
		return nil
	}
}
